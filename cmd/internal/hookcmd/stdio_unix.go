//go:build unix

package hookcmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readTime is how long reading an event may take. If an agent never closed the pipe, this program
// would wait until the agent gives up on the hook and continues without its guards.
const readTime = 10 * time.Second

// inTime returns a reader that fails after readTime. It polls before each read, because reads
// from an inherited file block, and polling needs no timer.
func inTime(r io.Reader) io.Reader {
	f, ok := r.(*os.File)
	until := time.Now().Add(readTime)
	if !ok || f.SetReadDeadline(until) == nil { // a non-blocking file supports deadlines itself
		return r
	}
	return &timed{f, f.Fd(), until}
}

type timed struct {
	*os.File
	fd    uintptr
	until time.Time
}

// Read fails if no data arrives before the deadline.
func (t *timed) Read(p []byte) (int, error) {
	for {
		wait := max(0, time.Until(t.until).Milliseconds())
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}, int(wait)) // a file descriptor
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && n == 0:
			return 0, fmt.Errorf("standard input was not closed within %v", readTime)
		default: // also reads if polling failed
			return t.File.Read(p)
		}
	}
}

// wasClosed reports whether standard output was closed when the program started. The Go runtime
// then opens the null device in its place, for reading and writing; a shell's > opens it for
// writing only.
func wasClosed(stdout io.Writer) bool {
	f, ok := stdout.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		return false
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}
