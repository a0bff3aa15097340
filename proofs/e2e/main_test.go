//go:build e2e

package e2e

import (
	"context"
	"os"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
)

func TestMain(m *testing.M) {
	install := func(ctx context.Context) error {
		return agents.Install(ctx, append(agents.All, agents.ClaudeCodeNode20)...)
	}
	os.Exit(offline.Main(m, install, notRun))
}

// notRun lists the agents that the tests leave out, each with the reason.
func notRun() (list []string) {
	for _, a := range agents.All {
		if why := a.NotRun(); why != "" {
			list = append(list, a.String()+": "+why)
		}
	}
	return list
}
