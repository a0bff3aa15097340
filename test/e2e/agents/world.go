package agents

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/test/e2e/model"
)

// A World is where one test's agent lives: directories that nothing else uses, a
// model of its own, and the environment to start programs with.
type World struct {
	Agent *Agent
	Model *model.Server

	// Root is the parent of the other directories. Its path is short, because
	// agents put Unix sockets below their temporary directory and a socket's
	// path ends at about 100 bytes.
	Root    string
	Home    string // of the user
	Project string // working directory of everything that runs here
	Tmp     string

	// Cautious leaves the agent's own permission prompts on. Headless there is
	// nobody to ask: Claude Code then refuses a tool unless a hook allows it,
	// and Gemini CLI does not offer it to the model in the first place.
	Cautious bool
	// Flags are further arguments of the agent.
	Flags []string

	runs []ran // for the report of a failed test
}

// NewWorld makes a world for a and removes it when t ends. If t failed, it stays,
// and the log of the test tells where it is and what ran in it.
func NewWorld(t testing.TB, a *Agent) *World {
	t.Helper()
	w, err := newWorld(a)
	if err != nil {
		t.Fatalf("make a world for %s: %v", a.ID, err)
	}
	t.Cleanup(func() {
		if err := w.Model.Close(); err != nil {
			t.Errorf("close the model server: %v", err)
		}
		if t.Failed() {
			t.Logf("%s\nkept %s", w.report(), w.Root)
			return
		}
		if err := w.remove(); err != nil {
			t.Errorf("remove the world of %s: %v", a.ID, err)
		}
	})
	return w
}

func newWorld(a *Agent) (*World, error) {
	parent := os.TempDir()
	if runtime.GOOS != "windows" {
		parent = "/tmp" // on macOS the default is too long, see World.Root
	}
	root, err := os.MkdirTemp(parent, "e2e")
	if err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	w := &World{
		Agent:   a,
		Root:    root,
		Home:    filepath.Join(root, "home"),
		Project: filepath.Join(root, "project"),
		Tmp:     filepath.Join(root, "tmp"),
	}
	for _, dir := range []string{w.Home, w.Project, w.Tmp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if a.Quiet != "" {
		path := w.SettingsFile()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(a.Quiet), 0o644); err != nil {
			return nil, err
		}
	}
	w.Model, err = model.Start()
	return w, err
}

// remove deletes the world. Programs that an agent left behind may still be
// writing for a moment, so it tries again.
func (w *World) remove() error {
	var err error
	for range 20 {
		if err = os.RemoveAll(w.Root); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// SettingsFile returns the path of the user's settings of the agent.
func (w *World) SettingsFile() string {
	return filepath.Join(w.Home, filepath.FromSlash(w.Agent.Settings))
}

// WriteFile writes a file, making the directories above it. A relative name is
// taken from the project.
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

// ReadFile returns the content of a file. A relative name is taken from the
// project.
func (w *World) ReadFile(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// AwaitFile waits until a file exists, for what is done behind the agent's back.
// It fails the test when that takes longer than within.
func (w *World) AwaitFile(t testing.TB, name string, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		_, err := os.Stat(w.path(name))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *World) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.Project, filepath.FromSlash(name))
}

// Shell is the call by which the agent runs a shell command.
func (w *World) Shell(command string) model.Call { return w.Agent.shell(command) }

// Write is the call by which the agent writes a file of the project. A name with
// detours in it, such as "a/../b", reaches the agent as it is.
func (w *World) Write(name, content string) model.Call {
	return w.Agent.write(w.Project+string(filepath.Separator)+filepath.FromSlash(name), content)
}

// Read is the call by which the agent reads a file of the project.
func (w *World) Read(name string) model.Call {
	return w.Agent.read(w.Project + string(filepath.Separator) + filepath.FromSlash(name))
}

// Env returns the environment of every program in this world. It is built from
// nothing but PATH: keys, proxies and settings of whoever runs the tests would
// change how an agent behaves, and hooks would see them.
func (w *World) Env() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + w.Home,
		"TMPDIR=" + w.Tmp,
		"LANG=C.UTF-8",
		"TERM=dumb",
		"NO_COLOR=1",
		"DO_NOT_TRACK=1",
		// Whatever is not loopback goes to a proxy that refuses everything and
		// says so in the log of requests.
		"HTTP_PROXY=" + w.Model.URL,
		"HTTPS_PROXY=" + w.Model.URL,
		"http_proxy=" + w.Model.URL,
		"https_proxy=" + w.Model.URL,
		"NO_PROXY=127.0.0.1,localhost",
		"no_proxy=127.0.0.1,localhost",
	}
	if runtime.GOOS == "windows" {
		env = append(env, "USERPROFILE="+w.Home, "TEMP="+w.Tmp, "TMP="+w.Tmp, "SystemRoot="+os.Getenv("SystemRoot"))
	}
	return append(env, w.Agent.env(w)...)
}

// files returns the regular files of the project by their slash-separated names.
func (w *World) files() (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(w.Project, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(w.Project, path)
		files[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	return files, nil
}
