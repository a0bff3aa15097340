package local

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// executor returns the executor for a program: a sandbox if its policy requires one, otherwise
// process.System.
func executor(s *policyfile.Sandbox, dir string) process.Executor {
	if box := sandbox(s, dir); box != nil {
		return box
	}
	return process.System
}

func sandbox(s *policyfile.Sandbox, dir string) *process.Sandbox {
	if s == nil || s.Off {
		return nil
	}
	return &process.Sandbox{Read: s.Read, Write: s.Write, Dir: dir, Net: s.Net, Ports: s.Ports, Optional: s.Optional}
}

// Unsandboxed returns the reason why this machine cannot sandbox the program of a hook. It
// returns nil if it can, or if the hook has no sandbox.
func Unsandboxed(c policyfile.Command) error {
	if box := sandbox(c.Sandbox, c.Dir); box != nil {
		return box.Possible()
	}
	return nil
}

// containing returns the path of the grapnel-hook that can run shell lines in a sandbox. It is in
// the directory of this program; PATH is not used, because an agent can control it.
func containing(s *policyfile.Sandbox, root string) (string, error) {
	if err := sandbox(s, "").Containable(root); err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	program := filepath.Join(filepath.Dir(self), "grapnel-hook")
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("the program grapnel-hook is missing in the directory of this program: %w", err)
	}
	return program, nil
}

// Uncontained returns the reason why this machine cannot contain shell lines for a hook. It returns
// nil if it can, or if the hook has no `contain:`.
func Uncontained(h *policyfile.Hook) error {
	if h.Contain == nil {
		return nil
	}
	return sandbox(h.Contain, "").Possible()
}

// request is a request to load policies.
type request struct{ load.Request }

// loosely records the programs that are loaded without their complete sandbox. Call the returned
// function after loading: it returns a hook that notifies the user.
func (r *request) loosely() func() []grapnel.Spec {
	command, names, why := r.Command, "", error(nil)
	if command == nil {
		return func() []grapnel.Spec { return nil }
	}
	r.Command = func(c policyfile.Command) grapnel.Hook {
		if c.Sandbox != nil && c.Sandbox.Optional {
			if err := Unsandboxed(c); err != nil {
				names, why = fmt.Sprintf("%s %q", names, c.Name), err
			}
		}
		return command(c)
	}
	return func() []grapnel.Spec {
		if why == nil {
			return nil
		}
		return []grapnel.Spec{notice.New("sandbox", fmt.Sprintf("grapnel: these hooks run, although they %v:%s. Their policy sets `required: false`.", why, names))}
	}
}
