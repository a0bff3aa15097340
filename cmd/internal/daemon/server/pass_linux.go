package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// NewChannel returns the two ends of a channel for Pass. The file is for a process that calls
// NewPassed.
func NewChannel() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	far := os.NewFile(uintptr(fds[1]), "channel")
	near, err := unixConn(fds[0])
	if err != nil {
		return nil, nil, errors.Join(err, far.Close())
	}
	return near, far, nil
}

// unixConn returns the connection of a descriptor, which it closes.
func unixConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "connection")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a connection of type %T instead of a unix socket", conn), conn.Close())
	}
	return unix, nil
}

// Pass sends a connection through a channel, and closes it here in any case. It never waits: if the
// other process does not take its connections, Pass returns an error, and the client sees that its
// connection ends.
func Pass(channel, conn *net.UnixConn) error {
	defer func() { _ = conn.Close() }()
	to, err := channel.SyscallConn()
	if err != nil {
		return err
	}
	from, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = from.Control(func(fd uintptr) {
		rights := syscall.UnixRights(int(fd))
		if err := to.Control(func(ch uintptr) {
			sent = syscall.Sendmsg(int(ch), []byte{0}, rights, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		}); err != nil {
			sent = err
		}
	})
	return errors.Join(err, sent)
}

// Passed accepts the connections that another process sends with Pass.
type Passed struct {
	channel *net.UnixConn
	ended   chan struct{} // no more connections can come
	closed  chan struct{}
	once    sync.Once
}

// NewPassed accepts connections from the channel with this descriptor, which it takes. The programs
// that this process starts do not inherit it.
func NewPassed(fd int) (*Passed, error) {
	syscall.CloseOnExec(fd)
	channel, err := unixConn(fd)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not a channel: %w", fd, err)
	}
	return &Passed{channel: channel, ended: make(chan struct{}), closed: make(chan struct{})}, nil
}

// Ended is closed when no more connections can come, because the other process has ended. On nil it
// blocks for ever.
func (p *Passed) Ended() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.ended
}

// Accept returns the next connection from this user or from root. After the last one, it waits for
// Close.
func (p *Passed) Accept() (net.Conn, error) {
	for {
		conn, err := p.receive()
		if err != nil {
			select {
			case <-p.closed:
			default:
				close(p.ended)
				<-p.closed
			}
			return nil, net.ErrClosed
		}
		if conn == nil {
			continue
		}
		if uid, err := peerOf(conn); err == nil && mine(uid) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// receive returns the connection of the next message; nil = the message has none.
func (p *Passed) receive() (*net.UnixConn, error) {
	var data [1]byte
	control := make([]byte, syscall.CmsgSpace(4)) // of one descriptor
	n, used, _, _, err := p.channel.ReadMsgUnix(data[:], control)
	if err != nil || n == 0 {
		return nil, errors.Join(err, errors.New("the other process has closed the channel"))
	}
	messages, err := syscall.ParseSocketControlMessage(control[:used])
	if err != nil || len(messages) != 1 {
		return nil, nil //nolint:nilerr // this process has no free descriptor: the client answers by itself
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, nil //nolint:nilerr // the same
	}
	conn, err := unixConn(fds[0])
	if err != nil {
		return nil, nil //nolint:nilerr // the same
	}
	return conn, nil
}

// Close stops Accept.
func (p *Passed) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.channel.Close()
}

// Addr returns the address of the channel.
func (p *Passed) Addr() net.Addr { return p.channel.LocalAddr() }
