//go:build system

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/local"
)

// worker is the variable that makes this test program do the work that is traced. It has the directory of the programs and
// the root.
const worker = "GRAPNEL_POWER_CUT"

func init() { roles[worker] = work }

// answers is the directory below a root with a file for each call, which has the answer.
func answers(root string) string { return filepath.Join(root, "answers") }

// work runs agents with and without a daemon. Each step begins with files of the one before.
func work(words string) error {
	bin, root, _ := strings.Cut(words, "|")
	ctx := context.Background()
	n := 0
	// calls makes calls, some at the same time. Without a daemon they take turns, because strace does not show in which order
	// two processes append.
	calls := func(count, at int) error {
		var all errgroup.Group
		all.SetLimit(at)
		for range count {
			id := fmt.Sprintf("call-%d", n)
			n++
			all.Go(func() error { return answer(ctx, bin, root, id) })
		}
		return all.Wait()
	}
	daemon := func(end func(*served.Daemon) error) error {
		d, err := served.Start(ctx, bin, root, nil)
		if err != nil {
			return err
		}
		for range 4 {
			err = errors.Join(err, calls(4, 4), newTrial(bin, root, 1).settled(ctx))
		}
		return errors.Join(err, end(d))
	}
	for _, step := range []func() error{
		func() error { return calls(1, 1) },
		func() error { return calls(6, 1) },
		func() error { return daemon((*served.Daemon).Kill) },
		func() error { return calls(6, 1) },
		func() error { return daemon((*served.Daemon).Stop) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// answer runs grapnel-hook for a call that the policy blocks. Its answer goes to the file of the call.
func answer(ctx context.Context, bin, root, id string) error {
	out, err := os.Create(filepath.Join(answers(root), id))
	if err != nil {
		return err
	}
	defer out.Close()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, served.Exe(bin, "grapnel-hook"), "claude-code", "--root", root)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = served.Project(root), served.Env(root), out, &stderr
	cmd.Stdin = bytes.NewReader(served.Event(root, "crash", id, canary))
	err = cmd.Run()
	text, failed := os.ReadFile(out.Name())
	if err = errors.Join(err, failed); err == nil {
		err = right(string(text), stderr.String(), 0, true)
	}
	if err != nil {
		return fmt.Errorf("call %s: %w", id, err)
	}
	return nil
}

// TestPowerCut: wherever a power cut ends the work of hook programs and daemons, and whatever it leaves of what was not
// flushed, the log is sound, and all works again. With sync, each call that was answered has its Record.
//
// strace records what the real programs do. A cut makes a directory with what could be left on the disk.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{"not synced": "", "synced": synced, "retention": fmt.Sprintf("retention: {records: %d}\n", kept)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &powerCuts{T: t, trial: trialOf(t, root(t), policy+settings), settings: settings}
			if name == "retention" {
				p.limits.MaxRecords = kept
				if err := p.fill(kept * 3 / 2); err != nil {
					t.Fatal(err)
				}
			}
			p.run()
			report, err := journal.Verify(t.Context(), p.journal(), journal.VerifyOptions{Limits: p.limits})
			if err != nil || (len(report.Removed) > 0) != (name == "retention") {
				t.Errorf("retention has removed %v, %v", report.Removed, err)
			}
		})
	}
}

const (
	kept   = 1000 // Records that retention keeps, about
	synced = "records: {sync: true}\n"
)

// powerCuts tries cuts of one trace.
type powerCuts struct {
	*testing.T
	*trial

	settings string // of the policy
}

// fill stores Records of calls in segments of 64 KiB.
func (t *trial) fill(n int) error {
	w := journal.Writer{Dir: t.journal(), MaxSize: 64 << 10}
	for i := range n {
		id := fmt.Sprintf("fill-%d-%d", len(t.asked), i)
		line := fmt.Sprintf(`{"id":%q,"time":%q,"agent":"claude-code","event":"tool.before","input":{"tool_use_id":%q,"text":"%0500d"}}`, id, time.Now().Format(time.RFC3339Nano), id, i)
		given := t.ask(id, "", false)
		if _, err := w.Append([]byte(line)); err != nil {
			return err
		}
		given()
	}
	return w.Close()
}

// trace runs the work and returns the file with its system calls.
func (p *powerCuts) trace() string {
	strace, err := exec.LookPath("strace")
	if err != nil {
		p.Fatal("strace is missing: install the Debian package strace")
	}
	if err := os.Mkdir(answers(p.root), 0o700); err != nil {
		p.Fatal(err)
	}
	file := filepath.Join(p.root, "trace")
	cmd := exec.Command(strace, "-f", "--seccomp-bpf", "-y", "-xx", "-s", "4194304", "-e", "signal=none", "-e", "trace="+traced, "-o", file, os.Args[0])
	cmd.Env = append(os.Environ(), worker+"="+p.bin+"|"+p.root)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("%v: %s", err, out)
	}
	return file
}

// perKind is how often each kind of cut is tried, about. With a higher number than changes, each is tried at each change.
const perKind = 25

// run does the work, and tries cuts at random changes of the disk.
func (p *powerCuts) run() {
	begin := filepath.Join(p.root, "begin")
	if err := errors.Join(os.MkdirAll(p.state(), 0o700), os.CopyFS(begin, os.DirFS(p.state()))); err != nil {
		p.Fatal(err)
	}
	trace := p.trace()
	calls, err := os.ReadDir(answers(p.root))
	if err != nil {
		p.Fatal(err)
	}
	for _, call := range calls {
		p.ask(call.Name(), "", true)
	}
	total := 0
	d := p.follow(trace, begin, func(*drive) { total++ })
	if err := d.find(p.state()).same(p.state()); err != nil {
		p.Fatal(err)
	}
	tried := 0
	var all errgroup.Group
	all.SetLimit(8)
	p.follow(trace, begin, func(d *drive) {
		for kind, c := range cuts() {
			if rand.IntN(total) >= perKind {
				continue
			}
			dir := root(p.T)
			if err := c.put(d.above, dir); err != nil {
				p.Error(err)
			}
			tried++
			written, daemon := maps.Clone(d.written), tried%10 == 0
			all.Go(func() error {
				if err := p.check(dir, written, daemon); err != nil {
					p.Errorf("%s, after %d files: %v", kind, len(written), err)
				}
				return nil
			})
		}
	})
	_ = all.Wait() // there is no error
	p.Logf("%d power cuts at %d changes of the disk", tried, total)
}

// follow returns the drive after the work. It calls do after each change.
func (p *powerCuts) follow(trace, begin string, do func(*drive)) *drive {
	d, err := newDrive(p.state(), begin)
	if err == nil {
		err = d.steps(trace, func() { do(d) })
	}
	if err != nil {
		p.Fatal(err)
	}
	return d
}

// check checks what a power cut has left in a directory, before and after it is used again. written has the files of the
// answers so far.
func (p *powerCuts) check(dir string, written map[string]bool, daemon bool) error {
	t := newTrial(p.bin, dir, 1)
	t.limits = p.limits
	if err := t.prepare(policy + p.settings); err != nil {
		return err
	}
	if report, err := journal.Verify(p.Context(), t.journal(), journal.VerifyOptions{Limits: t.limits}); err != nil && !errors.Is(err, journal.ErrNothing) || !report.OK() {
		return errors.Join(fmt.Errorf("after the power cut: %v", report.Findings), err)
	}
	place, err := local.Locate(dir, "")
	if err != nil {
		return err
	}
	if place.Identity().Machine == "" || place.Approvals().Digest(&grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash"}}) == "" {
		return errors.New("the machine has no ID, or no key for digests")
	}
	for id, a := range p.asked {
		if given := t.ask(id, "", a.blocked); p.settings == synced && written[filepath.Join(answers(p.root), id)] {
			given()
		}
	}
	if err := os.Mkdir(answers(dir), 0o700); err != nil {
		return err
	}
	given := t.ask("after", "", true)
	if err := answer(p.Context(), t.bin, dir, "after"); err != nil {
		return err
	}
	given()
	if err := t.fill(20); err != nil { // positions of lost lines have other lines
		return err
	}
	if err := t.update(p.Context(), daemon); err != nil {
		return err
	}
	return t.records(p.Context())
}

// update waits until the index has all Records. A daemon makes it, or this process.
func (t *trial) update(ctx context.Context, daemon bool) error {
	if daemon {
		d, err := served.Start(ctx, t.bin, t.root, nil)
		if err != nil {
			return err
		}
		return errors.Join(t.settled(ctx), d.Stop())
	}
	x, err := t.log().Keep(nil)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	err = t.settled(ctx)
	stop()
	return errors.Join(err, <-done, x.Close())
}
