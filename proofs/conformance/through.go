package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/presets"
)

// errNotExpressible is the error of a case that needs more than a system's package offers, such as
// a failure mode, which is an option of Grapnel's own Specs.
var errNotExpressible = errors.New("the package cannot express this case")

// alsoThrough returns a handler that runs a case on the engine, and then again through the
// public package of the system, as a program with the system's own names does. The case fails if
// either run fails. If the package cannot express the case, the handler returns errNotExpressible.
func alsoThrough(pkg string, onEngine, onPackage handler) handler {
	return func(ctx context.Context, c *Case) ([]Diff, error) {
		diffs, err := onEngine(ctx, c)
		if err != nil || len(diffs) > 0 {
			return diffs, err
		}
		diffs, err = onPackage(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("through %s: %w", pkg, err)
		}
		for i := range diffs {
			diffs[i].Key = "through " + pkg + ": " + diffs[i].Key
		}
		return diffs, nil
	}
}

// A namesake is a registry of a Go package that has the names of a system. It runs the hooks of a
// bench.
type namesake interface {
	engine() *grapnel.Engine
	// register adds a hook, and returns its name in Records. ok is false if the package has no such
	// hooks; the bench then adds it to the engine.
	register(def *hookDef, on []grapnel.Kind) (name string, ok bool, err error)
	// operate does an operation of a registry. ok is false if the package does not have it.
	operate(op *operation) (got any, ok bool)
	// fire runs the hooks. It returns errNotExpressible if the package does not have the event.
	fire(ctx context.Context, ev *grapnel.Event) (answered, error)
}

// answered is the answer of a namesake. decision is continue, modify or block.
type answered struct {
	decision string
	cause    any    // nil = the package does not tell it
	reason   string // of a block
	modified any    // of a change
}

// throughNames returns a handler that runs a case on the engine and then with a namesake.
func throughNames(pkg string, names func(b *bench) namesake, run handler) handler {
	return alsoThrough(pkg, run, func(ctx context.Context, c *Case) ([]Diff, error) {
		own := *c
		own.names = names
		return run(ctx, &own)
	})
}

// use makes the bench run its hooks through a namesake.
func (b *bench) use(names func(b *bench) namesake) error {
	if names == nil {
		return nil
	}
	if own, _ := presets.Find(b.family.name); own != b.row {
		return fmt.Errorf("%w: other settings than the preset's", errNotExpressible)
	}
	b.namesake = names(b)
	b.engine = b.namesake.engine()
	b.engine.AddObserver(grapnel.ObserverFunc(b.keep))
	b.named = map[string]*hookDef{}
	return nil
}

// registerAll adds hooks to the namesake.
func (b *bench) registerAll(defs []hookDef, on []grapnel.Kind) error {
	for i := range defs {
		def := &defs[i]
		name, ok, err := b.namesake.register(def, on)
		if !ok && err == nil {
			var s grapnel.Spec
			if s, err = b.spec(def, on); err == nil {
				name = s.FullName()
				s.Hook = s.Hook.(*watched).inner(&call{})
				err = b.engine.Add(s)
			}
		}
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.named[name] = def
		b.mu.Unlock()
	}
	return nil
}

// operate does an operation through the namesake, or else with the function.
func (b *bench) operate(op *operation, otherwise func() (any, error)) (any, error) {
	if b.namesake != nil {
		if got, ok := b.namesake.operate(op); ok {
			return got, nil
		}
	}
	return otherwise()
}

// fireNamesake fires an event through the namesake. The decision is the namesake's, and the Record
// has everything else.
func (b *bench) fireNamesake(ctx context.Context, ev *grapnel.Event) (view, error) {
	var g answered
	var err error
	f := b.fire(ev, func() grapnel.Verdict {
		before := len(b.heardOf())
		g, err = b.namesake.fire(ctx, ev)
		if records := b.heardOf()[before:]; len(records) > 0 {
			b.note(records[0])
			return *records[0].Verdict
		}
		return grapnel.Verdict{}
	})
	if err != nil {
		return nil, err
	}
	v := f.answer(ctx)
	if shown := f.blocks(); g.decision != "block" || shown == nil || g.reason != f.shownReason() {
		v["reason"] = g.reason
	} // otherwise the view has the same reason, in the system's own words
	v["decision"], v["modified"] = g.decision, g.modified
	if g.cause != nil {
		v["cause"] = g.cause
	}
	return v, nil
}

// shownReason returns the reason with the words that Grapnel adds for people.
func (f *firing) shownReason() string {
	if len(f.verdict.Reasons) > 0 {
		return f.verdict.Reasons[0].Text
	}
	for i := range f.calls {
		if c := &f.calls[i]; c.out.Decision == grapnel.Block {
			return c.out.Reason
		}
	}
	return ""
}

// note adds the calls in a Record to the bench's, under the hooks' names in the case.
func (b *bench) note(rec *grapnel.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range rec.Hooks {
		run := &rec.Hooks[i]
		name := (&grapnel.Spec{Name: run.Name, Source: grapnel.Source{Name: run.Source}}).FullName()
		def := b.named[name]
		if def == nil {
			def = &hookDef{Name: run.Name, Source: run.Source}
		}
		for j := range rec.Verdict.Reasons {
			if r := &rec.Verdict.Reasons[j]; r.Hook == name {
				r.Hook = (&grapnel.Spec{Name: def.Name, Source: grapnel.Source{Name: def.Source}}).FullName()
			}
		}
		run.Name, run.Source = def.Name, def.Source
		c := &call{hook: def, saw: run.Saw, process: def.Kind == "command", output: run.Output, err: run.Err}
		if run.Outcome != nil {
			c.out = *run.Outcome
			if errors.Is(run.Err, grapnel.ErrIllegal) {
				c.err = nil // the hook answered; the engine found the answer illegal
			}
		}
		c.ended = c.err == nil
		b.calls = append(b.calls, c)
	}
}
