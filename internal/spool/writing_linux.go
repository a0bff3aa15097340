package spool

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// writing reports whether a process is known to have a file open for writing. f must be open for
// reading only. In that case the kernel refuses a read lease with EAGAIN. Other errors mean nothing,
// because some file systems never grant leases.
func writing(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return errors.Is(err, unix.EAGAIN)
}
