package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// Hooks is who answers the events of an agent, mostly a [*grapnel.Engine]. Its methods
// are called by many goroutines at once.
//
// It may also have a method Decides, as engines have: whether what anybody says about
// such an event would count. Without it an answer of the model is held back for whoever
// [Hooks.Has] reports.
type Hooks interface {
	// Fire returns the merged answer to ev, which it may keep and must not change. The
	// answer keeps to what the event's Contract permits, and a Block has a reason.
	Fire(ctx context.Context, ev *grapnel.Event) grapnel.Verdict

	// Has reports whether anybody would hear of such an event. If not, none is made.
	Has(k grapnel.Kind) bool
}

// Options are a Host's settings. The zero value is the default, and nil is fine.
type Options struct {
	Agent   grapnel.Agent // who fires the events
	Tools   []ToolInfo    // what is known of tools; of others some members of the input are taken at their word
	Manners *Manners      // what is said in the place of what was refused; nil = the first of AllManners
	Approve Approver      // asks a person; nil = there is none, and what needs one is refused

	// Tell shows the person a message of a hook, or that a guard could not answer;
	// nil = a warning in the default log of slog. It is called by many goroutines at once.
	Tell func(ctx context.Context, message string)

	// Native adds what only this agent tells of an event, as a JSON object, for hooks that
	// know the agent; nil = nothing. It must not hold what ToolInfo.Secrets hides. It is
	// called by many goroutines at once.
	Native func(ev *grapnel.Event) json.RawMessage

	// Incremental: an answer of the model that comes in pieces is judged and let go piece
	// by piece. What was let go cannot be taken back, so the default is to hold all of it
	// until the whole was judged.
	Incremental bool
}

// A Host fires the events of one agent. It is safe for concurrent use.
type Host struct {
	hooks Hooks
	opts  Options
	tools map[string]*ToolInfo
	late  sync.WaitGroup // what is fired in the background
	busy  atomic.Int64   // how much of it is under way
}

// New returns the host of an agent. hooks may be nil: then nobody is asked.
func New(hooks Hooks, opts *Options) *Host {
	h := &Host{hooks: hooks, tools: make(map[string]*ToolInfo)}
	if engine, ok := hooks.(*grapnel.Engine); ok && engine == nil {
		h.hooks = nil
	}
	if opts != nil {
		h.opts = *opts
		h.opts.Tools = slices.Clone(opts.Tools)
	}
	if h.opts.Manners == nil {
		h.opts.Manners = &manners[0]
	}
	if h.opts.Tell == nil {
		h.opts.Tell = func(ctx context.Context, message string) { slog.WarnContext(ctx, message) }
	}
	for i := range h.opts.Tools {
		h.tools[h.opts.Tools[i].Name] = &h.opts.Tools[i]
	}
	return h
}

// Open tells that the program which runs agents is there: gateway.start.
func (h *Host) Open(ctx context.Context) {
	h.bare().notice(ctx, &grapnel.Event{Kind: grapnel.GatewayStart})
}

// Close tells that it ends: gateway.stop. Sessions must have ended before. It waits until
// what is fired in the background has ended, or ctx is done, which is the error. An engine
// is to be closed after that: it has a Close for its observing hooks.
func (h *Host) Close(ctx context.Context) error {
	h.bare().notice(ctx, &grapnel.Event{Kind: grapnel.GatewayStop})
	done := make(chan struct{})
	go func() {
		h.late.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		if n := h.busy.Load(); n > 0 {
			return fmt.Errorf("what is fired in the background has not come to an end (%d events): %w", n, context.Cause(ctx))
		}
		return nil
	}
}

// bare is the session of what happens outside of any.
func (h *Host) bare() *Session { return newSession(h, h.hooks, grapnel.Session{}) }

// An Approver asks a person whether something may happen.
//
// It is called in the place where the agent waits, and by many goroutines at once where
// tools run together. An error, or a panic, means that nobody answered, which counts as no.
type Approver interface {
	Approve(ctx context.Context, q *Question) (Consent, error)
}

// ApproverFunc lets a function be an Approver.
type ApproverFunc func(ctx context.Context, q *Question) (Consent, error)

// Approve calls f.
func (f ApproverFunc) Approve(ctx context.Context, q *Question) (Consent, error) { return f(ctx, q) }

// A Question is what a person is asked.
type Question struct {
	Event  *grapnel.Event // what would happen, secrets left out
	Reason string         // why somebody has to be asked; empty = the agent asks about this tool by itself
}

// A Consent is what a person said.
type Consent struct {
	Yes    bool
	Reason string // why not, for the model
}

// Listens reports whether anybody would hear of such an event. A nil Session has no
// hooks.
func (s *Session) Listens(k grapnel.Kind) bool { return s != nil && s.hooks != nil && s.hooks.Has(k) }

// Incremental reports whether the host lets an answer go piece by piece; see
// [Options.Incremental]. It is for those who stream without [Stream].
func (s *Session) Incremental() bool { return s != nil && s.host.opts.Incremental }

// Decides reports whether somebody would hear of such an event who has a say. If not,
// those who stream without [Stream] need hold nothing back for it; it is to be fired all
// the same, for those who only look.
func (s *Session) Decides(k grapnel.Kind) bool {
	if !s.Listens(k) || s.host.opts.Manners.unwaited(k) || s.host.opts.Manners.ignored(k) {
		return false
	}
	hooks, ok := s.hooks.(interface{ Decides(k grapnel.Kind) bool })
	return !ok || hooks.Decides(k)
}

// Fire fires an event of the agent's own, such as a native one, with the session
// filled in. The caller must obey the Verdict; the other methods do that for their own
// events. If ctx is done, guards that have not started have no opinion, so a caller that
// is about to act must check ctx.Err() too.
func (s *Session) Fire(ctx context.Context, ev *grapnel.Event) grapnel.Verdict {
	if !s.Listens(ev.Kind) {
		return grapnel.Verdict{Event: ev}
	}
	s.fill(ev)
	if s.host.opts.Manners.ignored(ev.Kind) {
		s.tell(ctx, ev)
		return grapnel.Verdict{Event: ev}
	}
	return s.fire(ctx, ev)
}

func (s *Session) fire(ctx context.Context, ev *grapnel.Event) grapnel.Verdict {
	v := s.hooks.Fire(ctx, ev)
	for _, message := range v.Messages {
		s.host.opts.Tell(ctx, message)
	}
	return v
}

func (s *Session) fill(ev *grapnel.Event) {
	ev.Agent, ev.Session, ev.Time = s.host.opts.Agent, s.Info(), time.Now()
	if native := s.host.opts.Native; native != nil && ev.Native == nil {
		ev.Native = native(ev)
	}
}

// notice fires what can neither be stopped nor changed, to its end also when the
// agent is being cancelled.
func (s *Session) notice(ctx context.Context, ev *grapnel.Event) {
	switch {
	case !s.Listens(ev.Kind):
	case s.host.opts.Manners.unwaited(ev.Kind):
		s.start(ctx, ev)
	default:
		s.fill(ev)
		s.tell(context.WithoutCancel(ctx), ev)
	}
}

// start fires an event that nobody waits for.
func (s *Session) start(ctx context.Context, ev *grapnel.Event) {
	s.fill(ev) // with what is so now
	ctx = context.WithoutCancel(ctx)
	s.host.busy.Add(1)
	s.host.late.Go(func() {
		defer s.host.busy.Add(-1)
		s.tell(ctx, ev)
	})
}

// tell fires an event whose Verdict has no influence, and says so where a hook wanted
// to have some.
func (s *Session) tell(ctx context.Context, ev *grapnel.Event) {
	v := s.fire(ctx, ev)
	switch no := s.refusal(ev, &v); {
	case no != nil:
		s.host.opts.Tell(ctx, "grapnel: nothing can be stopped at "+string(ev.Kind)+", where a hook wanted that: "+no.Reason)
	case v.Decision == grapnel.Ask:
		s.host.opts.Tell(ctx, "grapnel: nobody is asked at "+string(ev.Kind)+", where a hook wanted that: "+v.Reason())
	case len(v.Changes) > 0 || len(v.Context) > 0:
		s.host.opts.Tell(ctx, "grapnel: nothing can be changed or added at "+string(ev.Kind)+", where a hook wanted that")
	}
}

// act fires an event before its action, and returns the error if the action must not
// run: a Refusal, or the error of ctx. It asks the approver before it returns.
func (s *Session) act(ctx context.Context, ev *grapnel.Event) (grapnel.Verdict, error) {
	if err := contextError(ctx); err != nil {
		return grapnel.Verdict{Event: ev}, err
	}
	return s.judge(ctx, ev)
}

// judge is act without the first look at ctx, for an event that tells of something that
// has happened too.
func (s *Session) judge(ctx context.Context, ev *grapnel.Event) (grapnel.Verdict, error) {
	v := s.Fire(ctx, ev)
	no := s.refusal(ev, &v)
	if no == nil && v.Decision == grapnel.Ask {
		no = s.ask(ctx, cmp.Or(v.Event, ev), v.Reason())
	}
	return v, mayRun(ctx, no)
}

// contextError returns the error of ctx, or nil. If ctx has a cause, the error has its text
// and errors.Is finds both.
func contextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && !errors.Is(cause, err) {
		return &causedError{err, cause}
	}
	return err
}

type causedError struct{ err, cause error }

func (e *causedError) Error() string { return e.cause.Error() }

func (e *causedError) Unwrap() []error { return []error{e.err, e.cause} }

// mayRun returns nil if an action may run after its hooks have answered. A guard that
// did not start because ctx is done has no opinion, so ctx is checked again here. A
// decision against the action comes first.
func mayRun(ctx context.Context, no *Refusal) error {
	if err := contextError(ctx); err != nil && !no.decided() {
		return err
	}
	if no != nil {
		return no
	}
	return nil
}

// ask puts a question to the person.
func (s *Session) ask(ctx context.Context, ev *grapnel.Event, reason string) *Refusal {
	approver := s.host.opts.Approve
	if approver == nil {
		return s.refuse(ev, strings.TrimSpace("this needs the consent of a person, and there is nobody to ask. "+reason), false)
	}
	answer, err := approve(ctx, approver, &Question{Event: ev, Reason: reason})
	switch {
	case err != nil:
		return s.refuse(ev, "this needs the consent of a person, and nobody answered: "+err.Error(), true)
	case answer.Yes:
		return nil
	case answer.Reason != "":
		return s.refuse(ev, answer.Reason, false)
	default:
		return s.refuse(ev, "the person did not agree", false)
	}
}

func approve(ctx context.Context, approver Approver, q *Question) (c Consent, err error) {
	defer func() {
		if r := recover(); r != nil {
			c, err = Consent{}, fmt.Errorf("the question panicked: %v", r)
		}
	}()
	return approver.Approve(ctx, q)
}
