//go:build unix

package hookcmd

import (
	"errors"
	"fmt"
	"io"
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
