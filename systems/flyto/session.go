package hooks

import (
	"context"
	"errors"

	"github.com/grapnel-dev/grapnel"
)

// A HooksManager runs hooks: a Manager, or a CompositeManager.
type HooksManager interface {
	HasHooks(hookType HookType) bool
	Execute(ctx context.Context, hookType HookType, env map[string]string) (*ExecuteResults, error)
	ExecuteAsync(hookType HookType, env map[string]string) <-chan *ExecuteResults
}

// A CompositeManager runs the hooks of a session before the hooks of the agent's engine, as one
// event. It is safe for concurrent use. Later changes of both Managers take effect.
type CompositeManager struct{ both Manager }

// NewCompositeManager returns a CompositeManager. Both arguments may be nil.
func NewCompositeManager(session, engine *Manager) *CompositeManager {
	c := &CompositeManager{}
	c.both.engine = engine.Engine().In(grapnel.NewContext(context.Background(), session.Engine()))
	for _, m := range []*Manager{session, engine} {
		if m != nil {
			c.both.invalid = errors.Join(c.both.invalid, m.invalid)
		}
	}
	return c
}

// HasHooks reports whether one of the Managers has hooks of a type.
func (c *CompositeManager) HasHooks(hookType HookType) bool { return c.both.HasHooks(hookType) }

// Execute is like [Manager.Execute] and runs the session's hooks first.
func (c *CompositeManager) Execute(ctx context.Context, hookType HookType, env map[string]string) (*ExecuteResults, error) {
	return c.both.Execute(ctx, hookType, env)
}

// ExecuteAsync is like [Manager.ExecuteAsync] and runs the session's hooks first.
func (c *CompositeManager) ExecuteAsync(hookType HookType, env map[string]string) <-chan *ExecuteResults {
	return c.both.ExecuteAsync(hookType, env)
}

// ResolveHooksMgr returns the hooks that an agent must run: session before engine, or the one that
// is not nil. It never returns nil; if both are nil, the result has no hooks.
func ResolveHooksMgr(session, engine *Manager) HooksManager {
	switch {
	case session == nil && engine != nil:
		return engine
	case session != nil && engine == nil:
		return session
	default:
		return NewCompositeManager(session, engine)
	}
}

type sessionKey struct{}

// WithSessionHooksCtx returns a context that carries a session's hooks to its sub-agents. They get
// the hooks from [SessionHooksFromCtx], and agents of package host run them without further code.
// If m is nil, it returns ctx, so the hooks of an outer session stay.
func WithSessionHooksCtx(ctx context.Context, m *Manager) context.Context {
	if m == nil {
		return ctx
	}
	return grapnel.NewContext(context.WithValue(ctx, sessionKey{}, m), m.engine)
}

// SessionHooksFromCtx returns the Manager that ctx carries, or nil.
func SessionHooksFromCtx(ctx context.Context) *Manager {
	m, _ := ctx.Value(sessionKey{}).(*Manager)
	return m
}
