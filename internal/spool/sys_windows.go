package spool

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

const openNoFollow = 0

type lockKind uint32

const (
	shared    lockKind = 0
	exclusive lockKind = windows.LOCKFILE_EXCLUSIVE_LOCK
)

var errLocked = errors.New("locked by another process")

// tryLock locks a file of this name, or returns errLocked. The lock ends when the file is closed
// or the process ends.
func tryLock(name string, kind lockKind) (*os.File, error) {
	f, err := openRegular(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), uint32(kind)|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		err = errLocked
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// checkOwner accepts every directory: permissions are in access control lists, which the user's
// profile directory sets.
func checkOwner(string, os.FileInfo) error { return nil }

// inUse reports whether a rename failed because another process has the file open.
func inUse(err error) bool { return errors.Is(err, windows.ERROR_SHARING_VIOLATION) }

// detach starts a program without the console, so that closing the console does not end it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP,
		HideWindow:    true,
	}
}

// rootDir returns the root of the volume of the program.
func rootDir(program string) string { return filepath.VolumeName(program) + `\` }
