package install

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// HookProgram returns the path of the grapnel-hook next to this program, as it should be
// installed. Package managers put a link on PATH and change its target at each upgrade, so the
// path that the user typed stays unchanged. A managed installation gets the path without links,
// because other users could own a link in between.
func HookProgram(scope Scope) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find grapnel-hook: %w", err)
	}
	if scope == Managed {
		return findHook(self, "", "")
	}
	return findHook(self, os.Args[0], os.Getenv("PATH"))
}

// findHook returns the path of the grapnel-hook that is in the directory of the program self. It
// prefers, in this order: the directory in typed, then those in path. A directory with a version
// in its name is the last choice, because it disappears at the next upgrade.
func findHook(self, typed, path string) (string, error) {
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	name := hookProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	program := filepath.Join(filepath.Dir(self), name)
	info, err := os.Stat(program)
	if err != nil {
		return "", cli.WithHint(fmt.Errorf("grapnel-hook is not in the directory of %s", self), "install both: go install github.com/grapnel-dev/grapnel/cmd/...@latest")
	}
	var dirs []string
	if strings.ContainsRune(typed, filepath.Separator) {
		if abs, err := filepath.Abs(typed); err == nil {
			dirs = append(dirs, filepath.Dir(abs))
		}
	}
	same := ""
	for _, dir := range append(dirs, filepath.SplitList(path)...) {
		found := filepath.Join(dir, name)
		if there, err := os.Stat(found); err != nil || !filepath.IsAbs(dir) || !os.SameFile(there, info) {
			continue
		}
		if !versioned(found) {
			return found, nil
		}
		same = cmp.Or(same, found)
	}
	return cmp.Or(same, program), nil
}

// versioned reports whether a directory in the path has a version in its name, such as 0.1.0 or
// grapnel-0.1.0.
func versioned(path string) bool {
	return regexp.MustCompile(`(^|[-@_])v?\d+\.\d+(\.\d+|$)`).MatchString(filepath.Base(path)) ||
		path != filepath.Dir(path) && versioned(filepath.Dir(path))
}

// SameProgram reports whether an installation with the program recorded need not be changed to the
// program now: both are the same file, and now is not more stable.
func SameProgram(recorded, now string) bool {
	a, err := os.Stat(recorded)
	if err != nil || versioned(recorded) && !versioned(now) {
		return recorded == now
	}
	b, err := os.Stat(now)
	return err == nil && os.SameFile(a, b)
}

// checkProgram returns an error if the program cannot be run: some agents block every tool then.
func checkProgram(program string) error {
	info, err := os.Stat(program)
	switch {
	case program == "":
		return usagef("no path for %s", hookProgram)
	case err != nil:
		return fmt.Errorf("cannot install %s: %w", program, err)
	case !runnable(info):
		return fmt.Errorf("cannot install %s: it is not executable", program)
	}
	return nil
}

// checkRootOwned returns an error if other users could replace the program that every user's agent
// runs.
func checkRootOwned(program string) error {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return err
	}
	for _, name := range []string{program, real} {
		for {
			info, err := os.Stat(name)
			if err == nil {
				err = files.OnlyRoot(info)
			}
			if err != nil {
				return fmt.Errorf("cannot install %s for every user, because other users could replace the program: %s: %w; install grapnel where only root can write, for example in /usr/local/bin", program, name, err)
			}
			if name == filepath.Dir(name) {
				break
			}
			name = filepath.Dir(name)
		}
	}
	return nil
}

// version returns the version of the agent if the allowed events depend on it; "" if it does
// not matter or is unknown, then with a note.
func (s *session) version(ctx context.Context, a Agent) (version, note string) {
	if v, ok := s.Versions[a.Name]; ok || a.Setup.StrictBefore == "" {
		return v, ""
	}
	unknown := func(why string) (string, string) {
		return "", fmt.Sprintf(`%s, so its version is unknown: only events that %s knows are installed; run "grapnel install %s" again when it answers --version`, why, a.Setup.StrictBefore, a.Name)
	}
	program := lookPath(a.Setup.Program, s.Env)
	if program == "" {
		return unknown(fmt.Sprintf("%s is not on PATH", a.Setup.Program))
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env = append(os.Environ(), "PATH="+s.Env("PATH"), "HOME="+s.Home)
	cmd.Dir = filepath.Dir(program) // not in a directory with files of a project
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if v := regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(string(out)); v != "" && err == nil {
		return v, ""
	}
	return unknown(fmt.Sprintf("%s --version did not answer", program))
}
