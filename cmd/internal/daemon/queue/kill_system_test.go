//go:build system

package queue

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// writerVar names the environment variable that makes the test binary a process that writes to the
// queue in this directory.
const writerVar = "QUEUE_TEST_WRITER"

func TestMain(m *testing.M) {
	dir := os.Getenv(writerVar)
	if dir == "" {
		await.Main(m)
		return
	}
	if err := playWriter(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// playWriter puts jobs and delivers a part of them until it is killed. It prints the ID of each stored job.
func playWriter(dir string) error {
	q, err := Open(dir, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	var out sync.Mutex
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				if err := q.Put(ctx, job(id, "user::tell")); err != nil {
					panic(err)
				}
				out.Lock()
				fmt.Println(id)
				out.Unlock()
			}
		}()
	}
	for {
		jobs, err := q.Lease(ctx, time.Now(), time.Hour, 3, nil)
		var results []delivery.Result
		for _, j := range jobs {
			results = append(results, delivery.Result{ID: j.ID, State: delivery.Delivered, At: time.Now()})
		}
		if err == nil {
			err = q.Settle(ctx, results)
		}
		if err != nil {
			return err
		}
	}
}

// After kill -9, every job for which Put has returned exists, each once, and the jobs that were not
// delivered are due at once.
//
// chaos: daemons
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[string]bool{}
	for round := range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), writerVar+"="+dir)
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			acked[lines.Text()] = true
			if n == 0 {
				time.AfterFunc(time.Duration(rand.IntN(200))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			}
		}
		_ = lines.Err() // the writer was killed
		_ = cmd.Wait()  // it was killed

		q := openTest(t, dir, &Options{Note: func(err error) { t.Errorf("round %d: %v", round, err) }})
		all, err := q.Deliveries(t.Context(), Query{})
		if err != nil {
			t.Fatal(err)
		}
		there, waiting := map[string]bool{}, 0
		for _, j := range all {
			there[j.ID] = true
			if j.State == delivery.Waiting {
				waiting++
			}
		}
		for id := range acked {
			if !there[id] {
				t.Errorf("round %d: job %s was stored and is not there", round, id)
			}
		}
		due, err := q.Lease(t.Context(), time.Now(), time.Hour, len(all), nil)
		if err != nil || len(due) != waiting {
			t.Errorf("round %d: %d jobs are due, %v, and %d wait", round, len(due), err, waiting)
		}
		if err := q.Close(); err != nil || t.Failed() {
			t.Fatal(err)
		}
	}
	if len(acked) == 0 {
		t.Error("nothing was put")
	}
}

// Another process holds the lock.
func TestLockedByOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), writerVar+"="+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("it did not begin")
	}
	_, err = Open(dir, nil)
	if want := fmt.Sprintf("%s: %v: process %d", dir, ErrLocked, cmd.Process.Pid); err == nil || err.Error() != "cannot open the deliveries: "+want {
		t.Errorf("Open = %v, want %s", err, want)
	}
	if _, err := readerTest(t, dir).Deliveries(t.Context(), Query{Limit: 1}); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Kill()
	for lines.Scan() { // until it has ended
	}
	_ = lines.Err() // it was killed
	_ = cmd.Wait()  // it was killed
	openTest(t, dir, nil)
}
