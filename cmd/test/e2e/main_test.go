//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/cmd/test/e2e/agents"
	"github.com/grapnel-dev/grapnel/cmd/test/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/test/e2e/tools"
)

// Results of the first process, for the copy without a network that runs the tests.
const (
	binVar      = "GRAPNEL_E2E_BIN"       // directory of grapnel and grapnel-hook
	binErrorVar = "GRAPNEL_E2E_BIN_ERROR" // the error of the build
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if !offline.Entered() {
		clean, err := prepare()
		defer clean()
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
	}
	level, exit, done := offline.Enter()
	if done {
		return exit
	}
	fmt.Println("e2e: the network is kept away by:", level)
	for _, a := range agents.All {
		if why := a.NotRun(); why != "" {
			fmt.Printf("e2e: NOT RUN: %s: %s\n", a, why)
		}
	}
	for _, p := range tools.Programs {
		if why := p.NotRun(); why != "" {
			fmt.Printf("e2e: NOT RUN: %s: %s\n", p.Name, why)
		}
	}
	return m.Run()
}

// prepare does the steps that need a network: it installs the agents and the tools, and builds
// Grapnel. If the build fails, only the tests that need Grapnel fail, not the tests of the
// harness.
func prepare() (clean func(), err error) {
	clean = func() {}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := errors.Join(agents.Install(ctx, agents.All...), tools.Install(ctx)); err != nil {
		return clean, err
	}
	bin, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		return clean, os.Setenv(binErrorVar, err.Error())
	}
	return remove, os.Setenv(binVar, bin)
}

// program returns the path of one of Grapnel's programs.
func program(t testing.TB, name string) string {
	t.Helper()
	if problem := os.Getenv(binErrorVar); problem != "" {
		t.Fatalf("Grapnel does not build: %s", problem)
	}
	return filepath.Join(os.Getenv(binVar), name)
}
