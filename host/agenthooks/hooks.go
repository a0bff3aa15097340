package agenthooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// An Interceptor judges emissions.
type Interceptor struct {
	// Name stands in records. The labels that it gives to data come back to all
	// interceptors as extensions.<Name>.source_labels, if the name can be that of an
	// extension: lower-case letters, digits and _, and none of acs, ctk, agent_hooks.
	Name string

	// Judge gets the context as JSON, a copy of its own, and returns a verdict as JSON.
	// An error, a panic, an answer that is none and one that is late are denies. It is
	// called by many goroutines at once.
	Judge func(ctx context.Context, context json.RawMessage) (verdict json.RawMessage, err error)
}

// Mode says whether verdicts are obeyed.
type Mode string

// The modes.
const (
	Enforce      Mode = "enforce"
	EvaluateOnly Mode = "evaluate_only" // everybody is asked and everything recorded, and all goes on as if nobody objected
)

// A Posture says what a failure of the host's own means at a tool.
type Posture string

// The postures. An interceptor's own deny at a tool never ends the turn.
const (
	Continue  Posture = "continue"  // the call counts as failed, and the turn goes on
	Terminate Posture = "terminate" // the turn ends
)

// Options are settings of Hooks. The zero value denies everything, for it has no
// interceptor.
type Options struct {
	Interceptors []Interceptor // in the order of registration

	// Engine is Grapnel's own hooks, as one interceptor named grapnel behind all others.
	// What fails in it counts as closed, whatever its hooks say: see [Preset]. It also
	// gets the events that are no emissions, and is obeyed there as always.
	Engine *grapnel.Engine

	Composition Composition
	Mode        Mode      // empty = Enforce
	Posture     Posture   // empty = Continue
	Identity    *Provider // nil = JCS

	Resolve         Resolver      // decides whether a deny is lifted; nil = none ever is
	Redact          Redactor      // nil = it is shown everything
	Timeout         time.Duration // of an interceptor; 0 = 5 s
	ApprovalTimeout time.Duration // of Resolve; 0 = 5 min

	// Records gets a record of each emission, before its verdict is obeyed; nil = none are
	// kept. It must be quick, and is called by many goroutines at once.
	Records func(ctx context.Context, r *Record)

	AgentID   string // of the agent as contexts have it; empty = the name that its events have
	Framework string // empty = grapnel

	// Annotate adds members to a context, such as tenant, actor, trace, budgets and
	// extensions. Those that Hooks fills in itself win. What it returns has to be JSON.
	Annotate func(ctx context.Context, ev *grapnel.Event) map[string]json.RawMessage
}

// Preset returns how an engine that Options.Engine names should run its hooks, so that they
// do what the specification wants of an interceptor: closed when they fail, and not
// slower than an interceptor may be. Its Defaults are for the Specs.
func Preset() grapnel.Preset {
	return grapnel.Preset{Name: "agenthooks", Order: grapnel.ByRegistration, Timeout: defaultTimeout, OnError: grapnel.OnErrorClosed}
}

const (
	defaultTimeout  = 5 * time.Second
	defaultApproval = 5 * time.Minute
)

// namespace is our name: of the engine among interceptors, and of our extensions.
const namespace = "grapnel"

// Hooks answers the events of an agent by what interceptors say: it stands where
// package host wants its Hooks. It is safe for concurrent use.
type Hooks struct {
	opts        Options
	composition Composition
	identity    *Provider
	slots       []slot
	names       []string

	mu       sync.Mutex
	sessions map[string]*session // those that have begun and not ended
}

// A slot is an interceptor in its place.
type slot struct {
	name  string
	judge func(ctx context.Context, em *emission) (reply, error)
}

// A reply is what a slot answers: a verdict, and what only our own host understands.
type reply struct {
	verdict json.RawMessage
	own     *grapnel.Verdict
}

// A session is what lasts from one emission to the next.
type session struct {
	next   int64               // sequence number
	labels map[string][]string // of its data, by extension
}

// New returns Hooks with these settings. An error says which of them cannot be kept.
func New(opts *Options) (*Hooks, error) {
	h := &Hooks{sessions: map[string]*session{}}
	if opts != nil {
		h.opts = *opts
	}
	var err error
	if h.composition, err = h.opts.Composition.full(); err != nil {
		return nil, fmt.Errorf("agent hooks: %w", err)
	}
	if h.identity = h.opts.Identity; h.identity == nil {
		h.identity = JCS()
	}
	if err := h.identity.check(); err != nil {
		return nil, fmt.Errorf("agent hooks: %w", err)
	}
	if err := h.opts.fill(); err != nil {
		return nil, fmt.Errorf("agent hooks: %w", err)
	}
	for i, each := range h.opts.Interceptors {
		if each.Judge == nil {
			return nil, fmt.Errorf("agent hooks: interceptor %d %q has no Judge", i, each.Name)
		}
		h.slots = append(h.slots, slot{each.Name, func(ctx context.Context, em *emission) (r reply, err error) {
			r.verdict, err = each.Judge(ctx, em.copy())
			return r, err
		}})
	}
	if h.opts.Engine != nil {
		if h.composition.OnDisagreement == Approvals {
			return nil, errors.New("agent hooks: with on_disagreement: approval somebody could lift what Grapnel's engine blocked; " +
				"take another profile, or leave the engine out")
		}
		judge, err := judgeBy(h.opts.Engine)
		if err != nil {
			return nil, fmt.Errorf("agent hooks: %w", err)
		}
		h.slots = append(h.slots, slot{namespace, judge})
	}
	for _, s := range h.slots {
		h.names = append(h.names, s.name)
	}
	return h, nil
}

// fill sets the defaults, and says which word is unknown.
func (o *Options) fill() error {
	defaults(&o.Mode, Enforce)
	defaults(&o.Posture, Continue)
	defaults(&o.Framework, namespace)
	defaults(&o.Timeout, defaultTimeout)
	defaults(&o.ApprovalTimeout, defaultApproval)
	switch {
	case o.Mode != Enforce && o.Mode != EvaluateOnly:
		return fmt.Errorf("unknown mode %q", o.Mode)
	case o.Posture != Continue && o.Posture != Terminate:
		return fmt.Errorf("unknown posture %q", o.Posture)
	case !isFramework(o.Framework):
		return fmt.Errorf("framework %q: want lower-case letters, digits, - and _", o.Framework)
	}
	return nil
}

func defaults[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Has reports whether anybody would hear of such an event. At the eight points somebody
// always does, if only the host itself, which denies where there is no interceptor.
func (h *Hooks) Has(k grapnel.Kind) bool {
	return pointOf(k) != nil || h.opts.Engine != nil && h.opts.Engine.Has(k)
}

// Fire answers an event. Those that are emissions are judged by the interceptors; all
// others go to the engine, if there is one.
//
// A session is known from its first event to its session.end, by its ID; without one
// everything is denied.
func (h *Hooks) Fire(ctx context.Context, ev *grapnel.Event) grapnel.Verdict {
	p := pointOf(ev.Kind)
	switch {
	case p == nil && h.opts.Engine == nil:
		return grapnel.Verdict{Event: ev}
	case p == nil:
		return h.opts.Engine.In(ctx).Fire(ctx, ev)
	}
	f := &firing{hooks: h, point: p, ev: ev, now: ev.Time.UTC(), session: &session{}, sequence: -1}
	if ev.Time.IsZero() {
		f.now = time.Now().UTC()
	}
	f.begin()
	out := f.run(ctx)
	f.end(out)
	if h.opts.Mode == EvaluateOnly || ev.Kind == grapnel.SessionEnd {
		return grapnel.Verdict{Event: ev}
	}
	return f.obey(out)
}

// A firing is one event on its way through the interceptors.
type firing struct {
	hooks    *Hooks
	point    *point
	ev       *grapnel.Event
	now      time.Time
	session  *session
	sequence int64

	own *grapnel.Verdict // of the engine
}

// begin takes the next sequence number of the session. Also what is then refused has one.
func (f *firing) begin() {
	id, h := f.ev.Session.ID, f.hooks
	if id == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[id] == nil {
		h.sessions[id] = &session{labels: map[string][]string{}}
	}
	f.session = h.sessions[id]
	f.sequence = f.session.next
	f.session.next++
}

// end keeps what later emissions of the session need.
func (f *firing) end(out *composed) {
	h := f.hooks
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.ev.Kind == grapnel.SessionEnd {
		delete(h.sessions, f.ev.Session.ID)
		return
	}
	if !out.verdict.permits() {
		return
	}
	for i := range out.verdicts {
		v := &out.verdicts[i]
		if !v.permits() || !isExtension(h.names[i]) || f.session.labels == nil {
			continue
		}
		for _, label := range v.ResultLabels {
			f.session.labels[h.names[i]] = appendNew(f.session.labels[h.names[i]], label)
		}
	}
}

var extensions = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// isExtension reports whether an interceptor may speak under its name.
func isExtension(name string) bool {
	return extensions.MatchString(name) && !slices.Contains([]string{"acs", "ctk", "agent_hooks"}, name)
}

// run makes the emission, has it judged and recorded.
func (f *firing) run(ctx context.Context) *composed {
	h := f.hooks
	rec := &Record{
		Point: f.point.name, Mode: h.opts.Mode, IdentityProvider: h.identity.name(), SessionID: f.ev.Session.ID, Sequence: f.sequence,
		Composition: h.composition, InterceptorsRegistered: len(h.slots), Timestamp: timestamp(f.now),
	}
	if h.composition.Profile != FirstDeny {
		rec.Verdicts = []Said{}
	}
	em, err := f.emission(ctx)
	if em != nil {
		rec.trace(em.tree)
	}
	if err == nil {
		rec.InputIdentity, err = h.identity.of(em)
	}
	out := &composed{em: em}
	switch {
	case err != nil:
		out.verdict = denied(reasonContextInvalid, failureOf(err))
	case em.incomplete():
		out.verdict = denied(reasonStreaming, "the response broke off")
	case len(h.slots) == 0:
		out.verdict = denied(reasonNoInterceptor, "")
	default:
		out = f.compose(ctx, em)
	}
	rec.EnforcedIdentity = rec.InputIdentity
	if err == nil && out.em.moved {
		if rec.EnforcedIdentity, err = h.identity.of(out.em); err != nil {
			out.verdict, out.decidedBy = denied(reasonContextInvalid, failureOf(err)), nil
			out.unite() // it is another verdict, and what was warned of stays
		}
	}
	rec.take(out, h.names)
	if h.opts.Records != nil {
		h.opts.Records(ctx, rec)
	}
	return out
}

// compose asks the interceptors.
func (f *firing) compose(ctx context.Context, em *emission) *composed {
	h := f.hooks
	c := composer{
		Composition: h.composition, n: len(h.slots), evaluate: h.opts.Mode == EvaluateOnly,
		call: func(i int, em *emission) Verdict { return f.call(ctx, i, em) },
	}
	if h.opts.Resolve != nil && !c.evaluate && f.ev.Kind != grapnel.SessionEnd {
		c.ask = func(v *Verdict, em *emission) (Verdict, bool) { return h.ask(ctx, v, em) }
	}
	return c.compose(em)
}

// call asks one interceptor. Whatever is wrong with its answer is a deny.
func (f *firing) call(ctx context.Context, i int, em *emission) Verdict {
	s := &f.hooks.slots[i]
	r, err := within(ctx, f.hooks.opts.Timeout, func(ctx context.Context) (reply, error) { return s.judge(ctx, em) })
	if r.own != nil {
		f.own = r.own // there is one engine, so nobody else writes this
	}
	switch {
	case errors.Is(err, errLate):
		return denied(reasonTimeout, "")
	case err != nil:
		return denied(reasonFailed, failureOf(err))
	}
	return gate(r.verdict)
}

// incomplete reports whether the emission is about a response that broke off.
func (em *emission) incomplete() bool {
	reason, _ := at(em.tree, "response.finish_reason")
	return reason == "stream_incomplete"
}

func timestamp(t time.Time) string { return t.Format(time.RFC3339Nano) }
