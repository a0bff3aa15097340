package hookcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// WarmOptions are the settings of a [Warm]. All fields except Webhook, Loaded, Observe and Unrecorded
// are required.
type WarmOptions struct {
	State string // state directory; the daemon does not reply for any other

	// Keep stores the Records and notices of a reply so that they survive this process, and with
	// sync also a power cut. If it fails, this package stores them as grapnel-hook does.
	Keep func(ctx context.Context, lines [][]byte, notices []Notice, sync bool) error

	// Ask sends a question to a server, as "grapnel deliver" does in a separate process; see [ask.Hook].
	Ask func(ctx context.Context, question []byte) (ask.Reply, error)

	// Webhook checks webhooks in this process. Without it, the program grapnel does.
	Webhook WebhookCheck

	Loaded  func(set *load.Set)                            // called after policies were loaded again
	Observe func(ctx context.Context, rec *grapnel.Record) // called for each Record that Keep has stored

	// Unrecorded is called for each reply with Records that neither Keep nor this package
	// stored completely.
	Unrecorded func(error)
}

// A Notice is an event for the target of a `notify:` hook.
type Notice struct {
	spool.Pending
	HTTP policyfile.HTTP

	source grapnel.Source // of the hook
}

// A Warm replies to events with loaded policies, running workers and open connections. Its
// replies have the same bytes as the replies of a separate hook process. It is safe for
// concurrent use.
type Warm struct {
	opts WarmOptions

	roots  local.Roots
	agents agents

	workers local.Workers

	mu      sync.Mutex
	entries map[string]*warmEntry
}

// maxWarm is how many policy combinations stay loaded. Most differ in the project.
const maxWarm = 64

// NewWarm returns a Warm with these options.
func NewWarm(opts WarmOptions) *Warm {
	return &Warm{opts: opts, agents: newAgents(), entries: map[string]*warmEntry{}}
}

// Close ends the workers, and waits for them until ctx is done.
func (w *Warm) Close(ctx context.Context) error { return w.workers.Close(ctx) }

// Answer returns the reply to an event, or a [client.ErrSelf] if the hook program must reply
// itself. The hook program starts the drain for pending observing hooks, because these run in the
// environment of the agent.
func (w *Warm) Answer(ctx context.Context, q *client.Question) (*client.Answer, error) {
	reply, pending, err := w.answer(ctx, q)
	if err != nil {
		return nil, err
	}
	return &client.Answer{Stdout: reply.Stdout, Stderr: reply.Stderr, Exit: reply.Exit, Drain: pending}, nil
}

// answer implements [Warm.Answer].
func (w *Warm) answer(ctx context.Context, asked *client.Question) (reply dialect.Reply, pending bool, err error) {
	place, err := local.Locate(asked.Root, asked.ID)
	if err != nil {
		return reply, false, fmt.Errorf("%w: %w", client.ErrSelf, err)
	}
	place.Roots = &w.roots
	if asked.Root != "" {
		place.Home = asked.Home
	}
	if place.State != w.opts.State {
		return reply, false, fmt.Errorf("%w: the state of the installation is in %s", client.ErrSelf, place.State)
	}
	inv := &invocation{agent: asked.Agent, event: asked.Event, id: asked.ID, root: asked.Root, policies: asked.Policies, serve: true, firing: asked.Firing}
	var named *dialect.Dialect
	if inv.agent != "" {
		var ok bool
		if named, ok = w.agents.find(inv.agent); !ok {
			return reply, false, fmt.Errorf("%w: unknown agent %q", client.ErrSelf, inv.agent)
		}
	}
	d := w.agents.choose(named, asked.Payload, place.Agent)
	got := inv.receive(d, dialect.Input{Payload: asked.Payload, Event: asked.Event})
	if !filepath.IsAbs(got.Event.Session.CWD) || len(got.Event.Session.CWD) > local.MaxPath {
		return reply, false, fmt.Errorf("%w: the event has no valid working directory", client.ErrSelf)
	}
	dirs, rootless := place.SessionDirs(got.Event, true)
	entry, err := w.entry(place, place.Files(inv.policies, dirs), got.Err != nil) // loaded policies also serve other events
	if err != nil {
		return reply, false, fmt.Errorf("%w: %w", client.ErrSelf, err)
	}
	if name, runs := entry.runs(got.Event); runs {
		return reply, false, fmt.Errorf("%w: hook %q needs the environment of the agent", client.ErrSelf, name)
	}
	j := &journal{warm: w, entry: entry}
	f := &firing{set: &entry.set, spool: entry.spool, keep: j, rootless: rootless, approvals: approval.Approvals{Store: place.Approvals()}, identity: entry.identity, policies: func() string { return entry.digest }}
	f.approvals.Policy = f.policies
	engine := entry.engine
	if notices := f.notices(got.Event.Kind); len(notices) > 0 {
		if engine, err = engine.With(notices...); err != nil {
			return reply, false, fmt.Errorf("%w: %w", client.ErrSelf, err)
		}
	}
	ctx = context.WithValue(ctx, firingKey{}, f)
	defer func() {
		if r := recover(); r != nil {
			reply, pending, err = dialect.Reply{}, false, fmt.Errorf("%w: internal error: %v", client.ErrSelf, r)
		}
	}()
	reply, pending, err = inv.fire(ctx, engine, f, got, rootless)
	if j.left {
		return dialect.Reply{}, false, fmt.Errorf("%w: a hook needs the environment of the agent", client.ErrSelf)
	}
	if err != nil {
		return lastResort(ctx, d, dialect.Input{Payload: asked.Payload, Event: asked.Event}, err), false, nil
	}
	return reply, pending, nil
}

type firingKey struct{}

// byContext passes the Records, hooks and approvals of an engine to the firing in the context, since
// many firings share one engine.
type byContext struct{}

func (byContext) Observe(ctx context.Context, rec *grapnel.Record) {
	ctx.Value(firingKey{}).(*firing).Observe(ctx, rec)
}

func (byContext) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	return ctx.Value(firingKey{}).(*firing).Run(ctx, ev, hooks)
}

func (byContext) Find(ctx context.Context, ev *grapnel.Event, hook *grapnel.Spec, decision grapnel.Decision) grapnel.Approval {
	return ctx.Value(firingKey{}).(*firing).Find(ctx, ev, hook, decision)
}

// A warmEntry is a set of loaded policies.
type warmEntry struct {
	set    load.Set
	engine *grapnel.Engine
	spool  *spool.Spool
	place  local.Place
	stamps files.Stamps
	loaded time.Time
	steady bool

	identity local.Identity // origin of Records
	digest   string         // of the policies

	programs map[string]bool            // names of hooks that run in the environment of the agent
	asks     map[string]bool            // names of hooks that wait for a person, in the hook program
	notices  map[string]policyfile.HTTP // hooks that notify a server, with their targets
}

// entry returns the policies in force. It loads them again if a file has changed.
func (w *Warm) entry(place local.Place, files []load.File, unread bool) (*warmEntry, error) {
	key := keyOf(place, files, unread)
	w.mu.Lock()
	e := w.entries[key]
	w.mu.Unlock()
	if e.current() {
		return e, nil
	}
	e, err := w.load(place, files, unread)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.entries[key]; !there && len(w.entries) >= maxWarm {
		oldest := ""
		for k, old := range w.entries {
			if oldest == "" || old.loaded.Before(w.entries[oldest].loaded) {
				oldest = k
			}
		}
		delete(w.entries, oldest)
	}
	w.entries[key] = e
	if w.opts.Loaded != nil {
		w.opts.Loaded(&e.set)
	}
	return e, nil
}

// keyOf returns a key that distinguishes policy combinations that can be in force at the same
// time.
func keyOf(place local.Place, files []load.File, unread bool) string {
	b := make([]byte, 0, 512)
	for _, text := range [...]string{place.Policy, place.Agent, place.Path, place.Home} {
		b = strconv.AppendQuote(b, text)
	}
	b = strconv.AppendBool(b, unread)
	for _, f := range files {
		b = strconv.AppendQuote(b, f.Path)
		b = strconv.AppendInt(b, int64(f.Scope), 10)
		for _, flag := range [...]bool{f.Must, f.Trust, f.Root, f.NoAllow} {
			b = strconv.AppendBool(b, flag)
		}
	}
	return string(b)
}

func (w *Warm) load(place local.Place, files []load.File, unread bool) (*warmEntry, error) {
	sp, err := spool.Open(place.State, nil)
	if err != nil {
		return nil, err
	}
	e := &warmEntry{spool: sp, place: place, loaded: time.Now(), programs: map[string]bool{}, asks: map[string]bool{}, notices: map[string]policyfile.HTTP{}}
	e.stamps = place.Stamps(files) // before any file is read, so that later changes are noticed
	o := opening{place: place, spool: sp, judge: byContext{}, set: func() *load.Set { return &e.set }, look: w.opts.Webhook}
	o.program = func(c policyfile.Command) grapnel.Hook { return w.command(place, e, c) }
	o.send = func(ctx context.Context, _ string, question []byte) (ask.Reply, error) {
		return w.opts.Ask(ctx, question)
	}
	opts := o.options(files, unread)
	opts.Notify = func(h policyfile.HTTP) (grapnel.Hook, error) {
		e.notices[h.FullName()] = h
		return late.Notify(h)
	}
	engine, err := local.Open(context.Background(), opts)
	if err != nil {
		return nil, err
	}
	e.set, e.engine = engine.Set, engine.Engine
	for i := range e.set.Specs { // the hook program waits for a person
		if s := &e.set.Specs[i]; approval.Terms(s) != nil {
			e.asks[s.Name] = true
		}
	}
	e.identity, e.digest = place.Identity(), e.set.Digest()
	late.KeepRecords(sp, &e.set)
	_, paused := pause.Read(place.Pause(), e.loaded)
	e.steady = !e.set.Unsteady && !paused
	return e, nil
}

// command returns the hook of a `run:` entry. A worker stays running and is shared by all
// sessions. A program that runs once per event is left to the hook program.
func (w *Warm) command(place local.Place, e *warmEntry, c policyfile.Command) grapnel.Hook {
	if !c.Worker {
		e.programs[c.Name] = true
		return grapnel.Func(func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
			if f, ok := ctx.Value(firingKey{}).(*firing); ok {
				f.keep.(*journal).left = true
			}
			return grapnel.Outcome{}, client.ErrSelf
		})
	}
	return w.workers.Hook(place, c)
}

// runs returns the name of a hook that may match the event and runs in the environment of the
// agent, if there is one.
func (e *warmEntry) runs(ev *grapnel.Event) (string, bool) {
	if len(e.programs)+len(e.asks) == 0 {
		return "", false
	}
	changes := false // rewrites could change the event so that another hook matches
	for i := range e.set.Specs {
		s := &e.set.Specs[i]
		if slices.Contains(s.On, ev.Kind) && s.Phase == grapnel.PhaseRewrite {
			changes = true
		}
	}
	for i := range e.set.Specs {
		s := &e.set.Specs[i]
		asks := e.asks[s.Name]
		if !e.programs[s.Name] && !asks || s.Phase == grapnel.PhaseObserve || len(s.On) > 0 && !slices.Contains(s.On, ev.Kind) {
			continue
		}
		if changes && !asks || s.Match == nil { // a question about a changed event declines when it is asked
			return s.Name, true
		}
		if ok, err := s.Match.Match(ev, nil); ok || err != nil {
			return s.Name, true
		}
	}
	return "", false
}

// current reports whether no file has changed since the policies were loaded.
func (e *warmEntry) current() bool {
	return e != nil && e.steady && e.stamps.Current(e.loaded)
}

// A journal collects the Records and notices of one firing for Keep.
type journal struct {
	warm    *Warm
	entry   *warmEntry
	left    bool // a hook runs in the environment of the agent: this firing does not count
	records []grapnel.Record
	notices []Notice
	pending bool
}

func (j *journal) Observe(_ context.Context, rec *grapnel.Record) {
	j.records = append(j.records, *rec)
}

// Run collects notices and queues hooks that run in the environment of the agent.
func (j *journal) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	if j.left {
		return nil
	}
	var local []grapnel.Spec
	var failed error
	for i := range hooks {
		h := &hooks[i]
		target, notifies := j.entry.notices[h.FullName()]
		if !notifies {
			local = append(local, *h)
			continue
		}
		shown, err := redact.Shown(h.Hook, ev)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("hook %q: %w", h.FullName(), err))
			continue
		}
		j.notices = append(j.notices, Notice{spool.NewPending(ctx, h, shown), target, h.Source})
	}
	if len(local) > 0 {
		j.pending = true
		failed = errors.Join(failed, queue{j.entry.spool}.Run(ctx, ev, local))
	}
	return failed
}

func (j *journal) end(ctx context.Context) (bool, error) {
	if j.left || len(j.records)+len(j.notices) == 0 {
		return j.pending, nil
	}
	var lines [][]byte
	var partly error
	for i := range j.records {
		line, err := j.entry.spool.Line(&j.records[i])
		partly = cmp.Or(partly, err)
		if line != nil {
			lines = append(lines, line)
		}
	}
	if partly != nil {
		partly = fmt.Errorf("cannot store the record of an event: %w", partly)
	}
	if err := j.warm.opts.Keep(context.WithoutCancel(ctx), lines, j.notices, j.entry.set.Records.Sync); err != nil {
		pending, err := j.aside(ctx)
		if err != nil { // without an error, the daemon reads the Records from the log
			j.observe(ctx)
			if unrecorded := j.warm.opts.Unrecorded; unrecorded != nil {
				unrecorded(err)
			}
		}
		return pending, err
	}
	j.observe(ctx)
	return j.pending, partly
}

// observe passes the Records to Observe.
func (j *journal) observe(ctx context.Context) {
	if observe := j.warm.opts.Observe; observe != nil {
		for i := range j.records {
			observe(ctx, &j.records[i])
		}
	}
}

// aside stores the Records and notices as a hook program would, after Keep failed.
func (j *journal) aside(ctx context.Context) (bool, error) {
	sp, err := spool.Open(j.entry.place.State, nil)
	if err != nil {
		return j.pending, err
	}
	defer func() { _ = sp.Close() }()
	late.KeepRecords(sp, &j.entry.set)
	for i := range j.records {
		sp.Observe(ctx, &j.records[i])
	}
	for i := range j.notices {
		p := &j.notices[i].Pending
		_ = sp.Run(ctx, p.Event, []grapnel.Spec{{Name: p.Hook, Source: j.notices[i].source}}) // sp.Err returns the error
		j.pending = true
	}
	return j.pending, sp.Err()
}
