package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	hooks "github.com/grapnel-dev/grapnel/systems/flyto"
)

// flytoRegistryPackage applies the operations of a case to managers of the package. It skips
// operations that the package cannot express and that change nothing.
func flytoRegistryPackage(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Ops []operation `json:"ops"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	p, err := newFlytoProgram(c)
	if err != nil {
		return nil, err
	}
	defer p.end(ctx)
	var diffs []Diff
	for i := range d.Ops {
		op := &d.Ops[i]
		op.Alternatives = append(op.Alternatives, c.Alternatives...)
		got, err := p.operate(ctx, op)
		if errors.Is(err, errNotExpressible) {
			if slices.Contains([]string{"register", "unregister", "compose"}, op.Do) {
				return diffs, nil // the following operations expect its effect
			}
			continue
		}
		for _, d := range op.compare(got, err) {
			d.Key = fmt.Sprintf("ops[%d].%s: %s", i, op.Do, d.Key)
			diffs = append(diffs, d)
		}
	}
	return diffs, nil
}

func (p *flytoProgram) operate(ctx context.Context, op *operation) (any, error) {
	hookType := hooks.HookType(flytoType(op.Event))
	switch op.Do {
	case "register":
		return nil, p.add(p.manager, op.Hook, p.family.kinds())
	case "unregister_source", "unregister_event":
		before := p.manager.names()
		switch {
		case op.Do == "unregister_event":
			p.manager.Unregister(hookType)
		case op.Event != "":
			p.manager.UnregisterBySource(hookType, op.Source)
		default:
			p.manager.UnregisterAllBySource(op.Source)
		}
		removed := map[int]bool{}
		for name := range before {
			if !p.manager.names()[name] {
				removed[p.manager.defs[name]] = true
			}
		}
		return len(removed), nil
	case "list":
		return p.listed(op.Event), nil
	case "count":
		if op.Event == "" {
			return len(p.listed("")), nil
		}
		count := p.manager.Count(hookType)
		if p.session != nil {
			count += p.session.Count(hookType)
		}
		return count, nil
	case "has":
		return p.hooksManager().HasHooks(hookType), nil
	case "is_empty":
		return !slices.ContainsFunc(p.family.events, func(e eventName) bool { return p.hooksManager().HasHooks(hooks.HookType(e.native)) }), nil
	case "enable", "disable":
		for _, m := range []*flytoManager{p.manager, p.session} {
			switch {
			case m == nil:
			case op.Do == "enable":
				m.Enable()
			default:
				m.Disable()
			}
		}
		return nil, nil
	case "compose":
		return nil, p.compose(op)
	case "set_observer":
		p.observer.listens = true
		p.manager.SetObserver(&p.observer)
		return nil, nil
	case "observed_min":
		if runs := p.observer.runs.Load(); float64(runs) < size(op.Expect) {
			return runs, nil
		}
		return op.Expect, nil
	case "effective_timeout":
		if op.Hook.TimeoutMS > 0 {
			return nil, errNotExpressible
		}
		return hooks.HookDef{Timeout: op.Hook.Timeout}.EffectiveTimeout().Milliseconds(), nil
	case "new_manager":
		var executor hooks.Executor
		if op.Executor != nil {
			executor = hooks.DefaultExecutor{}
		}
		return nil, hooks.NewManager(nil, executor).Register(hooks.HookPreToolUse, hooks.HookDef{Command: "true"})
	case "dispatch", "dispatch_async", "dispatch_all", "dispatch_in_subagent":
		return p.dispatchOp(ctx, op)
	case "spawn_subagent": // see dispatch_in_subagent
		return nil, nil
	default:
		return nil, errNotExpressible
	}
}

// compose makes the managers of a session and of the engine.
func (p *flytoProgram) compose(op *operation) error {
	p.session, p.manager, p.sessionOnly = nil, p.newManager(), op.Engine == nil
	if op.Session != nil {
		p.session = p.newManager()
	}
	for i := range op.Session {
		if err := p.add(p.session, &op.Session[i], p.family.kinds()); err != nil {
			return err
		}
	}
	for i := range op.Engine {
		if err := p.add(p.manager, &op.Engine[i], p.family.kinds()); err != nil {
			return err
		}
	}
	if p.observer.listens {
		p.manager.SetObserver(&p.observer)
	}
	return nil
}

// listed returns the names of the hooks of an event, or of all events, in the order in which they
// run.
func (p *flytoProgram) listed(kind grapnel.Kind) []string {
	names := []string{}
	for _, m := range []*flytoManager{p.session, p.manager} {
		if m == nil {
			continue
		}
		seen := map[int]bool{}
		for _, s := range m.Engine().Specs(kind) {
			if i := m.defs[s.Name]; !seen[i] {
				seen[i] = true
				names = append(names, p.defs[i].Name)
			}
		}
	}
	return names
}

// dispatchOp fires the event of an operation.
func (p *flytoProgram) dispatchOp(ctx context.Context, op *operation) (any, error) {
	m := p.hooksManager()
	switch op.Do {
	case "dispatch":
		return p.run(ctx, m, op.event())
	case "dispatch_in_subagent":
		if p.session != nil {
			ctx = hooks.WithSessionHooksCtx(ctx, p.session.Manager)
		}
		return p.run(ctx, hooks.ResolveHooksMgr(hooks.SessionHooksFromCtx(ctx), nil), op.event())
	}
	hookType, env, err := p.variables(op.event())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if op.Do == "dispatch_async" { // it has no context that could be canceled
		late := m.ExecuteAsync(hookType, env)
		took := time.Since(began)
		return view{"completed": p.completed(<-late), "ms": took.Milliseconds()}, nil
	}
	if p.session != nil {
		return nil, errNotExpressible // a CompositeManager has no ExecuteAll
	}
	results, late := p.manager.ExecuteAll(ctx, hookType, env)
	took := time.Since(began)
	v := p.answer(op.Event, results)
	v["ms"], v["completed"] = took.Milliseconds(), p.completed(<-late)
	return v, nil
}
