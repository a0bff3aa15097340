package doctor

import (
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/policy"
)

// facts are what is judged.
type facts struct {
	now     time.Time
	version string // of Grapnel
	program string // grapnel-hook of this Grapnel
	dir     string // where the person is

	agents   []agent
	records  []installation.Record // of all agents
	broken   []string              // records that cannot be read, and why
	policies []policy.Loaded
	only     string // what is said where a managed policy lets no other count
	specs    []grapnel.Spec
	paused   time.Time
	since    time.Time // of what was read of the log

	rootless     int       // events of the last seven days whose session has no stored root
	lastRootless time.Time // the last of them

	logError string // why it cannot be read
	torn     int    // lines of it that hold no whole Record
	lastTorn string
	failing  []failing
	boxes    []box // hooks that have a sandbox
	http     overHTTP
	damaged  []policy.Corruption
	before   *memory // nil = nothing was remembered
	beforeTo string  // why what was remembered cannot be read
	daemon   daemon
}

// daemon is who answers from one warm process, if anybody does.
type daemon struct {
	socket string
	err    error         // why it does not say how it is; nil and no found = nobody has looked
	found  *server.Found // nil = there is none, or none that is believed
}

// box is a hook in a sandbox.
type box struct {
	hook, holds string
	missing     error // why this machine cannot hold its program to that
	optional    bool
}

// failing is a guard that did not answer.
type failing struct {
	name, source             string
	errors, timeouts, opened int
	last                     time.Time
	why                      string
}

// agent is what is known of one.
type agent struct {
	*dialect.Dialect
	named bool // by the person

	program string // on PATH; empty = it is not there
	inside  bool   // the program is part of the project
	dir     string // the directory of its settings; empty = it is not there
	version string
	mute    string // why it did not tell its version

	layers   []layer
	installs []installed
	latency  *latency
	lastFile string    // the youngest of its own files
	lastUsed time.Time // and when it was written
	last     time.Time // of its Records
	tools    map[string]int
}

func (a *agent) present() bool { return a.program != "" || a.dir != "" }

// A layer is one file that an agent takes hooks or switches from.
type layer struct {
	scope  string // user, project or managed
	rel    string // which one it is: as Switch.File, or empty for that with the hooks
	file   string
	is     bool   // it is there
	err    string // why it cannot be read
	tree   map[string]any
	hooks  []install.Found
	script map[int]string // digest of the file that a hook runs, by its place in hooks
}

// installed is one installation.
type installed struct {
	installation.Record
	void    string   // why its files cannot be read
	missing []string // events that they do not name us for
	now     string   // the file that install would write today, where that is another
	stale   string   // why installing again would change something; empty = it would not
	cannot  string   // why that cannot be told
	program program
}

// program is a hook program.
type program struct {
	gone    bool
	cannot  string // why it cannot be run
	open    string // what others can write: the file or a directory above it
	version string // what it says; empty = it was not asked or did not say
}

// latency is how long answers took.
type latency struct {
	event        string // native
	runs         int
	median, most time.Duration
	floor        time.Duration // of a program that does nothing; 0 = unknown
	wait         time.Duration // the agent waits no longer
	slow         time.Duration // what takes longer is slow; 0 = a multiple of the floor is
	without      []string      // the hooks for which the policy was left out: they would have run
	failed       string        // why there is none
}
