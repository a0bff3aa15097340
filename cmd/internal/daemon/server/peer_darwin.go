package server

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerOf returns the user ID of the other side of a connection.
func peerOf(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Xucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return -1, err
	}
	if failed != nil {
		return -1, failed
	}
	return int(cred.Uid), nil
}

// pidOf returns the ID of the process that listens on the other side.
func pidOf(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		pid, failed = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	}); err != nil {
		return 0, err
	}
	return pid, failed
}

// maxName is the maximum length of a socket path in bytes.
const maxName = 103

func shortName(socket string) (name string, done func(), err error) {
	if len(socket) > maxName {
		return "", nil, fmt.Errorf("path %s is too long for a socket (%d bytes, maximum %d): use a shorter --root", socket, len(socket), maxName)
	}
	return socket, func() {}, nil
}
