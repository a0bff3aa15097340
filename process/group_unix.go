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

// A group is a program and all its children that have not left its process group.
//
// Pdeathsig ("kill the child when its parent dies") is not used. It fires when the thread that
// started the program ends, and Go programs do not control their threads. It would also end only
// the shell and not the shell's children.
type group struct {
	process *os.Process
	pgid    int
}

// startGroup starts a program in a new process group. The program stays in the session of the
// agent, so that a hook can still use /dev/tty.
func startGroup(cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &group{process: cmd.Process, pgid: cmd.Process.Pid}, nil
}

// interrupt sends SIGTERM to the whole group, and reports whether the program itself was still
// running. It does not use SIGINT, because shells start background processes with SIGINT ignored.
func (g *group) interrupt() bool {
	if errors.Is(g.process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return false
	}
	_ = syscall.Kill(-g.pgid, syscall.SIGTERM)
	return true
}

// kill ends the whole group. The kernel does not reuse the group's ID while the group has
// members.
func (g *group) kill() { _ = syscall.Kill(-g.pgid, syscall.SIGKILL) }

func (g *group) close() {}

// signalOf returns the name of the signal that ended a program, or the empty string.
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

// shell returns the command that runs a line.
func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

// lookPath searches the program's own PATH. It ignores relative directories, because they would
// depend on the agent's working directory.
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

// startError adds a hint to the error of a program that could not be started.
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
		hint = "the file exists, but the interpreter in its first line does not"
	case errors.Is(err, syscall.ENOENT) && !filepath.IsAbs(file):
		hint = "searched in " + p.Dir
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.IsDir():
		hint = "it is a directory"
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.Mode()&0o111 == 0:
		hint = "make it executable: chmod +x " + place
	case errors.Is(err, syscall.ENOEXEC):
		hint = "it is neither a program for this machine nor a script with a first line such as #!/bin/sh"
	case errors.Is(err, syscall.ETXTBSY):
		hint = "another process is writing to the file"
	case errors.Is(err, syscall.E2BIG):
		hint = "its arguments and its environment are too large"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}
