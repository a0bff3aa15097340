package pty

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open returns both ends of a pseudo terminal. The caller must close them.
func Open() (person, program *os.File, err error) {
	person, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = person.Close()
		}
	}()
	raw, err := person.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	n := 0
	if errCall := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); errCall != nil || err != nil {
		return nil, nil, errors.Join(errCall, err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	return person, program, err
}

// Resize sets the size of the terminal to which end belongs, in characters, and signals it to the
// programs.
func Resize(end *os.File, width, height int) error {
	raw, err := end.SyscallConn()
	if err != nil {
		return err
	}
	errCall := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)})
	})
	return errors.Join(errCall, err)
}
