//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"syscall"
)

// ask sends one line to a unix socket and returns the reply line. It uses only system calls,
// because package net would add to the start-up time.
func ask(socket string, line []byte) (reply []byte, err error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, syscall.Close(fd)) }()
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		return nil, err
	}
	for len(line) > 0 {
		n, err := syscall.Write(fd, line)
		if err != nil {
			return nil, err
		}
		line = line[n:]
	}
	buf := make([]byte, 4<<10)
	for !bytes.HasSuffix(reply, []byte("\n")) {
		n, err := syscall.Read(fd, buf)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		reply = append(reply, buf[:n]...)
	}
	return reply, nil
}
