package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// scrape reads the metrics like Prometheus: over HTTP, with its parser.
func scrape(t testing.TB, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	srv := httptest.NewServer(m.Handler())
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("scrape: %v, %v\n%s", res.Status, err, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("Prometheus cannot read it: %v\n%s", err, text)
	}
	return families
}

// values returns the series of a metric, by labels in the form a="b",c="d". For a histogram it
// returns the count.
func values(families map[string]*dto.MetricFamily, name string) map[string]float64 {
	all := map[string]float64{}
	for _, m := range families[name].GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
		slices.Sort(labels)
		all[strings.Join(labels, ",")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return all
}

// some removes the zero values.
func some(all map[string]float64) map[string]float64 {
	maps.DeleteFunc(all, func(_ string, v float64) bool { return v == 0 })
	return all
}

// busy returns Metrics in which every metric has a series.
func busy() *Metrics {
	m := NewMetrics(MetricsOptions{
		Version: "1.2.3", Scope: userScope,
		Losses: func() Losses { return Losses{Failing: true, Segments: 300, Answers: 4} },
		Forward: func(context.Context) ([]ForwardStats, error) {
			return []ForwardStats{{Target: "postgres://db/grapnel", Behind: 12, Lag: 90 * time.Second, Failing: true, Missed: 3}}, nil
		},
		Store: func(context.Context) (StoreStats, error) {
			return StoreStats{Records: 7, Bytes: 4096, Lag: 1500 * time.Millisecond, Behind: 99, Others: 5}, nil
		},
		Deliver: func(context.Context) (DeliveryStats, error) {
			return DeliveryStats{Targets: []TargetStats{
				{Target: "/home/ann/.config/grapnel/grapnel.yaml::team", Jobs: map[string]int{"waiting": 3, "dead": 1}, Oldest: map[string]time.Duration{"waiting": time.Minute}},
				{Target: "/srv/customer-x/grapnel.yaml::team", Jobs: map[string]int{"delivered": 2}, Off: true},
			}}, nil
		},
	})
	m.Observe(context.Background(), blocked())
	_, declined := m.Request()
	declined("version")
	m.Request()
	m.DeliveryTried("again")
	m.PolicyLoaded(time.Unix(1_700_000_000, 0), nil)
	m.PolicyLoaded(time.Unix(1_700_000_001, 0), errors.New("broken"))
	m.Queue("events", func() int { return 12 })
	m.dropped.WithLabelValues(signalTraces, "full").Add(2)
	m.exports.WithLabelValues(signalTraces, "ok").Inc()
	m.askErrors.WithLabelValues("store").Add(0)
	return m
}

func TestScrape(t *testing.T) {
	t.Parallel()
	got := scrape(t, busy())
	const no, scan, try = `hook="no-rm",source="user"`, `hook="scan",source="user#secrets"`, `hook="try",source="user"`
	for name, want := range map[string]map[string]float64{
		"grapnel_firings_total":                                {`agent="claude-code",decision="block",event="tool.before"`: 1},
		"grapnel_would_total":                                  {`agent="claude-code",decision="ask",event="tool.before"`: 1},
		"grapnel_unsupported_total":                            {`agent="claude-code",event="tool.before"`: 2},
		"grapnel_firing_errors_total":                          {},
		"grapnel_hook_runs_total":                              {`decision="block",` + no: 1, `decision="none",` + scan: 1, `decision="none",` + try: 1},
		"grapnel_hook_would_total":                             {`decision="ask",` + try: 1},
		"grapnel_hook_errors_total":                            {`cause="timeout",` + scan: 1},
		"grapnel_fail_open_total":                              {scan: 1},
		"grapnel_hook_duration_seconds":                        {no: 1, scan: 1, try: 1},
		"grapnel_firing_duration_seconds":                      {`agent="claude-code",event="tool.before"`: 1},
		"grapnel_answers_total":                                {`how="declined",reason="version"`: 1},
		"grapnel_answer_duration_seconds":                      {"": 1},
		"grapnel_answers_in_flight":                            {"": 1},
		"grapnel_delivery_tries_total":                         {`result="again"`: 1},
		"grapnel_policy_reloads_total":                         {`result="ok"`: 1, `result="failed"`: 1},
		"grapnel_policy_last_reload_successful":                {},
		"grapnel_policy_last_reload_success_timestamp_seconds": {"": 1_700_000_000},
		"grapnel_log_records":                                  {"": 7},
		"grapnel_log_size_bytes":                               {"": 4096},
		"grapnel_index_lag_seconds":                            {"": 1.5},
		"grapnel_index_behind_bytes":                           {"": 99},
		"grapnel_log_other_records_total":                      {"": 5},
		"grapnel_forward_behind_records":                       {`target="postgres://db/grapnel"`: 12},
		"grapnel_forward_lag_seconds":                          {`target="postgres://db/grapnel"`: 90},
		"grapnel_forward_failing":                              {`target="postgres://db/grapnel"`: 1},
		"grapnel_forward_missed_records_total":                 {`target="postgres://db/grapnel"`: 3},
		"grapnel_log_failing":                                  {"": 1},
		"grapnel_log_lost_segments_total":                      {"": 300},
		"grapnel_unrecorded_answers_total":                     {"": 4},
		"grapnel_deliveries":                                   {`state="waiting",target="user::team"`: 3, `state="dead",target="user::team"`: 1, `state="delivered",target="file::team"`: 2},
		"grapnel_delivery_oldest_waiting_seconds":              {`target="user::team"`: 60},
		"grapnel_delivery_target_off":                          {`target="file::team"`: 1},
		"grapnel_queue_depth":                                  {`queue="events"`: 12},
		"grapnel_telemetry_dropped_total":                      {`reason="full",signal="traces"`: 2},
	} {
		if got[name] == nil {
			t.Errorf("%s is missing", name)
		} else if diff := cmp.Diff(want, some(values(got, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name := range values(got, "grapnel_build_info") {
		if !strings.Contains(name, `version="1.2.3"`) {
			t.Errorf("build info %s", name)
		}
	}
	for _, name := range []string{"go_goroutines", "promhttp_metric_handler_requests_total"} {
		if got[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	for _, m := range got["grapnel_hook_duration_seconds"].GetMetric() {
		if l := m.GetLabel(); l[0].GetValue() == "scan" && math.Abs(m.GetHistogram().GetSampleSum()-0.1) > 1e-9 {
			t.Errorf("scan took %v s, want 0.1", m.GetHistogram().GetSampleSum())
		}
	}
}

// The counters for alerts exist before the first event.
func TestCountersBeginWithZero(t *testing.T) {
	t.Parallel()
	m := NewMetrics(MetricsOptions{})
	m.Expect([]grapnel.Spec{
		{Name: "guard", Source: grapnel.Source{Name: "/etc/grapnel/policy.d/a.yaml", File: "/etc/grapnel/policy.d/a.yaml", Scope: grapnel.ScopeManaged}},
		{Name: "keys", Source: grapnel.Source{Name: "/x/grapnel.yaml#secrets", File: "/x/grapnel.yaml", Scope: grapnel.ScopeProject}},
	})
	got := scrape(t, m)
	want := map[string]float64{`hook="guard",source="managed"`: 0, `hook="keys",source="project#secrets"`: 0, `hook="other",source="other"`: 0}
	if diff := cmp.Diff(want, values(got, "grapnel_fail_open_total")); diff != "" {
		t.Errorf("before anything ran (-want +got):\n%s", diff)
	}
	if values(got, "grapnel_policy_reloads_total")[`result="failed"`] != 0 || len(got["grapnel_delivery_tries_total"].GetMetric()) != len(tryResults) {
		t.Errorf("reloads %v, tries %v", got["grapnel_policy_reloads_total"], got["grapnel_delivery_tries_total"])
	}
	// A missing part is not shown as 0.
	for _, name := range []string{"grapnel_log_records", "grapnel_deliveries"} {
		if got[name] != nil {
			t.Errorf("%s without such a part: %v", name, got[name])
		}
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	families, err := busy().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestLateRuns(t *testing.T) {
	t.Parallel()
	m := NewMetrics(MetricsOptions{Scope: userScope})
	rec := blocked()
	m.Observe(t.Context(), rec)
	late := *rec
	late.Hooks = []grapnel.HookRun{{Name: "tell", Source: rec.Hooks[0].Source, Async: true, Error: "exit status 1", Cause: grapnel.CauseError, MS: 3}}
	m.ObserveLate(t.Context(), &late)
	got := scrape(t, m)
	if n := values(got, "grapnel_hook_errors_total")[`cause="error",hook="tell",source="user"`]; n != 1 {
		t.Errorf("errors of the late hook: %v, want 1", n)
	}
	if n := some(values(got, "grapnel_firings_total")); len(n) != 1 || n[`agent="claude-code",decision="block",event="tool.before"`] != 1 {
		t.Errorf("firings %v, want one", n)
	}
}

func TestSourceLabels(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/home/ann/.config/grapnel/grapnel.yaml":         "user",
		"/home/ann/.config/grapnel/grapnel.yaml#secrets": "user#secrets",
		"/srv/customer/grapnel.yaml":                     "file",
		"/srv/a#b/grapnel.yaml":                          "file#other",
		`C:\Users\ann\grapnel.yaml`:                      "file",
		"claude-code:/home/ann/.claude/settings.json":    "file:claude-code",
		"workspace:hooks/hooks.json":                     "file:workspace",
		"plugin.tool:scan":                               "plugin.tool:scan",
		"grapnel":                                        "grapnel",
		"pause":                                          "pause",
		"":                                               "",
	} {
		if got := sourceLabel(name, userScope); got != want {
			t.Errorf("sourceLabel(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNamesOfEvents(t *testing.T) {
	t.Parallel()
	for kind, want := range map[grapnel.Kind]string{
		grapnel.ToolBefore:                   "tool.before",
		"tool.before\n":                      other,
		"native.claude-code.PreToolUse":      "native.claude-code.PreToolUse",
		"native.claude-code.Invented":        other,
		"native.claude.PreToolUse":           other,
		"native.":                            other,
		"":                                   other,
		grapnel.Kind(strings.Repeat("x", 9)): other,
	} {
		if got := eventLabel(kind); got != want {
			t.Errorf("eventLabel(%q) = %q, want %q", kind, got, want)
		}
	}
	for name, want := range map[string]string{"claude-code": "claude-code", "claude": other, "": other, "my-agent": other, "gemini-cli": "gemini-cli"} {
		if got := agentLabel(name); got != want {
			t.Errorf("agentLabel(%q) = %q, want %q", name, got, want)
		}
	}
}

// Names that try to break the exposition format, to fill the memory, or to be shown where they
// must not.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	m := NewMetrics(MetricsOptions{})
	for _, name := range []string{
		"a\nb", "a\" } 1\ngrapnel_fail_open_total 0", "\xff\xfe", strings.Repeat("é", 1<<19), "\x1b[2J", "\u202egnp", "\\", "", "\x00", "# HELP x",
	} {
		m.Observe(t.Context(), &grapnel.Record{
			Agent: name, Session: "session-" + name, Event: grapnel.Kind(name), Tool: "tool-" + name, Decision: 200, Would: 99, MS: math.NaN(),
			Hooks:       []grapnel.HookRun{{Name: name, Source: name, Decision: 77, Cause: grapnel.Cause(name), Error: name + "!", FailOpen: true, MS: math.Inf(-1)}},
			Unsupported: []string{name},
		})
		_, declined := m.Request()
		declined(name)
		m.DeliveryTried(name)
		m.Queue(name, func() int { panic(name) })
	}
	got := scrape(t, m)
	for _, family := range got {
		for _, series := range family.GetMetric() {
			for _, l := range series.GetLabel() {
				if v := l.GetValue(); len(v) > maxLabel+32 || !utf8.ValidString(v) || strings.ContainsAny(v, "\n\x1b\x00\u202e") {
					t.Errorf("%s: label %s = %.60q", family.GetName(), l.GetName(), v)
				}
				if v := l.GetValue(); strings.HasPrefix(v, "session-") || strings.HasPrefix(v, "tool-") {
					t.Errorf("%s: label %s = %.60q", family.GetName(), l.GetName(), v)
				}
			}
		}
	}
	if n := values(got, "grapnel_firings_total"); n[`agent="other",decision="block",event="other"`] != 10 {
		t.Errorf("firings %v, want all under other", some(n))
	}
	if n := values(got, "grapnel_scrape_errors_total")[`part="queue"`]; n == 0 {
		// The error is counted during the scrape, so the next scrape shows it at the latest.
		if n = values(scrape(t, m), "grapnel_scrape_errors_total")[`part="queue"`]; n == 0 {
			t.Error("a queue that panics was not counted")
		}
	}
}

// The number of series is limited for any number of names. The sum contains everything, and one
// source does not use the series of another.
func TestBoundedHooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := NewMetrics(MetricsOptions{MaxHooks: rapid.IntRange(1, 40).Draw(t, "max")})
		runs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) grapnel.HookRun {
			return grapnel.HookRun{
				Name:   rapid.OneOf(rapid.StringMatching(`h[0-9]{1,2}`), rapid.String()).Draw(t, "name"),
				Source: rapid.SampledFrom([]string{"/a/grapnel.yaml", "grapnel", "claude-code:/x", "/a/b.yaml#p", "x"}).Draw(t, "source"), Error: "x", FailOpen: true,
			}
		}), 0, 200).Draw(t, "runs")
		m.Observe(context.Background(), &grapnel.Record{Hooks: runs})
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sum, bySource := 0.0, map[string]int{}
		for _, f := range families {
			if f.GetName() == "grapnel_fail_open_total" {
				for _, s := range f.GetMetric() {
					sum += s.GetCounter().GetValue()
					bySource[s.GetLabel()[1].GetValue()]++
				}
			}
		}
		if sum != float64(len(runs)) {
			t.Fatalf("%v failed open, want %d", sum, len(runs))
		}
		total := 0
		for source, n := range bySource {
			total += n
			if limit := max(m.opts.MaxHooks/4, 1); source != other && n > limit {
				t.Fatalf("%d hooks of %s, want at most %d", n, source, limit)
			}
		}
		if total > m.opts.MaxHooks+1 {
			t.Fatalf("%d series of %d", total, m.opts.MaxHooks)
		}
	})
}

// If the log hangs or is broken, a scrape lacks only its metrics.
func TestBrokenParts(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]func(context.Context) (StoreStats, error){
		"error": func(context.Context) (StoreStats, error) { return StoreStats{Records: 3}, errors.New("disk I/O error") },
		"panic": func(context.Context) (StoreStats, error) { panic("nil map") },
		"stuck": func(ctx context.Context) (StoreStats, error) { <-ctx.Done(); return StoreStats{}, context.Cause(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := NewMetrics(MetricsOptions{Store: part, Deliver: func(context.Context) (DeliveryStats, error) {
				return DeliveryStats{Targets: []TargetStats{{Target: "x"}}}, nil
			}})
			scrape(t, m)
			got := scrape(t, m)
			if got["grapnel_log_records"] != nil {
				t.Errorf("shown all the same: %v", got["grapnel_log_records"])
			}
			if n := values(got, "grapnel_scrape_errors_total")[`part="store"`]; n < 1 {
				t.Errorf("errors: %v", n)
			}
			if name != "stuck" && got["grapnel_deliveries"] == nil {
				t.Error("the deliveries are gone too")
			}
		})
	}
}

func TestManyTargets(t *testing.T) {
	t.Parallel()
	m := NewMetrics(MetricsOptions{Deliver: func(context.Context) (s DeliveryStats, err error) {
		for i := range 3 * maxTargets {
			s.Targets = append(s.Targets, TargetStats{Target: fmt.Sprintf("/p%d/g.yaml::t%d", i, i), Jobs: map[string]int{"waiting": 1}})
		}
		return s, nil
	}})
	n, sum := 0, 0.0
	for labels, v := range values(scrape(t, m), "grapnel_deliveries") {
		if strings.Contains(labels, "waiting") {
			n++
			sum += v
		}
	}
	if n > maxTargets+1 || sum != 3*maxTargets {
		t.Errorf("%d targets with %v jobs, want at most %d with %d", n, sum, maxTargets+1, 3*maxTargets)
	}
}

func TestOnlyRead(t *testing.T) {
	t.Parallel()
	h := NewMetrics(MetricsOptions{}).Handler()
	for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405, "BREW": 405} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/metrics", nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", method, w.Code, want)
		}
	}
}

// A request ends only once, even if the caller reports the end twice.
func TestRequestEndsOnce(t *testing.T) {
	t.Parallel()
	m := NewMetrics(MetricsOptions{})
	answered, declined := m.Request()
	answered()
	declined("busy")
	answered()
	for i := range 2 * maxReasons {
		_, declined := m.Request()
		declined(fmt.Sprintf("reason_%d", i))
	}
	got := scrape(t, m)
	how := values(got, "grapnel_answers_total")
	if how[`how="answered",reason=""`] != 1 || how[`how="declined",reason="busy"`] != 0 || how[`how="declined",reason="other"`] != maxReasons {
		t.Errorf("answers: %v", how)
	}
	if n := values(got, "grapnel_answers_in_flight")[""]; n != 0 {
		t.Errorf("in flight: %v, want 0", n)
	}
}

// All methods run at the same time, with scrapes. The race detector finds more.
func TestConcurrentMetrics(t *testing.T) {
	t.Parallel()
	m := busy()
	var wg sync.WaitGroup
	const goroutines, each = 8, 200
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				rec := blocked()
				rec.Hooks[0].Name = fmt.Sprintf("h%d", (g+i)%50)
				m.Observe(context.Background(), rec)
				answered, _ := m.Request()
				answered()
				m.Queue(fmt.Sprintf("q%d", i%3), func() int { return i })
				if i%50 == 0 {
					if _, err := m.registry.Gather(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := values(scrape(t, m), "grapnel_firings_total")[`agent="claude-code",decision="block",event="tool.before"`]; n != goroutines*each+1 {
		t.Errorf("%v firings, want %d", n, goroutines*each+1)
	}
}

func BenchmarkObserve(b *testing.B) {
	m, rec := NewMetrics(MetricsOptions{}), blocked()
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(b.Context(), rec)
	}
}
