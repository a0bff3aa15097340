//go:build !linux

package spool

import "os"

// writing reports whether a process is known to have a file open for writing: this system cannot
// tell.
func writing(*os.File) bool { return false }
