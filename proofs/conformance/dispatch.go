package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// dispatch fires one event through the hooks of a plan.
func dispatch(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Input json.RawMessage `json:"input"`
		Plan  plan            `json:"plan"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	def := eventDef{Event: grapnel.Kind(c.Event), Native: c.Native, Input: d.Input}
	family, err := familyOf(c.Dialect)
	if err == nil {
		err = def.resolve(family)
	}
	if err != nil {
		return nil, err
	}
	d.Plan.names = c.names
	b, err := d.Plan.bench(c.Dialect, def.Event)
	if errors.Is(err, errMatcher) {
		return c.compare(refused("invalid_matcher")), nil
	}
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	v, err := c.measured(func() (view, error) { return b.dispatch(ctx, &def) })
	if err != nil {
		return nil, err
	}
	return c.compare(v), nil
}

// measured runs a case, and adds the measures that the case expects to the view.
func (c *Case) measured(dispatch func() (view, error)) (v view, err error) {
	run := func() { v, err = dispatch() }
	switch {
	case contains(c.expected(), "max_rss_growth_mb"):
		grown := growth(run)
		if v != nil {
			v["rss_growth_mb"] = grown
		}
	case contains(c.expected(), "terminal_output"):
		output, readErr := terminal(run)
		if err = errors.Join(err, readErr); v != nil {
			v["terminal_output"] = output
		}
	default:
		run()
	}
	return v, err
}

// sequence fires several events through the same hooks, one after the other.
func sequence(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Events []eventDef `json:"events"`
		Plan   plan       `json:"plan"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	family, err := familyOf(c.Dialect)
	if err != nil {
		return nil, err
	}
	var kinds []grapnel.Kind
	for i := range d.Events {
		if err := d.Events[i].resolve(family); err != nil {
			return nil, err
		}
		kinds = append(kinds, d.Events[i].Event)
	}
	d.Plan.names = c.names
	b, err := d.Plan.bench(c.Dialect, kinds...)
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	decisions := []any{}
	for _, def := range d.Events {
		v, err := b.dispatch(ctx, &def)
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, v["decision"])
	}
	return c.compare(view{"decisions": decisions, "log": b.logged()}), nil
}

// refused returns the view of a plan that could not be loaded.
func refused(class string) view {
	return view{
		"config_error": class, "decision": nil, "cause": nil, "reason": "", "modified": nil, "effective": nil,
		"ran": []string{}, "results": 0, "saw": nil, "log": nil, "warnings": []warning{}, "process_started": false, "ms": 0,
	}
}

// bench returns a bench with the hooks of the plan. Hooks that name no events listen to the
// events in on.
func (p *plan) bench(dialect string, on ...grapnel.Kind) (*bench, error) {
	family, err := familyOf(dialect)
	if err != nil {
		return nil, err
	}
	row, err := p.preset(family)
	if err != nil {
		return nil, err
	}
	b, err := newBench(family, row)
	if err != nil {
		return nil, err
	}
	if err := b.use(p.names); err != nil {
		b.remove()
		return nil, err
	}
	if err := b.add(p.Hooks, on); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

// add adds hooks to the engine.
func (b *bench) add(defs []hookDef, on []grapnel.Kind) error {
	if b.namesake != nil {
		return b.registerAll(defs, on)
	}
	specs, err := b.specs(defs, on)
	if err != nil {
		return err
	}
	return b.engine.Add(specs...)
}

func (b *bench) specs(defs []hookDef, on []grapnel.Kind) ([]grapnel.Spec, error) {
	specs := make([]grapnel.Spec, len(defs))
	for i := range defs {
		var err error
		if specs[i], err = b.spec(&defs[i], on); err != nil {
			return nil, err
		}
	}
	return specs, nil
}

// dispatch fires an event the way the family's host does.
func (b *bench) dispatch(ctx context.Context, def *eventDef) (view, error) {
	return b.dispatchIn(ctx, b.engine, def)
}

func (b *bench) dispatchIn(ctx context.Context, e *grapnel.Engine, def *eventDef) (view, error) {
	ev, err := def.event(b)
	if err != nil {
		return nil, err
	}
	if ev.Kind == b.family.unwaited {
		f := &firing{bench: b, event: ev, first: b.called(), began: time.Now()}
		b.late.Go(func() { e.Fire(context.WithoutCancel(ctx), ev) })
		f.took = time.Since(f.began)
		return f.answer(ctx), nil
	}
	if b.namesake != nil && unobtainable(def.Input) == nil {
		return b.fireNamesake(ctx, ev)
	}
	f := b.fire(ev, func() grapnel.Verdict {
		if unread := unobtainable(def.Input); unread != nil {
			ev.Terms = &grapnel.Terms{Unread: unread}
		}
		return e.Fire(ctx, ev)
	})
	return f.answer(ctx), nil
}
