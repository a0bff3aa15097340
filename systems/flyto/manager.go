package hooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/allruns"
)

// An EventObserver gets the Record of each event for which a Manager runs hooks, before the results
// are returned. It also gets the names of the asynchronous hooks, which have not run yet.
type EventObserver = grapnel.Observer

// A Manager holds hooks and runs them. It is safe for concurrent use: hooks can be added and removed
// while others run, and an event in progress keeps the hooks that it started with. A nil Manager
// has no hooks.
type Manager struct {
	engine   *grapnel.Engine
	preset   grapnel.Preset
	executor Executor
	invalid  error // hooks of the Config that could not be registered
	number   atomic.Int64

	mu          sync.Mutex
	unsubscribe func() // removes the current observer
}

// NewManager returns a Manager with the hooks of cfg, which may be nil. executor runs the programs;
// without one, only hooks with a Handler can be registered. Flyto panics if executor is nil. If a
// hook of cfg is invalid, every execution reports the error.
func NewManager(cfg *Config, executor Executor) *Manager {
	m := &Manager{executor: executor}
	m.preset, _ = grapnel.FindPreset(flyto.Name)
	m.engine, m.invalid = grapnel.New(nil, &grapnel.Options{Preset: m.preset, Observers: []grapnel.Observer{grapnel.ObserverFunc(capture)}})
	if cfg == nil {
		return m
	}
	for _, hookType := range slices.Sorted(maps.Keys(cfg.Hooks)) {
		for _, def := range cfg.Hooks[hookType] {
			m.invalid = errors.Join(m.invalid, m.Register(hookType, def))
		}
	}
	if cfg.Disabled {
		m.Disable()
	}
	return m
}

// Engine returns the engine that runs the hooks, or nil for a nil Manager. Hooks also run for
// events that another program fires on it, for example package host, with the variables of
// [dialect.Flyto]. Its Close waits for hooks that run in the background.
func (m *Manager) Engine() *grapnel.Engine {
	if m == nil {
		return nil
	}
	return m.engine
}

// Register adds a hook after the others of its type. It returns an error for an unknown type, and
// for a definition without anything to run.
func (m *Manager) Register(hookType HookType, def HookDef) error {
	row := flyto.Row(string(hookType))
	switch {
	case m == nil:
		return errors.New("cannot register a hook: the Manager is nil")
	case row == nil:
		return fmt.Errorf("unknown hook type %q", hookType)
	}
	h, err := newHook(fmt.Sprint("hook ", m.number.Add(1)), hookType, def, m.executor)
	if err != nil {
		return fmt.Errorf("cannot register a hook of type %s: %w", hookType, err)
	}
	spec := grapnel.Spec{Name: h.name, Source: grapnel.Source{Name: def.Source}, On: []grapnel.Kind{row.Kind}, Hook: h, Timeout: h.timeout}
	if def.Async {
		spec.Phase = grapnel.PhaseObserve
	}
	return m.engine.Add(m.preset.Defaults(spec))
}

// Unregister removes all hooks of a type.
func (m *Manager) Unregister(hookType HookType) {
	m.remove(func(h *hook, _ *grapnel.Spec) bool { return h.hookType == hookType })
}

// UnregisterBySource removes the hooks of a type that have exactly this source. Global hooks have
// the empty source.
func (m *Manager) UnregisterBySource(hookType HookType, source string) {
	m.remove(func(h *hook, s *grapnel.Spec) bool { return h.hookType == hookType && s.Source.Name == source })
}

// UnregisterAllBySource removes the hooks of all types that have exactly this source. Global hooks
// have the empty source.
func (m *Manager) UnregisterAllBySource(source string) {
	m.remove(func(_ *hook, s *grapnel.Spec) bool { return s.Source.Name == source })
}

// remove removes hooks. It leaves hooks that were added through the engine.
func (m *Manager) remove(drop func(h *hook, s *grapnel.Spec) bool) {
	m.Engine().Remove(func(s *grapnel.Spec) bool {
		h, ok := s.Hook.(*hook)
		return ok && drop(h, s)
	})
}

// HasHooks reports whether hooks of a type are registered, also while they are disabled.
func (m *Manager) HasHooks(hookType HookType) bool { return m.Count(hookType) > 0 }

// Count returns the number of registered hooks of a type, including asynchronous and disabled ones.
func (m *Manager) Count(hookType HookType) int {
	row := flyto.Row(string(hookType))
	if row == nil {
		return 0
	}
	return len(m.Engine().Specs(row.Kind))
}

// Enable switches all hooks on again after Disable.
func (m *Manager) Enable() { m.Engine().Enable(true) }

// Disable switches all hooks off. Hooks that already run continue.
func (m *Manager) Disable() { m.Engine().Enable(false) }

// SetObserver replaces the observer. nil removes it.
func (m *Manager) SetObserver(observer EventObserver) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unsubscribe != nil {
		m.unsubscribe()
		m.unsubscribe = nil
	}
	if observer != nil {
		m.unsubscribe = m.engine.AddObserver(grapnel.ObserverFunc(func(ctx context.Context, rec *grapnel.Record) {
			observer.Observe(withCall(ctx, nil), rec)
		}))
	}
}

// Execute runs the synchronous hooks of a type in order, waits for them, and returns their results.
// Each runs independent of the other answers. It starts the asynchronous hooks and does not wait for
// them. Every hook gets a copy of env. Variables of the type that env lacks are added: HOOK_TYPE,
// PLATFORM, ARCH and CWD with their values, the others empty.
//
// Without hooks, the results are empty. The error is for an unknown type, for invalid hooks of the
// Config, and for hooks that did not start because ctx was done; the failure of a hook is in its
// result only. The results are never nil.
func (m *Manager) Execute(ctx context.Context, hookType HookType, env map[string]string) (*ExecuteResults, error) {
	run := m.fire(ctx, hookType, env)
	return run.results, errors.Join(run.invalid, run.canceled)
}

// ExecuteAsync runs all hooks of a type in the background, and the asynchronous ones after the
// others. It sends their results and closes the channel; callers may ignore it. The hooks continue
// when the caller ends, up to their timeouts.
func (m *Manager) ExecuteAsync(hookType HookType, env map[string]string) <-chan *ExecuteResults {
	env = maps.Clone(env)
	done := make(chan *ExecuteResults, 1)
	go func() {
		defer close(done)
		results, async := m.ExecuteAll(context.Background(), hookType, env)
		for more := range async {
			results.Results = append(results.Results, more.Results...)
		}
		done <- results
	}()
	return done
}

// ExecuteAll is like Execute and also reports the results of the asynchronous hooks: when all of
// them have ended, it sends their results, which may be empty, and closes the channel. Callers may
// ignore the channel. An error that Execute would return for the type or the Config is the last of
// the synchronous results.
func (m *Manager) ExecuteAll(ctx context.Context, hookType HookType, env map[string]string) (syncResults *ExecuteResults, asyncResults <-chan *ExecuteResults) {
	run := m.fire(ctx, hookType, env)
	if run.invalid != nil {
		run.results.Results = append(run.results.Results, failed("", run.invalid))
	}
	done := make(chan *ExecuteResults, 1)
	go func() {
		defer close(done)
		results := &ExecuteResults{HookType: hookType}
		for late := range run.late {
			results.Results = append(results.Results, run.call.result(&late))
		}
		done <- results
	}()
	return run.results, done
}

// An execution is one event that a Manager fired.
type execution struct {
	results  *ExecuteResults
	late     <-chan grapnel.HookRun // runs of the asynchronous hooks
	call     *call
	invalid  error // the type or the Config is invalid
	canceled error // hooks did not start, because the context was done
}

var noLateRuns = func() <-chan grapnel.HookRun {
	none := make(chan grapnel.HookRun)
	close(none)
	return none
}()

// fire runs the synchronous hooks of a type and starts the others.
func (m *Manager) fire(ctx context.Context, hookType HookType, env map[string]string) *execution {
	run := &execution{results: &ExecuteResults{HookType: hookType, Results: []*HookResult{}}, late: noLateRuns}
	if m != nil {
		run.invalid = m.invalid
	}
	row := flyto.Row(string(hookType))
	if row == nil {
		run.invalid = errors.Join(run.invalid, fmt.Errorf("unknown hook type %q", hookType))
		return run
	}
	ev := event(row.Kind, env)
	full := variables(flyto.HookEnv(ev))
	maps.Copy(full, env)
	run.call = newCall(hookType, full)
	var verdict grapnel.Verdict
	verdict, run.late = allruns.Fire(withCall(ctx, run.call), m.Engine(), ev)
	run.canceled = verdict.Err
	for i := range run.call.runs {
		if hookRun := &run.call.runs[i]; !hookRun.Async {
			run.results.Results = append(run.results.Results, run.call.result(hookRun))
		}
	}
	return run
}

// A call is one event, as its hooks see it, with the results that they return.
type call struct {
	hookType HookType
	env      map[string]string // must not be modified
	runs     []grapnel.HookRun // the hooks of the Record; nil = the event is not yet handled

	mu      sync.Mutex
	results map[*grapnel.Output]*HookResult
}

func newCall(hookType HookType, env map[string]string) *call {
	return &call{hookType: hookType, env: env, results: map[*grapnel.Output]*HookResult{}}
}

type callKey struct{}

// withCall returns a context with the call whose hooks run. Handlers and observers get a context
// without it, because they may fire other events.
func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// capture stores the runs of a Record in the call that fired the event.
func capture(ctx context.Context, rec *grapnel.Record) {
	if c := callOf(ctx); c != nil {
		c.runs = rec.Hooks
	}
}

// keep stores the result of a hook under the Output that the hook returns to the engine.
func (c *call) keep(out *grapnel.Output, result *HookResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[out] = result
}

// resultOf returns the result of a run that kept none: the hook did not return, or was added to
// the engine.
func resultOf(run *grapnel.HookRun) *HookResult {
	if run.Err != nil && run.Output == nil {
		return failed(run.Name, run.Err)
	}
	result := &HookResult{Command: run.Name, Error: run.Err}
	for _, r := range dialect.NewFlytoResults([]grapnel.HookRun{*run}) {
		result.ExitCode, result.Stdout, result.Stderr = r.Exit, string(r.Stdout), string(r.Stderr)
	}
	result.JSONOutput = result.object()
	return result
}

// result returns the result of a run. The engine knows more than the hook: how long it took, and
// whether it was too late.
func (c *call) result(run *grapnel.HookRun) *HookResult {
	c.mu.Lock()
	result := c.results[run.Output]
	c.mu.Unlock()
	if result == nil {
		result = resultOf(run)
	}
	if result.Error == nil && errors.Is(run.Err, grapnel.ErrTimeout) {
		result.Error = run.Err
	}
	if result.Duration == 0 {
		result.Duration = time.Duration(run.MS * float64(time.Millisecond))
	}
	return result
}
