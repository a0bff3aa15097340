//go:build system

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/grapnel-dev/grapnel/internal/testhelp/pty"
)

// setTerminal sets TTY to the name of a terminal at which no person types.
func setTerminal(env *testscript.Env) error {
	person, program, err := pty.Open()
	if err != nil {
		return err
	}
	env.Defer(func() { _, _ = person.Close(), program.Close() })
	env.Setenv("TTY", program.Name())
	return nil
}

// onTerminal runs a program at a new terminal, writes its output to a file and checks its exit
// status: onterminal FILE CODE PROGRAM [ARG...]. The person types the line in the variable TYPED, if
// it is set.
func onTerminal(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: onterminal FILE CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	path := "" // looked up in the script's PATH
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path = filepath.Join(dir, args[2])
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	person, program, err := pty.Open()
	ts.Check(err)
	defer person.Close()
	ts.Check(pty.Resize(program, 1000, 24)) // so that no text is wrapped
	cmd := &exec.Cmd{
		Path: path, Args: args[2:], Dir: ts.MkAbs("."), Env: os.Environ(),
		Stdin: program, Stdout: program, Stderr: program,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	for _, name := range []string{"HOME", "HOOKS_DIR", "XDG_CONFIG_HOME", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	if typed := ts.Getenv("TYPED"); typed != "" {
		_, err := io.WriteString(person, typed+"\n")
		ts.Check(err)
	}
	err = cmd.Start()
	_ = program.Close()
	ts.Check(err)
	shown, err := io.ReadAll(person)
	if err != nil && !errors.Is(err, syscall.EIO) { // EIO is the end of a terminal's output
		ts.Fatalf("%v", err)
	}
	_ = cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), shown, 0o600))
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit status %d, want %d:\n%s", got, want, shown)
	}
}
