package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/grapnel-dev/grapnel"
)

// A Session is one session of an agent, or a sub-agent's part of it: it fires the events and
// applies the verdicts. The data about it in events is a [grapnel.Session]; see [Session.Info].
// It is safe for concurrent use. A nil Session has no hooks, so its methods permit everything.
type Session struct {
	host  *Host
	hooks Hooks

	mu   sync.Mutex
	info grapnel.Session // guarded by mu
}

func newSession(h *Host, hooks Hooks, info grapnel.Session) *Session {
	return &Session{host: h, hooks: hooks, info: info}
}

type carried struct{}

// ContextWithSession returns a context that carries the session to the code that works for it:
// [Tool], [Model] and [Subagent] use the session in ctx. A nil Session runs no hooks. If another
// agent's Host starts a session with this context, that session also runs these hooks; see
// [Host.Start].
func ContextWithSession(ctx context.Context, s *Session) context.Context {
	if s != nil {
		if engine, ok := s.hooks.(*grapnel.Engine); ok {
			ctx = grapnel.NewContext(ctx, engine)
		}
	}
	return context.WithValue(ctx, carried{}, s)
}

// ErrNoSession is the error of functions that need a session in their context, and find none.
var ErrNoSession = errors.New("no session in the context: pass the context that Host.Start returned, or host.ContextWithSession(ctx, nil) to run without hooks")

// requireSession returns the session that ctx carries, which is nil if ContextWithSession got nil. It
// returns ErrNoSession if ctx carries none.
func requireSession(ctx context.Context) (*Session, error) {
	s, ok := ctx.Value(carried{}).(*Session)
	if !ok {
		return nil, ErrNoSession
	}
	return s, nil
}

// SessionFromContext returns the session that ctx carries, or nil, which is a Session without hooks.
func SessionFromContext(ctx context.Context) *Session {
	s, _ := ctx.Value(carried{}).(*Session)
	return s
}

// Start starts a session and fires session.start. cause is the reason: startup, resume or clear.
// The returned context carries the session. The session also runs the hooks that ctx carries: the
// hooks of a session that this one works for, or hooks from [grapnel.NewContext].
//
// The returned context strings are text that hooks add for the model. The error is a Refusal if a
// hook halted the agent; the session has then ended. Start also returns an error, and fires
// nothing, if the session cannot run the hooks in ctx, because only engines can be combined.
func (h *Host) Start(ctx context.Context, info grapnel.Session, cause string) (_ context.Context, s *Session, context []string, err error) {
	hooks, err := h.in(ctx)
	if err != nil {
		return ctx, nil, nil, err
	}
	s = newSession(h, hooks, info)
	ev := &grapnel.Event{Kind: grapnel.SessionStart, Cause: cause, Toolset: &grapnel.Toolset{}}
	for i := range h.opts.Tools {
		ev.Toolset.Allowed = append(ev.Toolset.Allowed, h.opts.Tools[i].Name)
	}
	own := ContextWithSession(ctx, s)
	if h.opts.Manners.unwaited(ev.Kind) {
		s.notice(own, ev)
		return own, s, nil, nil
	}
	v := s.Fire(own, ev)
	if v.Halt != "" {
		s.End(own, "error")
		return ctx, s, nil, s.refusal(ev, &v)
	}
	return own, s, v.Context, nil
}

// in returns the host's hooks combined with the hooks that ctx carries. It returns an error if
// that is impossible, because ignoring hooks could disable guards.
func (h *Host) in(ctx context.Context) (Hooks, error) {
	own, isEngine := h.hooks.(*grapnel.Engine)
	carried := grapnel.FromContext(ctx)
	if s := SessionFromContext(ctx); s != nil && s.host != h && s.hooks != nil {
		if _, ok := s.hooks.(*grapnel.Engine); !ok {
			return nil, fmt.Errorf("cannot start a session inside another session whose hooks are a %T and not an engine: its hooks would not run "+
				"(to start without them, use host.ContextWithSession(ctx, nil))", s.hooks)
		}
	}
	switch {
	case isEngine:
		return own.In(ctx), nil
	case carried == nil:
		return h.hooks, nil
	case h.hooks == nil:
		return carried, nil
	default:
		return nil, fmt.Errorf("cannot start a session with the hooks of the context: the hooks of the host are a %T and not an engine "+
			"(give host.New an engine, such as the field Engine of a local.Engine, or remove the others with grapnel.NewContext(ctx, nil))", h.hooks)
	}
}

// End ends the session and fires session.end. cause is the reason: exit, clear, completed, error,
// cancelled, or a value of the agent.
func (s *Session) End(ctx context.Context, cause string) {
	s.notice(ctx, &grapnel.Event{Kind: grapnel.SessionEnd, Cause: cause})
}

// Info returns a copy of the session data that hooks get. It is zero for a nil Session.
func (s *Session) Info() grapnel.Session {
	if s == nil {
		return grapnel.Session{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Update changes the session data for later events, for example the model, mode or turn. change
// must not call methods of the session.
func (s *Session) Update(change func(*grapnel.Session)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.info)
}

// Subagent runs a sub-agent for the session in ctx; see [Session.Subagent]. Without a session, the
// error is ErrNoSession.
func Subagent(ctx context.Context, sub grapnel.Subagent, task string, next func(ctx context.Context, prompt string) (string, error)) (string, error) {
	s, err := requireSession(ctx)
	if err != nil {
		return "", err
	}
	return s.Subagent(ctx, sub, task, next)
}

// Subagent runs a sub-agent on a task. It fires subagent.start, calls next, and fires
// subagent.after when the sub-agent is about to stop. The context for next carries a session with
// all hooks of this one, so callers do not need to pass them on. If a hook keeps the sub-agent
// from stopping, next is called again in the same conversation, with the reason as the prompt.
// Context that a hook adds is placed below the task.
//
// The error comes from next, or is a Refusal if hooks did not let the sub-agent start or ended
// it; the last answer is then returned, too. If ctx is done, next is not called and the error is
// ctx.Err().
func (s *Session) Subagent(ctx context.Context, sub grapnel.Subagent, task string, next func(ctx context.Context, prompt string) (string, error)) (string, error) {
	child, context, err := s.BeginSubagent(ctx, sub, task)
	if err != nil {
		return "", err
	}
	ctx = ContextWithSession(ctx, child)
	prompt := Below(task, context)
	answer := ""
	for active := false; ; active = true {
		if err := contextError(ctx); err != nil {
			return answer, err
		}
		answer, err = next(ctx, prompt)
		if err != nil {
			return answer, err
		}
		stop, err := child.StopSubagent(ctx, answer, active)
		if err != nil || stop.ContinueWith == "" {
			return answer, err
		}
		prompt = Below(stop.ContinueWith, stop.Context)
	}
}

// BeginSubagent is the first half of [Session.Subagent], for agents that cannot wrap the call. It
// returns the sub-agent's session, which is valid until [Session.StopSubagent] lets the sub-agent
// stop, and the context that hooks add to the task. The error is a Refusal or ctx.Err().
func (s *Session) BeginSubagent(ctx context.Context, sub grapnel.Subagent, task string) (child *Session, context []string, err error) {
	if err := contextError(ctx); err != nil {
		return nil, nil, err
	}
	if s == nil {
		return nil, nil, nil
	}
	info := s.Info()
	info.Subagent = &sub
	child = newSession(s.host, s.hooks, info)
	v, err := child.act(ContextWithSession(ctx, child), &grapnel.Event{Kind: grapnel.SubagentStart, Prompt: &grapnel.Prompt{Text: task}})
	if err != nil {
		return nil, nil, err
	}
	return child, v.Context, nil
}

// StopSubagent is the second half: it asks whether the sub-agent of this session may stop, as
// [Session.Stop] does for an agent.
func (s *Session) StopSubagent(ctx context.Context, answer string, active bool) (StopResult, error) {
	return s.stop(ctx, grapnel.SubagentAfter, answer, active)
}
