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
	// ErrAbsent is the error of Look if no daemon listens.
	ErrAbsent = errors.New("no daemon is running")

	// ErrDead is an ErrAbsent with a stale socket of a daemon that has ended. The next daemon
	// replaces it.
	ErrDead = fmt.Errorf("%w: the previous daemon died", ErrAbsent)

	// ErrSilent is the error of Look if a daemon listens and does not answer.
	ErrSilent = errors.New("the daemon does not respond")
)

// A Found is a daemon that listens.
type Found struct {
	PID    int                        // from the kernel; 0 = the process is in another PID namespace
	Health map[string]json.RawMessage // nil = the daemon did not reply, see ErrSilent
	Well   bool                       // all parts of the daemon work
}

// Text returns a string member of the health, or "".
func (f *Found) Text(member string) string {
	var text string
	_ = json.Unmarshal(f.Health[member], &text)
	return text
}

// Number returns an integer member of the health, or 0.
func (f *Found) Number(member string) int {
	var n int
	if json.Unmarshal(f.Health[member], &n) != nil {
		return 0
	}
	return n
}

const lookTimeout = 2 * time.Second

const maxHealth = 1 << 20 // bytes

// Dial connects to the daemon that listens on a socket. It accepts only a daemon of this user or
// of root, in a directory that no other user can write to.
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
	case err != nil && (ctx.Err() != nil || errors.Is(err, syscall.EAGAIN)): // its backlog is full
		return nil, fmt.Errorf("%w: it accepts no connections", ErrSilent)
	case err != nil:
		return nil, err
	}
	conn := raw.(*net.UnixConn)
	if uid, err := peerOf(conn); err != nil || uid != os.Getuid() && uid != 0 {
		return nil, errors.Join(fmt.Errorf("user %d listens on %s, not this user (%d)", uid, socket, os.Getuid()), err, conn.Close())
	}
	return conn, nil
}

// Wake asks the daemon for all users to start the daemon of this user, and reports whether one listens
// on the socket.
func Wake(ctx context.Context, socket string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	uid, err := peerOf(conn.(*net.UnixConn))
	return err == nil && uid == 0
}

// Client returns an HTTP client that sends all requests to the daemon on a socket. It ignores the
// host of the address. Each request uses a new connection. timeout applies to each request.
func Client(socket string, timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, socket) },
	}}
}

// Look connects to the daemon that listens on a socket and reads its health. With an ErrSilent,
// the Found has only the PID.
func Look(ctx context.Context, socket string) (*Found, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
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
	var health map[string]json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil {
		return fmt.Errorf("its health report is not valid JSON (%s): %w", resp.Status, err)
	}
	if health == nil {
		return fmt.Errorf("its health report is empty (%s)", resp.Status)
	}
	f.Health, f.Well = health, resp.StatusCode == http.StatusOK
	return nil
}

// Busy reports whether a daemon listens on a socket, is about to listen, or has not ended yet.
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

// Clear removes the stale socket of a daemon that has ended.
func Clear(socket string) error {
	if err := private(filepath.Dir(socket)); err != nil {
		return err
	}
	lock, err := lockFor(socket, time.Second) // a hook program that looks for a daemon, and a program that the daemon was starting, hold it briefly
	if err != nil {
		return err
	}
	return errors.Join(removeOwn(socket), lock.Close())
}
