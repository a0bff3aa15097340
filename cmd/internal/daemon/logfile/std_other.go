//go:build !linux && !darwin

package logfile

import "os"

// redirectOutput does nothing: the daemon does not run on this system.
func redirectOutput(*os.File) error { return nil }
