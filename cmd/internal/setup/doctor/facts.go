package doctor

import (
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// facts are the input of judge.
type facts struct {
	now     time.Time
	version string // of Grapnel
	program string // path of grapnel-hook of this Grapnel
	dir     string // current directory of the user

	agents   []agent
	records  []installation.Record // of all agents
	broken   []string              // records that cannot be read, and why
	policies []load.Loaded
	only     string // notice if a managed policy disables all others
	specs    []grapnel.Spec
	oldLogs  []string // files of logs that this version does not read
	keep     string   // limits of retention; empty = no policy sets any
	paused   time.Time
	off      pause.Off // hooks that a person has switched off
	offError error
	changed  []string  // files of trusted hooks that differ from what was trusted, and why
	stuck    []string  // hooks that cannot work now, and why
	idle     string    // the user's policy, if all its hooks only observe
	unlogged []string  // grants that no Record names
	since    time.Time // start of the log that was read

	rootless     int       // events of the last seven days in sessions without a stored root
	lastRootless time.Time // time of the last of them

	roomless     int       // counts of the last seven days that found no room in the state of their session or hook
	lastRoomless time.Time // time of the last of them

	losses     spool.Losses // replies of the last seven days without a Record
	unwritable error        // why no Record can be stored now

	logError string // why the log cannot be read
	torn     int    // unreadable lines of the log
	lastTorn string
	failing  []failing
	boxes    []box // hooks with a sandbox
	damaged  []load.Corruption
	before   *memory // nil = no memory of an earlier run
	beforeTo string  // why the memory cannot be read
	daemon   daemon

	forward    []forwarding.Report
	forwardErr error
	refused    []queue.Refusal
	refusedErr error

	homeless  error  // why the home directory of this user is unknown; nil = it is known
	elsewhere string // the state directory, if HOME has another home directory than the user database
}

// daemon is the state of the daemon, if one runs.
type daemon struct {
	socket string
	err    error         // why it did not report its health; nil without found = not asked
	found  *server.Found // nil = no daemon found, or it cannot be trusted
}

// box is a hook with a sandbox.
type box struct {
	hook, holds string
	missing     error // why this machine cannot enforce the sandbox
	optional    bool
	off         bool // `sandbox: false`
}

// failing is a guard that did not reply.
type failing struct {
	name, source             string
	errors, timeouts, opened int
	last                     time.Time
	why                      string
	gone                     bool // no policy has it any more
}

// agent is the set of facts about one agent.
type agent struct {
	*dialect.Dialect
	named bool // the user has named the agent

	program string // from PATH; empty = not found
	inside  bool   // the program is part of the project
	dir     string // directory of its settings; empty = not found
	version string
	mute    string // why it did not report its version

	layers   []layer
	installs []installed
	latency  *latency
	lastFile string    // the newest of the agent's own files
	lastUsed time.Time // modification time of lastFile
	last     time.Time // time of its last Record
	tools    map[string]int
}

// lacks reports whether the agent's version is known and does not have an event of its table.
func (a *agent) lacks(event string) bool {
	return a.version != "" && a.Row(event) != nil && !install.Agent{Dialect: a.Dialect, Setup: a.Setup()}.Knows(a.version, event)
}

func (a *agent) present() bool { return a.program != "" || a.dir != "" }

// A layer is one file from which an agent reads hooks or switches.
type layer struct {
	scope  string // user, project or managed
	rel    string // the file, as in Switch.File; empty for the file with the hooks
	file   string
	is     bool   // the file exists
	err    string // why it cannot be read
	tree   map[string]any
	hooks  []install.Found
	script map[int]string // digest of the file that a hook runs, by index in hooks
}

// installed is one installation.
type installed struct {
	installation.Record
	void    string   // why its files cannot be read
	missing []string // recorded events without an entry in the files
	now     string   // path of the file that install would write today, if it differs
	stale   string   // why a new installation would change something; empty = it would not
	named   bool     // the plugin in Settings has no default export
	newer   []string // events that the agent has had since an update after the installation
	cannot  string   // why stale is unknown
	program program
}

// program is a hook program.
type program struct {
	gone    bool
	cannot  string // why it cannot be run
	open    string // the file or a directory above it, if other users can write it
	version string // its reported version; empty = not asked or not reported
}

// latency is the result of a measurement of replies.
type latency struct {
	event        string // native name
	runs         int
	median, most time.Duration
	floor        time.Duration // of a program that does nothing; 0 = unknown
	wait         time.Duration // timeout of the agent
	slow         time.Duration // limit for a warning; 0 = a multiple of floor
	without      []string      // hooks that would have run, because of which the policy was left out
	failed       string        // the reason for a missing measurement
}
