package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// A World is the environment of one agent: private directories, a model, and the environment
// variables for programs. It is not safe for concurrent use.
type World struct {
	Agent   *Agent
	Program Program
	Model   *model.Server

	Root    string // the parent of the other directories, with symbolic links resolved
	Home    string // the user's home directory
	Project string // working directory of all programs
	Tmp     string

	// Cautious leaves the agent's own permission prompts enabled. A headless run has no user to
	// ask: Claude Code then refuses a tool unless a hook allows it, and Gemini CLI does not offer
	// the tool to the model at all. OpenClaw, Cline and Crush run without prompts in any case.
	Cautious bool
	// Untrusting leaves the agent's own trust prompts enabled: Codex then skips hooks that are not
	// trusted, and Copilot CLI skips the project's hooks.
	Untrusting bool
	// Flags are further arguments of the agent.
	Flags []string
	// Deadline is the maximum duration of a run; the default is the agent's Deadline.
	Deadline time.Duration

	runs []ran // for the report
}

// NewWorld makes a world for p in dir, which must be absent or empty. The path of dir should be
// short: agents create Unix sockets below their temporary directory, and a socket's path is limited
// to about 100 bytes. If dir is "" it makes a temporary directory. Close or Remove ends the world.
func NewWorld(p Program, dir string) (w *World, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a world for %s: %w", p.Agent.ID, err)
		}
	}()
	root, err := emptyDir(dir)
	if err != nil {
		return nil, err
	}
	w = &World{
		Agent:    p.Agent,
		Program:  p,
		Root:     root,
		Home:     filepath.Join(root, "home"),
		Project:  filepath.Join(root, "project"),
		Tmp:      filepath.Join(root, "tmp"),
		Deadline: p.Agent.Deadline,
	}
	if w.Model, err = model.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	if err := w.furnish(); err != nil {
		return nil, errors.Join(err, w.Remove())
	}
	return w, nil
}

func emptyDir(dir string) (string, error) {
	if dir == "" {
		parent := os.TempDir()
		if runtime.GOOS != "windows" {
			parent = "/tmp" // on macOS the default path is too long, see NewWorld
		}
		var err error
		if dir, err = os.MkdirTemp(parent, "e2e"); err != nil {
			return "", err
		}
	} else {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		if len(entries) > 0 {
			return "", fmt.Errorf("%s is not empty", dir)
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// furnish creates the initial directories and files of a new world.
func (w *World) furnish() error {
	for _, dir := range []string{w.Home, w.Project, w.Tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if w.Agent.unpacks != "" && w.Program.Cache != "" {
		name := filepath.Join(w.Home, filepath.FromSlash(w.Agent.unpacks))
		for _, dir := range []string{filepath.Dir(name), w.Program.Cache} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
		}
		if err := os.Symlink(w.Program.Cache, name); err != nil {
			return err
		}
	}
	if w.Agent.files == nil {
		return nil
	}
	for name, content := range w.Agent.files(w) {
		if err := write(name, content); err != nil {
			return err
		}
	}
	return nil
}

// repository returns the minimal files of a Git repository. Some agents search for it up to the
// root of the file system to find the project's root.
func (w *World) repository() map[string]string {
	git := filepath.Join(w.Project, ".git")
	return map[string]string{
		filepath.Join(git, "HEAD"): "ref: refs/heads/main\n",
		git + "/objects/":          "",
		git + "/refs/":             "",
	}
}

// write creates a file and its parent directories, or a directory if name ends in a slash.
func write(name, content string) error {
	if strings.HasSuffix(name, "/") {
		return os.MkdirAll(name, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o600)
}

// Close ends the model server and every process of this world, including daemons that survived the
// agent. The directories stay. On systems without /proc it cannot find such processes, and only the
// process group of each run is ended, at the end of that run.
func (w *World) Close() error {
	return errors.Join(w.endProcesses(""), w.Model.Close())
}

// Remove closes the world and deletes its directories.
func (w *World) Remove() error {
	err := w.Close()
	// A process may still write files for a moment.
	for range 20 {
		removed := os.RemoveAll(w.Root)
		if removed == nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.Join(err, os.RemoveAll(w.Root))
}

// SettingsFile returns the path of the file with the user's hooks.
func (w *World) SettingsFile() string {
	return filepath.Join(w.Home, filepath.FromSlash(w.Agent.Settings))
}

// Path returns the absolute name of a file of the project. name uses slashes on every system. Path
// does not clean it, so "a/../b" stays.
func (w *World) Path(name string) string {
	return w.Project + string(filepath.Separator) + filepath.FromSlash(name)
}

// Shell returns the call by which the agent runs a shell command.
func (w *World) Shell(command string) model.Call { return w.Agent.Tools.Shell(command) }

// Write returns the call by which the agent writes a file of the project.
func (w *World) Write(name, content string) model.Call {
	return w.Agent.Tools.Write(w.Path(name), content)
}

// Read returns the call by which the agent reads a file of the project.
func (w *World) Read(name string) model.Call { return w.Agent.Tools.Read(w.Path(name)) }

// Env returns the environment of every program in this world. It inherits only PATH: the user's
// keys, proxies and settings would change the behavior of the agent, and hooks would see them. An
// agent with its own program comes first on PATH, because an installation asks for its version.
func (w *World) Env() []string {
	path := os.Getenv("PATH")
	if program := w.Program.Command[0]; strings.TrimSuffix(filepath.Base(program), ".exe") == w.Agent.Binary {
		path = filepath.Dir(program) + string(filepath.ListSeparator) + path
	}
	env := []string{
		"PATH=" + path,
		"HOME=" + w.Home,
		"XDG_CONFIG_HOME=" + filepath.Join(w.Home, ".config"),
		"XDG_CACHE_HOME=" + filepath.Join(w.Home, ".cache"),
		"XDG_DATA_HOME=" + filepath.Join(w.Home, ".local", "share"),
		"XDG_STATE_HOME=" + filepath.Join(w.Home, ".local", "state"),
		"TMPDIR=" + w.Tmp,
		"LANG=C.UTF-8",
		"TERM=dumb",
		"NO_COLOR=1",
		"DO_NOT_TRACK=1",
		// All requests except loopback go to a proxy that refuses them and logs them as requests.
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
	if w.Agent.env != nil {
		env = append(env, w.Agent.env(w)...)
	}
	return env
}

// projectFiles returns the regular files of the project by their slash-separated names, without its
// .git directory.
func (w *World) projectFiles() (map[string]string, error) {
	root, err := os.OpenRoot(w.Project) // targets of links that lead out of the project are not project files
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			b, err := fs.ReadFile(root.FS(), name)
			files[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	return files, nil
}
