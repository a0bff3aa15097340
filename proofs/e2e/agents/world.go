package agents

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/npm"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// slots limits how many agents run at once in this process: each agent uses more than one core,
// and too many of them exceed their deadlines.
var slots = make(chan struct{}, 2)

// Slot waits until one more agent may run. It is for tests that do not use [World.Run]. The
// caller runs done after the agent has ended.
func Slot() (done func()) {
	slots <- struct{}{}
	return func() { <-slots }
}

// A World is a verify.World for the duration of a test. Its methods end the test at once when
// they fail.
type World struct {
	*verify.World
	Agent *Agent
}

// NewWorld makes a world for a. When t ends, the world ends, with every process that started in
// it. The directory of the world is removed unless t failed; then the log of the test shows its
// path and the programs that ran in it. If a does not run here, t is skipped.
func NewWorld(t testing.TB, a *Agent) *World {
	t.Helper()
	return newWorld(t, a, Program(t, a))
}

// Program returns the agent's executable. If a does not run here, t is skipped.
func Program(t testing.TB, a *Agent) verify.Program {
	t.Helper()
	if why := a.NotRun(); why != "" {
		t.Skipf("%s is NOT RUN: %s", a, why)
	}
	cache, err := npm.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Program(cache)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newWorld(t testing.TB, a *Agent, p verify.Program) *World {
	t.Helper()
	w, err := verify.NewWorld(p, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end := w.Remove
		if t.Failed() {
			t.Logf("%s\nkept %s", w.Report(), w.Root)
			end = w.Close
		}
		if err := end(); err != nil {
			t.Errorf("end the world of %s: %v", a, err)
		}
	})
	return &World{w, a}
}

// Run starts the agent with a prompt. The model plays the steps. Run waits until the agent ends.
func (w *World) Run(t testing.TB, prompt string, steps ...model.Step) verify.Result {
	t.Helper()
	defer Slot()()
	res, err := w.World.Run(t.Context(), prompt, steps...)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Exec runs another program in the project, in the agent's environment.
func (w *World) Exec(t testing.TB, program string, args ...string) verify.Output {
	t.Helper()
	out, err := w.World.Exec(context.WithoutCancel(t.Context()), append([]string{program}, args...)...) // also while t cleans up
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// WriteFile writes a file and creates its parent directories. A relative name is relative to the
// project.
func (w *World) WriteFile(t testing.TB, name, content string) {
	t.Helper()
	path := w.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(content, "#!") {
		mode = 0o755
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the content of a file. A relative name is relative to the project.
func (w *World) ReadFile(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// AwaitFile waits until a file exists, for files that another process writes.
func (w *World) AwaitFile(t testing.TB, name string) {
	t.Helper()
	await.Until(t, "the file "+name+" exists", func() bool {
		_, err := os.Stat(w.path(name))
		return err == nil
	})
}

func (w *World) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return w.Path(name)
}
