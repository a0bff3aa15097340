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
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/outbound"
)

// A bench is an engine with the hooks of a case, and all that is noted about them.
type bench struct {
	family  *family
	preset  grapnel.Preset
	engine  *grapnel.Engine
	top     string // holds both directories
	dir     string // where commands run: empty, and the project's root
	scripts string // what they print
	off     bool   // all hooks are

	mu      sync.Mutex
	calls   []*call
	records []*grapnel.Record
	logs    map[string]*builtin.Logging // by name
	failed  []failure                   // of webhooks

	web     *web // what webhooks reach; nil = there are none
	clients *outbound.Client
}

// A call is one time that a hook was asked.
type call struct {
	hook    *hookDef
	saw     *grapnel.Event
	process bool            // it starts one
	wire    []byte          // what the process was given
	output  *dialect.Output // what it answered
	out     grapnel.Outcome
	err     error
	ended   bool
}

// silent reports whether a program answered by its exit code alone.
func (c *call) silent() bool {
	return c.output != nil && len(c.output.Stdout)+len(c.output.Stderr) == 0
}

// A firing is what came of one event.
type firing struct {
	bench   *bench
	event   *grapnel.Event
	began   time.Time
	took    time.Duration
	verdict grapnel.Verdict
	record  *grapnel.Record // nil: nobody waited for the answer
	calls   []call          // as they stood then
	first   int             // where they begin among those of the bench
}

// newBench makes an engine without hooks. Whoever has one closes it.
func newBench(family *family, preset grapnel.Preset) (*bench, error) {
	b := &bench{family: family, preset: preset, logs: map[string]*builtin.Logging{}}
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

// newEngine makes an engine whose Records the bench keeps.
func (b *bench) newEngine(specs ...grapnel.Spec) (*grapnel.Engine, error) {
	return grapnel.New(specs, &grapnel.Options{
		Preset: b.preset,
		Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.records = append(b.records, rec)
		})},
	})
}

// close waits for hooks that still run, and tidies up.
func (b *bench) close(ctx context.Context) {
	b.settle(ctx)
	b.remove()
	if b.clients != nil {
		_ = b.clients.Close(ctx) // nobody answers any more, so deliveries end
	}
}

// remove closes the web and removes the files. A program that a case has left behind may still write
// some; the directory is the system's to tidy up.
func (b *bench) remove() {
	if b.web != nil {
		b.web.close()
	}
	_ = os.RemoveAll(b.top)
}

// settle waits until nothing runs in the background any more. That closes the engine,
// so the bench gets a new one with the same hooks. What outlives the case's time is
// left behind.
func (b *bench) settle(ctx context.Context) {
	_ = b.engine.Close(ctx)
	e, err := b.newEngine(b.engine.Specs()...)
	if err != nil {
		panic(err) // they were valid before
	}
	b.engine = e
	b.enable(!b.off)
}

// enable switches all hooks on or off.
func (b *bench) enable(on bool) {
	b.off = !on
	b.engine.Enable(on)
}

// fire fires an event and notes what comes of it.
func (b *bench) fire(ev *grapnel.Event, how func() grapnel.Verdict) *firing {
	f := &firing{bench: b, event: ev, first: b.called(), began: time.Now()}
	records := len(b.heardOf())
	f.verdict = how()
	f.took = time.Since(f.began)
	if told := b.heardOf()[records:]; len(told) > 0 {
		f.record = told[0]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls[f.first:] {
		f.calls = append(f.calls, *c)
	}
	return f
}

// called is how often hooks have been asked.
func (b *bench) called() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// heardOf are the Records of all firings so far.
func (b *bench) heardOf() []*grapnel.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records
}

// completed lists the hooks that ended well, of those asked since the n-th call. They
// ran at the same time, so any order is as good as the expected one.
func (b *bench) completed(n int, async bool) probe {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{}
	for _, c := range b.calls[n:] {
		if c.ended && c.err == nil && (c.hook.Async || !async) {
			names = append(names, c.hook.Name)
		}
	}
	return func(want any) any {
		wanted := texts(want)
		slices.SortStableFunc(names, func(a, b string) int {
			return cmp.Compare(slices.Index(wanted, a), slices.Index(wanted, b))
		})
		return names
	}
}

// watched is a hook of which the bench notes what it saw and said.
type watched struct {
	bench *bench
	def   *hookDef
	inner func(c *call) grapnel.Hook // made anew for each call, which it may tell more about
	grace time.Duration
}

// Grace is that of the hook.
func (w *watched) Grace() time.Duration { return w.grace }

// Handle asks the hook. One that panics has not ended.
func (w *watched) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	noted := &call{hook: w.def, saw: ev, process: w.def.Kind == "command"}
	w.bench.mu.Lock()
	w.bench.calls = append(w.bench.calls, noted)
	w.bench.mu.Unlock()

	own := *noted // a hook that is left behind writes here
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
