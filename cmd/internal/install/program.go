package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/grapnel-dev/grapnel/internal/owner"
)

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
				err = owner.Root(info)
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
		return "", fmt.Sprintf("%s, so its version is unknown: versions before %s ignore the whole settings file if it contains newer events; make sure that it is up to date", why, a.Setup.StrictBefore)
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
