package telemetry

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A collector is a server for spans and logs. It decodes them strictly into separate types, so
// that a misspelled member is found.
type collector struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	spans   []span
	logs    []logLine
	metrics map[string]wireMetric
	headers []http.Header
	bodies  [][]byte
	res     map[string]any // attributes of the resource
}

// The wire format that the collector reads.
type (
	wireValue struct {
		StringValue *string      `json:"stringValue"`
		BoolValue   *bool        `json:"boolValue"`
		IntValue    *string      `json:"intValue"`
		DoubleValue *json.Number `json:"doubleValue"`
		ArrayValue  *struct {
			Values []wireValue `json:"values"`
		} `json:"arrayValue"`
	}
	wireAttr struct {
		Key   string    `json:"key"`
		Value wireValue `json:"value"`
	}
	wireResource struct {
		Attributes []wireAttr `json:"attributes"`
	}
	wireScope struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	wireSpan struct {
		TraceID           string     `json:"traceId"`
		SpanID            string     `json:"spanId"`
		TraceState        string     `json:"traceState"`
		ParentSpanID      string     `json:"parentSpanId"`
		Flags             uint32     `json:"flags"`
		Name              string     `json:"name"`
		Kind              int        `json:"kind"`
		StartTimeUnixNano string     `json:"startTimeUnixNano"`
		EndTimeUnixNano   string     `json:"endTimeUnixNano"`
		Attributes        []wireAttr `json:"attributes"`
		Dropped           uint32     `json:"droppedAttributesCount"`
		Events            []struct {
			TimeUnixNano string     `json:"timeUnixNano"`
			Name         string     `json:"name"`
			Attributes   []wireAttr `json:"attributes"`
			Dropped      uint32     `json:"droppedAttributesCount"`
		} `json:"events"`
		DroppedEvents uint32 `json:"droppedEventsCount"`
		Links         []struct {
			TraceID string `json:"traceId"`
			SpanID  string `json:"spanId"`
			Flags   uint32 `json:"flags"`
		} `json:"links"`
		Status struct {
			Message string `json:"message"`
			Code    int    `json:"code"`
		} `json:"status"`
	}
	wireTraces struct {
		ResourceSpans []struct {
			Resource   wireResource `json:"resource"`
			SchemaURL  string       `json:"schemaUrl"`
			ScopeSpans []struct {
				Scope     wireScope  `json:"scope"`
				Spans     []wireSpan `json:"spans"`
				SchemaURL string     `json:"schemaUrl"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	wireRecord struct {
		TimeUnixNano         string     `json:"timeUnixNano"`
		ObservedTimeUnixNano string     `json:"observedTimeUnixNano"`
		SeverityNumber       int        `json:"severityNumber"`
		SeverityText         string     `json:"severityText"`
		Body                 wireValue  `json:"body"`
		Attributes           []wireAttr `json:"attributes"`
		Flags                uint32     `json:"flags"`
		TraceID              string     `json:"traceId"`
		SpanID               string     `json:"spanId"`
	}
	wireLogs struct {
		ResourceLogs []struct {
			Resource  wireResource `json:"resource"`
			SchemaURL string       `json:"schemaUrl"`
			ScopeLogs []struct {
				Scope      wireScope    `json:"scope"`
				LogRecords []wireRecord `json:"logRecords"`
			} `json:"scopeLogs"`
		} `json:"resourceLogs"`
	}
)

type span struct {
	trace, id, parent, state, name string
	kind, status                   int
	flags                          uint32
	start, end                     time.Time
	attrs                          map[string]any
	events                         []event
	message, scope, schema         string
}

type event struct {
	name  string
	at    time.Time
	attrs map[string]any
}

type logLine struct {
	text, trace, span, severity string
	number                      int
	at                          time.Time
	attrs                       map[string]any
}

// newCollector starts a collector. If answer is not nil, it can write the answer to a request,
// and reports whether it did.
func newCollector(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) bool) *collector {
	t.Helper()
	c := &collector{t: t}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" && err == nil {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
				body, err = io.ReadAll(z)
			}
		}
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %q: %v", r.Method, r.URL, r.Header, err)
		}
		if answer != nil && answer(w, r) {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers, c.bodies = append(c.headers, r.Header), append(c.bodies, body)
		switch r.URL.Path {
		case "/v1/traces":
			c.takeSpans(body)
		case "/v1/logs":
			c.takeLogs(body)
		case "/v1/metrics":
			c.takeMetrics(body)
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"partialSuccess":{}}`))
	}))
	t.Cleanup(c.Close)
	return c
}

func strict(t *testing.T, body []byte, into any) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Errorf("not OTLP: %v\n%.2000s", err, body)
	}
}

// takeMetrics takes the values of the last snapshot, by name and attributes.
func (c *collector) takeMetrics(body []byte) {
	var w struct {
		ResourceMetrics []struct {
			Resource     wireResource `json:"resource"`
			SchemaURL    string       `json:"schemaUrl"`
			ScopeMetrics []struct {
				Scope   wireScope    `json:"scope"`
				Metrics []wireMetric `json:"metrics"`
			} `json:"scopeMetrics"`
		} `json:"resourceMetrics"`
	}
	strict(c.t, body, &w)
	c.metrics = map[string]wireMetric{}
	for _, rm := range w.ResourceMetrics {
		c.res = c.attrs(rm.Resource.Attributes)
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				c.metrics[m.Name] = m
			}
		}
	}
}

type (
	wireMetric struct {
		Name        string      `json:"name"`
		Description string      `json:"description"`
		Sum         *wirePoints `json:"sum"`
		Gauge       *wirePoints `json:"gauge"`
		Histogram   *wirePoints `json:"histogram"`
	}
	wirePoints struct {
		DataPoints  []wirePoint `json:"dataPoints"`
		Temporality int         `json:"aggregationTemporality"`
		Monotonic   bool        `json:"isMonotonic"`
	}
	wirePoint struct {
		Attributes     []wireAttr  `json:"attributes"`
		Start          string      `json:"startTimeUnixNano"`
		Time           string      `json:"timeUnixNano"`
		AsDouble       json.Number `json:"asDouble"`
		Count          string      `json:"count"`
		Sum            json.Number `json:"sum"`
		BucketCounts   []string    `json:"bucketCounts"`
		ExplicitBounds []float64   `json:"explicitBounds"`
	}
)

func (c *collector) takeSpans(body []byte) {
	var w wireTraces
	strict(c.t, body, &w)
	for _, rs := range w.ResourceSpans {
		c.res = c.attrs(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				got := span{
					trace: c.hex(s.TraceID, 16), id: c.hex(s.SpanID, 8), state: s.TraceState, name: s.Name, kind: s.Kind, status: s.Status.Code, flags: s.Flags,
					start: c.time(s.StartTimeUnixNano), end: c.time(s.EndTimeUnixNano), attrs: c.attrs(s.Attributes), message: s.Status.Message,
					scope: ss.Scope.Name, schema: ss.SchemaURL,
				}
				if s.ParentSpanID != "" {
					got.parent = c.hex(s.ParentSpanID, 8)
				}
				for _, e := range s.Events {
					got.events = append(got.events, event{e.Name, c.time(e.TimeUnixNano), c.attrs(e.Attributes)})
				}
				c.spans = append(c.spans, got)
			}
		}
	}
}

func (c *collector) takeLogs(body []byte) {
	var w wireLogs
	strict(c.t, body, &w)
	for _, rl := range w.ResourceLogs {
		c.res = c.attrs(rl.Resource.Attributes)
		for _, sl := range rl.ScopeLogs {
			for _, r := range sl.LogRecords {
				got := logLine{severity: r.SeverityText, number: r.SeverityNumber, at: c.time(r.TimeUnixNano), attrs: c.attrs(r.Attributes), text: c.value(r.Body).(string)}
				if r.TraceID != "" {
					got.trace, got.span = c.hex(r.TraceID, 16), c.hex(r.SpanID, 8)
				}
				c.logs = append(c.logs, got)
			}
		}
	}
}

func (c *collector) hex(s string, size int) string {
	if b, err := hex.DecodeString(s); err != nil || len(b) != size || bytes.Equal(b, make([]byte, size)) {
		c.t.Errorf("id %q: want %d bytes in hex, not all 0", s, size)
	}
	return s
}

func (c *collector) time(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		c.t.Errorf("time %q", s)
	}
	return time.Unix(0, n).UTC()
}

func (c *collector) attrs(list []wireAttr) map[string]any {
	all := map[string]any{}
	for _, a := range list {
		if _, exists := all[a.Key]; exists {
			c.t.Errorf("attribute %s twice", a.Key)
		}
		all[a.Key] = c.value(a.Value)
	}
	return all
}

func (c *collector) value(v wireValue) any {
	switch {
	case v.StringValue != nil:
		return *v.StringValue
	case v.BoolValue != nil:
		return *v.BoolValue
	case v.IntValue != nil:
		n, err := strconv.ParseInt(*v.IntValue, 10, 64)
		if err != nil {
			c.t.Errorf("int %q", *v.IntValue)
		}
		return n
	case v.DoubleValue != nil:
		f, _ := v.DoubleValue.Float64()
		return f
	case v.ArrayValue != nil:
		list := []any{}
		for _, e := range v.ArrayValue.Values {
			list = append(list, c.value(e))
		}
		return list
	}
	c.t.Error("a value without a value")
	return nil
}
