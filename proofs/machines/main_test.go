//go:build e2e && linux

package machines

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
)

// The programs of the tests.
var grapnel, hook, natsServer string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the programs of the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		return 1, err
	}
	defer remove()
	grapnel, hook = filepath.Join(dir, "grapnel"), filepath.Join(dir, "grapnel-hook")
	server, err := os.MkdirTemp("", "nats-server-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(server) }()
	natsServer = filepath.Join(server, "nats-server")
	cmd := exec.CommandContext(context.Background(), "go", "-C", "natsserver", "build", "-trimpath", "-o", natsServer, "github.com/nats-io/nats-server/v2")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("%w\n%s", err, out)
	}
	return m.Run(), nil
}
