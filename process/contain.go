package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/grapnel-dev/grapnel"
)

// A Contained is a shell line that runs in a sandbox in place of the agent's own shell.
type Contained struct {
	Line string // runs with "bash -c", or with "sh -c" if there is no bash
	Root string // value of {root}; empty = the working directory

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Temp bool // set by Contain: the line has its own temporary directory in TMPDIR
}

// tempWord in Read or Write of a contained line is all directories in tempDirs.
const tempWord = "tmp"

// tempDirs are the system's temporary directories. They do not depend on the environment, which a
// project can set.
var tempDirs = [...]string{"/tmp", "/var/tmp"}

// Contain runs a shell line in the sandbox and returns its exit code, which is 128 + N if signal N
// ended it. It keeps the working directory, the process group, and the environment except for
// TMPDIR, and passes signals to the line. Unlike a hook's program, the line may create process
// groups and sessions, so its background processes can outlive it; they stay in the sandbox.
// In Read and Write, "tmp" is the system's temporary directories. Optional is ignored.
//
// An error means that the line did not run.
func (s *Sandbox) Contain(c *Contained) (exit int, err error) {
	cwd, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrSandbox, err)
	}
	p, r, err := s.contained(c, cwd)
	if err != nil {
		return 0, err
	}
	if !shimmed {
		return 0, fmt.Errorf("%w: main must begin with process.SandboxMain()", ErrSandbox)
	}
	// A sandbox of the agent may permit no writes at all. Then the line runs without a directory.
	temp, err := r.tempDir(p)
	if c.Temp = err == nil; c.Temp {
		defer func() { _ = os.RemoveAll(temp) }()
	}
	return contain(c, p, r)
}

// Containable returns the reason why [Sandbox.Contain] cannot run lines in a project; nil = it
// can.
func (s *Sandbox) Containable(root string) error {
	_, _, err := s.contained(&Contained{Root: root}, root)
	return err
}

// contained returns the program and the rules of a line.
func (s *Sandbox) contained(c *Contained, cwd string) (*Program, *rules, error) {
	box := *s
	box.Optional = false
	if err := box.Possible(); err != nil {
		return nil, nil, err
	}
	shell, err := exec.LookPath("bash")
	if err != nil {
		shell = "/bin/sh"
	}
	p := &Program{
		Args: []string{shell, "-c", c.Line}, Env: os.Environ(), Dir: cwd,
		Event: &grapnel.Event{Session: grapnel.Session{CWD: cwd, Root: c.Root}},
	}
	box.Read, box.Write = withTempDirs(s.Read), withTempDirs(s.Write)
	if self, err := os.Executable(); err == nil {
		box.Read = append(box.Read, self) // a contained line may contain another one
	}
	r := &rules{Net: s.Net, Ports: s.Ports, Groups: true}
	if err := box.paths(r, p); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSandbox, err)
	}
	return p, r, nil
}

// withTempDirs replaces the word for the system's temporary directories by their paths.
func withTempDirs(names []string) []string {
	var all []string
	for _, name := range names {
		if name == tempWord {
			all = append(all, tempDirs[:]...)
			continue
		}
		all = append(all, name)
	}
	return all
}
