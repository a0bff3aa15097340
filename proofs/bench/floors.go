package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// static describes proofs/bench/static in one of its modes.
func (b *bench) static(tool string, input map[string]any, mode ...string) (*series, error) {
	name := strings.TrimSpace("static " + strings.Join(mode[:min(1, len(mode))], ""))
	p, err := b.program(name, append([]string{b.exe("static")}, mode...), tool, input)
	if err != nil {
		return nil, err
	}
	return p.wall(), nil
}

// staticShell is static with the shell event of the benchmark.
func (b *bench) staticShell(mode ...string) (*series, error) {
	return b.static("Bash", shellInput(), mode...)
}

// appending is the floor of a hook that writes one Record.
func (b *bench) appending() (*series, error) {
	return b.staticShell("append", filepath.Join(b.dir, "floor.jsonl"))
}

// blob writes a file of the given size and returns its path.
func (b *bench) blob(name string, size int64) (string, error) {
	file := filepath.Join(b.dir, name)
	return file, os.WriteFile(file, []byte(text(int(size))), 0o600)
}

// peer starts proofs/bench/peer as a server and waits until it listens.
func (s *setup) peer(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.exe("peer"), append([]string{"serve"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.atEnd(func() error {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		_ = cmd.Wait() // killed
		return nil
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		return errors.Join(fmt.Errorf("peer does not listen, it printed %q", line), err)
	}
	return nil
}

// echo starts proofs/bench/peer on two pipes and returns a function that sends a line there
// and waits until it is back.
func (s *setup) echo(ctx context.Context, line []byte) (func() error, error) {
	cmd := exec.CommandContext(ctx, s.exe("peer"), "echo")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.atEnd(func() error { return errors.Join(stdin.Close(), cmd.Wait()) })
	back := make([]byte, len(line))
	return func() error {
		if _, err := stdin.Write(line); err != nil {
			return err
		}
		_, err := io.ReadFull(stdout, back)
		return err
	}, nil
}
