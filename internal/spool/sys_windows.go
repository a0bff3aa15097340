package spool

import (
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// detach starts a program without the console, so that closing the console does not end it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP,
		HideWindow:    true,
	}
}

// rootDir returns the root of the volume of the program.
func rootDir(program string) string { return filepath.VolumeName(program) + `\` }

// access reports nothing: permissions of Windows depend on more than the file.
func access(string, bool) error { return nil }
