//go:build !linux

package files

import "os"

// Flush waits until the data of a file is on disk.
func Flush(f *os.File) error { return f.Sync() }
