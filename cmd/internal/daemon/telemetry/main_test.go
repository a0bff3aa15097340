package telemetry

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

func TestMain(m *testing.M) { await.Main(m) }

// started is the time of the firings in the tests.
var started = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

// blocked returns a firing to which two hooks contributed and in which one failed.
func blocked() *grapnel.Record {
	return &grapnel.Record{
		ID: "019cb7a1c0de0123456789abcdef", Time: started, Agent: "claude-code", Session: "s1", Event: grapnel.ToolBefore, Tool: "Bash",
		Decision: grapnel.Block, Would: grapnel.Ask, MS: 120,
		Hooks: []grapnel.HookRun{
			{Name: "no-rm", Source: "/home/ann/.config/grapnel/grapnel.yaml", Line: 4, Decision: grapnel.Block, Cause: grapnel.CauseDecision, MS: 0.5},
			{Name: "scan", Source: "/home/ann/.config/grapnel/grapnel.yaml#secrets", Cause: grapnel.CauseTimeout, Error: "took longer than its timeout of 100ms: token=hunter2hunter2", FailOpen: true, MS: 100},
			{Name: "try", Source: "/home/ann/.config/grapnel/grapnel.yaml", Decision: grapnel.Ask, Cause: grapnel.CauseDecision, Observed: true, MS: 1},
			{Name: "tell", Source: "/home/ann/.config/grapnel/grapnel.yaml", Async: true},
		},
		Reasons:     []grapnel.Reason{{Hook: "/home/ann/.config/grapnel/grapnel.yaml::no-rm", Text: "Name the files; password=hunter2hunter2", Cause: grapnel.CauseDecision}},
		Unsupported: []string{"context: not sent", "message: not sent"},
		Input: &grapnel.Event{
			Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "claude-code", Version: "2.1.0"}, Session: grapnel.Session{ID: "s1", CWD: "/home/ann/work", Model: "opus"},
			Tool: &grapnel.Tool{ID: "toolu_1", Name: "Bash", Class: grapnel.ClassShell, Input: []byte(`{"command":"rm -rf /tmp/secret-customer"}`)},
		},
	}
}

// userScope returns the scope of the files in blocked.
func userScope(file string) (grapnel.Scope, bool) {
	return grapnel.ScopeUser, file == "/home/ann/.config/grapnel/grapnel.yaml"
}
