// Package server is the HTTP API of the daemon, on a unix socket that only its user can access:
//
//	l, err := server.Listen(client.Socket(state))
//	err = server.NewServer(server.Options{Answer: answer}, &http.Server{}).Serve(l)
//
// grapnel-hook sends its requests with package [client]. openapi.yaml describes the routes for
// other clients. The package makes no decisions about events.
package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// ErrRunning is the error of Listen if a daemon listens already.
var ErrRunning = errors.New("a daemon is running")

// Prepare creates the directory of a socket for this user alone. It returns an error if other
// users could put a socket into the directory.
func Prepare(socket string) error {
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return private(dir)
}

// Listen listens on a unix socket, in a directory that it creates for this user alone. It closes
// connections from users other than this one and root. It returns an ErrRunning if a daemon
// listens or is about to, and replaces the socket of a daemon that has ended.
func Listen(socket string) (*Listener, error) {
	if err := Prepare(socket); err != nil {
		return nil, err
	}
	return listenIn(socket, 0o600)
}

// ListenAll is like Listen for a socket that all users can reach, in a directory that only root can
// write to. The caller must be root, and find the user of each connection with AcceptUser.
func ListenAll(socket string) (*Listener, error) {
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:security // all users must reach the socket
		return nil, err
	}
	if err := files.OnlyRootPath(dir); err != nil {
		return nil, fmt.Errorf("only root may be able to replace the socket of the daemon: %w", err)
	}
	return listenIn(socket, 0o666)
}

// listenIn listens on a socket with this mode, in a directory that was checked.
func listenIn(socket string, mode fs.FileMode) (*Listener, error) {
	lock, err := lockFor(socket, 200*time.Millisecond)
	if err != nil {
		return nil, err
	}
	l, err := listen(socket, mode)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	file, err := os.Lstat(socket)
	if err != nil {
		return nil, errors.Join(err, l.Close(), lock.Close())
	}
	return &Listener{UnixListener: l, socket: socket, file: file, lock: lock}, nil
}

func listen(socket string, mode fs.FileMode) (*net.UnixListener, error) {
	name, done, err := shortName(socket)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := removeOwn(socket); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the short name may no longer exist then
	if err := os.Chmod(socket, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// A Listener accepts connections on a socket.
type Listener struct {
	*net.UnixListener
	socket string
	file   os.FileInfo // of the socket
	lock   *files.Lock
	closed sync.Once
}

// SocketRemoved reports whether the socket file was removed or replaced, so that no client can find
// this listener. Another daemon may listen there now.
func (l *Listener) SocketRemoved() bool {
	now, err := os.Lstat(l.socket)
	return err == nil && !os.SameFile(now, l.file) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Accept returns the next connection from its own user or from root, and closes others.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, uid, err := l.AcceptUser()
		if err != nil {
			return nil, err
		}
		if mine(uid) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// mine reports whether a daemon of this user answers a user.
func mine(uid int) bool { return uid == os.Getuid() || uid == 0 }

// AcceptUser returns the next connection from any user, with the ID that the kernel reports for the
// user.
func (l *Listener) AcceptUser() (conn *net.UnixConn, uid int, err error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, -1, err
		}
		if uid, err := peerOf(conn); err == nil {
			return conn, uid, nil
		}
		_ = conn.Close()
	}
}

// Close removes the socket file, and then lets others listen.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.closed.Do(func() {
		removed := l.SocketRemoved() // the file may now be the socket of another daemon
		if err = l.UnixListener.Close(); !removed {
			err = errors.Join(err, removeOwn(l.socket))
		}
		err = errors.Join(err, l.lock.Close())
	})
	return err
}

func removeOwn(socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return nil
}
