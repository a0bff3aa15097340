// Package presets has one row of options for each system whose way of running hooks the engine can
// follow. A new system is a new row.
package presets

import "time"

// A Row is one system's way of running hooks. The zero Row is Grapnel's.
type Row struct {
	Name     string
	Unranked bool // all hooks have the same rank, in the order in which they were added; otherwise lower priority first, then the stronger scope
	Chain    bool // each hook is its own step; otherwise hooks of equal rank run together
	Parallel bool // hooks of one step run at the same time even if they have no timeout
	InChain  bool // rewrites and rules run among the steps, ordered by rank, instead of before them
	RunAll   bool // the other hooks also run after a Block
	Changes  Changes
	Unite    bool // lists of tools by several hooks are united; otherwise each hook narrows the list
	Reasons  Reasons
	Names    Names
	Once     bool // of several hooks with the same key, only the first runs
	DropLate bool // ignore the answer of a hook that exceeded its timeout

	DropIllegal bool // ignore the parts of an answer that the event does not permit, instead of treating them as a failure that blocks

	// Defaults for hooks that do not set these.
	Timeout    time.Duration // 0 = none
	MaxTimeout time.Duration // upper limit for timeouts; 0 = no limit
	Failed     Failed
}

// Changes defines which earlier changes a hook sees, and which changes remain.
type Changes uint8

// The modes for changes.
const (
	ChangesChain    Changes = iota // each hook sees the earlier changes: if hooks of one step change the event, the later ones run again
	ChangesLastWins                // all hooks see the event as it was fired; the last hook that replaces a field wins
	ChangesOverlay                 // each step sees tool inputs and requests merged member by member; the last object wins as a whole
	ChangesNone                    // a change is illegal, except for a text that is joined to the agent's own, such as a summary
)

// Reasons defines which reasons a Verdict contains.
type Reasons uint8

// The modes for reasons.
const (
	ReasonsDecisive Reasons = iota // the reasons of all hooks that made the decision
	ReasonsFirst                   // the reason of the first of these hooks
	ReasonsAll                     // the reasons of all hooks that gave one
)

// Names defines how two hooks with the same full name are treated.
type Names uint8

// The rules for names.
const (
	NamesUnique  Names = iota // the second is an error
	NamesReplace              // the second replaces the first
	NamesRepeat               // both run
)

// Failed defines the effect of the failure of a hook.
type Failed uint8

// The meanings of a failure.
const (
	FailedDefault Failed = iota // it depends on the phase and the event
	FailedOpen
	FailedClosed
)

// Rows returns all rows, Grapnel's first.
func Rows() []Row {
	return []Row{
		{Name: "grapnel"},
		{
			Name: "claude", Unranked: true, RunAll: true, Changes: ChangesLastWins, Names: NamesRepeat, Once: true,
			Timeout: 600 * time.Second, Failed: FailedOpen,
		},
		{
			Name: "gemini", Unranked: true, RunAll: true, Changes: ChangesOverlay, Unite: true,
			Reasons: ReasonsAll, Names: NamesRepeat, Once: true, Timeout: 60 * time.Second, Failed: FailedOpen, DropLate: true,
		},
		{
			Name: "ironclaw", Chain: true, InChain: true, Reasons: ReasonsFirst, Names: NamesReplace, DropIllegal: true,
			Timeout: 5 * time.Second, MaxTimeout: 30 * time.Second, Failed: FailedOpen,
		},
		{
			Name: "openclaw", Parallel: true, InChain: true, RunAll: true, Changes: ChangesLastWins, Names: NamesRepeat, Failed: FailedOpen,
		},
		{
			Name: "miniclaw", Unranked: true, Chain: true, InChain: true, Changes: ChangesLastWins, Reasons: ReasonsFirst,
			Names: NamesRepeat, Failed: FailedClosed,
		},
		{
			Name: "flyto", Unranked: true, Chain: true, InChain: true, RunAll: true, Changes: ChangesNone, Reasons: ReasonsFirst,
			Names: NamesRepeat, Timeout: 30 * time.Second, Failed: FailedOpen,
		},
		{Name: "agenthooks", Unranked: true, Timeout: 5 * time.Second, Failed: FailedClosed},
	}
}

// Find returns the row with this name and reports whether it exists.
func Find(name string) (Row, bool) {
	for _, row := range Rows() {
		if row.Name == name {
			return row, true
		}
	}
	return Row{}, false
}

// Of returns the grapnel.Preset of a row that is in no table, for the vectors of other systems.
// Package grapnel sets it.
var Of func(Row) any
