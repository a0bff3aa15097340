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

// The database of a daemon is removed while agents send events. Earlier, thousands of answers had
// no Record, and health, status and log reported no problem. Now no Record is lost, and all three
// report the removal.
func TestDatabaseRemoved(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(store string) error{
		"files": func(store string) error {
			return errors.Join(os.Remove(filepath.Join(store, "grapnel.db")), os.Remove(filepath.Join(store, "grapnel.db-wal")), os.Remove(filepath.Join(store, "grapnel.db-shm")))
		},
		"directory": func(store string) error {
			// It vanishes at once. A directory that is removed file by file can get a restored database
			// in between, which is then removed too.
			aside := store + ".removed"
			return errors.Join(os.Rename(store, aside), os.RemoveAll(aside))
		},
		"replaced": func(store string) error {
			other := filepath.Join(store, "other")
			return errors.Join(os.WriteFile(other, []byte("no database"), 0o600), os.Rename(other, filepath.Join(store, "grapnel.db")))
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
			if err := do(tr.store()); err != nil {
				t.Fatal(err)
			}
			h := health(t, d, "the database is restored", func(h served.Health) bool { return h.Store.Restored == 1 && h.Well })
			if h.Store.Lost > 0 || h.Store.Unrecorded > 0 {
				t.Errorf("health says %+v, want that nothing is lost", h.Store)
			}
			given(20)
			stopAsking()
			wait.Wait()
			if err := tr.broken(); err != nil {
				t.Fatal(err)
			}
			const want = "1 times, and restored without loss"
			if out, _ := typed(t, tr, "status"); !strings.Contains(out, want) {
				t.Errorf("status does not tell: %s", out)
			}
			if out, code := typed(t, tr, "doctor", "--no-run"); code != 1 || !strings.Contains(out, "daemon.store") || !strings.Contains(out, want) {
				t.Errorf("doctor does not tell (%d): %s", code, out)
			}
			if text, err := d.Get(t.Context(), "/metrics"); err != nil || !strings.Contains(string(text), "\ngrapnel_store_restores_total 1\n") || !strings.Contains(string(text), "\ngrapnel_store_lost_rows_total 0\n") {
				t.Errorf("the metrics do not tell: %v", err)
			}
			if !strings.Contains(d.Output(), "were restored") {
				t.Errorf("the log does not tell: %s", d.Output())
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

// settledAfter starts a daemon, waits until it has taken in the spool, and stops it.
func (t *trial) settledAfter(ctx context.Context) error {
	d, err := served.Start(ctx, t.bin, t.root, nil)
	if err != nil {
		return err
	}
	return errors.Join(t.settled(ctx), d.Stop())
}

// If a daemon is killed before it restores the database, the Records in it are lost. The next
// daemon reports a problem until a restart, and the chain keeps the gap.
func TestDatabaseLost(t *testing.T) {
	t.Parallel()
	tr := trialOf(t, root(t), policy)
	d := start(t, tr)
	for n := range 20 {
		if err := tr.askDaemon(d, fmt.Sprint("toolu_", n), "ls", false); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, d)
	if err := os.Remove(filepath.Join(tr.store(), "grapnel.db")); err != nil {
		t.Fatal(err)
	}
	d = start(t, tr)
	if h := health(t, d, "the loss is known", func(h served.Health) bool { return h.Store.Lost > 0 }); h.Well || h.Store.Lost != 20 {
		t.Errorf("health says well %v, %+v, want that 20 rows are lost", h.Well, h.Store)
	}
	if err := tr.askDaemon(d, "toolu_after", "ls", false); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"status", "doctor --no-run", "daemon status"} {
		if out, _ := typed(t, tr, strings.Fields(command)...); !strings.Contains(out, "20 rows of the log were lost") {
			t.Errorf("%s does not tell: %s", command, out)
		}
	}
	stop(t, d)
	d = start(t, tr)
	health(t, d, "a restart resets it", func(h served.Health) bool { return h.Well })
	if out, code := typed(t, tr, "log", "verify"); code != 1 || !strings.Contains(out, "rows 1 to 20 are missing") {
		t.Errorf("log verify (%d): %s", code, out)
	}
	stop(t, d)
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

// While neither the store nor the spool can keep a Record, a strict policy blocks, and health
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
			for _, dir := range []string{tr.store(), tr.spool()} { // files instead of directories
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
			for _, dir := range []string{tr.store(), tr.spool()} {
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
