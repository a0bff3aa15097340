//go:build system

package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// With any number of concurrent processes, each gets the value of the previous one.
func TestCountAtOnce(t *testing.T) {
	t.Parallel()
	_, dir := open(t, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := Open(dir, nil) // like another process
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if _, err := s.up("k"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if was := count(t, s, "k", "x"); was != "160" {
		t.Errorf("counted to %s, want 160", was)
	}
}

// Every process that queues hooks also drains, like the hooks of an agent. Each hook runs
// exactly once, although most drains find another one running.
func TestDrainManyProcesses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	const processes, count = 8, 25
	errs := make(chan error)
	for p := range processes {
		cmd := process(t, "enqueue", dir, fmt.Sprintf("p%d", p), count)
		go func() { errs <- cmd.Run() }()
	}
	for range processes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	got := ran(t, dir)
	slices.Sort(got)
	if len(got) != processes*count || len(slices.Compact(got)) != processes*count {
		t.Errorf("%d hooks ran, %d different, want %d", len(got), len(slices.Compact(got)), processes*count)
	}
	if left := leftovers(dir); left != nil {
		t.Errorf("the drains left %v", left)
	}
	if entries, problems := read(t, dir); len(entries) != processes*count || problems != nil {
		t.Errorf("%d entries, %v", len(entries), problems)
	}
}

// If a drain is killed in the middle of a hook, the next drain runs that hook again, the
// remaining hooks once, and the finished ones not again.
func TestKilledDrain(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	for i := range 10 {
		run(t, s, event(fmt.Sprint(i)), "h")
	}
	cmd := process(t, "drain", dir, "4")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("here\n"))); err != nil {
		t.Fatal(err)
	}
	// While it hangs, more hooks arrive, and another drain does not start.
	run(t, s, event("10"), "h")
	if err := s.Drain(t.Context(), note(dir)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if got, want := ran(t, dir), strings.Fields("0 1 2 3 4"); !slices.Equal(got, want) {
		t.Fatalf("before the kill ran %v, want %v", got, want)
	}
	if err := s.Drain(t.Context(), note(dir)); err != nil {
		t.Fatal(err)
	}
	if got, want := ran(t, dir), strings.Fields("0 1 2 3 4 4 5 6 7 8 9 10"); !slices.Equal(got, want) || leftovers(dir) != nil {
		t.Errorf("in all ran %v, left %v, want %v", got, leftovers(dir), want)
	}
}

func TestStartDrain(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	t.Setenv(roleVar, "touch "+done)
	if err := StartDrain(os.Args[0], nil); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		raw, _ := os.ReadFile(done)
		return string(raw) == "done"
	})
	for _, program := range []string{"relative", "/no/such/program"} {
		if err := StartDrain(program, nil); err == nil {
			t.Errorf("StartDrain(%q) gave no error", program)
		}
	}
}

// A line that a full disk truncated does not damage later lines.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no limit on the size of files to stand for a full disk")
	}
	s, dir := open(t, nil)
	observe(t, s, record("first"))
	out, err := process(t, "fill", dir, 20000).Output()
	kept := 0
	if _, scanErr := fmt.Sscan(string(out), &kept); err != nil || scanErr != nil || !strings.Contains(string(out), "bytes fit: no space left") && !strings.Contains(string(out), "file too large") {
		t.Fatalf("with a full disk: %s, %v, want the Spool to say so", out, err)
	}
	observe(t, s, record("last"))

	entries, problems := read(t, dir)
	if len(entries) != kept+2 || entries[0].ID != "first" || entries[len(entries)-1].ID != "last" {
		t.Errorf("Read gave %d entries, want first, %d of the process that filled the disk, and last", len(entries), kept)
	}
	if len(problems) != 1 || !errors.Is(problems[0], ErrTorn) {
		t.Errorf("Read gave %v, want one torn line", problems)
	}
}

// Many processes append Records and begin segments concurrently. No line is lost or mixed with
// another.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	for name, maxSize := range map[string]int{"one file": 1 << 30, "many files": 10 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "spool")
			const processes, count = 8, 60
			errs := make(chan error)
			for p := range processes {
				role := "append"
				if p%2 == 1 {
					role = "hold"
				}
				cmd := process(t, role, dir, fmt.Sprintf("p%d", p), count, maxSize)
				go func() { errs <- cmd.Run() }()
			}
			for range processes {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			wantAll(t, dir, processes, count)
			if n := len(openLog(t, dir).Segments()); (n > 2) != (name == "many files") {
				t.Errorf("%d segments", n)
			}
		})
	}
}
