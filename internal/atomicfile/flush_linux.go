package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Flush waits until what was written is on the disk. Times of the file may not be.
func Flush(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
