//go:build system

package store

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// TestIntakeChild is the process that TestIntakeKilled kills.
func TestIntakeChild(t *testing.T) {
	dir, at, ok := strings.Cut(os.Getenv(intakeVar), "|")
	if !ok {
		t.Skip("it is a part of TestIntakeKilled")
	}
	var n int
	if _, err := fmt.Sscan(at, &n); err != nil {
		t.Fatal(err)
	}
	spoolDir, storeDir := places(dir)
	s, err := Open(storeDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, spoolDir, &spool.Options{MaxAge: 1 << 62})
	in := &Intake{Spool: spoolDir, Store: s, age: 1}
	steps := 0
	in.step = func(string) {
		if steps++; steps == n {
			p, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				panic(err)
			}
			select {}
		}
		e := entry(fmt.Sprintf("child-%d-%d", n, steps))
		e.Time = time.Now().Add(-2 * time.Hour)
		w.Observe(context.Background(), &e.Record)
	}
	for range 4 {
		if _, err := patient(in.Once); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("reached the end")
	_ = s.Close()
}

const intakeVar = "GRAPNEL_TEST_INTAKE"

// The same with a killed process: every written line is in the store once.
//
// chaos: daemons
func TestIntakeKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spoolDir, storeDir := places(dir)
	w := writer(t, spoolDir, &spool.Options{MaxAge: 1 << 62})
	want := map[string]bool{}
	for at := 1; at < 100; at++ {
		id := fmt.Sprint("parent-", at)
		e := entry(id)
		e.Time = time.Now().Add(-2 * time.Hour)
		w.Observe(context.Background(), &e.Record)
		if err := w.Err(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		want[id] = true
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIntakeChild$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", intakeVar, dir, at))
		out, err := cmd.CombinedOutput()
		ended := strings.Contains(string(out), "reached the end")
		if err == nil != ended {
			t.Fatalf("the child ended with %v:\n%s", err, out)
		}
		for step := 1; step < at; step++ {
			want[fmt.Sprintf("child-%d-%d", at, step)] = true
		}
		if ended {
			if at < 8 {
				t.Errorf("there are only %d steps", at)
			}
			for id := range want { // the last child did not reach all steps
				if strings.HasPrefix(id, fmt.Sprintf("child-%d-", at)) {
					delete(want, id)
				}
			}
			break
		}
	}
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s, age: 1}
	for range 5 {
		once(t, in)
	}
	got := ids(t, s.Reader)
	count := map[string]int{}
	for _, id := range got {
		count[id]++
	}
	for id := range want {
		if count[id] != 1 {
			t.Errorf("record %s is there %d times", id, count[id])
		}
	}
	for id, n := range count {
		if n != 1 {
			t.Errorf("record %s is there %d times", id, n)
		}
	}
	report, err := s.Verify(context.Background())
	if err != nil || !report.OK() {
		t.Errorf("Verify = %+v, %v", report, err)
	}
}
