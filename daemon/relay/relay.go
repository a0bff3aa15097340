// Package relay lets programs ask a daemon, over HTTP/1.1 on a unix socket that only its
// user can reach:
//
//	l, err := relay.Listen(thin.Socket(state))
//	err = (&http.Server{Handler: relay.Handler(relay.Options{Answer: answer})}).Serve(l)
//
// Programs that agents start ask with package [thin]; for all others openapi.yaml says what
// there is. The package decides nothing about events.
package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrRunning is what Listen returns where a daemon listens.
var ErrRunning = errors.New("a daemon is running")

// Listen listens on a unix socket, in a directory that it makes for this user alone.
// Connections of other users than this one and root are closed. A socket that nobody
// listens on any more is replaced.
func Listen(socket string) (net.Listener, error) {
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s is not a directory that only its owner can reach: run \"chmod 700 %s\"", dir, dir)
	}
	name, done, err := shortName(socket)
	if err != nil {
		return nil, err
	}
	defer done()
	if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "unix", name); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: it listens on %s", ErrRunning, socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by the name it has now nobody may find it then
	if err := os.Chmod(socket, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return &listener{UnixListener: l, socket: socket}, nil
}

// A listener takes the connections of its own user and of root.
type listener struct {
	*net.UnixListener
	socket string
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerOf(conn); err == nil && (uid == os.Getuid() || uid == 0) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// Close removes the socket, too.
func (l *listener) Close() error {
	return errors.Join(l.UnixListener.Close(), removeOwn(l.socket))
}

func removeOwn(socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return nil
}
