package telemetry

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/local"
)

var update = flag.Bool("update", false, "rewrite what is compared with testdata")

const (
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentSpan  = "00f067aa0ba902b7"
	sampled     = "00-" + parentTrace + "-" + parentSpan + "-01"
	unsampled   = "00-" + parentTrace + "-" + parentSpan + "-00"
)

// exporting returns an Export to a collector, and a function that ends it after all data has been
// sent.
func exporting(t *testing.T, c *collector, change func(*ExportOptions)) (e *Export, end func()) {
	t.Helper()
	opts := ExportOptions{Traces: c.URL + "/v1/traces", Logs: c.URL + "/v1/logs", Version: "1.2.3", Resource: map[string]string{"host.name": "h1"}, Interval: time.Millisecond}
	if change != nil {
		change(&opts)
	}
	e, err := NewExport(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx)
	}()
	end = func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	return e, end
}

// exportedSpans returns the spans of firings that a collector receives.
func exportedSpans(t *testing.T, change func(*ExportOptions), observe func(*Export)) (*collector, []span) {
	t.Helper()
	c := newCollector(t, nil)
	e, end := exporting(t, c, change)
	observe(e)
	end()
	return c, c.spans
}

func TestTraces(t *testing.T) {
	t.Parallel()
	c, spans := exportedSpans(t, nil, func(e *Export) {
		e.Observe(WithParent(t.Context(), sampled, "vendor=1"), blocked())
	})
	if len(spans) != 4 {
		t.Fatalf("%d spans, want one of the firing and three of hooks: %+v", len(spans), spans)
	}
	const file = "/home/ann/.config/grapnel/grapnel.yaml"
	root := spans[3] // it ends last
	want := span{
		trace: parentTrace, id: root.id, parent: parentSpan, state: "vendor=1", name: "grapnel tool.before", kind: 1, flags: 0x301,
		start: started, end: started.Add(120 * time.Millisecond), scope: scopeName, schema: schemaURL,
		attrs: map[string]any{
			"gen_ai.agent.name": "claude-code", "gen_ai.agent.version": "2.1.0", "gen_ai.conversation.id": "s1", "gen_ai.tool.name": "Bash", "gen_ai.tool.call.id": "toolu_1",
			"grapnel.record.id": "019cb7a1c0de0123456789abcdef", "grapnel.event": "tool.before", "grapnel.decision": "block", "grapnel.would": "ask",
			"grapnel.tool.class": "shell", "grapnel.fail_open": true, "grapnel.hooks": int64(3), "grapnel.unsupported": []any{"context: not sent", "message: not sent"},
		},
		events: []event{
			{"grapnel.decision", started.Add(120 * time.Millisecond), map[string]any{"grapnel.hook.name": "no-rm", "grapnel.hook.source": file, "grapnel.hook.cause": "decision", "grapnel.reason": "Name the files; password=***"}},
			{"grapnel.fail_open", started.Add(100_500 * time.Microsecond), map[string]any{"grapnel.hook.name": "scan"}},
		},
	}
	if diff := cmp.Diff(want, root, cmp.AllowUnexported(span{}, event{})); diff != "" {
		t.Errorf("the span of the firing (-want +got):\n%s", diff)
	}
	scan := span{
		trace: parentTrace, id: spans[1].id, parent: root.id, state: "vendor=1", name: "hook scan", kind: 1, flags: 0x101, status: 2,
		start: started.Add(500 * time.Microsecond), end: started.Add(100_500 * time.Microsecond), scope: scopeName, schema: schemaURL,
		message: "took longer than its timeout of 100ms: token=***",
		attrs: map[string]any{
			"grapnel.hook.name": "scan", "grapnel.hook.source": file + "#secrets", "grapnel.decision": "none", "grapnel.hook.start": "order", "grapnel.hook.cause": "timeout",
			"grapnel.fail_open": true, "error.type": "timeout",
		},
		events: []event{{"exception", started.Add(100_500 * time.Microsecond), map[string]any{"exception.type": "timeout", "exception.message": "took longer than its timeout of 100ms: token=***"}}},
	}
	if diff := cmp.Diff(scan, spans[1], cmp.AllowUnexported(span{}, event{})); diff != "" {
		t.Errorf("the span of a hook (-want +got):\n%s", diff)
	}
	if s := spans[0]; s.name != "hook no-rm" || s.parent != root.id || !s.start.Equal(started) || s.status != 0 || s.attrs["grapnel.hook.line"] != int64(4) {
		t.Errorf("the span of the hook that blocked: %+v", s)
	}
	if s := spans[2]; s.name != "hook try" || s.attrs["grapnel.hook.observed"] != true {
		t.Errorf("the span of the hook that observes: %+v", s)
	}
	if diff := cmp.Diff(map[string]any{"service.name": "grapnel", "service.version": "1.2.3", "host.name": "h1"}, c.res); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
	all := bytes.Join(c.bodies, nil)
	for _, secret := range []string{"rm -rf", "secret-customer", "hunter2", "/home/ann/work"} {
		if bytes.Contains(all, []byte(secret)) {
			t.Errorf("%q was sent:\n%s", secret, all)
		}
	}
}

// The resource names the machine, unless the operator has named it. A firing names its policies.
func TestTracesNameTheirOrigin(t *testing.T) {
	t.Parallel()
	c, spans := exportedSpans(t, func(o *ExportOptions) {
		o.Origin = local.Identity{Host: "laptop-7", User: "ana", Machine: "m1"}
	}, func(e *Export) {
		rec := blocked()
		rec.PolicyDigest, rec.PolicyRevision = "d1", "r1"
		e.Observe(t.Context(), rec)
	})
	if diff := cmp.Diff(map[string]any{
		"service.name": "grapnel", "service.version": "1.2.3", "host.name": "h1", "host.id": "m1", "service.instance.id": "m1", "user.name": "ana",
	}, c.res); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
	if attrs := spans[3].attrs; attrs["grapnel.policy.digest"] != "d1" || attrs["grapnel.policy.revision"] != "r1" {
		t.Errorf("the firing has %v", attrs)
	}
}

// This format was verified with the JSON decoder of the OpenTelemetry Collector.
func TestTracesOnTheWire(t *testing.T) {
	t.Parallel()
	c, _ := exportedSpans(t, func(o *ExportOptions) { o.Interval = time.Hour }, func(e *Export) { e.Observe(WithParent(t.Context(), sampled, ""), blocked()) })
	compare(t, "traces.json", c.bodies[0])
}

func TestLogsOnTheWire(t *testing.T) {
	t.Parallel()
	c := newCollector(t, nil)
	e, end := exporting(t, c, func(o *ExportOptions) { o.Interval = time.Hour })
	r := slog.NewRecord(started, slog.LevelWarn, "invalid policy", 0)
	r.AddAttrs(slog.String("file", "grapnel.yaml"), slog.Int("line", 3), slog.Bool("kept", true), slog.Float64("ratio", 0.5))
	if err := e.LogHandler(slog.LevelInfo).Handle(WithParent(t.Context(), sampled, ""), r); err != nil {
		t.Fatal(err)
	}
	end()
	compare(t, "logs.json", c.bodies[0])
}

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

// Parents come from the environment and the payload of agents, which are not trusted.
func TestParents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		parent, state, native string
		ours                  bool // a new trace
	}{
		"passed":            {parent: sampled},
		"payload":           {native: `{"traceparent":"` + sampled + `","tracestate":"a=b"}`},
		"passed first":      {parent: sampled, native: `{"traceparent":"00-11111111111111111111111111111111-1111111111111111-01"}`},
		"later version":     {parent: "01-" + parentTrace + "-" + parentSpan + "-01-more"},
		"none":              {ours: true},
		"zero trace":        {parent: "00-00000000000000000000000000000000-" + parentSpan + "-01", ours: true},
		"zero span":         {parent: "00-" + parentTrace + "-0000000000000000-01", ours: true},
		"capitals":          {parent: strings.ToUpper(sampled), ours: true},
		"version ff":        {parent: "ff" + sampled[2:], ours: true},
		"more in version 0": {parent: sampled + "-x", ours: true},
		"line break":        {parent: sampled + "\n", ours: true},
		"long":              {parent: sampled + strings.Repeat("0", 1<<20), ours: true},
		"in a text":         {native: `{"prompt":"\"traceparent\":\"` + sampled + `\""}`, ours: true},
		"not a text":        {native: `{"traceparent":7}`, ours: true},
		"broken payload":    {native: `{"traceparent":"` + sampled, ours: true},
		"large payload":     {native: `{"traceparent":"` + sampled + `","x":"` + strings.Repeat("x", maxNative) + `"}`, ours: true},
		"bad state":         {parent: sampled, state: "\x00"},
		"long state":        {parent: sampled, state: "a=" + strings.Repeat("x", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := blocked()
			rec.Input.Native = []byte(tt.native)
			_, spans := exportedSpans(t, nil, func(e *Export) { e.Observe(WithParent(t.Context(), tt.parent, tt.state), rec) })
			root := spans[len(spans)-1]
			if (root.parent == "") != tt.ours || (root.trace == parentTrace) == tt.ours || len(root.state) > 8 {
				t.Errorf("trace %s, parent %q, state %q; a trace of its own: %t", root.trace, root.parent, root.state, tt.ours)
			}
		})
	}
}

// The trace of a Record is found by the ID of the Record, and a firing that is reported twice has
// one trace.
func TestIDsOfARecord(t *testing.T) {
	t.Parallel()
	_, spans := exportedSpans(t, nil, func(e *Export) {
		e.Observe(t.Context(), blocked())
		e.Observe(t.Context(), blocked())
		other := blocked()
		other.ID = "019cb7a1c0de0123456789abcdee"
		e.Observe(t.Context(), other)
		unnamed := blocked()
		unnamed.ID = ""
		e.Observe(t.Context(), unnamed)
		e.Observe(t.Context(), unnamed)
	})
	if len(spans) != 20 {
		t.Fatalf("%d spans, want 20", len(spans))
	}
	ids := map[string]int{}
	for _, s := range spans {
		ids[s.trace+s.id]++
	}
	if len(ids) != 16 {
		t.Errorf("%d different spans, want 16", len(ids))
	}
	for i := range 4 {
		if spans[i].id != spans[4+i].id || spans[i].trace != spans[4+i].trace {
			t.Errorf("%s is another span the second time", spans[i].name)
		}
	}
}

func TestLateSpans(t *testing.T) {
	t.Parallel()
	for name, parent := range map[string]string{"a trace of its own": "", "with a parent": sampled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, spans := exportedSpans(t, nil, func(e *Export) {
				ctx := WithParent(t.Context(), parent, "")
				e.Observe(ctx, blocked())
				late := blocked()
				late.Hooks = []grapnel.HookRun{{Name: "tell", Source: "x", Async: true, Error: "exit status 3", MS: 2000}}
				e.ObserveLate(ctx, late)
			})
			if len(spans) != 5 {
				t.Fatalf("%d spans, want 5", len(spans))
			}
			root, late := spans[3], spans[4]
			if late.parent != root.id || late.trace != root.trace || late.attrs["grapnel.late"] != true || late.status != 2 || late.end.Sub(late.start) != 2*time.Second {
				t.Errorf("%+v does not belong to %+v", late, root)
			}
		})
	}
}

// A project can set the environment of its hooks, including the sampling flag of a trace. A
// blocked action is exported anyway.
func TestSampling(t *testing.T) {
	t.Parallel()
	quiet := func() *grapnel.Record {
		return &grapnel.Record{ID: "q", Time: started, Agent: "codex", Event: grapnel.ToolBefore, Hooks: []grapnel.HookRun{{Name: "h", MS: 1}}, MS: 1}
	}
	with := func(change func(*grapnel.Record)) *grapnel.Record {
		rec := quiet()
		change(rec)
		return rec
	}
	for name, tt := range map[string]struct {
		parent, sampler string
		rec             *grapnel.Record
		want            int
	}{
		"quiet":                     {sampled, "", quiet(), 2},
		"quiet, not wanted":         {unsampled, "", quiet(), 0},
		"quiet, not wanted, but on": {unsampled, "always_on", quiet(), 2},
		"off":                       {sampled, "always_off", quiet(), 0},
		"none of them":              {"", "traceidratio", quiet(), 0},
		"block":                     {unsampled, "", with(func(r *grapnel.Record) { r.Decision = grapnel.Block }), 2},
		"ask":                       {unsampled, "always_off", with(func(r *grapnel.Record) { r.Decision = grapnel.Ask }), 2},
		"halt":                      {unsampled, "", with(func(r *grapnel.Record) { r.Halt = "enough" }), 2},
		"unreadable":                {unsampled, "", with(func(r *grapnel.Record) { r.Error = "no JSON" }), 2},
		"hook failed":               {unsampled, "parentbased_always_off", with(func(r *grapnel.Record) { r.Hooks[0].Error = "x" }), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, spans := exportedSpans(t, func(o *ExportOptions) { o.Sampler = tt.sampler }, func(e *Export) { e.Observe(WithParent(t.Context(), tt.parent, ""), tt.rec) })
			if len(spans) != tt.want {
				t.Fatalf("%d spans, want %d", len(spans), tt.want)
			}
			for _, s := range spans {
				if s.flags&1 == 0 {
					t.Errorf("%s is sent as not sampled", s.name)
				}
			}
		})
	}
}

// For any times of hooks, their spans are inside the span of the firing, in order, and have the
// duration of the hooks where possible.
func TestTimes(t *testing.T) {
	t.Parallel()
	e, err := NewExport(ExportOptions{Traces: "http://127.0.0.1:9/v1/traces", Queue: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.OneOf(rapid.Float64Range(0, 1000), rapid.SampledFrom([]float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, 0}))
		rec := &grapnel.Record{ID: "x", Time: started, Decision: grapnel.Block, MS: ms.Draw(t, "ms")}
		for _, took := range rapid.SliceOfN(ms, 0, 8).Draw(t, "hooks") {
			rec.Hooks = append(rec.Hooks, grapnel.HookRun{Name: "h", MS: took})
		}
		e.Observe(context.Background(), rec)
		f := <-e.firings
		e.makeSpans(context.Background(), &f)
		var root, before time.Time
		var spans []span
		for range len(rec.Hooks) + 1 {
			s := <-e.spans.queue
			spans = append(spans, span{start: s.StartTime(), end: s.EndTime()})
		}
		firing := spans[len(spans)-1]
		root = firing.start
		if !root.Equal(started) || firing.end.Before(root) {
			t.Fatalf("the firing: %v to %v", root, firing.end)
		}
		for i, s := range spans[:len(rec.Hooks)] {
			if s.start.Before(root) || s.end.After(firing.end) || s.end.Before(s.start) || s.end.Before(before) {
				t.Fatalf("hook %d: %v to %v in %v to %v, after %v", i, s.start, s.end, root, firing.end, before)
			}
			if want := min(duration(rec.Hooks[i].MS), firing.end.Sub(root)); s.end.Sub(s.start) != want {
				t.Fatalf("hook %d took %v, want %v", i, s.end.Sub(s.start), want)
			}
			before = s.end
		}
	})
}

// Hostile names and texts become short, valid and masked.
func TestHostileSpans(t *testing.T) {
	t.Parallel()
	for _, name := range []string{strings.Repeat("é", 1<<19), "\xff\xfe\x00", "a\nb\x1b[2J", "\u202egnp", "</script>", strings.Repeat("x", 900) + " sk-ant-api03-" + strings.Repeat("A", 95)} {
		rec := &grapnel.Record{
			ID: name, Time: time.Time{}, Agent: name, Session: name, Event: grapnel.Kind(name), Tool: name, Decision: 250, Would: 250, Halt: name, Error: name, MS: math.Inf(1),
			Changed: []grapnel.Field{grapnel.Field(name)}, Conflicts: slices.Repeat([]string{name}, 100), Unsupported: []string{name},
			Reasons: slices.Repeat([]grapnel.Reason{{Hook: name + "::" + name, Text: name, Cause: grapnel.Cause(name)}}, 200),
			Hooks:   slices.Repeat([]grapnel.HookRun{{Name: name, Source: name, Line: -5, Decision: 99, Cause: grapnel.Cause(name), Error: name, FailOpen: true, MS: math.NaN()}}, 500),
			Input:   &grapnel.Event{Agent: grapnel.Agent{Version: name}, Tool: &grapnel.Tool{ID: name, Class: grapnel.Class(name), MCP: &grapnel.MCP{Server: name}}},
		}
		c, spans := exportedSpans(t, nil, func(e *Export) { e.Observe(t.Context(), rec) })
		if len(spans) != maxSpans+1 {
			t.Fatalf("%d spans, want %d", len(spans), maxSpans+1)
		}
		root := spans[len(spans)-1]
		if root.attrs["grapnel.hooks"] != int64(500) || root.attrs["grapnel.hooks.unshown"] != int64(500-maxSpans) || root.name != "grapnel other" {
			t.Errorf("%s: %v hooks, %v of them unshown", root.name, root.attrs["grapnel.hooks"], root.attrs["grapnel.hooks.unshown"])
		}
		for _, s := range spans {
			for key, v := range s.attrs {
				if text := fmt.Sprint(v); len(text) > 40*(maxAttribute+8) || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b\u202e") || strings.Contains(text, "AAAA") {
					t.Errorf("%s: %s = %.80q, %d bytes", s.name, key, text, len(text))
				}
			}
		}
		if all := bytes.Join(c.bodies, nil); bytes.Contains(all, []byte("AAAAAAAA")) || len(all) > 4<<20 {
			t.Errorf("%d bytes with a key in them", len(all))
		}
	}
}

func TestNoTexts(t *testing.T) {
	t.Parallel()
	rec := blocked()
	rec.Error = "cannot read /home/ann/x"
	c, spans := exportedSpans(t, func(o *ExportOptions) { o.NoTexts = true }, func(e *Export) { e.Observe(t.Context(), rec) })
	all := string(bytes.Join(c.bodies, nil))
	for _, text := range []string{"Name the files", "took longer", "cannot read", "not sent"} {
		if strings.Contains(all, text) {
			t.Errorf("%q was sent", text)
		}
	}
	if len(spans) != 4 || spans[3].status != 2 || len(spans[3].events) != 3 {
		t.Errorf("what happened is missing: %+v", spans)
	}
}

// Other parts of the program use the same provider for their traces.
func TestOtherTracers(t *testing.T) {
	t.Parallel()
	_, spans := exportedSpans(t, nil, func(e *Export) {
		ctx, s := e.TracerProvider().Tracer("deliver").Start(WithParent(t.Context(), sampled, ""), "POST")
		_, inner := e.TracerProvider().Tracer("deliver").Start(ctx, "dial", trace.WithSpanKind(trace.SpanKindClient))
		inner.End()
		s.End()
	})
	if len(spans) != 2 || spans[0].parent != spans[1].id || spans[1].parent != parentSpan || spans[0].scope != "deliver" || spans[0].kind != 3 {
		t.Errorf("spans of another tracer: %+v", spans)
	}
}

// Without a collector, all methods do nothing.
func TestNoExport(t *testing.T) {
	t.Parallel()
	e, err := NewExport(ExportOptions{})
	if e != nil || err != nil {
		t.Fatalf("NewExport without a collector: %v, %v", e, err)
	}
	e.Observe(t.Context(), blocked())
	e.ObserveLate(t.Context(), blocked())
	if h := e.LogHandler(nil); h.Enabled(t.Context(), 100) {
		t.Error("a log handler that sends nothing is enabled")
	}
	_, s := e.TracerProvider().Tracer("x").Start(t.Context(), "x")
	s.End()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil {
		t.Error(err)
	}
	for name, opts := range map[string]ExportOptions{
		"scheme": {Traces: "ftp://x/"}, "no host": {Logs: "http:///v1/logs"}, "password": {Traces: "http://a:b@x/"}, "header": {Traces: "http://x/", Headers: map[string]string{"A\nB": "c"}},
		"header value": {Traces: "http://x/", Headers: map[string]string{"Key": "top\nsecret"}}, "sampler": {Traces: "http://x/", Sampler: "some"}, "ratio": {Traces: "http://x/", Ratio: 2},
		"not a number": {Traces: "http://x/", Ratio: math.NaN()},
	} {
		if e, err := NewExport(opts); e != nil || err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
}

func BenchmarkObserveSpans(b *testing.B) {
	e, err := NewExport(ExportOptions{Traces: "http://127.0.0.1:9/v1/traces"})
	if err != nil {
		b.Fatal(err)
	}
	rec := blocked()
	b.ReportAllocs()
	for b.Loop() {
		e.Observe(b.Context(), rec)
	}
}
