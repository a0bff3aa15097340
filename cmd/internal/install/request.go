package install

import (
	"errors"
	"fmt"
	"time"
)

// DefaultTimeout is how long agents are told to wait for the hook.
const DefaultTimeout = 60 * time.Second

// ErrUsage is matched by errors that come from the request and not from the
// machine. A command line should end with its usage status for them.
var ErrUsage = errors.New("usage error")

type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func (e usageError) Is(target error) bool { return target == ErrUsage }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

func scopeError(s Scope) error {
	return usagef("unknown scope %q, there are %s, %s and %s", s, User, Project, Managed)
}

// A Request says what to install or to uninstall, and where. Fields that only
// Install reads are marked.
type Request struct {
	// Agents are names or aliases. None means, for Install, those that are
	// detected; Uninstall wants names or All.
	Agents []string
	All    bool  // Uninstall: every recorded installation below Root, and the user settings of every agent
	Scope  Scope // empty means User

	// Root keeps records, backups and state below one directory instead of the
	// home directory of the user database, and puts --root into the command.
	Root string
	// Program is the absolute path of grapnel-hook. Install only.
	Program string
	// Policy is the user's policy file. Empty means grapnel.yaml in Root, or
	// else below $XDG_CONFIG_HOME or .config. Install only.
	Policy string
	// ProjectDir is the directory of the project. Scope Project needs it; for
	// scope User its settings are looked at for what would disturb.
	ProjectDir string
	Home       string              // below which agents look for their settings; empty means $HOME
	Env        func(string) string // nil means os.Getenv

	// Events are added to the default set, by name of the agent. Install only.
	Events map[string][]string
	// Versions are those of the agents, by name. Where it matters and nothing
	// is said, the agent's program is asked. Install only.
	Versions   map[string]string
	Timeout    time.Duration // how long agents wait for the hook; 0 means DefaultTimeout. Install only.
	FailClosed bool          // ask agents to block when the hook fails. Install only.

	// Via is how agents reach Grapnel. Empty means as they do now, and by a command where
	// nothing is installed. Install only.
	Via Via
	// Programs are, by name of the agent, the events at which a hook of the policy starts a
	// program, with the name of the hook: over http these stay commands. Install only.
	Programs map[string]map[string]string

	DryRun bool // plan only: nothing is written, not even a lock file
	// Confirm is called between planning and writing, if anything changes. What
	// it was shown is what is written; false ends without writing. Nil means yes.
	Confirm func(*Result) (bool, error)

	Now     time.Time // zero means time.Now
	Version string    // of Grapnel, for the record

	// System is what the files of a managed installation lie below; empty means /, or
	// Root where that is given, below which the hook program looks for them, too.
	System string

	known []Agent // in place of Agents(); for tests
	state string  // in place of the directory that Root stands for, where alone the hook program looks; for tests
}
