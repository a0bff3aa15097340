package offline

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
)

// Results of the first process, for the copy without a network that runs the tests.
const (
	binVar      = "GRAPNEL_E2E_BIN"       // directory of grapnel and grapnel-hook
	binErrorVar = "GRAPNEL_E2E_BIN_ERROR" // the error of the build
)

// Main runs the tests of a package without a network, after the steps that need one: install, and
// a build of Grapnel. notRun lists the parts that this machine lacks, each with the reason. Main returns the
// exit status of the tests. If Grapnel does not build, only the tests that need it fail.
func Main(m *testing.M, install func(context.Context) error, notRun func() []string) int {
	if !Entered() {
		clean, err := prepare(install)
		defer clean()
		if err != nil {
			fmt.Fprintln(os.Stderr, "prepare the tests:", err)
			return 1
		}
	}
	level, exit, done := Enter()
	if done {
		return exit
	}
	fmt.Println("the network is kept away by:", level)
	for _, why := range notRun() {
		fmt.Println("NOT RUN:", why)
	}
	return m.Run()
}

func prepare(install func(context.Context) error) (clean func(), err error) {
	clean = func() {}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := install(ctx); err != nil {
		return clean, err
	}
	bin, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		return clean, os.Setenv(binErrorVar, err.Error())
	}
	return remove, os.Setenv(binVar, bin)
}

// Program returns the path of one of Grapnel's programs, for tests that [Main] runs.
func Program(t testing.TB, name string) string {
	t.Helper()
	if problem := os.Getenv(binErrorVar); problem != "" {
		t.Fatalf("Grapnel does not build: %s", problem)
	}
	return filepath.Join(os.Getenv(binVar), name)
}
