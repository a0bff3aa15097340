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
	"github.com/grapnel-dev/grapnel/cmd/test/served"
)

// A point is one at which a daemon can die.
type point struct {
	name  string
	often int  // up to how many times it is passed before
	first bool // it is passed while a daemon starts for the first time
	rare  bool // a daemon has to live for a while to come there
}

// points are all but those that chance finds.
var points = []point{
	{name: "serve: listening", often: 1},
	{name: "store: in a migration", often: 1, first: true},
	{name: "store: before the flush", often: 3},
	{name: "store: after the flush", often: 3},
	{name: "store: before the anchor", often: 3},
	{name: "store: before the anchor has its name", often: 3},
	{name: "store: after the anchor", often: 3},
	{name: "serve: before an answer is kept", often: 30},
	{name: "store: before the commit", often: 30},
	{name: "store: after the commit", often: 30},
	{name: "serve: an answer is kept", often: 30},
	{name: "relay: before the reply", often: 30},
	{name: "relay: after the reply", often: 30},
	{name: "intake: read", often: 3},
	{name: "intake: flushed", often: 3},
	{name: "intake: put", often: 3},
	{name: "intake: put aside", often: 1},
	{name: "intake: removed", often: 1, rare: true},
	{name: "intake: forgotten", often: 1, rare: true},
	{name: "serve: before a notice is kept", often: 3, rare: true},
	{name: "serve: a notice is kept", often: 3, rare: true},
	{name: "deliver: leased", often: 3},
	{name: "deliver: told", often: 5},
	{name: "deliver: before it is settled", often: 3},
	{name: "deliver: settled", often: 3},
}

// atRandom is where a daemon dies whose point did not come, or that has none.
const atRandom = "(at random)"

// How many ask at once.
const (
	hooks   = 2 // processes
	callers = 6
)

// A trial is one daemon, or rather many, one after the other, below one root.
type trial struct {
	bin, root string
	chance    *rand.Rand
	say       func(format string, args ...any)
	verbose   bool
	sync      bool // Records are flushed before their replies
	loose     bool // there may be Records of calls that were not answered

	hits   map[string]int // kills by point
	visits int            // of points
	heard  *receiver      // nil = nobody is told of anything
	ledger
}

func newTrial(bin, root string, seed uint64) *trial {
	return &trial{
		bin: bin, root: root, chance: rand.New(rand.NewPCG(seed, 8)), say: func(string, ...any) {}, hits: map[string]int{},
		ledger: ledger{asked: map[string]*asked{}},
	}
}

// policy is that of all agents: it stops one command.
const policy = `version: 1
networks: [127.0.0.0/8]
hooks:
  - name: canary
    on: tool.before
    match: {command: grapnel-crash-canary}
    block: This is the canary.
`

// tell is a hook more: a server is told of what is blocked.
const tell = `  - name: tell
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

// run kills daemons while agents ask, and then looks whether anything was lost. The first
// daemons die at one point each, so that each point is tried, and the others by chance.
func (t *trial) run(ctx context.Context, kills int) error {
	var err error
	if t.heard, err = listen(); err != nil {
		return err
	}
	defer t.heard.close()
	policy := policy + fmt.Sprintf(tell, t.heard.url)
	if t.sync {
		policy += "records: {sync: true}\n"
	}
	if err := t.prepare(policy); err != nil {
		return err
	}
	for _, p := range points {
		if p.first { // before agents ask: what they leave is written to a store
			if err := t.visit(ctx, p); err != nil {
				return err
			}
		}
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
		if err == nil && !p.first {
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

// limit is the longest wait for something that is certain to happen.
const limit = 2 * time.Minute

// alone is how many calls of a visit are answered without a daemon: their lines are more than
// a file of the spool may hold in a build with faults.
const alone = 8

// visit has a daemon die at a point. It leaves lines of the spool and deliveries for the
// daemon to find, and while the daemon runs, grapnel-hook has events that the daemon
// declines: their lines and notices come by the spool, too.
func (t *trial) visit(ctx context.Context, p point) error {
	t.visits++
	id := func(n int) string { return fmt.Sprintf("toolu_visit_%d_%d", t.visits, n) }
	n := 0
	for ; n < alone && !p.first; n++ {
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
				return fmt.Errorf("grapnel serve has ended by itself before %q: %s", p.name, d.Said())
			}
			t.hits[p.name]++
			if t.verbose {
				t.say("%s: visited", p.name)
			}
			return t.quiet(d)
		case <-time.After(50 * time.Millisecond):
		}
		if err := cmp.Or(context.Cause(ctx), t.broken()); err != nil {
			return errors.Join(err, d.Kill())
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("grapnel serve does not come to %q within %v: %s", p.name, limit, d.Said()), d.Kill())
		}
		if p.first {
			continue
		}
		if err := t.ownHook(ctx, id(n)); err != nil {
			return errors.Join(err, d.Kill())
		}
	}
}

// ownHook has grapnel-hook block a call by itself, also where a daemon runs: a daemon
// declines an event that does not say where the agent works.
func (t *trial) ownHook(ctx context.Context, id string) error {
	given := t.ask(id, "", true)
	event := bytes.Replace(served.Event(t.root, "crash", id, canary), []byte(`"cwd":`), []byte(`"not_cwd":`), 1)
	if err := t.runHook(ctx, event, true); err != nil {
		return fmt.Errorf("grapnel-hook, call %s: %w", id, err)
	}
	given()
	return nil
}

// lives is how long a daemon is waited for that is to die at a point, and longer at one that
// is rare.
const (
	lives  = 500 * time.Millisecond
	longer = 4 * time.Second
)

// kill starts daemons and has them die.
func (t *trial) kill(ctx context.Context, kills int) error {
	told := time.Now()
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
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			given, all := t.given()
			t.say("%d kills, %d answers to %d questions", n+1, given, all)
		}
	}
	return nil
}

// one starts a daemon and has it die.
func (t *trial) one(ctx context.Context) error {
	var at point
	if t.chance.IntN(4) > 0 {
		for at = points[t.chance.IntN(len(points))]; at.first || at.rare && t.chance.IntN(3) > 0; {
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
		return fmt.Errorf("grapnel serve has ended by itself (%v): %s", env, d.Said())
	}
	t.hits[where]++
	if t.verbose {
		t.say("%v: %s", env, where)
	}
	return t.quiet(d)
}

// quiet looks whether a daemon has complained. A kill harms nothing, so none has a reason.
func (t *trial) quiet(d *served.Daemon) error {
	for line := range strings.Lines(d.Said()) {
		if !strings.Contains(line, "level=INFO") {
			return fmt.Errorf("grapnel serve says: %s", d.Said())
		}
	}
	return nil
}

// end starts a daemon and tells it to end.
func (t *trial) end(ctx context.Context) error {
	d, err := served.Start(ctx, t.bin, t.root, nil)
	if err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond) // under load
	return errors.Join(d.Stop(), t.quiet(d))
}

// asked is a question, and what came of it.
type asked struct {
	given   bool   // an answer
	blocked bool   // what it has to say
	firing  string // its ID, where it is known
}

// ledger is what agents have been told. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	asked map[string]*asked // by the ID of the call
	err   error             // the first answer that is none
}

// ask notes a question; given says what came of it.
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

// said are the two answers there are.
func said(blocked bool) string {
	if blocked {
		return `"permissionDecisionReason":"This is the canary."`
	}
	return ""
}

// right looks whether an answer is the one that it has to be.
func right(stdout, stderr string, exit int, blocked bool) error {
	if exit == 0 && stderr == "" && (stdout == "") == !blocked && strings.Contains(stdout, said(blocked)) {
		return nil
	}
	return fmt.Errorf("the answer is %q, %q, %d, and the command is blocked: %v", stdout, stderr, exit, blocked)
}

// canary is the command that the policy blocks.
const canary = "grapnel-crash-canary"

// command is what the n-th call runs.
func command(n int) (line string, blocked bool) {
	if n%8 == 7 {
		return canary, true
	}
	return "go test ./...", false
}

// hook runs grapnel-hook for one event after the other, as an agent does.
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

// runHook answers one event in a process of its own.
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

// call asks the daemon, when there is one.
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
			time.Sleep(5 * time.Millisecond) // a program would answer by itself now
		} else if err := right(string(a.Stdout), string(a.Stderr), a.Exit, blocked); err != nil {
			t.fail(fmt.Errorf("daemon, call %s: %w", id, err))
			return
		} else {
			given()
		}
		n++
	}
}

// report is how often a daemon has died where.
func (t *trial) report() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.hits)) {
		fmt.Fprintf(&b, "%6d  %s\n", t.hits[name], name)
	}
	given, all := t.given()
	fmt.Fprintf(&b, "%d answers to %d questions, each with one Record", given, all)
	if t.heard != nil {
		calls, times := t.heard.counts()
		fmt.Fprintf(&b, "; a server was told of %d calls, %d times", calls, times)
	}
	return b.String()
}
