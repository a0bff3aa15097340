// Build builds all variants of the programs that system tests run:
//
//	go run ./proofs/build DIR
//
// The race detector needs a C compiler. Without one, the tests that want the race detector run
// the plain programs.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: build DIR")
		os.Exit(64)
	}
	for _, v := range []programs.Variant{programs.Plain, programs.Faults, programs.Race} {
		dir := filepath.Join(os.Args[1], string(v))
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = programs.Build(v, dir)
		}
		switch {
		case err == nil:
		case v == programs.Race: // the plain programs built, so only the C compiler can be missing
			fmt.Fprintf(os.Stderr, "build: no race detector, tests of daemons run the plain programs: %v\n", err)
			_ = os.RemoveAll(dir)
		default:
			fmt.Fprintf(os.Stderr, "build: error: %v\n", err)
			os.Exit(1)
		}
	}
}
