//go:build unix

package docs

import (
	"context"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
)

// metrics returns the metrics of a daemon in which every counted thing has happened once.
func metrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	m := telemetry.NewMetrics(telemetry.MetricsOptions{
		Version: "1.2.3",
		Store:   func(context.Context) (telemetry.StoreStats, error) { return telemetry.StoreStats{}, nil },
		Losses:  func() telemetry.Losses { return telemetry.Losses{} },
		Forward: func(context.Context) ([]telemetry.ForwardStats, error) {
			return []telemetry.ForwardStats{{Target: "postgres://db/grapnel"}}, nil
		},
		Deliver: func(context.Context) (telemetry.DeliveryStats, error) {
			return telemetry.DeliveryStats{Targets: []telemetry.TargetStats{{Target: "user::team"}}}, nil
		},
	})
	if _, err := telemetry.NewExport(telemetry.ExportOptions{Traces: "http://127.0.0.1:4318/v1/traces", Metrics: m}); err != nil {
		t.Fatal(err)
	}
	m.Observe(t.Context(), &grapnel.Record{Agent: "codex", Event: grapnel.ToolBefore, Hooks: []grapnel.HookRun{{Name: "h", Source: "s"}}})
	m.PolicyLoaded(time.Now(), nil)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// The table of metrics has the same content as the registry.
func TestMetricsTable(t *testing.T) {
	t.Parallel()
	families := metrics(t)
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if !strings.HasPrefix(name, "grapnel_") {
			continue
		}
		var labels []string
		for _, l := range families[name].GetMetric()[0].GetLabel() {
			labels = append(labels, code(l.GetName()))
		}
		rows = append(rows, []string{code(name), strings.ToLower(families[name].GetType().String()), strings.Join(labels, ", "), families[name].GetHelp()})
	}
	if len(rows) < 25 {
		t.Errorf("only %d metrics", len(rows))
	}
	checkParts(t, "observe.md", map[string]string{"metrics": table([]string{"metric", "", "labels", "meaning"}, rows)})
}

var metricName = regexp.MustCompile(`\b(?:grapnel|go|process|promhttp)_[a-z0-9_]+`)

// missing lists the metrics in an expression that the daemon does not have.
func missing(families map[string]*dto.MetricFamily, expr string) []string {
	var none []string
	for _, name := range metricName.FindAllString(expr, -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if f := families[strings.TrimSuffix(name, suffix)]; f != nil && f.GetType() == dto.MetricType_HISTOGRAM {
				base = strings.TrimSuffix(name, suffix)
			}
		}
		if families[base] == nil {
			none = append(none, name)
		}
	}
	return none
}

// A panel is a panel of a Grafana dashboard.
type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ Type, UID string }
	Targets     []struct {
		Expr, RefID string
		Datasource  struct{ Type, UID string }
	}
	FieldConfig struct {
		Defaults struct {
			Color struct{ Mode, FixedColor string }
		}
	}
}

// Grafana can read the dashboard. It uses only existing metrics, and shows all of Grapnel's
// metrics.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var d struct {
		Title, UID    string
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal([]byte(readPage(t, filepath.Join("grafana", "grapnel.json"))), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 || len(d.Templating.List) != 3 || d.Templating.List[0].Type != "datasource" {
		t.Errorf("not a dashboard: %+v", d)
	}
	families := metrics(t)
	shown, ids, taken := map[string]bool{}, map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d %q: the id is not its own, or there is no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("panel %q lies on %q, or beside the page, at %d, %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		switch p.Type {
		case "row":
			continue
		case "stat", "timeseries", "heatmap":
		default:
			t.Errorf("panel %q is a %s", p.Title, p.Type)
		}
		if len(p.Targets) == 0 || p.Description == "" || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q has no query, no description, or another data source", p.Title)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.RefID == "" || q.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q: the name of query %q is not its own, or it has another data source", p.Title, q.RefID)
			}
			refs[q.RefID] = true
			if none := missing(families, q.Expr); len(none) > 0 || !metricName.MatchString(q.Expr) {
				t.Errorf("panel %q shows what is not there: %v in %s", p.Title, none, q.Expr)
			}
			if strings.Count(q.Expr, "(") != strings.Count(q.Expr, ")") || strings.Count(q.Expr, "{") != strings.Count(q.Expr, "}") {
				t.Errorf("panel %q: %s", p.Title, q.Expr)
			}
			if names := metricName.FindAllString(q.Expr, -1); strings.Count(q.Expr, `{instance=~"$instance"`) != len(names) {
				t.Errorf("panel %q shows other machines, too: %s", p.Title, q.Expr)
			}
			for _, name := range metricName.FindAllString(q.Expr, -1) {
				shown[strings.TrimSuffix(name, "_bucket")] = true
			}
			if strings.Contains(q.Expr, "fail_open") && p.Type == "timeseries" && p.FieldConfig.Defaults.Color.FixedColor != "red" {
				t.Errorf("panel %q is not red", p.Title)
			}
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "grapnel_") && !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, list := range d.Templating.List[1:] {
		if none := missing(families, list.Definition); len(none) > 0 {
			t.Errorf("the list %s asks for %v", list.Name, none)
		}
	}
}

// The alerts use only existing metrics, and the page shows the alerts of the file.
func TestAlerts(t *testing.T) {
	t.Parallel()
	families, rules := metrics(t), readPage(t, filepath.Join("grafana", "alerts.yml"))
	exprs := 0
	for line := range strings.Lines(rules) {
		if expr, ok := strings.CutPrefix(strings.TrimSpace(line), "expr: "); ok {
			exprs++
			if none := missing(families, expr); len(none) > 0 || !metricName.MatchString(expr) {
				t.Errorf("%s looks at what is not there: %v", expr, none)
			}
		}
	}
	if exprs < 4 || !strings.Contains(rules, "grapnel_fail_open_total") {
		t.Errorf("%d alerts:\n%s", exprs, rules)
	}
	found := 0
	for _, b := range blocks(readPage(t, "observe.md")) {
		if b.lang == "yml" {
			found++
			if !strings.Contains(rules, b.text) {
				t.Errorf("observe.md:%d: alerts.yml does not have this:\n%s", b.line, b.text)
			}
		}
	}
	if found == 0 {
		t.Error("observe.md shows no alert")
	}
}
