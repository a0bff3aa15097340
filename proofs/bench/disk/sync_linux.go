// Package disk waits for the disk.
package disk

import (
	"os"
	"syscall"
)

// Sync waits until the disk has the data of a file, as a database does.
func Sync(f *os.File) error { return os.NewSyscallError("fdatasync", syscall.Fdatasync(int(f.Fd()))) }
