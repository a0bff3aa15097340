package telemetry

import (
	"log/slog"
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The structs below are OTLP in JSON, version 1.11 of its protocol buffers: names in
// lowerCamelCase, IDs in hex, 64-bit integers as strings, enums as numbers.

type otlpTraces struct {
	ResourceSpans []otlpResourceSpans `json:"resourceSpans"`
}

type otlpResourceSpans struct {
	Resource   otlpResource     `json:"resource"`
	ScopeSpans []otlpScopeSpans `json:"scopeSpans"`
	SchemaURL  string           `json:"schemaUrl,omitempty"`
}

type otlpScopeSpans struct {
	Scope     otlpScope  `json:"scope"`
	Spans     []otlpSpan `json:"spans"`
	SchemaURL string     `json:"schemaUrl,omitempty"`
}

type otlpLogs struct {
	ResourceLogs []otlpResourceLogs `json:"resourceLogs"`
}

type otlpResourceLogs struct {
	Resource  otlpResource    `json:"resource"`
	ScopeLogs []otlpScopeLogs `json:"scopeLogs"`
	SchemaURL string          `json:"schemaUrl,omitempty"`
}

type otlpScopeLogs struct {
	Scope      otlpScope    `json:"scope"`
	LogRecords []otlpRecord `json:"logRecords"`
}

type otlpResource struct {
	Attributes []otlpAttribute `json:"attributes"`
}

type otlpScope struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

type otlpAttribute struct {
	Key   string    `json:"key"`
	Value otlpValue `json:"value"`
}

// otlpValue has exactly one member that is not nil.
type otlpValue struct {
	String *string    `json:"stringValue,omitempty"`
	Bool   *bool      `json:"boolValue,omitempty"`
	Int    *string    `json:"intValue,omitempty"`
	Double any        `json:"doubleValue,omitempty"` // a number, or NaN, Infinity, -Infinity in quotes
	Array  *otlpArray `json:"arrayValue,omitempty"`
}

type otlpArray struct {
	Values []otlpValue `json:"values"`
}

type otlpSpan struct {
	TraceID           string          `json:"traceId"`
	SpanID            string          `json:"spanId"`
	TraceState        string          `json:"traceState,omitempty"`
	ParentSpanID      string          `json:"parentSpanId,omitempty"`
	Flags             uint32          `json:"flags"`
	Name              string          `json:"name"`
	Kind              int             `json:"kind"`
	Start             string          `json:"startTimeUnixNano"`
	End               string          `json:"endTimeUnixNano"`
	Attributes        []otlpAttribute `json:"attributes,omitempty"`
	DroppedAttributes uint32          `json:"droppedAttributesCount,omitempty"`
	Events            []otlpEvent     `json:"events,omitempty"`
	DroppedEvents     uint32          `json:"droppedEventsCount,omitempty"`
	Links             []otlpLink      `json:"links,omitempty"`
	DroppedLinks      uint32          `json:"droppedLinksCount,omitempty"`
	Status            otlpStatus      `json:"status"`
}

type otlpEvent struct {
	Time       string          `json:"timeUnixNano"`
	Name       string          `json:"name"`
	Attributes []otlpAttribute `json:"attributes,omitempty"`
	Dropped    uint32          `json:"droppedAttributesCount,omitempty"`
}

type otlpLink struct {
	TraceID    string          `json:"traceId"`
	SpanID     string          `json:"spanId"`
	TraceState string          `json:"traceState,omitempty"`
	Attributes []otlpAttribute `json:"attributes,omitempty"`
	Flags      uint32          `json:"flags"`
}

type otlpStatus struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code,omitempty"`
}

type otlpRecord struct {
	Time         string          `json:"timeUnixNano"`
	Observed     string          `json:"observedTimeUnixNano"`
	Severity     int             `json:"severityNumber"`
	SeverityText string          `json:"severityText"`
	Body         otlpValue       `json:"body"`
	Attributes   []otlpAttribute `json:"attributes,omitempty"`
	Flags        uint32          `json:"flags,omitempty"`
	TraceID      string          `json:"traceId,omitempty"`
	SpanID       string          `json:"spanId,omitempty"`
}

// Flag bits of a span, in addition to the W3C flags: whether it is known if the parent is in
// another process, and whether it is.
const (
	flagRemoteKnown = 1 << 8
	flagRemote      = 1 << 9
)

// encodeSpans encodes spans, grouped by scope.
func encodeSpans(resource []otlpAttribute, spans []sdktrace.ReadOnlySpan) ([]byte, error) {
	rs := otlpResourceSpans{Resource: otlpResource{resource}, SchemaURL: schemaURL}
	at := map[instrumentation.Scope]int{}
	for _, s := range spans {
		scope := s.InstrumentationScope()
		scope.Attributes = attribute.Set{} // not sent
		i, ok := at[scope]
		if !ok {
			i = len(rs.ScopeSpans)
			at[scope] = i
			rs.ScopeSpans = append(rs.ScopeSpans, otlpScopeSpans{Scope: otlpScope{scope.Name, scope.Version}, SchemaURL: scope.SchemaURL})
		}
		rs.ScopeSpans[i].Spans = append(rs.ScopeSpans[i].Spans, spanOf(s))
	}
	return rawjson.Line(otlpTraces{[]otlpResourceSpans{rs}})
}

func spanOf(s sdktrace.ReadOnlySpan) otlpSpan {
	sc, parent := s.SpanContext(), s.Parent()
	out := otlpSpan{
		TraceID: sc.TraceID().String(), SpanID: sc.SpanID().String(), TraceState: sc.TraceState().String(), Flags: uint32(sc.TraceFlags()) | flagRemoteKnown,
		Name: s.Name(), Kind: int(s.SpanKind()), Start: nano(s.StartTime()), End: nano(s.EndTime()),
		Attributes: attributes(s.Attributes()), DroppedAttributes: count(s.DroppedAttributes()), DroppedEvents: count(s.DroppedEvents()), DroppedLinks: count(s.DroppedLinks()),
		Status: otlpStatus{Message: s.Status().Description},
	}
	switch s.Status().Code { // OTLP uses other numbers
	case codes.Ok:
		out.Status.Code = 1
	case codes.Error:
		out.Status.Code = 2
	default:
	}
	if parent.SpanID().IsValid() {
		out.ParentSpanID = parent.SpanID().String()
		if parent.IsRemote() {
			out.Flags |= flagRemote
		}
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, otlpEvent{Time: nano(e.Time), Name: e.Name, Attributes: attributes(e.Attributes), Dropped: count(e.DroppedAttributeCount)})
	}
	for _, l := range s.Links() {
		out.Links = append(out.Links, otlpLink{
			TraceID: l.SpanContext.TraceID().String(), SpanID: l.SpanContext.SpanID().String(), TraceState: l.SpanContext.TraceState().String(),
			Attributes: attributes(l.Attributes), Flags: uint32(l.SpanContext.TraceFlags()) | flagRemoteKnown,
		})
	}
	return out
}

// A logRecord is a line of the daemon's own log for a collector.
type logRecord struct {
	at    time.Time
	level slog.Level
	text  string
	attrs []attribute.KeyValue
	span  trace.SpanContext
}

func encodeLogs(resource []otlpAttribute, records []logRecord) ([]byte, error) {
	sl := otlpScopeLogs{Scope: otlpScope{Name: scopeName}}
	for i := range records {
		r := &records[i]
		out := otlpRecord{
			Time: nano(r.at), Observed: nano(r.at), Severity: min(max(int(r.level)+9, 1), 24), SeverityText: r.level.String(),
			Body: otlpValue{String: &r.text}, Attributes: attributes(r.attrs),
		}
		if r.span.IsValid() {
			out.TraceID, out.SpanID, out.Flags = r.span.TraceID().String(), r.span.SpanID().String(), uint32(r.span.TraceFlags())
		}
		sl.LogRecords = append(sl.LogRecords, out)
	}
	return rawjson.Line(otlpLogs{[]otlpResourceLogs{{Resource: otlpResource{resource}, ScopeLogs: []otlpScopeLogs{sl}, SchemaURL: schemaURL}}})
}

// nano returns a time in the format of OTLP, never negative.
func nano(t time.Time) string { return strconv.FormatInt(max(t.UnixNano(), 0), 10) }

func count(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }

func attributes(list []attribute.KeyValue) []otlpAttribute {
	var out []otlpAttribute
	for _, kv := range list {
		out = append(out, otlpAttribute{string(kv.Key), valueOf(kv.Value)})
	}
	return out
}

func valueOf(v attribute.Value) otlpValue {
	switch v.Type() {
	case attribute.BOOL:
		b := v.AsBool()
		return otlpValue{Bool: &b}
	case attribute.INT64:
		return intValue(v.AsInt64())
	case attribute.FLOAT64:
		return doubleValue(v.AsFloat64())
	case attribute.STRING:
		return textValue(v.AsString())
	case attribute.STRINGSLICE:
		return arrayOf(v.AsStringSlice(), textValue)
	case attribute.INT64SLICE:
		return arrayOf(v.AsInt64Slice(), intValue)
	case attribute.FLOAT64SLICE:
		return arrayOf(v.AsFloat64Slice(), doubleValue)
	case attribute.BOOLSLICE:
		return arrayOf(v.AsBoolSlice(), func(b bool) otlpValue { return otlpValue{Bool: &b} })
	default: // types of later versions
		return textValue(v.String())
	}
}

func textValue(s string) otlpValue { return otlpValue{String: &s} }

func intValue(n int64) otlpValue {
	s := strconv.FormatInt(n, 10)
	return otlpValue{Int: &s}
}

func doubleValue(f float64) otlpValue {
	switch {
	case math.IsNaN(f):
		return otlpValue{Double: "NaN"}
	case math.IsInf(f, 1):
		return otlpValue{Double: "Infinity"}
	case math.IsInf(f, -1):
		return otlpValue{Double: "-Infinity"}
	}
	return otlpValue{Double: f}
}

func arrayOf[T any](list []T, value func(T) otlpValue) otlpValue {
	a := otlpArray{Values: []otlpValue{}}
	for _, v := range list {
		a.Values = append(a.Values, value(v))
	}
	return otlpValue{Array: &a}
}
