package telemetry

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// Limits of a span.
const (
	maxAttribute  = 256     // bytes of a name or an ID
	maxText       = 1 << 10 // bytes of a reason or an error
	maxSlack      = 1 << 10 // further bytes that are checked, so that a truncated secret is still recognized
	maxList       = 32      // entries of a list
	maxSpans      = 128     // spans of hooks in one firing
	maxTraceState = 512     // bytes, the W3C limit
	maxNative     = 64 << 10
)

var spanLimits = sdktrace.SpanLimits{
	AttributeValueLengthLimit: maxText + 64, AttributeCountLimit: 64, EventCountLimit: 64, LinkCountLimit: 16,
	AttributePerEventCountLimit: 16, AttributePerLinkCountLimit: 16,
}

var noTraces = noop.NewTracerProvider()

// WithParent returns a context in which firings are part of a trace that began elsewhere: in the
// agent, which passes traceparent and tracestate in the format of W3C Trace Context. Invalid values
// are ignored, and the firing then begins a new trace.
func WithParent(ctx context.Context, traceparent, tracestate string) context.Context {
	if len(tracestate) > maxTraceState {
		tracestate = ""
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
}

// parentOf returns ctx with the parent from the agent's payload, unless ctx already has one.
func parentOf(ctx context.Context, rec *grapnel.Record) context.Context {
	if rec.Input == nil || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	native := rec.Input.Native
	if len(native) > maxNative || !bytes.Contains(native, []byte(`"traceparent"`)) {
		return ctx
	}
	var top struct{ Traceparent, Tracestate string }
	if json.Unmarshal(native, &top) != nil {
		return ctx
	}
	return WithParent(ctx, top.Traceparent, top.Tracestate)
}

// Observe sends a span for a firing and one for each hook that was called. The parent comes from
// ctx, see WithParent, or from traceparent in the agent's payload.
//
// A Record contains the duration and the order of the hooks, but not their start times. So Observe
// places the spans of hooks one after the other, beginning at the start of the firing. Hooks of one
// step run concurrently, so a span may extend beyond the end of the firing; it then ends with the
// firing. Each hook span has grapnel.hook.start = order.
func (e *Export) Observe(ctx context.Context, rec *grapnel.Record) { e.note(ctx, rec, false) }

// ObserveLate sends a span for each async hook of a firing, from the Record that is written when
// they have ended. The spans are part of the firing's trace if ctx has the same parent.
func (e *Export) ObserveLate(ctx context.Context, rec *grapnel.Record) { e.note(ctx, rec, true) }

// A firing is the part of a Record that Run needs to make spans. It contains no large values.
type firing struct {
	rec      grapnel.Record
	parent   trace.SpanContext
	asked    int // number of hooks; rec contains the first of them
	failOpen bool
	notable  bool
	late     bool
}

func (e *Export) note(ctx context.Context, rec *grapnel.Record, late bool) {
	if e == nil || e.spans == nil {
		return
	}
	f := firing{rec: *rec, parent: trace.SpanContextFromContext(parentOf(ctx, rec)), late: late, notable: rec.Decision >= grapnel.Ask || rec.Halt != "" || rec.Error != ""}
	f.rec.Verdict, f.rec.Input = nil, slim(rec.Input)
	f.rec.Hooks = make([]grapnel.HookRun, 0, min(len(rec.Hooks), maxSpans))
	for i := range rec.Hooks {
		run := &rec.Hooks[i]
		f.notable = f.notable || run.Error != "" || run.FailOpen
		f.failOpen = f.failOpen || run.FailOpen
		if run.Async && !late && run.Error == "" {
			continue // the hook has not run
		}
		if f.asked++; len(f.rec.Hooks) < maxSpans {
			kept := *run
			kept.Outcome, kept.Error = nil, short(run.Error)
			f.rec.Hooks = append(f.rec.Hooks, kept)
		}
	}
	f.rec.Reasons = make([]grapnel.Reason, 0, min(len(rec.Reasons), maxList))
	for _, r := range rec.Reasons[:min(len(rec.Reasons), maxList)] {
		f.rec.Reasons = append(f.rec.Reasons, grapnel.Reason{Hook: short(r.Hook), Text: short(r.Text), Cause: r.Cause})
	}
	f.rec.Error, f.rec.Halt = short(rec.Error), short(rec.Halt)
	f.rec.Unsupported, f.rec.Conflicts = shorts(rec.Unsupported), shorts(rec.Conflicts)
	select {
	case e.firings <- f:
	default:
		e.spans.drop(1+len(f.rec.Hooks), dropFull)
	}
}

// slim returns the part of an event that spans show.
func slim(ev *grapnel.Event) *grapnel.Event {
	if ev == nil {
		return nil
	}
	out := &grapnel.Event{Kind: ev.Kind, Agent: ev.Agent, Session: grapnel.Session{Model: ev.Session.Model}}
	if t := ev.Tool; t != nil {
		out.Tool = &grapnel.Tool{ID: t.ID, Class: t.Class, MCP: t.MCP}
	}
	return out
}

// short returns the start of a text that may be exported, as a copy, so that the rest can be freed.
func short(s string) string {
	if len(s) <= maxText+maxSlack {
		return s
	}
	return strings.Clone(s[:maxText+maxSlack])
}

func shorts(list []string) []string {
	var out []string
	for _, s := range list[:min(len(list), maxList)] {
		out = append(out, short(s))
	}
	return out
}

// makeSpans makes the spans of a firing.
func (e *Export) makeSpans(ctx context.Context, f *firing) {
	rec := &f.rec
	begin, end := times(rec)
	names := &naming{record: rec.ID, notable: f.notable, late: f.late}
	ctx = context.WithValue(ctx, namingKey{}, names)
	if f.late {
		id := f.parent.TraceID()
		if !id.IsValid() {
			id = names.trace()
		}
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: id, SpanID: names.firing(), TraceFlags: f.parent.TraceFlags() | trace.FlagsSampled, TraceState: f.parent.TraceState(),
		}))
		e.hooks(ctx, f, begin, time.Time{})
		return
	}
	ctx, span := e.tracer.Start(trace.ContextWithSpanContext(ctx, f.parent), "grapnel "+eventLabel(rec.Event),
		trace.WithTimestamp(begin), trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(e.ofFiring(f)...))
	if !span.IsRecording() {
		return
	}
	defer span.End(trace.WithTimestamp(end))
	for i := range rec.Reasons {
		r := &rec.Reasons[i]
		hook := wire.RefOf(r.Hook)
		attrs := []attribute.KeyValue{
			attribute.String(attrHook, e.text(hook.Name, maxAttribute)), attribute.String(attrSource, e.text(hook.Source, maxAttribute)), attribute.String(attrCause, clean(string(r.Cause), 32)),
		}
		if !e.opts.NoTexts {
			attrs = append(attrs, attribute.String(attrReason, e.text(r.Text, maxText)))
		}
		span.AddEvent(eventDecision, trace.WithTimestamp(end), trace.WithAttributes(attrs...))
	}
	if rec.Error != "" {
		span.AddEvent(eventException, trace.WithTimestamp(end), trace.WithAttributes(e.exception(string(grapnel.CauseError), rec.Error)...))
		span.SetStatus(codes.Error, e.message(rec.Error))
	}
	e.hooks(ctx, f, begin, end)
}

// hooks makes the spans of hooks. A zero end means no limit.
func (e *Export) hooks(ctx context.Context, f *firing, begin, end time.Time) {
	whole, at := trace.SpanFromContext(ctx), begin
	for i := range f.rec.Hooks {
		run := &f.rec.Hooks[i]
		took := duration(run.MS)
		from, to := at, at.Add(took)
		if !end.IsZero() && to.After(end) {
			from, to = end.Add(-took), end
			if from.Before(begin) {
				from = begin
			}
		}
		at = to
		_, span := e.tracer.Start(ctx, "hook "+e.text(run.Name, maxLabel), trace.WithTimestamp(from), trace.WithAttributes(e.ofHook(run, f.late)...))
		if run.Error != "" {
			span.AddEvent(eventException, trace.WithTimestamp(to), trace.WithAttributes(e.exception(causeLabel(run.Cause), run.Error)...))
			span.SetStatus(codes.Error, e.message(run.Error))
		}
		if run.FailOpen {
			whole.AddEvent(eventFailOpen, trace.WithTimestamp(to), trace.WithAttributes(attribute.String(attrHook, e.text(run.Name, maxAttribute))))
		}
		span.End(trace.WithTimestamp(to))
	}
}

// ofFiring returns the attributes of a firing. They omit inputs and outputs of tools, prompts and
// paths.
func (e *Export) ofFiring(f *firing) []attribute.KeyValue {
	rec := &f.rec
	attrs := []attribute.KeyValue{
		attribute.String(attrRecord, e.text(rec.ID, maxAttribute)), attribute.String(attrEvent, e.text(string(rec.Event), maxAttribute)),
		attribute.String(attrDecision, decisions[decision(rec.Decision)]), attribute.Int(attrHooks, f.asked),
	}
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, attribute.String(key, e.text(value, maxAttribute)))
		}
	}
	list := func(key string, values []string) {
		if len(values) > 0 {
			attrs = append(attrs, attribute.StringSlice(key, e.texts(values)))
		}
	}
	text(attrAgentName, rec.Agent)
	text(attrConversation, rec.Session)
	text(attrToolName, rec.Tool)
	text(attrPolicy, rec.PolicyDigest)
	text(attrRevision, rec.PolicyRevision)
	if rec.Would > grapnel.None {
		text(attrWould, decisions[decision(rec.Would)])
	}
	if rec.Halt != "" {
		attrs = append(attrs, attribute.Bool(attrHalt, true))
	}
	list(attrChanged, textsOf(rec.Changed))
	list(attrConflicts, rec.Conflicts)
	if !e.opts.NoTexts {
		list(attrUnsupported, rec.Unsupported)
	} else if len(rec.Unsupported) > 0 {
		attrs = append(attrs, attribute.Int(attrUnsupported, len(rec.Unsupported)))
	}
	if f.failOpen {
		attrs = append(attrs, attribute.Bool(attrFailOpen, true))
	}
	if unshown := f.asked - len(rec.Hooks); unshown > 0 {
		attrs = append(attrs, attribute.Int(attrHidden, unshown))
	}
	if rec.Error != "" {
		text(attrErrorType, string(grapnel.CauseError))
	}
	ev := rec.Input
	if ev == nil {
		return attrs
	}
	text(attrAgentVersion, ev.Agent.Version)
	if ev.Kind == grapnel.ModelBefore || ev.Kind == grapnel.ModelAfter {
		text(attrModel, ev.Session.Model)
	}
	if t := ev.Tool; t != nil {
		text(attrToolCall, t.ID)
		text(attrToolClass, string(t.Class))
		if t.MCP != nil {
			text(attrMCPServer, t.MCP.Server)
		}
	}
	return attrs
}

// ofHook returns the attributes of a hook.
func (e *Export) ofHook(run *grapnel.HookRun, late bool) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String(attrHook, e.text(run.Name, maxAttribute)), attribute.String(attrSource, e.text(run.Source, maxAttribute)),
		attribute.String(attrDecision, decisions[decision(run.Decision)]), attribute.String(attrPlaced, placedByOrder),
	}
	if run.Line > 0 {
		attrs = append(attrs, attribute.Int(attrLine, run.Line))
	}
	if run.Cause != "" {
		attrs = append(attrs, attribute.String(attrCause, clean(string(run.Cause), 32)))
	}
	if run.Error != "" {
		attrs = append(attrs, attribute.String(attrErrorType, causeLabel(run.Cause)))
	}
	if run.Round > 0 {
		attrs = append(attrs, attribute.Int(attrRound, run.Round))
	}
	if len(run.Changed) > 0 {
		attrs = append(attrs, attribute.StringSlice(attrChanged, e.texts(textsOf(run.Changed))))
	}
	for _, flag := range []struct {
		key string
		on  bool
	}{{attrHalt, run.Halt}, {attrFailOpen, run.FailOpen}, {attrObserved, run.Observed}, {attrExpired, run.Expired}, {attrLate, late}} {
		if flag.on {
			attrs = append(attrs, attribute.Bool(flag.key, true))
		}
	}
	return attrs
}

func (e *Export) exception(kind, message string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String(attrExceptionType, kind)}
	if !e.opts.NoTexts {
		attrs = append(attrs, attribute.String(attrExceptionMessage, e.text(message, maxText)))
	}
	return attrs
}

func (e *Export) message(text string) string {
	if e.opts.NoTexts {
		return ""
	}
	return e.text(text, maxText)
}

// text returns the exportable form of a text: secrets masked and truncated. It ignores everything
// after the limit, because a text can have several megabytes.
func (e *Export) text(s string, limit int) string {
	if len(s) > limit+maxSlack {
		s = s[:limit+maxSlack]
	}
	return tidy(e.opts.Mask(s), limit, limit == maxText)
}

func (e *Export) texts(all []string) []string {
	out := make([]string, 0, min(len(all), maxList))
	for _, s := range all[:min(len(all), maxList)] {
		out = append(out, e.text(s, maxAttribute))
	}
	return out
}

func textsOf[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// times returns the start and the end of a firing. Records of other programs may contain any
// values.
func times(rec *grapnel.Record) (begin, end time.Time) {
	took := duration(rec.MS)
	begin = rec.Time
	if begin.UnixNano() <= 0 || begin.Year() > 2200 {
		begin = time.Now().Add(-took)
	}
	return begin, begin.Add(took)
}

func duration(ms float64) time.Duration {
	if !(ms > 0) { // also catches NaN
		return 0
	}
	return time.Duration(math.Min(ms, float64(24*time.Hour/time.Millisecond)) * float64(time.Millisecond))
}

// naming derives the span IDs of one firing from the ID of its Record. A reader who has the Record
// finds the spans, and a firing that is exported twice has the same IDs.
type naming struct {
	record  string
	notable bool
	late    bool
	begun   bool // the firing has its span ID
	hooks   int  // number of hooks with a span ID
}

type namingKey struct{}

func (n *naming) hash(what string) [sha256.Size]byte {
	return sha256.Sum256([]byte(n.record + "\x00" + what))
}

func (n *naming) trace() (id trace.TraceID) {
	sum := n.hash("firing")
	copy(id[:], sum[:])
	return id
}

func (n *naming) firing() (id trace.SpanID) {
	sum := n.hash("firing")
	copy(id[:], sum[len(trace.TraceID{}):])
	return id
}

// next returns the ID of the next span.
func (n *naming) next() (id trace.SpanID) {
	if !n.begun && !n.late {
		n.begun = true
		return n.firing()
	}
	sum := n.hash(fmt.Sprintf("hook %d %t", n.hooks, n.late))
	n.hooks++
	copy(id[:], sum[:])
	return id
}

// generator makes IDs: from the naming for firings, and random IDs for all other spans.
type generator struct{}

func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if n, ok := ctx.Value(namingKey{}).(*naming); ok && n.record != "" {
		return n.trace(), n.next()
	}
	var id trace.TraceID
	_, _ = rand.Read(id[:]) // cannot fail
	return id, randomSpan()
}

func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if n, ok := ctx.Value(namingKey{}).(*naming); ok && n.record != "" {
		return n.next()
	}
	return randomSpan()
}

func randomSpan() (id trace.SpanID) {
	_, _ = rand.Read(id[:])
	return id
}

// sampler samples every notable firing, and uses the embedded Sampler for the rest.
type sampler struct{ sdktrace.Sampler }

func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if n, ok := p.ParentContext.Value(namingKey{}).(*naming); ok && n.notable {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	}
	return s.Sampler.ShouldSample(p)
}

// newSampler returns the sampler with a name from OTEL_TRACES_SAMPLER.
func newSampler(name string, ratio float64) (sdktrace.Sampler, error) {
	if !(ratio >= 0 && ratio <= 1) {
		return nil, fmt.Errorf("the ratio of a sampler must be between 0 and 1, not %v", ratio)
	}
	switch name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(ratio), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	}
	return nil, fmt.Errorf("unknown sampler %q (want always_on, always_off, traceidratio, or one of them with parentbased_ in front)", name)
}
