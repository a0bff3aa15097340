package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

var (
	// ErrAbsent is what Look returns where no daemon listens.
	ErrAbsent = errors.New("no daemon is running")

	// ErrDead is an ErrAbsent where the socket of one that has died is left. The next
	// daemon replaces it.
	ErrDead = fmt.Errorf("%w: the one that listened here has died", ErrAbsent)

	// ErrSilent is what Look returns where a daemon listens, and does not say how it is.
	ErrSilent = errors.New("the daemon does not answer")
)

// A Found is a daemon that listens.
type Found struct {
	PID    int                        // of the process, as the kernel says; 0 = it cannot be seen from here
	Health map[string]json.RawMessage // what it says of itself; nil = nothing, see ErrSilent
	Well   bool                       // it says that all its parts work
}

// Text is a member of its health that is a text; empty = there is none.
func (f *Found) Text(member string) string {
	var text string
	_ = json.Unmarshal(f.Health[member], &text)
	return text
}

// Number is a member of its health that is a whole number; 0 = there is none.
func (f *Found) Number(member string) int {
	var n int
	if json.Unmarshal(f.Health[member], &n) != nil {
		return 0
	}
	return n
}

// patience is how long Look waits for a daemon to say how it is.
const patience = 2 * time.Second

// maxHealth is the size of the largest health that is read.
const maxHealth = 1 << 20

// Dial connects to the daemon that listens on a socket. It believes nobody but one of this
// user or of root, in a directory that nobody else can write to.
func Dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	if _, err := os.Lstat(socket); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, ErrAbsent
	}
	if err := private(filepath.Dir(socket)); err != nil {
		return nil, err
	}
	name, done, err := shortName(socket)
	if err != nil {
		return nil, err
	}
	defer done()
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, ErrDead
	case err != nil && (ctx.Err() != nil || errors.Is(err, syscall.EAGAIN)): // more wait already than it can keep
		return nil, fmt.Errorf("%w: it takes no connection", ErrSilent)
	case err != nil:
		return nil, err
	}
	conn := raw.(*net.UnixConn)
	if uid, err := peerOf(conn); err != nil || uid != os.Getuid() && uid != 0 {
		return nil, errors.Join(fmt.Errorf("user %d listens on %s, and this is user %d", uid, socket, os.Getuid()), err, conn.Close())
	}
	return conn, nil
}

// Client asks the daemon that listens on a socket, whatever host an address names. Each
// request has a connection of its own, as Dial makes it, and takes so long at most.
func Client(socket string, timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, socket) },
	}}
}

// Look looks for the daemon that listens on a socket, and asks how it is. With an ErrSilent
// the Found says what the kernel knows of it.
func Look(ctx context.Context, socket string) (*Found, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	found := &Found{}
	if found.PID, err = pidOf(conn); err != nil {
		return nil, err
	}
	if err := found.ask(ctx, conn); err != nil {
		return found, fmt.Errorf("%w: %w", ErrSilent, err)
	}
	return found, nil
}

func (f *Found) ask(ctx context.Context, conn net.Conn) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://grapnel/v1/health", nil)
	if err != nil {
		return err
	}
	req.Close = true
	if err := req.Write(conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHealth)), req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var said map[string]json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		return fmt.Errorf("what it says of itself is no JSON (%s): %w", resp.Status, err)
	}
	if said == nil {
		return fmt.Errorf("it says nothing of itself (%s)", resp.Status)
	}
	f.Health, f.Well = said, resp.StatusCode == http.StatusOK
	return nil
}

// Busy reports whether a daemon listens on a socket, is about to, or has not gone yet.
func Busy(socket string) bool {
	if private(filepath.Dir(socket)) != nil {
		return false
	}
	lock, err := lockFor(socket, 0)
	if err == nil {
		_ = lock.Close()
	}
	return errors.Is(err, ErrRunning)
}

// Clear removes the socket that a dead daemon has left.
func Clear(socket string) error {
	if err := private(filepath.Dir(socket)); err != nil {
		return err
	}
	lock, err := lockFor(socket, 0)
	if err != nil {
		return err
	}
	return errors.Join(removeOwn(socket), lock.Close())
}
