//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A group is a program and its children, as far as they have not left it.
//
// The kernel's "kill it when its parent dies" (Pdeathsig) is not used: it fires
// when the thread dies that started the program, which in Go is none of ours, and
// it would end the shell but not what the shell has started.
type group struct {
	process *os.Process
	pgid    int
}

// startGroup starts a program in a process group of its own. It stays in the
// session of the agent, so that a hook can still ring the bell of /dev/tty.
func startGroup(cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &group{process: cmd.Process, pgid: cmd.Process.Pid}, nil
}

// interrupt asks the whole group to end, and reports whether the program itself
// was still there. It says SIGTERM, because shells start what runs in their
// background with SIGINT ignored.
func (g *group) interrupt() bool {
	if errors.Is(g.process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return false
	}
	_ = syscall.Kill(-g.pgid, syscall.SIGTERM)
	return true
}

// kill ends the whole group. The group's number is not given to others as long as
// anybody is in it.
func (g *group) kill() { _ = syscall.Kill(-g.pgid, syscall.SIGKILL) }

func (g *group) close() {}

// signalOf names the signal that ended a program, or is empty.
func signalOf(state *os.ProcessState) string {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return ""
	}
	if name := unix.SignalName(status.Signal()); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", status.Signal())
}

// shell is what runs a line.
func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

// lookPath finds a program on the PATH that it will run with itself. Directories
// relative to wherever the agent works do not count.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", exec.ErrNotFound
}

// startError says why a program could not be started, and what to do about it.
func startError(p *Program, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	file := p.Args[0]
	place := file
	if !filepath.IsAbs(file) {
		place = filepath.Join(p.Dir, file)
	}
	hint := ""
	switch info, statErr := os.Stat(place); {
	case errors.Is(err, exec.ErrNotFound):
		hint = "give its full path, or put its directory on PATH"
	case errors.Is(err, syscall.ENOENT) && statErr == nil:
		hint = "the file is there, but the interpreter in its first line is not"
	case errors.Is(err, syscall.ENOENT) && !filepath.IsAbs(file):
		hint = "looked for it in " + p.Dir
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.IsDir():
		hint = "it is a directory"
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.Mode()&0o111 == 0:
		hint = "make it executable: chmod +x " + place
	case errors.Is(err, syscall.ENOEXEC):
		hint = "it is neither a program for this machine nor a script with a first line such as #!/bin/sh"
	case errors.Is(err, syscall.ETXTBSY):
		hint = "somebody is writing it"
	case errors.Is(err, syscall.E2BIG):
		hint = "its arguments and its environment are too large"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}
