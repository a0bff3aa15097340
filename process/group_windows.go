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

// A group is a program and its children: a job object. What the program starts in
// the instant before it is put into the job is not part of it. There is no polite
// way to ask a program without a window to end, so the interrupt only takes note
// and the kill follows after the grace.
type group struct {
	process *os.Process
	job     windows.Handle // 0 = there is none, and the program itself is all that can be ended
}

func startGroup(cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if line := cmd.Args[len(cmd.Args)-1]; slices.Equal(cmd.Args, shell(line)) {
		// cmd takes everything between the outer quotes as it is.
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
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid)) //nolint:gosec // G115: a process id fits
	if err == nil {
		err = windows.AssignProcessToJobObject(job, process)
		_ = windows.CloseHandle(process)
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return g, nil //nolint:nilerr // as above
	}
	g.job = job
	return g, nil
}

// interrupt reports whether the program itself still runs.
func (g *group) interrupt() bool {
	return !errors.Is(g.process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func (g *group) kill() {
	if g.job != 0 {
		_ = windows.TerminateJobObject(g.job, 1)
	}
	_ = g.process.Kill()
}

// close lets go of the job, not of what runs in it.
func (g *group) close() {
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
	}
}

// pipes are those of os/exec, which closes them some time after the program has
// ended if a child still holds them. What it has not read by then is lost, so that
// is not the short outputGrace.
type pipes struct{ input io.Closer }

func connect(cmd *exec.Cmd, input io.ReadCloser, stdout, stderr io.Writer) (*pipes, error) {
	stdin, err := cmd.StdinPipe() // Wait does not wait for who writes into it
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(stdin, input) // nobody has to read it
		_ = stdin.Close()
	}()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = time.Second
	return &pipes{input}, nil
}

func (p *pipes) started() {}

func (p *pipes) settle(time.Duration) { _ = p.input.Close() }

// signalOf is empty: Windows knows no signals.
func signalOf(*os.ProcessState) string { return "" }

// shell is what runs a line.
func shell(line string) []string {
	return []string{filepath.Join(os.Getenv("SYSTEMROOT"), "System32", "cmd.exe"), "/D", "/S", "/C", line}
}

// lookPath looks where we ourselves would: PATH and PATHEXT.
func lookPath(name string, _ []string) (string, error) {
	if filepath.Base(name) != name {
		return name, nil
	}
	return exec.LookPath(name)
}

// startError says why a program could not be started, and what to do about it.
func startError(p *Program, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w (give its full path, or put its directory on PATH; looked in %s too)", err, p.Dir)
	}
	return err
}
