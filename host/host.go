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

// Hooks answers the events of an agent. It is usually a [*grapnel.Engine]. Its methods are called
// concurrently.
type Hooks interface {
	// Fire returns the merged answer to ev. It may keep ev and must not change it. The answer
	// contains only decisions and changes that the event's Contract permits, and a Block has a
	// reason.
	Fire(ctx context.Context, ev *grapnel.Event) grapnel.Verdict

	// Listens reports whether any hook would receive such an event; if not, the host creates none.
	// decides reports whether any hook can affect its Verdict.
	Listens(k grapnel.Kind) (heard, decides bool)
}

// Options are a Host's settings. The zero value and a nil pointer mean the defaults.
type Options struct {
	Agent   grapnel.Agent // the agent that fires the events
	Tools   []ToolInfo    // information about tools; for unlisted tools, input members with usual names are trusted
	Manners *Manners      // texts that replace refused actions; nil = the first of AllManners
	Approve Approver      // asks a person; nil = actions that need consent are refused

	// ShowMessage shows the user a message of a hook, or that a guard failed; nil = a warning in the
	// default log of slog. It is called concurrently.
	ShowMessage func(ctx context.Context, message string)

	// Native returns additional data about an event as a JSON object, for hooks that support this
	// agent; nil = no data. It must not contain values that ToolInfo.Secrets redacts. It is
	// called concurrently.
	Native func(ev *grapnel.Event) json.RawMessage

	// Incremental lets hooks judge a streamed answer of the model piece by piece, and shows each
	// piece immediately. A shown piece cannot be taken back. Therefore the default is to hold all
	// pieces until the whole answer was judged.
	Incremental bool
}

// A Host fires the events of one agent. It is safe for concurrent use.
type Host struct {
	hooks Hooks
	opts  Options
	tools map[string]*ToolInfo
	late  sync.WaitGroup // events that are fired in the background
	busy  atomic.Int64   // number of events in the background
}

// New returns the host of an agent. If hooks is nil, no hooks run.
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
	if h.opts.ShowMessage == nil {
		h.opts.ShowMessage = func(ctx context.Context, message string) { slog.WarnContext(ctx, message) }
	}
	for i := range h.opts.Tools {
		h.tools[h.opts.Tools[i].Name] = &h.opts.Tools[i]
	}
	return h
}

// Open fires gateway.start: the program that runs agents has started.
func (h *Host) Open(ctx context.Context) {
	h.bare().notice(ctx, &grapnel.Event{Kind: grapnel.GatewayStart})
}

// Close fires gateway.stop: the program ends. All sessions must have ended. Close waits until
// events in the background have ended, or until ctx is done; then it returns the error of ctx.
// Close the engine afterwards, because its Close waits for observing hooks.
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
			return fmt.Errorf("%d background events have not finished: %w", n, context.Cause(ctx))
		}
		return nil
	}
}

// bare returns the session for events outside of any session.
func (h *Host) bare() *Session { return newSession(h, h.hooks, grapnel.Session{}) }

// An Approver asks a person whether an action may run.
//
// The host calls Approve while the agent waits, and concurrently if tools run in parallel. An
// error or a panic means that no person answered, which is treated as a refusal.
type Approver interface {
	Approve(ctx context.Context, q *Question) (Consent, error)
}

// ApproverFunc adapts a function to an Approver.
type ApproverFunc func(ctx context.Context, q *Question) (Consent, error)

// Approve calls f.
func (f ApproverFunc) Approve(ctx context.Context, q *Question) (Consent, error) { return f(ctx, q) }

// A Question is a request for a person's consent.
type Question struct {
	Event  *grapnel.Event // the event of the action, with secrets redacted
	Reason string         // why consent is needed; empty = the agent always asks for this tool
}

// A Consent is a person's answer.
type Consent struct {
	Yes    bool
	Reason string // reason for a refusal, for the model
}

// Listens reports whether any hook would receive such an event. A nil Session has no hooks.
func (s *Session) Listens(k grapnel.Kind) bool {
	if s == nil || s.hooks == nil {
		return false
	}
	heard, _ := s.hooks.Listens(k)
	return heard
}

// Incremental reports whether the host shows answers piece by piece; see [Options.Incremental].
// Agents that stream without [Stream] need it.
func (s *Session) Incremental() bool { return s != nil && s.host.opts.Incremental }

// Decides reports whether any hook can affect the verdict of such an event. If not, agents that
// stream without [Stream] do not need to hold back output for it. They must still fire the event,
// for observing hooks.
func (s *Session) Decides(k grapnel.Kind) bool {
	if !s.Listens(k) || s.host.opts.Manners.unwaited(k) || s.host.opts.Manners.ignored(k) {
		return false
	}
	_, decides := s.hooks.Listens(k)
	return decides
}

// Fire fires an event that has no method, such as a native one, and fills in the session. The
// caller must obey the Verdict; the other methods do that for their own events. If ctx is done,
// guards that have not started have failed.
func (s *Session) Fire(ctx context.Context, ev *grapnel.Event) grapnel.Verdict {
	if !s.Listens(ev.Kind) {
		return grapnel.Verdict{Event: ev}
	}
	s.fill(ev)
	if s.host.opts.Manners.ignored(ev.Kind) {
		s.report(ctx, ev)
		return grapnel.Verdict{Event: ev}
	}
	return s.fire(ctx, ev)
}

func (s *Session) fire(ctx context.Context, ev *grapnel.Event) grapnel.Verdict {
	v := s.hooks.Fire(ctx, ev)
	for _, message := range v.Messages {
		s.host.opts.ShowMessage(ctx, message)
	}
	return v
}

func (s *Session) fill(ev *grapnel.Event) {
	ev.Agent, ev.Session, ev.Time = s.host.opts.Agent, s.Info(), time.Now()
	if native := s.host.opts.Native; native != nil && ev.Native == nil {
		ev.Native = native(ev)
	}
}

// notice fires an event that can be neither stopped nor changed. It completes even if the agent
// is canceled.
func (s *Session) notice(ctx context.Context, ev *grapnel.Event) {
	switch {
	case !s.Listens(ev.Kind):
	case s.host.opts.Manners.unwaited(ev.Kind):
		s.start(ctx, ev)
	default:
		s.fill(ev)
		s.report(context.WithoutCancel(ctx), ev)
	}
}

// start fires an event in the background.
func (s *Session) start(ctx context.Context, ev *grapnel.Event) {
	s.fill(ev) // with the current state of the session
	ctx = context.WithoutCancel(ctx)
	s.host.busy.Add(1)
	s.host.late.Go(func() {
		defer s.host.busy.Add(-1)
		s.report(ctx, ev)
	})
}

// report fires an event and ignores its Verdict. If a hook tried to decide or change anything, tell
// informs the user.
func (s *Session) report(ctx context.Context, ev *grapnel.Event) {
	v := s.fire(ctx, ev)
	switch no := s.refusal(ev, &v); {
	case no != nil:
		s.host.opts.ShowMessage(ctx, "grapnel: a hook wants to block "+string(ev.Kind)+", which is not possible: "+no.Reason)
	case v.Decision == grapnel.Ask:
		s.host.opts.ShowMessage(ctx, "grapnel: a hook wants to ask at "+string(ev.Kind)+", which is not possible: "+v.Reason())
	case len(v.Changes) > 0 || len(v.Context) > 0:
		s.host.opts.ShowMessage(ctx, "grapnel: a hook wants to change or add something at "+string(ev.Kind)+", which is not possible")
	}
}

// act fires an event before its action. It returns the error if the action must not run: a
// Refusal or the error of ctx. If a hook asks, act calls the approver.
func (s *Session) act(ctx context.Context, ev *grapnel.Event) (grapnel.Verdict, error) {
	if err := contextError(ctx); err != nil {
		return grapnel.Verdict{Event: ev}, err
	}
	return s.judge(ctx, ev)
}

// judge is act without the first check of ctx, for events that also report a completed action.
func (s *Session) judge(ctx context.Context, ev *grapnel.Event) (grapnel.Verdict, error) {
	v := s.Fire(ctx, ev)
	no := s.refusal(ev, &v)
	if no == nil && v.Decision == grapnel.Ask {
		no = s.ask(ctx, cmp.Or(v.Event, ev), v.Reason())
	}
	return v, mayRun(ctx, no)
}

// contextError returns the error of ctx, or nil. If ctx has a cause, the error has the cause's
// text, and errors.Is finds both.
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

// mayRun returns nil if an action may run after its hooks have answered. A guard that did not
// start because ctx is done has no opinion, so mayRun checks ctx again. A hook's decision against
// the action takes precedence over the error of ctx.
func mayRun(ctx context.Context, no *Refusal) error {
	if err := contextError(ctx); err != nil && !no.decided() {
		return err
	}
	if no != nil {
		return no
	}
	return nil
}

// ask asks the person for consent.
func (s *Session) ask(ctx context.Context, ev *grapnel.Event, reason string) *Refusal {
	approver := s.host.opts.Approve
	if approver == nil {
		return s.refuse(ev, strings.TrimSpace("this needs the approval of a person, but the agent has no way to ask. "+reason), false)
	}
	answer, err := approve(ctx, approver, &Question{Event: ev, Reason: reason})
	switch {
	case err != nil:
		no := s.refuse(ev, "this needs the approval of a person, but the approver failed: "+err.Error(), true)
		no.Err = err
		return no
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
			c, err = Consent{}, fmt.Errorf("it panicked: %v", r)
		}
	}()
	return approver.Approve(ctx, q)
}
