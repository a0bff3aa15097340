package host

import (
	"context"
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
// [Tool], [Model] and [Subagent] find it there.
func NewContext(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, carried{}, s)
}

// FromContext returns the session that ctx carries, or nil, which is a Session
// without hooks.
func FromContext(ctx context.Context) *Session {
	s, _ := ctx.Value(carried{}).(*Session)
	return s
}

// Start begins a session: session.start. cause is why: startup, resume, clear. The
// context that it returns carries the session. Beside the host's own hooks it has those
// that ctx carries as [grapnel.NewContext] puts them there.
//
// What hooks want the model to know from the beginning is in context. The error is a
// Refusal where a hook halted the agent before it began; the session has ended then.
func (h *Host) Start(ctx context.Context, info grapnel.Session, cause string) (_ context.Context, s *Session, context []string, err error) {
	hooks := h.hooks
	switch engine, ok := hooks.(*grapnel.Engine); {
	case ok:
		hooks = engine.In(ctx)
	case hooks == nil && grapnel.FromContext(ctx) != nil:
		hooks = grapnel.FromContext(ctx)
	}
	s = newSession(h, hooks, info)
	ev := &grapnel.Event{Kind: grapnel.SessionStart, Cause: cause, Toolset: &grapnel.Toolset{}}
	for i := range h.opts.Tools {
		ev.Toolset.Allowed = append(ev.Toolset.Allowed, h.opts.Tools[i].Name)
	}
	if h.opts.Manners.unwaited(ev.Kind) {
		s.start(ctx, ev)
		return NewContext(ctx, s), s, nil, nil
	}
	v := s.Fire(ctx, ev)
	if v.Halt != "" {
		s.End(ctx, "error")
		return ctx, s, nil, s.refusal(ev, &v)
	}
	return NewContext(ctx, s), s, v.Context, nil
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
// its turn.
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
// hook ended it; the last answer is there then too.
func (s *Session) Subagent(ctx context.Context, sub grapnel.Subagent, task string, next func(ctx context.Context, prompt string) (string, error)) (string, error) {
	child := s
	if s != nil {
		info := s.Info()
		info.Subagent = &sub
		child = newSession(s.host, s.hooks, info)
	}
	ctx = NewContext(ctx, child)
	v, no := child.act(ctx, &grapnel.Event{Kind: grapnel.SubagentStart, Prompt: &grapnel.Prompt{Text: task}})
	if no != nil {
		return "", no
	}
	prompt := below(task, v.Context)
	for active := false; ; active = true {
		answer, err := next(ctx, prompt)
		if err != nil {
			return answer, err
		}
		stop, err := child.stop(ctx, grapnel.SubagentAfter, answer, active)
		if err != nil || stop.GoOn == "" {
			return answer, err
		}
		prompt = below(stop.GoOn, stop.Context)
	}
}
