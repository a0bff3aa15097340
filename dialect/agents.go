package dialect

import (
	"slices"

	"github.com/grapnel-dev/grapnel"
)

// dialects lists the dialects of all agents; see [All]. A new agent needs its file and its row here.
var dialects []*Dialect

func init() { // in init, because the functions of a dialect search this list
	dialects = []*Dialect{
		claudeCode,
		geminiCLI,
		codex,
		qwenCode,
		factoryDroid,
		grok,
		openClaw,
		openCode,
		copilot,
		cursor,
		crush,
		cline,
		windsurf,
		kiroCLI, kiro,
		antigravity,
		plain,
	}
}

// hookOnly lists the dialects that only hook programs use.
var hookOnly = []*Dialect{flyto, miniclaw}

// All returns the dialects of all agents, in the order in which [Detect] tries them on a payload of
// an unknown agent.
func All() []*Dialect { return cloneAll(dialects) }

// HookOnly returns the dialects that only hook programs use. No known agent fires events in them.
func HookOnly() []*Dialect { return cloneAll(hookOnly) }

// ContractOf returns the Contract of an event, including native events for which a dialect defines
// a Contract. It returns false for other native and unknown events.
func ContractOf(kind grapnel.Kind) (grapnel.Contract, bool) {
	if c, ok := grapnel.ContractOf(kind); ok {
		return c, true
	}
	for _, d := range dialects {
		for i := range d.Events {
			if row := &d.Events[i]; row.Kind == kind && row.Contract != nil {
				return *cloneContract(row.Contract), true
			}
		}
	}
	return grapnel.Contract{}, false
}

func cloneAll(dialects []*Dialect) []*Dialect {
	all := make([]*Dialect, len(dialects))
	for i, d := range dialects {
		all[i] = d.clone()
	}
	return all
}

// clone returns a copy for a caller outside of this package. A change to the shared tables could
// disable guards for the whole process.
func (d *Dialect) clone() *Dialect {
	own := *d
	own.Aliases, own.Folds = slices.Clone(d.Aliases), slices.Clone(d.Folds)
	own.Events = cloneRows(d.Events)
	own.Tools = slices.Clone(d.Tools)
	for i := range own.Tools {
		t := &own.Tools[i]
		t.Facts, t.Members, t.Takes = slices.Clone(t.Facts), slices.Clone(t.Members), slices.Clone(t.Takes)
	}
	if slices.Contains(dialects, d) { // the others, which only hook programs use, read no agent's events
		d.tabled(&own)
	}
	return &own
}

func cloneRows(rows []EventRow) []EventRow {
	own := slices.Clone(rows)
	for i := range own {
		r := &own[i]
		r.Can, r.Contract = *cloneCan(&r.Can), cloneContract(r.Contract)
	}
	return own
}

func cloneCan(c *grapnel.Can) *grapnel.Can {
	own := *c
	own.Change, own.Members = slices.Clone(c.Change), slices.Clone(c.Members)
	return &own
}

func cloneContract(c *grapnel.Contract) *grapnel.Contract {
	if c == nil {
		return nil
	}
	own := *c
	own.Changes = slices.Clone(c.Changes)
	return &own
}

func (s *Setup) clone() *Setup {
	own := *s
	own.Tops, own.Files, own.Over, own.Unseen = slices.Clone(s.Tops), slices.Clone(s.Files), slices.Clone(s.Over), slices.Clone(s.Unseen)
	own.Processes, own.Related = slices.Clone(s.Processes), slices.Clone(s.Related)
	own.Edits, own.Off = slices.Clone(s.Edits), slices.Clone(s.Off)
	own.Todo, own.TodoProject = slices.Clone(s.Todo), slices.Clone(s.TodoProject)
	return &own
}
