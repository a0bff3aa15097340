//go:build !linux

package atomicfile

import "os"

// Flush waits until what was written is on the disk.
func Flush(f *os.File) error { return f.Sync() }
