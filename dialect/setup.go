package dialect

import "time"

// A Setup says where an agent looks for its hooks and what an entry looks like there.
// It is data, for package install: nothing here reads a file.
type Setup struct {
	// An agent is there when Program is on PATH, or Dir is below the home directory; an
	// empty Dir is the first directory of User, and the second where the first is .config.
	Program, Dir string

	// User is the file with the user's hooks, below the home directory, and Project the
	// one of a project, below its root; slashes on every system. Empty = the agent has no
	// such layer. For ShapeFiles they are the directories of the files.
	User, Project string

	// Managed is the file whose hooks nobody but an administrator can take away: on
	// Linux, macOS and Windows. Empty = none, or none that is a file of its own.
	Managed [3]string

	// MovedBy is a variable that moves the user's file: it names what stands in the place
	// of Moves, the first part of User; an empty Moves is the home directory.
	MovedBy, Moves string

	Shape Shape

	// Entry is one entry as JSON, in which words outside of strings stand for values:
	//
	//	$command     the shell line, a string
	//	$powershell  the same for PowerShell
	//	$program     the hook program alone, a string, and
	//	$args        its arguments, a list of strings
	//	$timeout     how long the agent shall wait, in units of Unit, a whole number
	//	$event       the event's native name, a string
	//	$label       Label, a string
	//	$closed      true, in a member that is only written where the hook's failure shall
	//	             block; $closed("block") is the same with another value
	//
	//	{"type": "command", "command": $command, "timeout": $timeout, "failClosed": $closed}
	//
	// Of ShapeFiles it is the text of a file, in which $command stands for the shell line,
	// $event for the name, and $marker for a sentence by which the file is known as ours.
	// Of ShapePlugin it is empty: see package install, directory shim.
	Entry string

	Tops []string      // members that the top may have; one more voids the file. Empty = any
	Top  string        // members, as JSON without braces, that the object at the top of a new file has beside the hooks
	Unit time.Duration // of a timeout in an entry; 0 = entries have none

	// Files are the names that the file of an event may have, $event in each, for
	// ShapeFiles: the first that is free is ours.
	Files []string

	// Edits are what a plugin needs in the file that User names, for ShapePlugin; the
	// plugin is then a directory of ours. Without Edits, User is the plugin.
	Edits []Edit

	// Over are files beside the one with the hooks, as paths from its directory, whose
	// list for an event takes the place of the list there: an event that the first of them
	// that exists has is installed in that one. Its top is the object of events.
	Over []string

	Comments  bool // the agent's own parser takes comments
	JSON5     bool // it reads more than comments, and what is more is not edited
	Cuts      bool // it cuts out // and /* */ wherever they stand, in strings too: they void the file
	Vars      bool // it replaces $NAME in the strings of the file
	Fold      bool // it knows its events in any case, with underscores or without
	Strict    bool // one event that it does not know, or one entry that is wrong, voids the whole file
	NoLink    bool // it refuses a project's file that is reached through a symbolic link
	Own       bool // the file holds our entries only: it is made, and removed as a whole
	Anonymous bool // other agents load the file as well: the command names neither agent nor event, the payload does
	Keep      bool // entries of others are known by their position: an emptied group stays when others follow

	// Matcher is that of our groups; empty leaves it out. Label is the name of our entries
	// for agents that can switch entries off by name.
	Matcher, Label string

	ClosedSince  string // first version whose entries can ask for a block when the hook fails; empty with $closed in Entry = every version
	StrictBefore string // before this version one event that it does not know voids the whole file

	// Undone says how hooks of others can undo what ours decided; Unseen are tools and
	// runs that no hook of the agent sees. Both are lines for a person, for grapnel doctor.
	Undone string
	Unseen []string

	Off         []Switch // what in its settings switches hooks off or changes how they run
	Todo        []string // what the person has to do after installing; lines for a person, in which $file is what was written
	TodoProject []string // what else after installing into a project
}

// Setup says where the agent's hooks are configured; nil = nowhere that is known. The
// result is the caller's. No
// Dialect points to it, so that a program that only answers does not carry it.
func (d *Dialect) Setup() *Setup {
	if s := d.setup(); s != nil {
		return s.clone()
	}
	return nil
}

func (d *Dialect) setup() *Setup {
	switch d.Name {
	case claudeCode.Name:
		return &claudeSetup
	case geminiCLI.Name:
		return &geminiSetup
	case codex.Name:
		return &codexSetup
	case qwenCode.Name:
		return &qwenSetup
	case factoryDroid.Name:
		return &droidSetup
	case openClaw.Name:
		return &openClawSetup
	case openCode.Name:
		return &openCodeSetup
	case copilot.Name:
		return &copilotSetup
	case cursor.Name:
		return &cursorSetup
	case crush.Name:
		return &crushSetup
	case cline.Name:
		return &clineSetup
	case windsurf.Name:
		return &windsurfSetup
	case kiroCLI.Name:
		return &kiroCLISetup
	case kiro.Name:
		return &kiroSetup
	}
	return nil
}

// A Shape is how the file of a Setup holds entries.
type Shape string

// The shapes.
const (
	ShapeGroups Shape = "groups" // {"hooks": {EVENT: [{"matcher": …, "hooks": [ENTRY]}]}}
	ShapeFlat   Shape = "flat"   // {"hooks": {EVENT: [ENTRY]}}
	ShapeList   Shape = "list"   // {"hooks": [ENTRY]}, the entry names its event
	ShapeFiles  Shape = "files"  // a directory with one program per event, which carries the event's name
	ShapePlugin Shape = "plugin" // code that the agent loads: a shim that keeps grapnel-hook running
)

// An Edit is one thing that the agent's settings have to say of a plugin.
type Edit struct {
	Path  string // of an object or a list, with dots; it is made where there is none
	Key   string // of the member, where Path is an object
	Value string // JSON, in which $dir stands for the directory of the plugin, a string
	Only  bool   // only where Path exists already
}

// A Switch is a setting that keeps hooks from running, or changes how they run.
type Switch struct {
	// File is one other than that with the hooks, as Setup.User: below the home directory
	// and below a project. With a slash at the front it is that of the whole machine. It is
	// JSON, or TOML by its name; empty = the file with the hooks.
	File  string
	Path  string // of the setting, with dots
	Is    string // JSON; empty = whatever it holds
	Names bool   // Path is a list, and what counts is that it names our entries, by their Label or command
	Says  string // what that does, for a person: "PATH is VALUE, which " comes before it
}
