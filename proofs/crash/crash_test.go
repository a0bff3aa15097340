//go:build system

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

var bin string // the directory of the programs with faults

// roles are what this program does instead of tests, if a variable of the environment has a text.
var roles = map[string]func(text string) error{decider: decide}

func TestMain(m *testing.M) {
	for name, do := range roles {
		if text := os.Getenv(name); text != "" {
			if err := do(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	dir, remove, err := programs.Dir(programs.Faults)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	code := m.Run()
	remove()
	os.Exit(code)
}

// root returns a directory with a short name, because the path of a socket has at most 107 bytes.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gc-") //nolint:usetesting // the path is shorter
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// trialOf returns a trial with a policy in force.
func trialOf(t *testing.T, dir, policy string) *trial {
	t.Helper()
	tr := newTrial(bin, dir, 1)
	tr.logf = t.Logf
	if err := tr.prepare(policy); err != nil {
		t.Fatal(err)
	}
	return tr
}

// start starts a daemon and kills it at the end of the test.
func start(t *testing.T, tr *trial, env ...string) *served.Daemon {
	t.Helper()
	d, err := served.Start(t.Context(), tr.bin, tr.root, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Kill() })
	return d
}

func stop(t *testing.T, d *served.Daemon) {
	t.Helper()
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
}

// askDaemon sends a call to the daemon and records the answer.
func (t *trial) askDaemon(d *served.Daemon, id, line string, blocked bool) error {
	given := t.ask(id, "f-"+id, blocked)
	a, err := client.Ask(d.Socket(), d.Question("f-"+id, served.Event(t.root, "crash", id, line)))
	if err != nil {
		return err
	}
	if err := right(string(a.Stdout), string(a.Stderr), a.Exit, blocked); err != nil {
		return err
	}
	given()
	return nil
}

// askHook runs grapnel-hook for a call and records the answer.
func (t *trial) askHook(ctx context.Context, id, line string, blocked bool) error {
	given := t.ask(id, "", blocked)
	if err := t.runHook(ctx, served.Event(t.root, "crash", id, line), blocked); err != nil {
		return err
	}
	given()
	return nil
}

// A daemon dies once at each point, and sometimes at a random time. An earlier version selected
// all points at random, and a slow machine missed some.
func TestKills(t *testing.T) {
	t.Parallel()
	for name, sync := range map[string]bool{"not synced": false, "synced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := trialOf(t, root(t), policy)
			tr.sync = sync
			if err := tr.run(t.Context(), len(points)+5); err != nil {
				t.Fatal(err)
			}
			for _, p := range points {
				if tr.hits[p.name] == 0 {
					t.Errorf("no daemon died at %q", p.name)
				}
			}
			if given, _ := tr.given(); given < 20 {
				t.Errorf("%d answers were given: too few to lose one", given)
			}
		})
	}
}

// If many daemons start at once, one runs and the others report that a daemon is already running.
// The same is true after a kill of the previous daemon.
func TestStorm(t *testing.T) {
	t.Parallel()
	tr := trialOf(t, root(t), policy)
	for round := range 4 {
		var all []*served.Daemon
		for range 20 {
			d, err := served.Launch(t.Context(), tr.bin, tr.root, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Kill() })
			all = append(all, d)
		}
		running := func() (left []*served.Daemon) {
			for _, d := range all {
				select {
				case <-d.Done():
				default:
					left = append(left, d)
				}
			}
			return left
		}
		await.Until(t, "one daemon is left", func() bool { return len(running()) <= 1 })
		left := running()
		if len(left) != 1 {
			for _, d := range all {
				t.Logf("%d: %s", d.PID(), d.Output())
			}
			t.Fatalf("round %d: %d daemons run", round, len(left))
		}
		for _, d := range all {
			if d != left[0] && !strings.Contains(d.Output(), "running") {
				t.Errorf("round %d: one that is not needed says %q", round, d.Output())
			}
		}
		winner := left[0]
		var health served.Health
		var err error
		await.Until(t, "the daemon answers", func() bool {
			health, err = winner.Health(t.Context())
			return err == nil
		})
		if err != nil || health.PID != winner.PID() {
			t.Fatalf("round %d: process %d runs, and %d answers (%v): %s", round, winner.PID(), health.PID, err, winner.Output())
		}
		winner.Version = health.Version
		if err := tr.askDaemon(winner, fmt.Sprintf("toolu_storm_%d", round), "ls", false); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%2 == 0 {
			err = winner.Kill()
		} else {
			err = winner.Stop()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The last line of the log is incomplete, as after a power cut. The daemon takes the complete
// lines in and records the incomplete one as torn.
func TestTornSpool(t *testing.T) {
	t.Parallel()
	tr := trialOf(t, root(t), policy)
	for n := range 3 {
		if err := tr.askHook(t.Context(), fmt.Sprint("toolu_before_", n), "ls", false); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(tr.state(), "journal", "00000001.jsonl")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	last := strings.LastIndex(string(whole), `{"id":`)
	torn := string(whole[:(last+len(whole))/2])
	if err := os.WriteFile(name, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tr.askHook(t.Context(), "toolu_after", "ls", false); err != nil {
		t.Fatal(err)
	}
	d := start(t, tr)
	r := tr.log().Open()
	defer r.Close()
	var rows []string
	tornRows := 0
	await.Until(t, "the log has four rows", func() bool {
		rows, tornRows = nil, 0
		for row, err := range r.Records(t.Context(), index.Query{Oldest: true}) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, string(row.Line))
			if row.Event == spool.Torn {
				tornRows++
			}
		}
		return len(rows) >= 4
	})
	all := strings.Join(rows, "\n")
	if len(rows) != 4 || tornRows != 1 || !strings.Contains(all, "toolu_before_0") || !strings.Contains(all, "toolu_before_1") || !strings.Contains(all, `"toolu_after"`) {
		t.Errorf("%d rows, %d of them torn:\n%s", len(rows), tornRows, all)
	}
	stop(t, d)
	if report, err := journal.Verify(t.Context(), tr.journal(), journal.VerifyOptions{}); err != nil || !report.OK() {
		t.Errorf("Verify = %v, %v", report.Findings, err)
	}
}

// A page of the index is damaged. The daemon answers events as before, and makes the index again from the log.
func TestDamagedPage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte){
		"the first page":     func(db []byte) { clear(db[:100]) },
		"a page in between":  func(db []byte) { copy(db[len(db)/3/4096*4096:], strings.Repeat("\xff", 4096)) },
		"all but the header": func(db []byte) { clear(db[4096:]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := trialOf(t, root(t), policy)
			d := start(t, tr)
			for n := range 50 {
				if err := tr.askDaemon(d, fmt.Sprint("toolu_before_", n), "ls", false); err != nil {
					t.Fatal(err)
				}
			}
			stop(t, d)
			file := filepath.Join(tr.index(), "index.db")
			db, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			damage(db)
			if err := os.WriteFile(file, db, 0o600); err != nil {
				t.Fatal(err)
			}
			d = start(t, tr)
			for n := range 50 {
				id := fmt.Sprint("toolu_after_", n)
				line, blocked := command(n)
				if err := errors.Join(tr.askDaemon(d, id, line, blocked), tr.askHook(t.Context(), id+"_hook", line, blocked)); err != nil {
					t.Fatal(err)
				}
			}
			if err := tr.settled(t.Context()); err != nil {
				t.Error(err)
			}
			if !strings.Contains(d.Output(), "created a new database") {
				t.Errorf("nobody is told: %s", d.Output())
			}
			stop(t, d)
			if err := tr.records(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// If a daemon dies while grapnel-hook asks it, grapnel-hook answers by itself, and both write the
// same Record.
func TestSameFiring(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"serve: an answer is kept", "relay: before the reply"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			tr := trialOf(t, root(t), policy)
			d := start(t, tr, "GRAPNEL_FAULT_KILL="+at)
			if err := tr.askHook(t.Context(), "toolu_1", "grapnel-crash-canary", true); err != nil {
				t.Fatal(err)
			}
			if !d.Killed() {
				t.Fatalf("the daemon lives: %s", d.Output())
			}
			if err := tr.check(t.Context()); err != nil {
				t.Fatal(err)
			}
			n := 0
			for row, err := range tr.log().Read(t.Context(), index.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
				_ = row
			}
			if n != 1 {
				t.Errorf("the log has %d Records of one call", n)
			}
		})
	}
}

// If the clock jumps to another month and back, nothing is postponed. Later notices are
// delivered. Failed deliveries are retried at their time, or at once if their time is unknown.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, jumps := range map[string][]string{
		"ahead and back": {"720h", "0s"},
		"back and ahead": {"-720h", "0s"},
		"far":            {"200000h", "-200000h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard, err := listen()
			if err != nil {
				t.Fatal(err)
			}
			defer heard.close()
			tr := trialOf(t, root(t), policy+fmt.Sprintf(notifyHook, heard.url))
			clock := filepath.Join(tr.root, "clock")
			set := func(ahead string) {
				if err := errors.Join(os.WriteFile(clock+".new", []byte(ahead), 0o600), os.Rename(clock+".new", clock)); err != nil {
					t.Fatal(err)
				}
			}
			set("0s")
			d := start(t, tr, "GRAPNEL_FAULT_CLOCK="+clock)
			wantDelivery := func(id string) {
				t.Helper()
				if err := tr.askDaemon(d, id, "grapnel-crash-canary", true); err != nil {
					t.Fatal(err)
				}
				await.Until(t, "the receiver hears of "+id, func() bool { return heard.ids(id) > 0 })
			}
			wantDelivery("toolu_before")
			for n, jump := range jumps {
				set(jump)
				wantDelivery(fmt.Sprint("toolu_jump_", n))
			}
			if err := d.Kill(); err != nil {
				t.Fatal(err)
			}
			tr.heard = heard
			if err := tr.check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// If a delivery failed while the clock was a month ahead, its retry does not wait for a month
// after the clock is right again.
func TestClockRetry(t *testing.T) {
	t.Parallel()
	heard, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	defer heard.close()
	heard.refuse.Store(true)
	tr := trialOf(t, root(t), policy+fmt.Sprintf(notifyHook, heard.url))
	clock := filepath.Join(tr.root, "clock")
	if err := os.WriteFile(clock, []byte("720h"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, tr, "GRAPNEL_FAULT_CLOCK="+clock)
	if err := tr.askDaemon(d, "toolu_1", "grapnel-crash-canary", true); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the delivery is tried", func() bool { return heard.refused.Load() > 0 })
	heard.refuse.Store(false)
	stop(t, d)
	d = start(t, tr)
	await.Until(t, "the delivery does not wait for a month", func() bool { return heard.ids("toolu_1") > 0 })
	stop(t, d)
}
