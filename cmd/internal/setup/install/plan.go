package install

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// Wanted is the wanted state of one settings file.
type Wanted struct {
	Agent   Agent
	File    string // path as the user knows it, for errors and the diff
	Current []byte // current content; nil if the file does not exist

	Hook       Hook
	Events     []string      // of the agent; written in the agent's order, not in this one
	Timeout    time.Duration // timeout of the hook; rounded up to the agent's unit
	FailClosed bool          // block when the hook fails, at events where the agent supports it

	Approve map[grapnel.Kind]time.Duration // see Request

	// Dir is the directory of the plugin, for agents whose settings name it.
	Dir string

	// Made is from the record of the installation in the file; nil without a record.
	Made *installation.Made
}

// A Change is the result of Plan and PlanRemove. Apply executes it.
type Change struct {
	Agent  string
	File   string
	Before []byte   // nil: the file does not exist
	After  []byte   // nil: the file will be removed
	Events []string // with entries of Grapnel after Plan, or before PlanRemove
	Diff   string   // unified diff; empty if nothing changes
	Notes  []string // what the user has to know or do
	Made   installation.Made

	// Perm is the mode of a file that has to be created; 0 means 0600. New directories get the
	// same mode, with search permission where there is read permission.
	Perm  fs.FileMode
	Exact bool // use Perm exactly, whatever the umask is
}

// Changed reports whether the file has to be written or removed.
func (c *Change) Changed() bool {
	return (c.Before == nil) != (c.After == nil) || !bytes.Equal(c.Before, c.After)
}

// Plan plans an edit of a settings file, so that it has one entry of Grapnel per wanted event and
// none for other events. Every other byte stays. Plan updates existing entries of Grapnel in
// place; if nothing differs, it changes nothing.
//
// Plan is a pure function. It returns a *FileError if an edit would be ambiguous. It plans only
// changes that PlanRemove can undo to the byte.
func Plan(w Wanted) (*Change, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	d, err := parse(w.Agent, w.File, w.Current)
	if err != nil {
		return nil, err
	}
	sections, err := d.sections()
	if err != nil {
		return nil, err
	}
	if err := d.survivesCuts(); err != nil {
		return nil, err
	}

	there := ours(sections)
	made, without := &installation.Made{}, rest{data: w.Current}
	switch {
	case len(there) > 0:
		if made = cloneMade(w.Made); made == nil {
			made = w.Agent.presume(there)
		}
		if without, err = takeOut(d, nil, made); err != nil {
			return nil, err
		}
	case w.Current == nil && w.Made != nil:
		made.Dirs = w.Made.Dirs // the other fields describe an earlier state
	}

	c := &Change{Agent: w.Agent.Name, File: w.File, Before: w.Current}
	additions, err := w.additions(d)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, addition := range additions {
		ids = append(ids, addition.id)
	}
	keep := choose(there, ids)
	next, err := takeOut(d, func(h handler) bool { return !slices.Contains(keep, h.at()) }, made)
	if err != nil {
		return nil, err
	}
	if d, err = parse(w.Agent, w.File, next.data); err != nil {
		return nil, err
	}
	if additions, err = w.additions(d); err != nil { // their containers may have been removed
		return nil, err
	}
	if d, c.Notes, err = w.update(d, additions); err != nil {
		return nil, err
	}
	if c.After, err = w.add(d, additions, made); err != nil {
		return nil, err
	}
	made.Events = slices.DeleteFunc(made.Events, func(key string) bool {
		return !slices.ContainsFunc(w.Events, func(ev string) bool { return w.Agent.sameEvent(ev, key) })
	})
	c.Made = *made

	if d, err = w.verify(c, without.data, ids); err != nil {
		return nil, err
	}
	for _, ev := range w.Agent.Events {
		if w.Agent.Setup.Shape != dialect.ShapePlugin && slices.Contains(w.Events, ev.Native) {
			c.Events = append(c.Events, ev.Native)
		}
	}
	if w.FailClosed && !w.Agent.closes() && w.Agent.Setup.Shape != dialect.ShapePlugin {
		c.Notes = append(c.Notes, cannotClose(w.Agent))
	}
	c.Notes = append(c.Notes, d.notes("")...)
	c.Diff = Unified(w.File, c.Before, c.After)
	return c, nil
}

func cannotClose(a Agent) string {
	return fmt.Sprintf("%s has no setting to fail closed: it %s", a.Title, cmp.Or(a.Setup.Late, "continues when "+hookProgram+" does not answer in time"))
}

// presume replaces a lost record: it assumes that containers with only entries of Grapnel were
// created for them.
func (a Agent) presume(there []handler) *installation.Made {
	made := &installation.Made{Hooks: true, File: a.Setup.Own}
	for _, h := range there {
		if h.entry.Event != "" {
			made.Events = append(made.Events, h.entry.Event)
		}
	}
	if a.Setup.Own {
		for _, f := range a.top() {
			made.Keys = append(made.Keys, f.key)
		}
	}
	if a.Setup.Shape == dialect.ShapeNamed {
		made.Keys = append(made.Keys, a.Setup.Label)
		for _, event := range made.Events {
			made.Keys = append(made.Keys, join([]string{a.Setup.Label, event}))
		}
	}
	for _, e := range a.Setup.Edits {
		path := strings.Split(e.Path, ".")
		for n := range path {
			if key := join(path[:n+1]); !slices.Contains(made.Keys, key) {
				made.Keys = append(made.Keys, key)
			}
		}
	}
	return made
}

func cloneMade(m *installation.Made) *installation.Made {
	if m == nil {
		return nil
	}
	c := *m
	c.Dirs = slices.Clone(m.Dirs)
	c.Events = slices.Clone(m.Events)
	c.Keys = slices.Clone(m.Keys)
	c.Gaps = maps.Clone(m.Gaps)
	return &c
}

// isMade reports whether an installation created the value at a path.
func (d *document) isMade(made *installation.Made, path string) bool {
	switch event, inHooks := strings.CutPrefix(path, "hooks/"); {
	case path == "hooks":
		return made.Hooks
	case inHooks:
		return slices.ContainsFunc(made.Events, func(key string) bool { return d.agent.sameEvent(key, event) })
	}
	return slices.Contains(made.Keys, path)
}

// makes records that an installation creates the value at a path.
func makes(made *installation.Made, path string) {
	switch event, inHooks := strings.CutPrefix(path, "hooks/"); {
	case path == "hooks":
		made.Hooks = true
	case inHooks:
		made.Events = append(made.Events, event)
	default:
		made.Keys = append(made.Keys, path)
	}
}

// at returns a key that distinguishes the handlers of one document.
func (h handler) at() [3]int { return [3]int{h.section, h.item, h.index} }

// choose selects the entry that stays for each wanted event. With more than one entry, the agent
// would run the hook twice. An entry for all tools is better than one with a matcher.
func choose(there []handler, ids []string) [][3]int {
	best := map[string]handler{}
	for _, h := range there {
		old, ok := best[h.id]
		if slices.Contains(ids, h.id) && (!ok || !old.everything() && h.everything()) {
			best[h.id] = h
		}
	}
	var keep [][3]int
	for _, h := range best {
		keep = append(keep, h.at())
	}
	return keep
}

// everything reports whether the group of the handler has no matcher.
func (h handler) everything() bool { return h.matcher == "" || h.matcher == "*" }

// verify checks, before anything is written, that the new file has the wanted entries, and that
// removing them gives the content without Grapnel. It returns the new file, parsed.
func (w Wanted) verify(c *Change, plain []byte, want []string) (*document, error) {
	bad := func(what string) (*document, error) {
		return nil, &FileError{
			File: w.File, Problem: what + ", so Grapnel did not change it",
			Hint: "this is a bug in Grapnel: please report the format of the file, and rewrite the file in the meantime",
		}
	}
	d, err := parse(w.Agent, w.File, c.After)
	if err != nil {
		return bad("the edited file would be broken (" + err.Error() + ")")
	}
	sections, err := d.sections()
	if err != nil {
		return bad("the edited file would be broken (" + err.Error() + ")")
	}
	var has []string
	for _, h := range ours(sections) {
		has = append(has, h.id)
	}
	slices.Sort(has)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(has, slices.Compact(want)) {
		return bad("the edited file would not contain the right entries")
	}
	back, err := takeOut(d, nil, &c.Made)
	if err != nil {
		return bad("the edited file would be broken (" + err.Error() + ")")
	}
	if len(trimSpace(plain)) == 0 {
		if !back.empty {
			return bad("uninstalling could not remove the new file")
		}
	} else if !bytes.Equal(back.data, plain) {
		return bad("uninstalling could not restore the exact bytes of the file")
	}
	return d, nil
}

// check returns an error for settings that would break the agent.
func (w Wanted) check() error {
	if err := w.Hook.check(w.Agent); err != nil {
		return err
	}
	if w.Timeout <= 0 { // with 0, Claude Code ignores the whole file
		return usagef("the timeout must be more than 0, got %v", w.Timeout)
	}
	for _, name := range w.Events {
		if err := w.Agent.May(name); err != nil {
			return err
		}
	}
	return nil
}
