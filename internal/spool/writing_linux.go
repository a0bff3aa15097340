package spool

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// writing reports whether a process is known to have a file open for writing. f is open for
// reading only. The kernel gives a lease to read where nobody has it open for writing; which
// file systems give none cannot be told from who writes, so only its refusal says anything.
func writing(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return errors.Is(err, unix.EAGAIN)
}
