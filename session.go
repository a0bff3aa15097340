package grapnel

import (
	"context"
	"slices"
)

// carried is the context key of the session's engine.
type carried struct{}

// NewContext returns a context that carries hooks to the agents of a session and
// its sub-agents, for [Engine.In]. nil removes the hooks.
func NewContext(ctx context.Context, hooks *Engine) context.Context {
	return context.WithValue(ctx, carried{}, hooks)
}

// FromContext returns the engine that ctx carries, or nil.
func FromContext(ctx context.Context) *Engine {
	session, _ := ctx.Value(carried{}).(*Engine)
	return session
}

// In returns an engine that runs all hooks that ctx carries before the hooks of e, and calls the
// Observers of both. It has the options and the Close of e, and its changes change e. Call it once
// for each agent. If e or ctx has no hooks, In returns the other one; it never returns nil.
//
// Hooks of a session never override decisions of hooks of e. If they change events, set their scope
// to [ScopeSession]: steps of e that answered before are then called again.
func (e *Engine) In(ctx context.Context) *Engine {
	session := FromContext(ctx)
	switch {
	case !e.created() && !session.created():
		none, _ := New(nil, nil) // the caller may add hooks to it
		return none
	case !e.created():
		return session
	case !session.created():
		return e
	}
	stack := slices.Clone(session.stack)
	for _, l := range e.stack {
		if !slices.Contains(stack, l) {
			stack = append(stack, l)
		}
	}
	if slices.Equal(stack, e.stack) {
		return e
	}
	in := &Engine{layer: e.layer, stack: stack}
	in.renew()
	return in
}
