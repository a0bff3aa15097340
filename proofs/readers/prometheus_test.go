//go:build e2e

package readers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/proofs/readers/tools"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
)

// scrape starts a daemon, sends it some events, and returns its metrics.
func scrape(t *testing.T) string {
	t.Helper()
	b := newBench(t, map[string]string{"kit/grapnel.yaml": `version: 1
networks: [127.0.0.1/32]
hooks:
  - {name: no-force-push, on: tool.before, match: {command: git push --force}, block: Push a new branch.}
  - {name: fails-open, on: tool.before, match: {command: git status}, run: [/no/such/program]}
  - {name: watched, on: tool.before, match: {command: ls}, block: no, mode: observe}
  - {name: told, on: tool.before, match: {command: git push}, notify: {url: "http://127.0.0.1:9/x"}}
`})
	kit := filepath.Join(b.dir, "kit")
	daemon, err := served.Start(t.Context(), filepath.Dir(offline.Program(t, "grapnel")), kit, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := daemon.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, command := range []string{"git push --force", "git status", "ls"} {
		cmd := exec.CommandContext(t.Context(), offline.Program(t, "grapnel-hook"), "claude-code", "--root", kit)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":"s","cwd":%q,"tool_name":"Bash","tool_input":{"command":%q}}`, b.dir, command))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for until := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text, err := daemon.Get(t.Context(), "/metrics")
		if err != nil {
			t.Fatalf("no metrics: %v\n%s", err, daemon.Output())
		}
		metrics := string(text)
		if strings.Contains(metrics, `grapnel_fail_open_total{hook="fails-open",source="user"} 1`) && strings.Contains(metrics, "\ngrapnel_log_records 3") {
			return metrics
		}
		if time.Now().After(until) {
			t.Fatalf("the daemon did not count what it answered:\n%s\n%s", metrics, daemon.Output())
		}
	}
}

// promtool runs Prometheus' checker on a text, and returns its output and exit status.
func promtool(t *testing.T, stdin string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tools.Promtool.Path(t), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// The metrics of a busy daemon follow Prometheus' rules for names, units, types and help texts.
func TestPrometheusTakesMetrics(t *testing.T) {
	t.Parallel()
	tools.Promtool.Path(t)
	metrics := scrape(t)
	if out, exit := promtool(t, metrics, "check", "metrics"); exit != 0 || out != "" {
		t.Errorf("promtool: exit %d\n%s", exit, out)
	}
	// The metrics that docs/observe.md writes to the directory of a node exporter.
	var ours strings.Builder
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "grapnel_") {
			ours.WriteString(line)
		}
	}
	if out, exit := promtool(t, ours.String(), "check", "metrics"); exit != 0 || out != "" || ours.Len() < 10_000 {
		t.Errorf("promtool on %d bytes: exit %d\n%s", ours.Len(), exit, out)
	}
	if _, exit := promtool(t, strings.Replace(metrics, "grapnel_firings_total{", "grapnel_firings_total{{", 1), "check", "metrics"); exit == 0 {
		t.Error("promtool takes what are no metrics")
	}
}

// The alerts fire only under their conditions; testdata/alerts_test.yml has the cases.
func TestPrometheusAlerts(t *testing.T) {
	t.Parallel()
	rules := filepath.Join("..", "..", "docs", "grafana", "alerts.yml")
	if out, exit := promtool(t, "", "check", "rules", rules); exit != 0 {
		t.Errorf("promtool: exit %d\n%s", exit, out)
	}
	if out, exit := promtool(t, "", "test", "rules", filepath.Join("testdata", "alerts_test.yml")); exit != 0 {
		t.Errorf("promtool: exit %d\n%s", exit, out)
	}
	// Each alert is tested: with another threshold or a longer duration, a case fails.
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile(filepath.Join("testdata", "alerts_test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"[10m])) > 0", "[10m])) > 1"}, {"== 0\n        for: 5m", "== 0\n        for: 9m"}, {"> 3600", ">= 3600"}, {"> 300", "> 400"}, {"[1d]", "[2d]"}, {"[7d]", "[30d]"}} {
		b := newBench(t, map[string]string{
			"alerts.yml":      strings.Replace(string(text), change[0], change[1], 1),
			"alerts_test.yml": strings.Replace(string(cases), "../../../docs/grafana/alerts.yml", "alerts.yml", 1),
		})
		if !strings.Contains(string(text), change[0]) {
			t.Errorf("no alert has %q", change[0])
		}
		if out, exit := promtool(t, "", "test", "rules", filepath.Join(b.dir, "alerts_test.yml")); exit == 0 {
			t.Errorf("no case notices %q instead of %q:\n%s", change[1], change[0], out)
		}
	}
}

// Prometheus reads every query of the dashboard.
func TestPrometheusReadsDashboard(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "grafana", "grapnel.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	filled := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$agent", ".*")
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, rule{fmt.Sprintf("panel:%d", len(rules)), filled.Replace(target.Expr)})
		}
	}
	if len(rules) < 30 {
		t.Errorf("only %d queries", len(rules))
	}
	b := newBench(t, map[string]string{"rules.yml": string(raw(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}))})
	if out, exit := promtool(t, "", "check", "rules", filepath.Join(b.dir, "rules.yml")); exit != 0 || !strings.Contains(out, fmt.Sprintf("%d rules found", len(rules))) {
		t.Errorf("promtool: exit %d\n%s", exit, out)
	}
}
