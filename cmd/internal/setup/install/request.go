package install

import (
	"errors"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// DefaultTimeout is the default timeout of the hook in the agent's settings.
const DefaultTimeout = 60 * time.Second

// ErrUsage is matched by errors that the request causes, and not the machine. A command should
// exit with its usage status for them.
var ErrUsage = errors.New("usage error")

type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func (e usageError) Is(target error) bool { return target == ErrUsage }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

func scopeError(s Scope) error {
	return usagef("unknown scope %q, use %s, %s or %s", s, User, Project, Managed)
}

// A Request describes an installation or removal. Fields that only Install reads are marked.
type Request struct {
	// Agents are names or aliases. If empty, Install uses the detected agents; Uninstall needs
	// names or All.
	Agents []string
	All    bool  // Uninstall: every recorded installation below Root, and the user settings of every agent
	Scope  Scope // empty means User

	// Root is the directory for records, backups and state, instead of the home directory from
	// the user database. If set, the command contains --root.
	Root string
	// Program is the absolute path of grapnel-hook. Install only.
	Program string
	// Policy is the user's policy file. Empty means grapnel.yaml in Root, or else below
	// $XDG_CONFIG_HOME or .config. Install only.
	Policy string
	// ProjectDir is the directory of the project. Scope Project requires it; for scope User, its
	// settings are checked for conflicts.
	ProjectDir string
	Home       string              // directory that contains the agents' settings; empty means $HOME
	Env        func(string) string // nil means os.Getenv

	// Events are added to the default set, by name of the agent. Install only.
	Events map[string][]string
	// Versions are the versions of the agents, by name. If a version matters and is missing,
	// Install runs the agent's program to get it. Install only.
	Versions   map[string]string
	Timeout    time.Duration // timeout of the hook in the agent's settings; 0 means DefaultTimeout. Install only.
	FailClosed bool          // ask agents to block when the hook fails. Install only.
	KeepClosed bool          // use FailClosed of an existing installation instead. Install only.

	// Approve is how long a person may take to answer, by kind of event: agents that can wait get a
	// longer timeout for it. Install only.
	Approve map[grapnel.Kind]time.Duration

	DryRun bool // plan only: nothing is written, not even a lock file
	// Confirm is called between planning and writing, for each agent that changes, with the whole
	// plan and the files of the agent. Exactly these changes are written; false leaves this agent
	// as it is. Nil means yes.
	Confirm func(plan *Result, files []FileResult) (bool, error)

	Now     time.Time // zero means time.Now
	Version string    // of Grapnel, for the record

	// System is the base directory of a managed installation; empty means /, or Root if that is
	// set, where the hook program also looks for it.
	System string

	known []Agent // replaces Agents(); for tests
	state string  // replaces the state directory of Root, the only one in which the hook program looks; for tests
}
