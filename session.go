package grapnel

import (
	"context"
	"slices"
)

// carried is the context key of the session's engine.
type carried struct{}

// NewContext returns a context that carries hooks to the agents that work for a session: its
// sub-agents, and their sub-agents. They get the hooks from [Engine.In]. nil removes the hooks.
func NewContext(ctx context.Context, hooks *Engine) context.Context {
	return context.WithValue(ctx, carried{}, hooks)
}

// FromContext returns the engine that ctx carries, or nil.
func FromContext(ctx context.Context) *Engine {
	session, _ := ctx.Value(carried{}).(*Engine)
	return session
}

// In returns e for use in the session of ctx: an engine that runs all hooks that ctx carries
// before the hooks of e, and calls the Observers of both. It has the options and the Close of e,
// and hooks added to it or removed from it are hooks of e. Later changes of either engine take
// effect. A hook that is in both runs once. Call In once for each agent, because each call builds
// a new engine.
//
// Hooks of a session never override the decisions of hooks of e. If a session's hooks change
// events, set their scope to [ScopeSession]: the engine then calls steps of e that answered
// before them again. An Observer that was given to both engines is called twice.
//
// If ctx adds no hooks, In returns e. If e is nil, it returns the session's engine, or an empty
// engine if ctx carries none. In never returns nil.
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
