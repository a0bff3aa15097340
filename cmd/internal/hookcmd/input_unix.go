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

// readTime is how long an event may take to come in. An agent that never closes what
// the event comes on would wait until it gives up on the hook, and then go on unguarded.
const readTime = 10 * time.Second

// inTime reads what comes in time. It asks the system before each read, since a file
// that this process was given blocks, and no timer costs anything then.
func inTime(r io.Reader) io.Reader {
	f, ok := r.(*os.File)
	until := time.Now().Add(readTime)
	if !ok || f.SetReadDeadline(until) == nil { // the agent made it one that does not block
		return r
	}
	return &timed{f, f.Fd(), until}
}

type timed struct {
	*os.File
	fd    uintptr
	until time.Time
}

// Read fails when there is nothing to read before time is over.
func (t *timed) Read(p []byte) (int, error) {
	for {
		wait := max(0, time.Until(t.until).Milliseconds())
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}, int(wait)) //nolint:gosec // a descriptor
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && n == 0:
			return 0, fmt.Errorf("it was not closed within %v", readTime)
		default: // also what cannot be asked about is read
			return t.File.Read(p)
		}
	}
}
