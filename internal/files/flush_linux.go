package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Flush waits until the data of a file is on disk. It does not wait for the times of the file.
func Flush(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
