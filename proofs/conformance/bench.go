package conformance

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/presets"
	"github.com/grapnel-dev/grapnel/outbound"
)

// A bench is an engine with the hooks of a case, and everything that is recorded about them.
type bench struct {
	family  *family
	row     presets.Row
	preset  grapnel.Preset // of the row
	engine  *grapnel.Engine
	top     string // parent of both directories
	dir     string // working directory of commands: empty, and the project's root
	scripts string // output of the commands
	off     bool   // all hooks are disabled

	mu      sync.Mutex
	calls   []*call
	records []*grapnel.Record
	logs    map[string]messages // of logging hooks, by hook name
	failed  []failure           // failed deliveries of webhooks

	late sync.WaitGroup // events that no caller waits for

	web     *web // network that webhooks reach; nil = the case has no webhooks
	clients *outbound.Client

	namesake namesake            // the Go package that runs the hooks; nil = the engine runs them
	named    map[string]*hookDef // the hooks of the namesake, by their names in Records
}

// messages is a hook that records events.
type messages interface{ Messages() []string }

// A call is one call of a hook.
type call struct {
	hook    *hookDef
	saw     *grapnel.Event
	process bool            // the hook starts a process
	wire    []byte          // stdin of the process
	output  *dialect.Output // output of the process
	out     grapnel.Outcome
	err     error
	ended   bool
}

// silent reports whether a program answered only with its exit code.
func (c *call) silent() bool {
	return c.output != nil && len(c.output.Stdout)+len(c.output.Stderr) == 0
}

// A firing is the result of one event.
type firing struct {
	bench   *bench
	event   *grapnel.Event
	began   time.Time
	took    time.Duration
	verdict grapnel.Verdict
	record  *grapnel.Record // nil: the caller did not wait for the reply
	calls   []call          // their state at that time
	first   int             // index of the first of them in the bench's calls
}

// newBench returns a bench with an engine without hooks. The caller must close it.
func newBench(family *family, row presets.Row) (*bench, error) {
	b := &bench{family: family, row: row, preset: presets.Of(row).(grapnel.Preset), logs: map[string]messages{}}
	var err error
	if b.engine, err = b.newEngine(); err != nil {
		return nil, err
	}
	if b.top, err = os.MkdirTemp("", "grapnel-conformance-"); err != nil {
		return nil, err
	}
	b.dir, b.scripts = filepath.Join(b.top, "project"), filepath.Join(b.top, "scripts")
	if err = errors.Join(os.Mkdir(b.dir, 0o700), os.Mkdir(b.scripts, 0o700)); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

// newEngine returns an engine that stores its Records in the bench.
func (b *bench) newEngine(specs ...grapnel.Spec) (*grapnel.Engine, error) {
	return grapnel.New(specs, &grapnel.Options{Preset: b.preset, Observers: []grapnel.Observer{grapnel.ObserverFunc(b.keep)}})
}

func (b *bench) keep(_ context.Context, rec *grapnel.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, rec)
}

// close waits for running hooks and removes the bench's files.
func (b *bench) close(ctx context.Context) {
	b.settle(ctx)
	b.remove()
	if b.clients != nil {
		_ = b.clients.Close(ctx) // the server is stopped, so deliveries end
	}
}

// remove closes the web and deletes the files. A program that a case left running may still
// write files afterwards; the operating system cleans up its temporary directory.
func (b *bench) remove() {
	if b.web != nil {
		b.web.close()
	}
	_ = os.RemoveAll(b.top)
}

// settle waits until nothing runs in the background. This closes the engine, so the bench gets
// a new engine with the same hooks. Hooks that run longer than the case's deadline are
// abandoned.
func (b *bench) settle(ctx context.Context) {
	b.late.Wait()
	_ = b.engine.Close(ctx)
	if b.namesake != nil {
		return // it keeps its engine
	}
	e, err := b.newEngine(b.engine.Specs("")...)
	if err != nil {
		panic(err) // the same specs were valid before
	}
	b.engine = e
	b.enable(!b.off)
}

// enable switches all hooks on or off.
func (b *bench) enable(on bool) {
	b.off = !on
	b.engine.Enable(on)
}

// fire fires an event and records the result.
func (b *bench) fire(ev *grapnel.Event, how func() grapnel.Verdict) *firing {
	f := &firing{bench: b, event: ev, first: b.called(), began: time.Now()}
	records := len(b.heardOf())
	f.verdict = how()
	f.took = time.Since(f.began)
	if received := b.heardOf()[records:]; len(received) > 0 {
		f.record = received[0]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls[f.first:] {
		f.calls = append(f.calls, *c)
	}
	return f
}

// called returns the number of hook calls so far.
func (b *bench) called() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// heardOf returns the Records of all firings so far.
func (b *bench) heardOf() []*grapnel.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records
}

// completed lists the hooks that ended without an error since the n-th call. They ran
// concurrently, so the probe sorts their names in the expected order.
func (b *bench) completed(n int, async bool) probe {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{}
	for _, c := range b.calls[n:] {
		if c.ended && c.err == nil && (c.hook.Async || !async) {
			names = append(names, c.hook.Name)
		}
	}
	return inExpectedOrder(names)
}

// inExpectedOrder returns a probe of names whose order means nothing: it sorts them as expected.
func inExpectedOrder(names []string) probe {
	return func(want any) any {
		wanted := texts(want)
		slices.SortStableFunc(names, func(a, b string) int {
			return cmp.Compare(slices.Index(wanted, a), slices.Index(wanted, b))
		})
		return names
	}
}

// watched is a hook with input and output recorded by the bench.
type watched struct {
	bench *bench
	def   *hookDef
	inner func(c *call) grapnel.Hook // returns a new hook for each call; the hook may add details to c
	grace time.Duration
}

// Grace returns the wrapped hook's grace period after an interrupt.
func (w *watched) Grace() time.Duration { return w.grace }

// Handle calls the hook. If the hook panics, the call is not marked as ended.
func (w *watched) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	noted := &call{hook: w.def, saw: ev, process: w.def.Kind == "command"}
	w.bench.mu.Lock()
	w.bench.calls = append(w.bench.calls, noted)
	w.bench.mu.Unlock()

	own := *noted // an abandoned hook writes to this copy
	hook := w.inner(&own)
	defer func() {
		w.bench.mu.Lock()
		defer w.bench.mu.Unlock()
		*noted = own
	}()
	own.out, own.err = hook.Handle(ctx, ev)
	own.ended = true
	return own.out, own.err
}
