//go:build system

package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// roleVar names the environment variable that makes the test binary another process with a store.
const roleVar = "STORE_TEST_ROLE"

func TestMain(m *testing.M) {
	role := strings.Fields(os.Getenv(roleVar))
	if len(role) == 0 {
		await.Main(m)
		return
	}
	play := map[string]func(dir, name string) error{"put": playPut, "full": playFull}[role[0]]
	if err := play(role[1], role[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// playPut stores records, and prints each stored ID, until it is killed.
func playPut(dir, name string) error {
	s, err := Open(dir, nil)
	if err != nil {
		return err
	}
	fmt.Println("open")
	var out sync.Mutex
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%s-%d-%d", name, w, i)
				err := s.Put(context.Background(), Item{
					Line: lineOf(entry(id)),
					Mark: &Mark{File: fmt.Sprint(w), Offset: int64(i)},
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				out.Lock()
				fmt.Println(id)
				out.Unlock()
			}
		}()
	}
	select {}
}

// process returns a command for another process.
func process(t *testing.T, role, dir, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role+" "+dir+" "+name)
	cmd.Stderr = t.Output()
	return cmd
}

// After kill -9, every record for which Put has returned exists, and no record
// is incomplete.
//
// chaos: daemons
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[string]bool{}
	for round := range 8 {
		cmd := process(t, "put", dir, fmt.Sprint(round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() {
			t.Fatal("it did not begin")
		}
		kill := time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, func() { _ = cmd.Process.Kill() }) // must fire: it ends the writer
		for lines.Scan() {
			acked[lines.Text()] = true
		}
		_ = lines.Err() // the writer was killed
		kill.Stop()
		_ = cmd.Wait() // it was killed

		// First like a reader, then like the next daemon.
		r, err := OpenReader(dir)
		if err != nil {
			t.Fatal(err)
		}
		whole(t, r, acked)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		s, err := Open(dir, &Options{Note: func(err error) { t.Errorf("round %d: %v", round, err) }})
		if err != nil {
			t.Fatal(err)
		}
		whole(t, s.Reader, acked)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			break
		}
	}
	if len(acked) == 0 {
		t.Error("nothing was put")
	}
}

// whole checks that a store is valid and contains the records in acked.
func whole(t *testing.T, r *Reader, acked map[string]bool) {
	t.Helper()
	report, err := r.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("Verify = %+v, %v", report, err)
	}
	there := map[string]bool{}
	for row, err := range r.Records(t.Context(), Query{Lean: true}) {
		if err != nil {
			t.Fatal(err)
		}
		there[row.ID] = true
	}
	for id := range acked {
		if !there[id] {
			t.Errorf("%s was put, and is not there", id)
		}
	}
}

// The disk is really full: the error comes from the file system.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	cmd := process(t, "full", t.TempDir(), "x")
	if out, err := cmd.Output(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
