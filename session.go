package grapnel

import (
	"context"
	"slices"
)

// carried is the key of the engine that a context carries.
type carried struct{}

// NewContext returns a context that carries a session's hooks to whoever works for
// the session: its sub-agents, and theirs. They find them with [Engine.In]. A nil
// session takes them away.
func NewContext(ctx context.Context, session *Engine) context.Context {
	return context.WithValue(ctx, carried{}, session)
}

// FromContext returns the engine that ctx carries, or nil.
func FromContext(ctx context.Context) *Engine {
	session, _ := ctx.Value(carried{}).(*Engine)
	return session
}

// In returns e for use where ctx is that of a session: with all hooks that ctx
// carries before those of e, and with their Observers. The options are e's, and so
// is whatever is added or removed. Later changes on both sides count; hooks that are
// in both run once. Its Close is e's. Get it once for each agent, since it is made anew
// each time.
//
// Hooks of a session never take back what those of e decide. Where a session's hooks
// change events, give them [ScopeSession]: then steps of e that have answered before
// them are asked again. An Observer that was given to both sides is told twice.
//
// Where ctx has nothing to add it is e. A nil e has none of its own. In never returns nil.
func (e *Engine) In(ctx context.Context) *Engine {
	session := FromContext(ctx)
	switch {
	case e == nil && session == nil:
		none, _ := New(nil, nil) // no hook is wrong with none
		return none
	case e == nil:
		return session
	case session == nil:
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
