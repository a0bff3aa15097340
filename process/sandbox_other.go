//go:build !linux

package process

import (
	"errors"
	"os/exec"
	"runtime"
)

func (s *Sandbox) missing() (string, error) {
	return "", errors.New("sandboxes need Linux, but this system is " + runtime.GOOS)
}

func become(*rules, []string) error { return ErrSandbox }

// A shim starts sandboxed programs on Linux; here it does nothing.
type shim struct{}

func newShim(*exec.Cmd, *rules) (*shim, error) { return nil, ErrSandbox }

func (*shim) started() {}

func (*shim) close() {}

func (*shim) became(*Program, *Ending) error { return ErrSandbox }

func contain(*Contained, *Program, *rules) (int, error) { return 0, ErrSandbox }
