//go:build !unix

package verify

import "os/exec"

// Without process groups, only the program itself can be ended.

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
