package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/allruns"
	"github.com/grapnel-dev/grapnel/process"
)

// An operation is one change or query of an engine.
type operation struct {
	Do            string          `json:"do"`
	Hook          *hookDef        `json:"hook"`
	Name          string          `json:"name"`
	Source        string          `json:"source"`
	Session       []hookDef       `json:"session"`
	Engine        []hookDef       `json:"engine"`
	Executor      any             `json:"executor"`
	CancelAfterMS int             `json:"cancel_after_ms"`
	Native        string          `json:"native_event"`
	Event         grapnel.Kind    `json:"event"`
	Input         json.RawMessage `json:"input"`

	Expect       any              `json:"expect"`
	ExpectError  *bool            `json:"expect_error"`
	Note         string           `json:"note"`
	Alternatives []map[string]any `json:"accept_alternatives"`
}

// registry applies operations in order to an engine without hooks, and compares the result of
// each.
func registry(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Ops []operation `json:"ops"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	b, err := (&plan{names: c.names}).bench(c.Dialect)
	if err != nil {
		return nil, err
	}
	defer func() { b.close(ctx) }()
	m := manager{bench: b}
	var diffs []Diff
	for i := range d.Ops {
		op := &d.Ops[i]
		op.Alternatives = append(op.Alternatives, c.Alternatives...)
		run := operations[op.Do]
		if run == nil {
			return nil, fmt.Errorf("unknown operation %q", op.Do)
		}
		got, err := b.operate(op, func() (any, error) { return run(&m, ctx, op) })
		for _, d := range op.compare(got, err) {
			d.Key = fmt.Sprintf("ops[%d].%s: %s", i, op.Do, d.Key)
			diffs = append(diffs, d)
		}
	}
	return diffs, nil
}

// compare returns the differences from the operation's expectation.
func (op *operation) compare(got any, err error) []Diff {
	want := map[string]any{"expect_error": op.ExpectError != nil && *op.ExpectError}
	if op.Expect != nil {
		want["expect"] = op.Expect
	}
	v := view{"expect": got, "expect_error": err != nil}
	diffs := v.judge(want, op.Alternatives, false)
	if err != nil && len(diffs) > 0 {
		diffs = append(diffs, Diff{Key: "error", Want: "none", Got: err.Error()})
	}
	return diffs
}

// A manager is the target of operations.
type manager struct {
	*bench

	session *grapnel.Engine // its hooks also apply to sub-agents
	child   *grapnel.Engine // the engine of the sub-agent
	heard   hearer
}

// A hearer is an observer that is added later. It counts the runs of hooks.
type hearer struct {
	listens bool
	runs    atomic.Int64
}

// Observe adds the number of hook runs in the Record.
func (h *hearer) Observe(_ context.Context, rec *grapnel.Record) { h.runs.Add(int64(len(rec.Hooks))) }

var operations = map[string]func(m *manager, ctx context.Context, op *operation) (any, error){
	"register":             (*manager).register,
	"unregister":           (*manager).unregister,
	"unregister_source":    (*manager).unregisterSource,
	"unregister_event":     (*manager).unregisterEvent,
	"list":                 (*manager).list,
	"count":                (*manager).count,
	"has":                  (*manager).has,
	"is_empty":             (*manager).isEmpty,
	"disable":              (*manager).disableAll,
	"enable":               (*manager).enableAll,
	"compose":              (*manager).compose,
	"dispatch":             (*manager).fireOne,
	"dispatch_async":       (*manager).fireAsync,
	"dispatch_all":         (*manager).fireAll,
	"spawn_subagent":       (*manager).spawn,
	"dispatch_in_subagent": (*manager).fireInSubagent,
	"set_observer":         (*manager).observe,
	"observed_min":         (*manager).heardOfRuns,
	"effective_timeout":    (*manager).effectiveTimeout,
	"new_manager":          (*manager).renew,
}

func (m *manager) register(_ context.Context, op *operation) (any, error) {
	if op.Hook == nil {
		return nil, errors.New("no hook to register")
	}
	known := m.family.kinds()
	for _, k := range op.Hook.Points {
		if !slices.Contains(known, k) {
			return nil, fmt.Errorf("%s has no event %q", m.family.name, k)
		}
	}
	return nil, m.add([]hookDef{*op.Hook}, known)
}

func (m *manager) unregister(_ context.Context, op *operation) (any, error) {
	return m.remove(op.Event, func(s *grapnel.Spec) bool { return s.Name == op.Name }) > 0, nil
}

func (m *manager) unregisterSource(_ context.Context, op *operation) (any, error) {
	return m.remove(op.Event, func(s *grapnel.Spec) bool {
		return s.Source.Name == op.Source || op.Source != "" && strings.HasPrefix(s.Name, op.Source+"::")
	}), nil
}

func (m *manager) unregisterEvent(_ context.Context, op *operation) (any, error) {
	return m.remove(op.Event, func(*grapnel.Spec) bool { return true }), nil
}

// remove removes hooks, or removes one event from them, and returns their number.
func (m *manager) remove(event grapnel.Kind, chosen func(*grapnel.Spec) bool) int {
	if event == "" {
		return m.engine.Remove(chosen)
	}
	removed := 0
	err := m.engine.Update(func(specs []grapnel.Spec) []grapnel.Spec {
		var kept []grapnel.Spec
		for _, s := range specs {
			if at := slices.Index(s.On, event); at >= 0 && chosen(&s) {
				s.On = slices.Delete(s.On, at, at+1)
				removed++
			}
			if len(s.On) > 0 { // an empty list would mean all events
				kept = append(kept, s)
			}
		}
		return kept
	})
	if err != nil {
		panic(err) // the same specs were valid before
	}
	return removed
}

// listed returns the names of the hooks, or of the hooks of one event, in run order.
func (m *manager) listed(event grapnel.Kind) []string {
	names := []string{}
	for _, s := range m.engine.Specs(event) {
		names = append(names, s.Name)
	}
	return names
}

func (m *manager) list(_ context.Context, op *operation) (any, error) { return m.listed(op.Event), nil }

func (m *manager) count(_ context.Context, op *operation) (any, error) {
	return len(m.engine.Specs(op.Event)), nil
}

func (m *manager) has(_ context.Context, op *operation) (any, error) {
	return len(m.engine.Specs(op.Event)) > 0, nil
}

func (m *manager) isEmpty(_ context.Context, op *operation) (any, error) {
	return len(m.engine.Specs(op.Event)) == 0, nil
}

func (m *manager) disableAll(context.Context, *operation) (any, error) {
	m.enable(false)
	return nil, nil
}

func (m *manager) enableAll(context.Context, *operation) (any, error) {
	m.enable(true)
	return nil, nil
}

func (m *manager) compose(ctx context.Context, op *operation) (any, error) {
	session, err := m.specs(op.Session, m.family.kinds())
	if err != nil {
		return nil, err
	}
	engine, err := m.specs(op.Engine, m.family.kinds())
	if err != nil {
		return nil, err
	}
	if m.session, err = grapnel.New(session, &grapnel.Options{Preset: m.preset}); err != nil {
		return nil, err
	}
	e, err := m.newEngine(engine...)
	if err != nil {
		return nil, err
	}
	m.engine = e.In(m.context(ctx))
	if m.heard.listens {
		m.engine.AddObserver(&m.heard)
	}
	return nil, nil
}

// enable switches the hooks of the engine and of the session.
func (m *manager) enable(on bool) {
	m.bench.enable(on)
	if m.session != nil {
		m.session.Enable(on)
	}
}

// context returns a context with the session's engine, which sub-agents inherit.
func (m *manager) context(ctx context.Context) context.Context {
	return grapnel.NewContext(ctx, m.session)
}

// settle waits also for the hooks of the session, and adds the observer to the new engine.
func (m *manager) settle(ctx context.Context) {
	if m.session != nil {
		_ = m.session.Close(ctx)
	}
	m.bench.settle(ctx)
	if m.heard.listens {
		m.engine.AddObserver(&m.heard)
	}
}

func (m *manager) fireOne(ctx context.Context, op *operation) (any, error) {
	return m.dispatchIn(ctx, m.engine, op.event())
}

func (op *operation) event() *eventDef {
	return &eventDef{Event: op.Event, Native: op.Native, Input: op.Input}
}

// fireAsync cancels the caller's context while the event is in progress.
func (m *manager) fireAsync(ctx context.Context, op *operation) (any, error) {
	ev, err := op.event().event(m.bench)
	if err != nil {
		return nil, err
	}
	calls := m.called()
	caller, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.engine.Fire(context.WithoutCancel(caller), ev)
	}()
	took := time.Since(begun)
	time.Sleep(time.Duration(op.CancelAfterMS) * time.Millisecond)
	cancel()
	<-done
	m.settle(ctx)
	return view{"completed": m.completed(calls, false), "ms": took.Milliseconds()}, nil
}

// fireAll waits for the reply, and then for the background hooks.
func (m *manager) fireAll(ctx context.Context, op *operation) (any, error) {
	ev, err := op.event().event(m.bench)
	if err != nil {
		return nil, err
	}
	calls := m.called()
	var runs <-chan grapnel.HookRun
	f := m.fire(ev, func() (v grapnel.Verdict) {
		v, runs = allruns.Fire(ctx, m.engine, ev)
		return v
	})
	v := f.answer(ctx)
	for range runs { // until all have ended
	}
	v["completed"] = m.completed(calls, true)
	return v, nil
}

func (m *manager) spawn(ctx context.Context, _ *operation) (any, error) {
	e, err := m.newEngine()
	m.child = e.In(m.context(ctx))
	return nil, err
}

func (m *manager) fireInSubagent(ctx context.Context, op *operation) (any, error) {
	if m.child == nil {
		return nil, errors.New("no sub-agent exists")
	}
	return m.dispatchIn(ctx, m.child, op.event())
}

func (m *manager) observe(context.Context, *operation) (any, error) {
	m.heard.listens = true
	m.engine.AddObserver(&m.heard)
	return nil, nil
}

// heardOfRuns returns how many runs of hooks the observer counted. If there are more than
// expected, it returns the expected number.
func (m *manager) heardOfRuns(_ context.Context, op *operation) (any, error) {
	runs := m.heard.runs.Load()
	if float64(runs) >= size(op.Expect) {
		return op.Expect, nil
	}
	return runs, nil
}

func (m *manager) effectiveTimeout(_ context.Context, op *operation) (any, error) {
	if op.Hook == nil {
		return nil, errors.New("no hook")
	}
	s, err := m.spec(op.Hook, m.family.kinds())
	return s.Timeout.Milliseconds(), err
}

// renew makes an engine with a command hook. Without an executor this is an error, because
// nothing else can run the command.
func (m *manager) renew(_ context.Context, op *operation) (any, error) {
	cmd := &process.Command{Name: "any", Line: "true"}
	if op.Executor != nil {
		cmd.Executor = process.System
	}
	_, err := m.newEngine(grapnel.Spec{Name: cmd.Name, Hook: cmd})
	return nil, err
}
