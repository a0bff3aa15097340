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
	// Name is the interceptor's name in records. All interceptors get the labels that it gives to
	// data as extensions.<Name>.source_labels, if the name is a valid extension name: lower-case
	// letters, digits and _, and not acs, ctk or agent_hooks.
	Name string

	// Judge gets a copy of the context as JSON and returns a verdict as JSON. An error, a panic,
	// an invalid verdict and a late verdict are denies. Judge is called concurrently.
	Judge func(ctx context.Context, context json.RawMessage) (verdict json.RawMessage, err error)
}

// Mode defines whether verdicts have an effect.
type Mode string

// The modes.
const (
	Enforce      Mode = "enforce"
	EvaluateOnly Mode = "evaluate_only" // all interceptors are called and recorded, but every step is permitted
)

// A Posture defines the effect of a failure of the host itself at a tool call.
type Posture string

// The postures. A deny by an interceptor at a tool call never ends the turn.
const (
	Continue  Posture = "continue"  // the call fails, and the turn continues
	Terminate Posture = "terminate" // the turn ends
)

// Options are settings of Hooks. The zero value has no interceptor and denies everything.
type Options struct {
	Interceptors []Interceptor // in registration order

	// Engine holds Grapnel's own hooks. It is an additional interceptor named grapnel after all
	// others. Its failures fail closed, regardless of on_error: see [Preset]. The engine also
	// gets the events that are not emissions, and its verdicts for them apply as usual.
	Engine *grapnel.Engine

	Composition Composition
	Mode        Mode      // empty = Enforce
	Posture     Posture   // empty = Continue
	Identity    *Provider // nil = JCS

	Resolve         Resolver      // decides whether to lift a deny; nil = never
	Redact          Redactor      // redacts contexts for Resolve; nil = not redacted
	Timeout         time.Duration // time limit of an interceptor; 0 = 5 s
	ApprovalTimeout time.Duration // time limit of Resolve; 0 = 5 min

	// Records gets a record of each emission before its verdict takes effect; nil = no records.
	// It must be quick, and is called concurrently.
	Records func(ctx context.Context, r *Record)

	AgentID   string // agent ID in contexts; empty = the agent name of the event
	Framework string // empty = grapnel

	// Annotate returns additional members for a context as JSON, such as tenant, actor, trace,
	// budgets and extensions. They cannot replace members that Hooks sets.
	Annotate func(ctx context.Context, ev *grapnel.Event) map[string]json.RawMessage
}

// Preset returns the Preset for an engine in Options.Engine. It meets the requirements for an
// interceptor: hooks fail closed and have the timeout of an interceptor. Apply its Defaults to
// the engine's Specs.
func Preset() grapnel.Preset {
	p, _ := grapnel.FindPreset("agenthooks")
	return p
}

const (
	defaultTimeout  = 5 * time.Second
	defaultApproval = 5 * time.Minute
)

// namespace is Grapnel's name as an interceptor and as an extension.
const namespace = "grapnel"

// Hooks answers the events of an agent with the verdicts of interceptors. It implements the Hooks
// interface of package host. It is safe for concurrent use.
type Hooks struct {
	opts        Options
	composition Composition
	identity    *Provider
	slots       []slot
	names       []string

	mu       sync.Mutex
	sessions map[string]*session // sessions that have started and not ended
}

// A slot is a registered interceptor.
type slot struct {
	name  string
	judge func(ctx context.Context, em *emission) (reply, error)
}

// A reply is the answer of a slot: a verdict, and the parts that only Grapnel's host understands.
type reply struct {
	verdict json.RawMessage
	own     *grapnel.Verdict
}

// A session holds the state between the emissions of one session.
type session struct {
	next   int64               // sequence number
	labels map[string][]string // labels of its data, by extension
}

// New returns Hooks with these settings. It returns an error if a setting is invalid.
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
			return nil, errors.New("agent hooks: with on_disagreement: approval, a resolver could allow calls that Grapnel's engine blocked; " +
				"use another profile, or omit the engine")
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

// fill sets the defaults, and returns an error for an unknown value.
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

// Listens reports whether such an event has an effect. It always has for the kinds of the eight
// points, because without an interceptor the host denies them.
func (h *Hooks) Listens(k grapnel.Kind) (heard, decides bool) {
	if pointOf(k) != nil {
		return true, true
	}
	return h.opts.Engine.Listens(k)
}

// Fire answers an event. Interceptors judge the events that are emissions; the engine, if there
// is one, gets all others.
//
// A session is identified by its ID from its first event to its session.end. An emission without
// a session ID is denied.
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

// A firing holds the state of one event while interceptors judge it.
type firing struct {
	hooks    *Hooks
	point    *point
	ev       *grapnel.Event
	now      time.Time
	session  *session
	sequence int64

	own *grapnel.Verdict // Verdict of the engine
}

// begin takes the next sequence number of the session. Refused emissions have one, too.
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

// end stores the state that later emissions of the session need.
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

// isExtension reports whether an interceptor's name is valid as an extension name.
func isExtension(name string) bool {
	return extensions.MatchString(name) && !slices.Contains([]string{"acs", "ctk", "agent_hooks"}, name)
}

// run builds the emission, calls the interceptors and writes the record.
func (f *firing) run(ctx context.Context) *composed {
	h := f.hooks
	rec := &Record{
		Point: f.point.name, Mode: h.opts.Mode, IdentityProvider: h.identity.name(), SessionID: f.ev.Session.ID, Sequence: f.sequence,
		Composition: h.composition, InterceptorsRegistered: len(h.slots), Timestamp: timestamp(f.now),
	}
	if h.composition.Profile != FirstDeny {
		rec.Verdicts = []InterceptorVerdict{}
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
		out.verdict = denied(reasonStreaming, "the response was cut off")
	case len(h.slots) == 0:
		out.verdict = denied(reasonNoInterceptor, "")
	default:
		out = f.compose(ctx, em)
	}
	rec.EnforcedIdentity = rec.InputIdentity
	if err == nil && out.em.moved {
		if rec.EnforcedIdentity, err = h.identity.of(out.em); err != nil {
			out.verdict, out.decidedBy = denied(reasonContextInvalid, failureOf(err)), nil
			out.unite() // the new verdict keeps the earlier warnings
		}
	}
	rec.take(out, h.names)
	if h.opts.Records != nil {
		h.opts.Records(ctx, rec)
	}
	return out
}

// compose calls the interceptors and combines their verdicts.
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

// call calls one interceptor. Every problem with its answer is a deny.
func (f *firing) call(ctx context.Context, i int, em *emission) Verdict {
	s := &f.hooks.slots[i]
	r, err := within(ctx, f.hooks.opts.Timeout, func(ctx context.Context) (reply, error) { return s.judge(ctx, em) })
	if r.own != nil {
		f.own = r.own // only one slot is an engine, so there is no other writer
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
