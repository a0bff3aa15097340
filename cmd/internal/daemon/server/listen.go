// Package server lets programs ask a daemon, over HTTP/1.1 on a unix socket that only its
// user can reach:
//
//	l, err := server.Listen(client.Socket(state))
//	err = server.NewServer(server.Options{Answer: answer}, &http.Server{}).Serve(l)
//
// Programs that agents start ask with package [client]; for all others openapi.yaml says what
// there is. The package decides nothing about events.
package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// ErrRunning is what Listen returns where a daemon listens.
var ErrRunning = errors.New("a daemon is running")

// Prepare makes the directory of a socket for this user alone, and refuses one in which
// others could put a socket of their own.
func Prepare(socket string) error {
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return private(dir)
}

// Listen listens on a unix socket, in a directory that it makes for this user alone.
// Connections of other users than this one and root are closed. Where a daemon listens, or
// is about to, it returns an ErrRunning; a socket that a dead one has left is replaced.
func Listen(socket string) (*Listener, error) {
	if err := Prepare(socket); err != nil {
		return nil, err
	}
	lock, err := lockFor(socket, 200*time.Millisecond)
	if err != nil {
		return nil, err
	}
	l, err := listen(socket)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	file, err := os.Lstat(socket)
	if err != nil {
		return nil, errors.Join(err, l.Close(), lock.Close())
	}
	return &Listener{UnixListener: l, socket: socket, file: file, lock: lock}, nil
}

func listen(socket string) (*net.UnixListener, error) {
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
	l.SetUnlinkOnClose(false) // by the name it has now nobody may find it then
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// A Listener takes the connections of its own user and of root.
type Listener struct {
	*net.UnixListener
	socket string
	file   os.FileInfo // of the socket
	lock   *os.File
	closed sync.Once
}

// Lost reports whether nobody can find the socket any more: it was removed, with its
// directory mostly, and another daemon may listen where it was.
func (l *Listener) Lost() bool {
	now, err := os.Lstat(l.socket)
	return err == nil && !os.SameFile(now, l.file) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Accept returns the next connection of them.
func (l *Listener) Accept() (net.Conn, error) {
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

// Close removes the socket, too, and then lets others listen.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.closed.Do(func() {
		lost := l.Lost() // what is there then may be the socket of another daemon
		if err = l.UnixListener.Close(); !lost {
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
