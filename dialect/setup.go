package dialect

import "time"

// A Setup describes where an agent looks for its hooks and the format of an entry. It is data for
// packages install and doctor; nothing here reads a file.
type Setup struct {
	// The agent is installed if Program is on PATH or if Dir exists below the home directory. An
	// empty Dir means the first directory of User, or the second if the first is .config.
	Program, Dir string

	// Processes lists the names of programs and scripts that the agent runs as, as patterns of
	// path.Match, and parts of their paths, with a slash. Programs that a person works in, such as
	// an editor or its terminal, must not match.
	Processes []string

	// Unattended names an environment variable that the agent sets for its hooks, and the beginning of
	// its values in a run without a person, as NAME=BEGINNING. Empty, or if the variable is not set =
	// the agent's terminal decides.
	Unattended string

	// User is the file with the user's hooks, relative to the home directory. Project is the file
	// of a project, relative to its root. Both use slashes on every system. Empty = the agent has
	// no such layer. For ShapeFiles they are the directories of the files.
	User, Project string

	// Managed is the file with hooks that only an administrator can remove: on Linux, macOS and
	// Windows. Empty = none, or not in a separate file.
	Managed [3]string

	// MovedBy is an environment variable that moves the user's file. Its value replaces Moves, the
	// first part of User; an empty Moves is the home directory.
	MovedBy, Moves string

	Shape Shape

	// Entry is the template of one entry as JSON. Words outside of strings are placeholders:
	//
	//	$command     the shell line, a string
	//	$powershell  the same for PowerShell
	//	$program     only the hook program, a string, and
	//	$args        its arguments, a list of strings
	//	$timeout     the agent's timeout in units of Unit, a whole number
	//	$event       the event's native name, a string
	//	$label       Label, a string
	//	$closed      true, in a member that is only written if a hook failure must
	//	             block; $closed("block") writes another value
	//
	//	{"type": "command", "command": $command, "timeout": $timeout, "failClosed": $closed}
	//
	// For ShapeFiles it is the text of a file: $command is the shell line, $event the event name,
	// and $marker a sentence that marks the file as created by Grapnel. For ShapePlugin it is
	// empty; see package install, directory shim.
	Entry string

	Tops []string      // allowed top-level members; the agent rejects a file with any other. Empty = any
	Top  string        // further top-level members of a new file, as JSON without braces
	Unit time.Duration // of a timeout in an entry; 0 = entries have no timeout

	// AskTimeout is the timeout of entries for events at which a person may be asked; 0 = as at
	// other events. Grapnel's own deadline is shorter: see EventRow.Budget.
	AskTimeout time.Duration

	// Files lists possible file names for an event, each with $event, for ShapeFiles. Grapnel uses
	// the first free name.
	Files []string

	// Deadline is how long a plugin waits for a reply, for ShapePlugin. It is longer than the time for
	// all hooks of an event, and shorter than the agent's own timeout, if it has one.
	Deadline time.Duration

	// Edits are the changes that a plugin needs in the file that User names, for ShapePlugin; the
	// plugin is then a directory created by Grapnel. Without Edits, User is the plugin.
	Edits []Edit

	// Over lists files next to the file with the hooks, as paths from its directory. Their list for
	// an event replaces the list in that file. An event that is in the first existing one of them
	// is installed there. The top level of such a file is the object of events.
	Over []string

	// Related lists further files from which the agent reads hooks, or in which it stores decisions
	// about hooks, each like Switch.File.
	Related []string

	// Sessions is a directory, relative to the home directory, into which the agent writes during
	// each session; empty = unknown. If it has newer files than Grapnel's log, hooks do not run.
	Sessions string

	Comments  bool // the agent's parser accepts comments
	JSON5     bool // the parser accepts more than comments; Grapnel does not edit such syntax
	Cuts      bool // the parser strips // and /* */ everywhere, even in strings, which makes the file invalid
	Vars      bool // the agent expands $NAME in the strings of the file
	Fold      bool // the agent accepts event names in any case, with or without underscores
	Strict    bool // one unknown event or one invalid entry makes the agent ignore the whole file
	NoLink    bool // the agent refuses a project file that is reached through a symbolic link
	Own       bool // the file holds only Grapnel's entries; Grapnel creates it and removes it as a whole
	Anonymous bool // other agents also load the file: the command names neither agent nor event, the payload does
	Keep      bool // entries of others are identified by position: an emptied group stays if others follow

	// Matcher is the matcher of Grapnel's groups; empty omits it. Label is the name of Grapnel's
	// entries, for agents that can disable entries by name, and the key of all of them for ShapeNamed.
	Matcher, Label string

	ClosedSince  string // first version whose entries can block when the hook fails; empty with $closed in Entry = every version
	StrictBefore string // before this version, one unknown event makes the agent ignore the whole file; install assumes it if the version is unknown

	// Late is the action of the agent if grapnel-hook does not answer; empty = it continues.
	Late string

	// Documented reports that no version of the agent was run for its tables: they come from
	// documentation and from reports.
	Documented bool

	// Undone explains how other hooks can undo Grapnel's decision. Unseen lists tools and runs that
	// no hook of the agent sees. grapnel doctor shows these lines to the user.
	Undone string
	Unseen []string

	Off         []Switch // settings of the agent that disable hooks or change how they run
	Todo        []string // steps for the user after installing, one line each; $file is the written file
	TodoProject []string // further steps after installing into a project
	Until       string   // what a user must do before the agent runs new hooks of a user or project; empty = it runs them
}

// askTimeout is how long agents should wait while a person decides. Agents that ask their user to
// trust an entry want new trust if its timeout changes.
const askTimeout = time.Hour

// Setup returns a copy of the agent's hook configuration, or nil if it is unknown or the agent has
// no separate file for Grapnel. The caller may change the copy.
func (d *Dialect) Setup() *Setup {
	if d.setup == nil || d.setup.User == "" {
		return nil
	}
	return d.setup.clone()
}

// A Shape is the layout of entries in the file of a Setup.
type Shape string

// The shapes.
const (
	ShapeGroups Shape = "groups" // {"hooks": {EVENT: [{"matcher": …, "hooks": [ENTRY]}]}}
	ShapeFlat   Shape = "flat"   // {"hooks": {EVENT: [ENTRY]}}
	ShapeNamed  Shape = "named"  // {LABEL: {EVENT: [ENTRY]}}; the events of tools as in ShapeGroups
	ShapeList   Shape = "list"   // {"hooks": [ENTRY]}, where the entry names its event
	ShapeFiles  Shape = "files"  // a directory with one program per event, named after the event
	ShapePlugin Shape = "plugin" // code that the agent loads: a shim that keeps grapnel-hook running
)

// An Edit is one change to the agent's settings that a plugin needs.
type Edit struct {
	Path  string // of an object or a list, with dots; created if it does not exist
	Key   string // of the member, where Path is an object
	Value string // JSON, in which $dir is the directory of the plugin, a string
	Only  bool   // only if Path already exists
}

// A Switch is a setting that keeps hooks from running, or changes how they run.
type Switch struct {
	// File is a file other than the one with the hooks. Like Setup.User, the path is below the home
	// directory and below a project; with a leading slash it is a machine-wide file. It is JSON, or
	// TOML by its name; empty = the file with the hooks.
	File   string
	Path   string // of the setting, with dots
	Is     string // JSON; empty = any value
	Names  bool   // Path is a list that matters only if it names Grapnel's entries, by Label or command
	Effect string // the effect, for the user; it follows "PATH is VALUE, which "

	// SparesManaged reports whether managed hooks run anyway, unless the setting is in the managed
	// settings. It was seen with the real agent.
	SparesManaged bool
}
