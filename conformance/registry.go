package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// An operation is one thing that is done to an engine.
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

// registry does operations in order to an engine without hooks, and compares what
// each of them gives.
func registry(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Ops []operation `json:"ops"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	b, err := (&plan{}).bench(c.Dialect)
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
		got, err := run(&m, ctx, op)
		for _, d := range op.compare(got, err) {
			d.Key = fmt.Sprintf("ops[%d].%s: %s", i, op.Do, d.Key)
			diffs = append(diffs, d)
		}
	}
	return diffs, nil
}

// compare returns what differs from what the operation expects.
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

// A manager is what operations are done to.
type manager struct {
	*bench

	session  []grapnel.Spec  // hooks that travel into sub-agents
	child    *grapnel.Engine // of the sub-agent
	observed int             // how many Records there were before somebody observed
}

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
	"observed_min":         (*manager).heard,
	"effective_timeout":    (*manager).effectiveTimeout,
	"new_manager":          (*manager).renew,
}

func (m *manager) register(_ context.Context, op *operation) (any, error) {
	if op.Hook == nil {
		return nil, errors.New("no hook to register")
	}
	return nil, m.add([]hookDef{*op.Hook}, m.family.kinds())
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

// remove removes hooks, or takes one event away from them, and returns how many.
func (m *manager) remove(event grapnel.Kind, chosen func(*grapnel.Spec) bool) int {
	if event == "" {
		return m.engine.RemoveFunc(chosen)
	}
	removed := 0
	var kept []grapnel.Spec
	for _, s := range m.engine.Specs() {
		if at := slices.Index(s.On, event); at >= 0 && chosen(&s) {
			s.On = slices.Delete(s.On, at, at+1)
			removed++
		}
		if len(s.On) > 0 {
			kept = append(kept, s)
		}
	}
	m.engine.RemoveFunc(func(*grapnel.Spec) bool { return true })
	if err := m.engine.Add(kept...); err != nil {
		panic(err) // they were there before
	}
	return removed
}

// listed names the hooks, or those of one event, in the order in which they run. The
// engine says which: it plans an event to which all of them listen.
func (m *manager) listed(event grapnel.Kind) ([]string, error) {
	var specs []grapnel.Spec
	for _, s := range m.engine.Specs() {
		if event == "" || slices.Contains(s.On, event) {
			s.On, s.Tools, s.Match, s.Phase = []grapnel.Kind{grapnel.SessionStart}, nil, nil, grapnel.PhaseStep
			specs = append(specs, s)
		}
	}
	e, err := m.newEngine(specs...)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, entry := range e.Plan(&grapnel.Event{Kind: grapnel.SessionStart}).Entries {
		names = append(names, entry.Hook)
	}
	return names, nil
}

func (m *manager) list(_ context.Context, op *operation) (any, error) { return m.listed(op.Event) }

func (m *manager) count(_ context.Context, op *operation) (any, error) {
	names, err := m.listed(op.Event)
	return len(names), err
}

func (m *manager) has(_ context.Context, op *operation) (any, error) {
	names, err := m.listed(op.Event)
	return len(names) > 0, err
}

func (m *manager) isEmpty(_ context.Context, op *operation) (any, error) {
	names, err := m.listed(op.Event)
	return len(names) == 0, err
}

func (m *manager) disableAll(context.Context, *operation) (any, error) {
	m.enable(false)
	return nil, nil
}

func (m *manager) enableAll(context.Context, *operation) (any, error) {
	m.enable(true)
	return nil, nil
}

func (m *manager) compose(_ context.Context, op *operation) (any, error) {
	session, err := m.specs(op.Session, m.family.kinds())
	if err != nil {
		return nil, err
	}
	engine, err := m.specs(op.Engine, m.family.kinds())
	if err != nil {
		return nil, err
	}
	m.session = session
	m.engine, err = m.newEngine(slices.Concat(session, engine)...)
	return nil, err
}

func (m *manager) fireOne(ctx context.Context, op *operation) (any, error) {
	return m.dispatchIn(ctx, m.engine, op.event())
}

func (op *operation) event() *eventDef {
	return &eventDef{Event: op.Event, Native: op.Native, Input: op.Input}
}

// fireAsync lets the caller go away while the event is under way.
func (m *manager) fireAsync(ctx context.Context, op *operation) (any, error) {
	ev, err := op.event().event(m.bench)
	if err != nil {
		return nil, err
	}
	calls := m.called()
	caller, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := time.Now()
	verdict := m.engine.Start(caller, ev)
	took := time.Since(begun)
	time.Sleep(time.Duration(op.CancelAfterMS) * time.Millisecond)
	cancel()
	<-verdict
	m.settle(ctx)
	return view{"completed": m.completed(calls, false), "ms": took.Milliseconds()}, nil
}

// fireAll waits for the answer, and then for the hooks that nobody waits for.
func (m *manager) fireAll(ctx context.Context, op *operation) (any, error) {
	calls := m.called()
	v, err := m.dispatchIn(ctx, m.engine, op.event())
	if err != nil {
		return nil, err
	}
	m.settle(ctx)
	v["completed"] = m.completed(calls, true)
	return v, nil
}

func (m *manager) spawn(context.Context, *operation) (_ any, err error) {
	m.child, err = m.newEngine(m.session...)
	return nil, err
}

func (m *manager) fireInSubagent(ctx context.Context, op *operation) (any, error) {
	if m.child == nil {
		return nil, errors.New("there is no sub-agent")
	}
	return m.dispatchIn(ctx, m.child, op.event())
}

func (m *manager) observe(context.Context, *operation) (any, error) {
	m.observed = len(m.heardOf())
	return nil, nil
}

// heard is how many runs of hooks an observer heard of. As many as are expected is
// as good as more.
func (m *manager) heard(_ context.Context, op *operation) (any, error) {
	runs := 0
	for _, rec := range m.heardOf()[m.observed:] {
		runs += len(rec.Hooks)
	}
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

// renew makes an engine for hooks that somebody has to run. Without anybody there
// is none, and no fallback either.
func (m *manager) renew(_ context.Context, op *operation) (any, error) {
	s := grapnel.Spec{Name: "any"}
	if op.Executor != nil {
		s.Hook = grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })
	}
	_, err := m.newEngine(s)
	return nil, err
}
