//go:build system && unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// health waits until the health report of a daemon meets a condition.
func health(t *testing.T, d *served.Daemon, what string, ok func(served.Health) bool) served.Health {
	t.Helper()
	var h served.Health
	await.Until(t, what+": "+d.Output(), func() bool {
		var err error
		h, err = d.Health(context.WithoutCancel(t.Context()))
		return err == nil && ok(h)
	})
	return h
}

// typed runs a grapnel command and returns its output and its exit status.
func typed(t *testing.T, tr *trial, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), served.Exe(tr.bin, "grapnel"), append(args, "--root", tr.root)...)
	cmd.Dir, cmd.Env = served.Project(tr.root), served.Env(tr.root)
	text, err := cmd.CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(text), failed.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text), 0
}

// The index of a daemon is removed while agents send events. No Record is lost, and the daemon makes it again.
func TestIndexRemoved(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(dir string) error{
		"files": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "index.db")), os.Remove(filepath.Join(dir, "index.db-wal")), os.Remove(filepath.Join(dir, "index.db-shm")))
		},
		"directory": func(dir string) error {
			// It vanishes at once. A directory that is removed file by file can get a new database
			// in between, which is then removed too.
			aside := dir + ".removed"
			return errors.Join(os.Rename(dir, aside), os.RemoveAll(aside))
		},
		"replaced": func(dir string) error {
			other := filepath.Join(dir, "other")
			return errors.Join(os.WriteFile(other, []byte("no database"), 0o600), os.Rename(other, filepath.Join(dir, "index.db")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := trialOf(t, root(t), policy)
			d := start(t, tr)
			asking, stopAsking := context.WithCancel(t.Context())
			var wait sync.WaitGroup
			wait.Go(func() { tr.hook(asking, 0) })
			wait.Go(func() { tr.call(asking, 0) })
			given := func(n int) {
				t.Helper()
				begin, _ := tr.given()
				await.Until(t, fmt.Sprintf("%d more answers", n), func() bool {
					now, _ := tr.given()
					return now >= begin+n || tr.broken() != nil
				})
			}
			given(20)
			if err := do(tr.index()); err != nil {
				t.Fatal(err)
			}
			if h := health(t, d, "the daemon is well", func(h served.Health) bool { return h.Well }); h.Store != (served.Health{}).Store {
				t.Errorf("health says %+v, want that nothing is lost", h.Store)
			}
			given(20)
			stopAsking()
			wait.Wait()
			if err := tr.broken(); err != nil {
				t.Fatal(err)
			}
			if err := tr.settled(t.Context()); err != nil {
				t.Errorf("%v: %s", err, d.Output())
			}
			if out, code := typed(t, tr, "log", "verify"); code != 0 {
				t.Errorf("log verify (%d): %s", code, out)
			}
			if err := d.Kill(); err != nil {
				t.Fatal(err)
			}
			tr.loose = true // calls that the end of the test interrupted
			if err := errors.Join(tr.settledAfter(t.Context()), tr.records(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
}

// settledAfter starts a daemon, waits until its index has all Records, and stops it.
func (t *trial) settledAfter(ctx context.Context) error {
	d, err := served.Start(ctx, t.bin, t.root, nil)
	if err != nil {
		return err
	}
	return errors.Join(t.settled(ctx), d.Stop())
}

// Another program removes a file of the log. Health, status, doctor and verify report it, and new Records are kept.
func TestSegmentRemoved(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(name string) error{
		"removed":   os.Remove,
		"truncated": func(name string) error { return os.Truncate(name, 100) },
		"replaced": func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, []byte("no segment\n"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := trialOf(t, root(t), policy)
			d := start(t, tr)
			numbers := func() []int {
				numbers, err := journal.Numbers(tr.journal())
				if err != nil {
					t.Fatal(err)
				}
				return numbers
			}
			for n := 0; len(numbers()) < 3; n++ {
				if err := tr.askDaemon(d, fmt.Sprint("toolu_", n), "ls", false); err != nil {
					t.Fatal(err)
				}
			}
			await.Until(t, "the second segment is sealed", func() bool {
				m, err := journal.ReadManifest(tr.journal())
				return err == nil && len(m.Segments) >= 2
			})
			if err := remove(filepath.Join(tr.journal(), "00000002.jsonl")); err != nil {
				t.Fatal(err)
			}
			if h := health(t, d, "the loss is known", func(h served.Health) bool { return h.Store.Lost > 0 }); h.Well || h.Store.Lost != 1 {
				t.Errorf("health says well %v, %+v, want that one file is lost", h.Well, h.Store)
			}
			if err := tr.askDaemon(d, "toolu_after", "ls", false); err != nil {
				t.Error(err)
			}
			for _, command := range []string{"status", "doctor --no-run", "daemon status"} {
				if out, _ := typed(t, tr, strings.Fields(command)...); !strings.Contains(out, "another program removed, replaced or truncated 1 files of the log") {
					t.Errorf("%s does not tell: %s", command, out)
				}
			}
			if text, err := d.Get(t.Context(), "/metrics"); err != nil || !strings.Contains(string(text), "\ngrapnel_log_lost_segments_total 1\n") {
				t.Errorf("the metrics do not tell: %v", err)
			}
			stop(t, d)
			d = start(t, tr)
			health(t, d, "a restart resets it", func(h served.Health) bool { return h.Well })
			if out, code := typed(t, tr, "log", "verify"); code != 1 || !strings.Contains(out, "segment 2") {
				t.Errorf("log verify (%d): %s", code, out)
			}
			stop(t, d)
		})
	}
}

// If the database of deliveries is removed, the next delivery goes to a new one, and the daemon reports
// the loss until a restart.
func TestDeliveriesLost(t *testing.T) {
	t.Parallel()
	heard, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	defer heard.close()
	tr := trialOf(t, root(t), policy+fmt.Sprintf(notifyHook, heard.url))
	d := start(t, tr)
	if err := tr.askDaemon(d, "toolu_before", canary, true); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(served.State(tr.root), "queue", "queue.db")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	asked := 0
	health(t, d, "the loss is known", func(h served.Health) bool {
		asked++
		if err := tr.askDaemon(d, fmt.Sprint("toolu_", asked), canary, true); err != nil {
			t.Fatal(err)
		}
		return !h.Well && h.Store.Queue.Lost == 1 && h.Store.Queue.Error == ""
	})
	if _, err := os.Lstat(file); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"status", "doctor --no-run", "daemon status"} {
		if out, _ := typed(t, tr, strings.Fields(command)...); !strings.Contains(out, "waiting deliveries were lost") {
			t.Errorf("%s does not tell: %s", command, out)
		}
	}
	await.Until(t, "a later event is delivered", func() bool { return heard.ids(fmt.Sprint("toolu_", asked)) > 0 })
	stop(t, d)
	d = start(t, tr)
	health(t, d, "a restart resets it", func(h served.Health) bool { return h.Well })
	stop(t, d)
}

// While the log can keep no Record, a strict policy blocks, and health
// reports the reason. Health recovers only after a restart, because some answers have no Record.
func TestNowhereToKeep(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{true, false} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			t.Parallel()
			tr := trialOf(t, root(t), fmt.Sprintf("strict: %v\n%s", strict, policy))
			d := start(t, tr)
			if err := tr.askDaemon(d, "toolu_before", "ls", false); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{tr.index(), tr.journal()} { // files instead of directories
				if err := errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			health(t, d, "the loss is noticed", func(h served.Health) bool { return !h.Well && h.Store.Error != "" })
			a, err := client.Ask(d.Socket(), d.Question("f-1", served.Event(tr.root, "crash", "toolu_1", "ls")))
			if err != nil && !errors.Is(err, client.ErrSelf) {
				t.Fatal(err)
			}
			if err == nil {
				if denied := strings.Contains(string(a.Stdout), `"permissionDecision":"deny"`); denied != strict || !denied && !strings.Contains(string(a.Stderr), "no Record was stored") {
					t.Errorf("the answer is %q, %q", a.Stdout, a.Stderr)
				}
			} else {
				t.Logf("the daemon declines: %v", err)
			}
			for _, dir := range []string{tr.index(), tr.journal()} {
				if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
					t.Fatal(err)
				}
			}
			h := health(t, d, "records can be stored", func(h served.Health) bool { return h.Store.Error == "" })
			if h.Well != (h.Store.Unrecorded == 0) {
				t.Errorf("health says well %v, %+v", h.Well, h.Store)
			}
			if err := tr.askDaemon(d, "toolu_after", "ls", false); err != nil {
				t.Error(err)
			}
			if out, code := typed(t, tr, "log", "verify"); code != 0 {
				t.Errorf("log verify (%d): %s", code, out)
			}
			stop(t, d)
		})
	}
}
