package logfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// redirectOutput makes a file the standard output and standard error of this process.
func redirectOutput(f *os.File) error {
	return errors.Join(unix.Dup3(int(f.Fd()), 1, 0), unix.Dup3(int(f.Fd()), 2, 0))
}
