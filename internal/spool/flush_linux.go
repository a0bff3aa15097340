package spool

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flush waits until what was written is on the disk. Times of the file may not be.
func flush(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
