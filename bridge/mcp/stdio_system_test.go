//go:build system

package mcp_test

import (
	"os"
	"os/exec"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel/bridge/mcp"
)

// The stdio transport starts the server as a program.
func init() {
	wires["stdio"] = func(t *testing.T, w *workshop, scene string, server *mcp.Bridge, client *sdk.Client) *sdk.ClientSession {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "MCP_TEST_FILE="+w.file, "GORACE=atexit_sleep_ms=0")
		if cmd.Stderr = os.Stderr; server != nil {
			cmd.Env = append(cmd.Env, "MCP_TEST_SCENE="+scene)
		}
		return connect(t, client, &sdk.CommandTransport{Command: cmd})
	}
}
