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

	"github.com/grapnel-dev/grapnel/cmd/internal/verify/model"
)

// A World is where one agent lives: directories that nothing else uses, a model of
// its own, and the environment to start programs with. It is used by one goroutine
// at a time.
type World struct {
	Agent   *Agent
	Program Program
	Model   *model.Server

	Root    string // the parent of the other directories, symbolic links resolved
	Home    string // of the user
	Project string // working directory of everything that runs here
	Tmp     string

	// Cautious leaves the agent's own permission prompts on. Headless there is
	// nobody to ask: Claude Code then refuses a tool unless a hook allows it, and
	// Gemini CLI does not offer it to the model in the first place. OpenClaw, Cline
	// and Crush run without prompts all the same.
	Cautious bool
	// Untrusting leaves the agent's own questions of trust on: Codex then skips hooks
	// that nobody has trusted, Copilot CLI those of the project.
	Untrusting bool
	// Flags are further arguments of the agent.
	Flags []string
	// Deadline is how long a run may take, the agent's own unless changed.
	Deadline time.Duration

	runs []ran // for the report
}

// NewWorld makes a world for p in dir, which must be absent or empty and whose path
// should be short: agents put Unix sockets below their temporary directory, and a
// socket's path ends at about 100 bytes. If dir is "" it makes a temporary one.
// Close or Remove ends the world.
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
			parent = "/tmp" // on macOS the default is too long, see NewWorld
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

// furnish makes what stands in a new world.
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

// repository holds the least that agents take for a Git repository: some look for
// the project's root by it, up to that of the file system.
func (w *World) repository() map[string]string {
	git := filepath.Join(w.Project, ".git")
	return map[string]string{
		filepath.Join(git, "HEAD"): "ref: refs/heads/main\n",
		git + "/objects/":          "",
		git + "/refs/":             "",
	}
}

// write makes a file and the directories above it, or, when name ends in a slash,
// a directory.
func write(name, content string) error {
	if strings.HasSuffix(name, "/") {
		return os.MkdirAll(name, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o600)
}

// Close ends the model server and every process of this world, those too that left
// the agent behind, such as daemons. The directories stay. On systems without /proc
// only what is in the process group of a run is ended, at the end of that run.
func (w *World) Close() error {
	return errors.Join(w.endProcesses(""), w.Model.Close())
}

// Remove closes the world and deletes its directories.
func (w *World) Remove() error {
	err := w.Close()
	// Somebody may still be writing for a moment.
	for range 20 {
		removed := os.RemoveAll(w.Root)
		if removed == nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.Join(err, os.RemoveAll(w.Root))
}

// SettingsFile returns the path of the file that holds the user's hooks.
func (w *World) SettingsFile() string {
	return filepath.Join(w.Home, filepath.FromSlash(w.Agent.Settings))
}

// Path returns the absolute name of a file of the project, slashes in name on every
// system. Detours in it, such as "a/../b", stay.
func (w *World) Path(name string) string {
	return w.Project + string(filepath.Separator) + filepath.FromSlash(name)
}

// Shell is the call by which the agent runs a shell command.
func (w *World) Shell(command string) model.Call { return w.Agent.Tools.Shell(command) }

// Write is the call by which the agent writes a file of the project.
func (w *World) Write(name, content string) model.Call {
	return w.Agent.Tools.Write(w.Path(name), content)
}

// Read is the call by which the agent reads a file of the project.
func (w *World) Read(name string) model.Call { return w.Agent.Tools.Read(w.Path(name)) }

// Env returns the environment of every program in this world. It is built from
// nothing but PATH: keys, proxies and settings of whoever runs it would change how
// an agent behaves, and hooks would see them.
func (w *World) Env() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
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
	if w.Agent.env != nil {
		env = append(env, w.Agent.env(w)...)
	}
	return env
}

// projectFiles returns the regular files of the project by their slash-separated
// names, but not what is in its .git.
func (w *World) projectFiles() (map[string]string, error) {
	root, err := os.OpenRoot(w.Project) // whatever link an agent left in there, what it leads to is none of the project
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
