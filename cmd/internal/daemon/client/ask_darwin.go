package client

import "golang.org/x/sys/unix"

const closeOnExec = 0 // the program starts no other program during the request

func peerOf(fd int) (int, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

// maxName is the maximum length of a socket's name in bytes.
const maxName = 103

func short(socket string) (name string, done func(), err error) {
	if len(socket) > maxName {
		return "", nil, errAbsent
	}
	return socket, func() {}, nil
}
