// Grapnel-hook is the program that AI agents run at their events. "grapnel install"
// writes it into their settings; "grapnel-hook --help" lists its arguments.
//
// It is kept apart from the program that people type because Go runs the
// initializers of every linked package before main: a package that is not linked costs nothing.
package main

import (
	"os"
	"runtime/debug"

	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/process"
)

func main() {
	process.SandboxMain() // where this is to become a hook's program, before anything else
	// One event is answered in a few milliseconds and a few megabytes: collecting
	// garbage would only cost time, unless the event is a very large one.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(128 << 20)
	os.Exit(hookcmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
