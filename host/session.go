package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/grapnel-dev/grapnel"
)

// A Session is one conversation of an agent, or a sub-agent's part in it. It is safe
// for concurrent use. A nil Session has no hooks: all goes on as if nobody had been
// asked.
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

// NewContext returns a context that carries the session to all that work for it:
// [Tool], [Model] and [Subagent] find it there. A Host that is another agent's, with an
// engine of its own, finds the session's hooks there when it begins; see [Host.Start].
func NewContext(ctx context.Context, s *Session) context.Context {
	if s != nil {
		if engine, ok := s.hooks.(*grapnel.Engine); ok {
			ctx = grapnel.NewContext(ctx, engine)
		}
	}
	return context.WithValue(ctx, carried{}, s)
}

// FromContext returns the session that ctx carries, or nil, which is a Session
// without hooks.
func FromContext(ctx context.Context) *Session {
	s, _ := ctx.Value(carried{}).(*Session)
	return s
}

// Start begins a session: session.start. cause is why: startup, resume, clear. The
// context that it returns carries the session, which has those hooks too that ctx
// carries: of a session that this one works for, or as [grapnel.NewContext] puts them
// there.
//
// What hooks want the model to know from the beginning is in context. The error is a
// Refusal where a hook halted the agent before it began; the session has ended then. Or
// it says that the session cannot have what ctx carries, since only engines have the hooks
// of others; then nothing was fired.
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
	own := NewContext(ctx, s)
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

// in is the host's hooks with those that ctx carries. None of these may be left out: they
// are guards too.
func (h *Host) in(ctx context.Context) (Hooks, error) {
	own, isEngine := h.hooks.(*grapnel.Engine)
	carried := grapnel.FromContext(ctx)
	if s := FromContext(ctx); s != nil && s.host != h && s.hooks != nil {
		if _, ok := s.hooks.(*grapnel.Engine); !ok {
			return nil, fmt.Errorf("cannot start a session for another one whose hooks, a %T, are no engine: nobody would ask them "+
				"(to start without them, take them away with host.NewContext(ctx, nil))", s.hooks)
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
		return nil, fmt.Errorf("cannot start a session with the hooks that the context carries: those of the host, a %T, are no engine "+
			"(give host.New an engine, or take the others away with grapnel.NewContext(ctx, nil))", h.hooks)
	}
}

// End ends the session: session.end. cause is why: exit, clear, completed, error,
// cancelled, or the agent's own word.
func (s *Session) End(ctx context.Context, cause string) {
	s.notice(ctx, &grapnel.Event{Kind: grapnel.SessionEnd, Cause: cause})
}

// Info is what hooks are told of the session now.
func (s *Session) Info() grapnel.Session {
	if s == nil {
		return grapnel.Session{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Update changes what hooks are told of the session from now on: its model, its mode,
// its turn. change must not call the session.
func (s *Session) Update(change func(*grapnel.Session)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.info)
}

// Subagent lets a sub-agent work for the session in ctx; see [Session.Subagent].
func Subagent(ctx context.Context, sub grapnel.Subagent, task string, next func(ctx context.Context, prompt string) (string, error)) (string, error) {
	return FromContext(ctx).Subagent(ctx, sub, task, next)
}

// Subagent lets a sub-agent work on a task: subagent.start, and subagent.after when
// it is about to be done. next does the work. Its context carries a session that has
// all hooks of this one, so that nobody has to hand them on. Where a hook does not let
// the sub-agent stop, next is called again with the reason as the prompt, in the same
// conversation. Context that a hook adds stands below the task.
//
// The error is that of next, or a Refusal where the sub-agent was not let begin or a
// hook ended it; the last answer is there then too. If ctx is done, next is not called
// and the error is ctx.Err().
func (s *Session) Subagent(ctx context.Context, sub grapnel.Subagent, task string, next func(ctx context.Context, prompt string) (string, error)) (string, error) {
	child, context, err := s.BeginSubagent(ctx, sub, task)
	if err != nil {
		return "", err
	}
	ctx = NewContext(ctx, child)
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
		if err != nil || stop.GoOn == "" {
			return answer, err
		}
		prompt = Below(stop.GoOn, stop.Context)
	}
}

// BeginSubagent is the first half of [Session.Subagent], for those who cannot wrap. It
// returns the session for which the sub-agent works, until its [Session.StopSubagent]
// says that it may stop, and the context that hooks add to its task. The error is a
// Refusal or ctx.Err().
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
	v, err := child.act(NewContext(ctx, child), &grapnel.Event{Kind: grapnel.SubagentStart, Prompt: &grapnel.Prompt{Text: task}})
	if err != nil {
		return nil, nil, err
	}
	return child, v.Context, nil
}

// StopSubagent is the second half: it asks whether the sub-agent whose session this is
// may stop, as [Session.Stop] does for an agent.
func (s *Session) StopSubagent(ctx context.Context, answer string, active bool) (Stop, error) {
	return s.stop(ctx, grapnel.SubagentAfter, answer, active)
}
