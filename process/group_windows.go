package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// A group is a program and its children in a job object. Children that the program starts before
// it is added to the job are not in the group. A program without a window cannot be interrupted,
// so interrupt only checks whether the program runs, and kill follows after the grace period.
type group struct {
	process *os.Process
	job     windows.Handle // 0 = no job, so only the program itself can be ended
}

func startGroup(cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if line := cmd.Args[len(cmd.Args)-1]; slices.Equal(cmd.Args, shell(line)) {
		// cmd passes the text between the outer quotes unchanged.
		cmd.SysProcAttr.CmdLine = `cmd.exe /D /S /C "` + line + `"`
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &group{process: cmd.Process}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return g, nil //nolint:nilerr // without a job the hook still runs and can be ended
	}
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid)) // a process id fits
	if err == nil {
		err = windows.AssignProcessToJobObject(job, process)
		_ = windows.CloseHandle(process)
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return g, nil //nolint:nilerr // see above
	}
	g.job = job
	return g, nil
}

// interrupt reports whether the program itself is still running.
func (g *group) interrupt() bool {
	return !errors.Is(g.process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func (g *group) kill() {
	if g.job != 0 {
		_ = windows.TerminateJobObject(g.job, 1)
	}
	_ = g.process.Kill()
}

// close closes the job's handle. The processes in the job keep running.
func (g *group) close() {
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
	}
}

// pipes are the pipes of os/exec. If a child still holds them after the program has ended,
// os/exec closes them after WaitDelay and loses unread output. WaitDelay is therefore longer than
// outputGrace.
type pipes struct{ input io.Closer }

func connect(cmd *exec.Cmd, input io.ReadCloser, stdout, stderr io.Writer) (*pipes, error) {
	stdin, err := cmd.StdinPipe() // unlike cmd.Stdin, Wait does not wait for the writer of this pipe
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(stdin, input) // the program does not have to read its input
		_ = stdin.Close()
	}()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = time.Second
	return &pipes{input}, nil
}

func (p *pipes) started() {}

func (p *pipes) settle(time.Duration) { _ = p.input.Close() }

// signalOf returns the empty string, because Windows has no signals.
func signalOf(*os.ProcessState) string { return "" }

// shell returns the command that runs a line.
func shell(line string) []string {
	return []string{filepath.Join(os.Getenv("SYSTEMROOT"), "System32", "cmd.exe"), "/D", "/S", "/C", line}
}

// lookPath searches this process's PATH and PATHEXT.
func lookPath(name string, _ []string) (string, error) {
	if filepath.Base(name) != name {
		return name, nil
	}
	return exec.LookPath(name)
}

// startError adds a hint to the error of a program that could not be started.
func startError(p *Program, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w (give its full path, or put its directory on PATH; looked in %s too)", err, p.Dir)
	}
	return err
}
