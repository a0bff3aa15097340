// Package ancestor finds an agent among the ancestors of a process. Commands for persons refuse
// to run below one:
//
//	found, err := ancestor.Agent()
//	found, err := ancestor.Of(pid)
//
// It does not find an agent whose child has left its process tree (setsid, a daemon, another
// terminal), or that runs outside of this container.
package ancestor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/dialect"
)

// Runner is the end of the name of a process above which Agent does not look. The programs for
// system tests have one, so that an agent can run the tests; it is empty in all others.
var Runner string

// A Process is an agent's process.
type Process struct {
	PID   int
	Name  string
	Agent string // title of the agent
	Args  []string
}

// headless are words on the command lines of agents that have no terminal dialog.
var headless = []string{"-p", "--print", "--prompt", "exec", "run", "--no-interactive", "--headless"}

// Interactive reports whether the process shows dialogs at a terminal. On systems other than Linux,
// the answer is always no.
func (p *Process) Interactive() bool {
	return terminal(p.PID) && !slices.ContainsFunc(p.Args, func(arg string) bool { return slices.Contains(headless, arg) })
}

// String describes a process for messages: Claude Code (process 4711, claude).
func (p *Process) String() string { return fmt.Sprintf("%s (process %d, %s)", p.Agent, p.PID, p.Name) }

// terminal reports whether the standard input and output of a process are a terminal.
func terminal(pid int) bool {
	for _, fd := range []string{"0", "1"} {
		name, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "fd", fd))
		if err != nil || !strings.HasPrefix(name, "/dev/pts/") && !strings.HasPrefix(name, "/dev/tty") {
			return false
		}
	}
	return true
}

// process describes any process. Unknown parts are empty.
type process struct {
	parent    int
	exe, name string
	args      []string
}

// maxDepth limits the walk, because a process ID can be reused while it runs.
const maxDepth = 256

// Agent returns the nearest ancestor that is a process of an agent, or nil. An error means that it
// could not look at all ancestors.
func Agent() (*Process, error) { return find(os.Getpid(), 1) }

// Of returns the process with an ID if it is a process of an agent, or else its nearest ancestor
// that is one, or nil. An error means that it could not look at all of them.
func Of(pid int) (*Process, error) { return find(pid, 0) }

// find looks at a process and its ancestors. It does not accept the first ones, up to depth from.
func find(pid, from int) (*Process, error) {
	list, err := lister()
	if err != nil {
		return nil, err
	}
	for depth := 0; pid > 0 && depth < maxDepth; depth++ {
		p, err := list(pid)
		if err != nil {
			return nil, fmt.Errorf("cannot read process %d: %w", pid, err)
		}
		if Runner != "" && strings.HasSuffix(filepath.Base(p.exe), Runner) {
			break
		}
		if title := dialect.OfProcess(p.exe, p.name, p.args); title != "" && depth >= from {
			return &Process{pid, p.name, title, p.args}, nil
		}
		pid = p.parent
	}
	return nil, nil
}
