//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "nofork: error: only Linux can forbid child processes")
	os.Exit(1)
}
