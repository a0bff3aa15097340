package telemetry_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
)

// An engine reports every firing to its Metrics, and Prometheus reads them.
func ExampleNewMetrics() {
	guard := grapnel.Spec{
		Name: "no-bash", Source: grapnel.Source{Name: "/home/ann/grapnel.yaml", File: "/home/ann/grapnel.yaml", Scope: grapnel.ScopeUser}, Tools: []string{"Bash"},
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "Not here."}, nil
		}),
	}
	metrics := telemetry.NewMetrics(telemetry.MetricsOptions{Version: "1.2.3"})
	metrics.Expect([]grapnel.Spec{guard})
	engine, err := grapnel.New([]grapnel.Spec{guard}, &grapnel.Options{Observers: []grapnel.Observer{metrics}})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine.Fire(context.Background(), &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "codex"}, Tool: &grapnel.Tool{Name: "Bash"}})

	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, "grapnel_hook_runs_total") && strings.HasSuffix(line, " 1") || strings.HasPrefix(line, "grapnel_fail_open_total{hook=\"no-bash\"") {
			fmt.Println(line)
		}
	}
	// Output:
	// grapnel_fail_open_total{hook="no-bash",source="user"} 0
	// grapnel_hook_runs_total{decision="block",hook="no-bash",source="user"} 1
}
