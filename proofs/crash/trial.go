package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// A point is a named place in the code at which a daemon can die.
type point struct {
	name  string
	often int  // upper limit for the random number of the pass that kills
	rare  bool // a daemon passes it only after it has run for a while
}

// points lists all named points. Other kills happen at a random time.
var points = []point{
	{name: "serve: listening", often: 1},
	{name: "journal: before the manifest line", often: 2},
	{name: "journal: after the manifest line", often: 2},
	{name: "journal: before the head", often: 3},
	{name: "journal: before the head has its name", often: 3},
	{name: "journal: after the head", often: 3},
	{name: "serve: before an answer is kept", often: 30},
	{name: "journal: locked", often: 30},
	{name: "journal: written", often: 30},
	{name: "index: before the commit", often: 3},
	{name: "index: after the commit", often: 3},
	{name: "queue: before the commit", often: 10},
	{name: "queue: after the commit", often: 10},
	{name: "serve: the notices of an answer are kept", often: 30},
	{name: "serve: an answer is kept", often: 30},
	{name: "relay: before the reply", often: 30},
	{name: "relay: after the reply", often: 30},
	{name: "journal: created", often: 1},
	{name: "journal: made", often: 1},
	{name: "serve: before a notice is kept", often: 3, rare: true},
	{name: "serve: a notice is kept", often: 3, rare: true},
	{name: "deliver: leased", often: 3},
	{name: "deliver: told", often: 5},
	{name: "deliver: before it is settled", often: 3},
	{name: "deliver: settled", often: 3},
}

// atRandom is the place in the report for a daemon that died at no named point.
const atRandom = "(at random)"

// The number of concurrent clients.
const (
	hooks   = 2 // grapnel-hook processes
	callers = 6
)

// A trial runs many daemons, one after the other, below one root.
type trial struct {
	bin, root string
	chance    *rand.Rand
	logf      func(format string, args ...any)
	verbose   bool
	sync      bool           // the daemon flushes Records before it replies
	loose     bool           // Records may exist for calls without an answer
	limits    journal.Limits // of the policy

	hits   map[string]int // kills by point
	visits int            // the number of visits, for IDs
	heard  *receiver      // nil = the policy has no webhook
	ledger
}

func newTrial(bin, root string, seed uint64) *trial {
	return &trial{
		bin: bin, root: root, chance: rand.New(rand.NewPCG(seed, 8)), logf: func(string, ...any) {}, hits: map[string]int{},
		ledger: ledger{asked: map[string]*asked{}},
	}
}

// policy applies to all agents and blocks one command.
const policy = `version: 1
networks: [127.0.0.0/8]
hooks:
  - name: canary
    on: tool.before
    match: {command: grapnel-crash-canary}
    block: This is the canary.
`

// notifyHook is an additional hook that notifies a webhook about blocked calls.
const notifyHook = `  - name: tell
    on: tool.before
    when: verdict.decision == "block"
    notify: {url: %q}
`

func (t *trial) prepare(policy string) error {
	if err := os.MkdirAll(served.Project(t.root), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.root, "grapnel.yaml"), []byte(policy), 0o600)
}

// run kills daemons while agents send events, and then verifies that nothing was lost. The first
// daemons die at one point each, so that each point is tried. The others die at random.
func (t *trial) run(ctx context.Context, kills int) error {
	var err error
	if t.heard, err = listen(); err != nil {
		return err
	}
	defer t.heard.close()
	policy := policy + fmt.Sprintf(notifyHook, t.heard.url)
	if t.sync {
		policy += "records: {sync: true}\n"
	}
	if err := t.prepare(policy); err != nil {
		return err
	}
	asking, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for i := range hooks {
		wait.Go(func() { t.hook(asking, i) })
	}
	for i := range callers {
		wait.Go(func() { t.call(asking, i) })
	}
	for _, p := range points {
		if err == nil {
			err = t.visit(ctx, p)
		}
	}
	if err == nil {
		err = t.kill(ctx, kills-len(points))
	}
	stop()
	wait.Wait()
	if err != nil {
		return err
	}
	return t.check(ctx)
}

// limit is the longest wait for an event that must happen.
const limit = 2 * time.Minute

// callsWithoutDaemon is the number of calls that a visit answers without a daemon. Their lines exceed the size
// limit of a segment in a build with faults.
const callsWithoutDaemon = 8

// visit starts a daemon that dies at a point. Before that, it leaves Records and deliveries
// for the daemon. While the daemon runs, grapnel-hook answers events that the daemon declines, so
// their notices also reach the daemon through the outbox.
func (t *trial) visit(ctx context.Context, p point) error {
	t.visits++
	id := func(n int) string { return fmt.Sprintf("toolu_visit_%d_%d", t.visits, n) }
	n := 0
	for ; n < callsWithoutDaemon; n++ {
		if err := t.ownHook(ctx, id(n)); err != nil {
			return err
		}
	}
	d, err := served.Launch(ctx, t.bin, t.root, []string{"GRAPNEL_FAULT_KILL=" + p.name})
	if err != nil {
		return err
	}
	for end := time.Now().Add(limit); ; n++ {
		select {
		case <-d.Done():
			if !d.Killed() {
				return fmt.Errorf("grapnel serve stopped before %q: %s", p.name, d.Output())
			}
			t.hits[p.name]++
			if t.verbose {
				t.logf("%s: visited", p.name)
			}
			return t.quiet(d)
		case <-time.After(50 * time.Millisecond):
		}
		if err := cmp.Or(context.Cause(ctx), t.broken()); err != nil {
			return errors.Join(err, d.Kill())
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("grapnel serve did not reach %q within %v: %s", p.name, limit, d.Output()), d.Kill())
		}
		if err := t.ownHook(ctx, id(n)); err != nil {
			return errors.Join(err, d.Kill())
		}
	}
}

// ownHook makes grapnel-hook block a call by itself, even if a daemon runs: the event has no
// working directory, and a daemon declines such an event.
func (t *trial) ownHook(ctx context.Context, id string) error {
	given := t.ask(id, "", true)
	event := bytes.Replace(served.Event(t.root, "crash", id, canary), []byte(`"cwd":`), []byte(`"not_cwd":`), 1)
	if err := t.runHook(ctx, event, true); err != nil {
		return fmt.Errorf("grapnel-hook, call %s: %w", id, err)
	}
	given()
	return nil
}

// lives is how long kill waits for a daemon to reach its point; longer applies to a rare point.
const (
	lives  = 500 * time.Millisecond
	longer = 4 * time.Second
)

// kill starts daemons and makes each of them die.
func (t *trial) kill(ctx context.Context, kills int) error {
	lastReport := time.Now()
	for n := range kills {
		if err := cmp.Or(context.Cause(ctx), t.broken()); err != nil {
			return err
		}
		if n%100 == 50 { // one that ends well, in between
			if err := t.end(ctx); err != nil {
				return fmt.Errorf("after %d kills: %w", n, err)
			}
		}
		if err := t.one(ctx); err != nil {
			return fmt.Errorf("kill %d: %w", n+1, err)
		}
		if time.Since(lastReport) > 5*time.Second {
			lastReport = time.Now()
			given, all := t.given()
			t.logf("%d kills, %d answers to %d questions", n+1, given, all)
		}
	}
	return nil
}

// one starts a daemon and makes it die, at a random point or at a random time.
func (t *trial) one(ctx context.Context) error {
	var at point
	if t.chance.IntN(4) > 0 {
		for at = points[t.chance.IntN(len(points))]; at.rare && t.chance.IntN(3) > 0; {
			at = points[t.chance.IntN(len(points))]
		}
	}
	var env []string
	if at.name != "" {
		env = []string{fmt.Sprintf("GRAPNEL_FAULT_KILL=%s*%d", at.name, 1+t.chance.IntN(at.often))}
	}
	d, err := served.Launch(ctx, t.bin, t.root, env)
	if err != nil {
		return err
	}
	life := lives
	switch {
	case at.rare:
		life = longer
	case at.name == "":
		life = time.Duration(t.chance.Int64N(int64(lives / 2)))
	}
	where := at.name
	select {
	case <-d.Done():
	case <-time.After(life):
		where = atRandom
		if err := d.Kill(); err != nil {
			return err
		}
	}
	if !d.Killed() {
		return fmt.Errorf("grapnel serve stopped (%v): %s", env, d.Output())
	}
	t.hits[where]++
	if t.verbose {
		t.logf("%v: %s", env, where)
	}
	return t.quiet(d)
}

// quiet returns an error if the daemon logged anything above INFO. A kill damages nothing, so no
// daemon has a reason to warn.
func (t *trial) quiet(d *served.Daemon) error {
	for line := range strings.Lines(d.Output()) {
		if !strings.Contains(line, "level=INFO") {
			return fmt.Errorf("output of grapnel serve: %s", d.Output())
		}
	}
	return nil
}

// end starts a daemon and stops it cleanly.
func (t *trial) end(ctx context.Context) error {
	d, err := served.Start(ctx, t.bin, t.root, nil)
	if err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond) // under load
	return errors.Join(d.Stop(), t.quiet(d))
}

// asked is a call and its result.
type asked struct {
	given   bool   // an answer arrived
	blocked bool   // the expected decision
	firing  string // the ID of the firing, if known
}

// ledger records the calls of all agents and their answers. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	asked map[string]*asked // by the ID of the call
	err   error             // the first wrong answer
}

// ask adds a call. The caller runs given when the right answer has arrived.
func (l *ledger) ask(id, firing string, blocked bool) (given func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &asked{blocked: blocked, firing: firing}
	l.asked[id] = a
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.given = true
	}
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = cmp.Or(l.err, err)
}

func (l *ledger) broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *ledger) given() (given, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.asked {
		if a.given {
			given++
		}
	}
	return given, len(l.asked)
}

// wantStdout returns the text that the answer must contain.
func wantStdout(blocked bool) string {
	if blocked {
		return `"permissionDecisionReason":"This is the canary."`
	}
	return ""
}

// right returns an error if an answer is not the expected one.
func right(stdout, stderr string, exit int, blocked bool) error {
	if exit == 0 && stderr == "" && (stdout == "") == !blocked && strings.Contains(stdout, wantStdout(blocked)) {
		return nil
	}
	return fmt.Errorf("the answer is %q, %q, %d, and the command is blocked: %v", stdout, stderr, exit, blocked)
}

// canary is the command that the policy blocks.
const canary = "grapnel-crash-canary"

// command returns the command of the n-th call and whether the policy blocks it.
func command(n int) (line string, blocked bool) {
	if n%8 == 7 {
		return canary, true
	}
	return "go test ./...", false
}

// hook runs grapnel-hook for one event after another, as an agent does.
func (t *trial) hook(ctx context.Context, agent int) {
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("toolu_hook_%d_%d", agent, n)
		line, blocked := command(n)
		given := t.ask(id, "", blocked)
		if err := t.runHook(ctx, served.Event(t.root, "crash", id, line), blocked); err != nil {
			t.fail(fmt.Errorf("grapnel-hook, call %s: %w", id, err))
			return
		}
		given()
	}
}

// runHook answers one event in a separate process.
func (t *trial) runHook(ctx context.Context, event []byte, blocked bool) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), served.Exe(t.bin, "grapnel-hook"), "claude-code", "--root", t.root)
	cmd.Dir, cmd.Env, cmd.Stdin = served.Project(t.root), served.Env(t.root), bytes.NewReader(event)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	return right(stdout.String(), stderr.String(), cmd.ProcessState.ExitCode(), blocked)
}

// call sends events to the daemon, when one runs.
func (t *trial) call(ctx context.Context, agent int) {
	d := &served.Daemon{Root: t.root}
	for n := 0; ctx.Err() == nil; {
		if d.Version == "" {
			if health, err := d.Health(ctx); err == nil {
				d.Version = health.Version
			} else {
				time.Sleep(5 * time.Millisecond)
				continue
			}
		}
		id := fmt.Sprintf("toolu_call_%d_%d", agent, n)
		line, blocked := command(n)
		firing := fmt.Sprintf("call-%d-%d", agent, n)
		given := t.ask(id, firing, blocked)
		a, err := client.Ask(d.Socket(), d.Question(firing, served.Event(t.root, "crash", id, line)))
		if err != nil {
			time.Sleep(5 * time.Millisecond) // grapnel-hook would answer by itself now
		} else if err := right(string(a.Stdout), string(a.Stderr), a.Exit, blocked); err != nil {
			t.fail(fmt.Errorf("daemon, call %s: %w", id, err))
			return
		} else {
			given()
		}
		n++
	}
}

// report returns the number of kills by point and a summary of the answers.
func (t *trial) report() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.hits)) {
		fmt.Fprintf(&b, "%6d  %s\n", t.hits[name], name)
	}
	given, all := t.given()
	fmt.Fprintf(&b, "%d answers to %d questions, each with one Record", given, all)
	if t.heard != nil {
		calls, times := t.heard.counts()
		fmt.Fprintf(&b, "; a server got deliveries about %d calls, %d in total", calls, times)
	}
	return b.String()
}
