package client

import (
	"path/filepath"
	"strconv"
	"syscall"
)

const closeOnExec = syscall.SOCK_CLOEXEC

func peerOf(fd int) (int, error) {
	cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

// maxName is the maximum length of a socket's name in bytes.
const maxName = 107

// short returns a name for a socket that fits into maxName. If the path is too long, the name uses
// a descriptor of its directory, which stays open until done is called.
func short(socket string) (name string, done func(), err error) {
	if len(socket) <= maxName {
		return socket, func() {}, nil
	}
	fd, err := syscall.Open(filepath.Dir(socket), syscall.O_DIRECTORY|syscall.O_CLOEXEC|syscall.O_RDONLY, 0)
	if err != nil {
		return "", nil, errAbsent
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(socket), func() { _ = syscall.Close(fd) }, nil
}
