//go:build system && unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// smallGate is a policy that is small enough to test every byte.
const smallGate = "version: 1\nhooks: [{name: x, on: tool.before, block: no}]\n"

// gated is a project with a trusted policy, and the program that agents run.
type gated struct {
	t       *testing.T
	program string
	root    string // root directory of the user's state
	dir     string
	file    string
}

func newGated(t *testing.T, program string) *gated {
	t.Helper()
	g := &gated{t: t, program: program, root: t.TempDir(), dir: t.TempDir()}
	g.file = filepath.Join(g.dir, local.ProjectPolicy)
	g.put(smallGate)
	place, err := local.Locate(g.root, "")
	if err != nil {
		t.Fatal(err)
	}
	x, errs := load.Examine(g.file, g.dir, load.Packs{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if err := place.Trusts().Keep(x); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gated) put(text string) {
	g.t.Helper()
	if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
		g.t.Error(err)
	}
}

// hook returns the reply to an event of an agent.
func (g *gated) hook(event string) string {
	g.t.Helper()
	cmd := exec.Command(g.program, "claude-code", "--root", g.root)
	cmd.Dir, cmd.Env = g.dir, []string{"HOME=" + g.root}
	cmd.Stdin = strings.NewReader(event)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		g.t.Errorf("grapnel-hook < %s: %v %s", event, err, &stderr)
	}
	return string(out)
}

// closed checks that the gate blocks, and that the user gets a message at the start and with a
// prompt.
func (g *gated) closed(what string) {
	g.t.Helper()
	event := func(name, more string) string {
		return fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":%q%s}`, g.dir, name, more)
	}
	if out := g.hook(event("PreToolUse", `,"tool_name":"Bash","tool_input":{"command":"ls"}`)); !strings.Contains(out, `"permissionDecision":"deny","permissionDecisionReason":"no"`) {
		g.t.Errorf("%s: the gate is open: %q", what, out)
	}
	for _, ev := range []string{event("SessionStart", `,"source":"startup"`), event("UserPromptSubmit", `,"prompt":"hello"`)} {
		if out := g.hook(ev); !strings.Contains(out, "stays active") {
			g.t.Errorf("%s: the person is not told: %s is answered with %q", what, ev, out)
		}
	}
}

// TestTrustedByteByByte changes each byte of a trusted policy in every way, and checks the
// reply of the program that agents run.
func TestTrustedByteByByte(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("grapnel-hook")
	if err != nil {
		t.Fatal(err)
	}
	positions := make(chan int)
	var workers sync.WaitGroup
	for range 2 {
		g := newGated(t, program)
		workers.Go(func() {
			for i := range positions {
				flipped := []byte(smallGate)
				flipped[i] ^= 1 << (i % 8)
				for what, text := range map[string]string{
					"flipped": string(flipped), "gone": smallGate[:i] + smallGate[i+1:], "and one before it": smallGate[:i] + "#" + smallGate[i:], "and the rest gone": smallGate[:i],
				} {
					g.put(text)
					g.closed(fmt.Sprintf("byte %d %s", i, what))
				}
			}
		})
	}
	for i := range smallGate {
		positions <- i
	}
	close(positions)
	workers.Wait()

	t.Run("replaced", func(t *testing.T) {
		t.Parallel()
		for what, replace := range map[string]func(file string) error{
			"nothing":                  func(string) error { return nil },
			"a directory":              func(file string) error { return os.Mkdir(file, 0o700) },
			"a pipe":                   func(file string) error { return syscall.Mkfifo(file, 0o600) },
			"a link to nothing":        func(file string) error { return os.Symlink("none", file) },
			"a link to itself":         func(file string) error { return os.Symlink(file, file) },
			"a link to another policy": func(file string) error { return os.Symlink("/dev/null", file) },
			"a huge file":              func(file string) error { return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40)) },
			"an unreadable file": func(file string) error {
				if os.Getuid() == 0 { // root can read every file
					return nil
				}
				return os.WriteFile(file, []byte(smallGate), 0)
			},
		} {
			g := newGated(t, program)
			if err := errors.Join(os.Remove(g.file), replace(g.file)); err != nil {
				t.Fatal(err)
			}
			g.closed(what + " in its place")
		}
	})

	// The directory itself may be missing, or be replaced by another one.
	t.Run("without its directory", func(t *testing.T) {
		t.Parallel()
		g := newGated(t, program)
		g.put("version: 1\n")
		g.closed("changed") // from here on, the root of the session is known
		moved := g.dir + "-moved"
		if err := os.Rename(g.dir, moved); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(moved) })
		gone := g.dir
		g.dir = moved // the agent's working directory now
		g.closed("moved")
		g.dir = gone
		if err := os.WriteFile(gone, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		g.dir = t.TempDir()
		g.closed("a file in place of its directory")
	})
}
