package server

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// peerOf returns the user ID of the other side of a connection.
func peerOf(conn *net.UnixConn) (int, error) {
	cred, err := credOf(conn)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

// pidOf returns the ID of the process that listens on the other side, or 0 if it is in another
// PID namespace.
func pidOf(conn *net.UnixConn) (int, error) {
	cred, err := credOf(conn)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

func credOf(conn *net.UnixConn) (cred *syscall.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, failed
}

// maxName is the maximum length of a socket path in bytes.
const maxName = 107

// shortName returns a name for a socket, because its path may be too long. The name is valid
// until done is called.
func shortName(socket string) (name string, done func(), err error) {
	if len(socket) <= maxName {
		return socket, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(socket), func() { _ = dir.Close() }, nil
}
