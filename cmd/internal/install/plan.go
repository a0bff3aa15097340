package install

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// Wanted says what shall stand in one settings file.
type Wanted struct {
	Agent   Agent
	File    string // as people know it; appears in errors and in the diff
	Current []byte // what the file holds now; nil if there is no file

	Hook       Hook
	Events     []string      // of the agent; the agent's order counts, not this one
	Timeout    time.Duration // how long the agent waits for the hook; rounded up to the agent's unit
	FailClosed bool          // block when the hook fails, at events where the agent can

	// Dir is the directory of the plugin, for agents whose settings name it.
	Dir string

	// Made is from the record of the installation that is in the file; nil if
	// there is none.
	Made *installation.Made
}

// A Change is what Plan and PlanRemove would do to a file. Apply does it.
type Change struct {
	Agent  string
	File   string
	Before []byte   // nil: there is no file
	After  []byte   // nil: there shall be no file
	Events []string // that have our entries afterwards, or, of PlanRemove, had them
	Diff   string   // unified; empty if nothing changes
	Notes  []string // what the person has to know or do
	Made   installation.Made

	// Perm is the permission of a file that has to be created; 0 means 0600.
	// Directories get the same with the right to search.
	Perm  fs.FileMode
	Exact bool // whatever the umask would leave of it

	// Mode is what the permission of a file that is there becomes; 0 means it stays.
	Mode fs.FileMode
}

// Changed reports whether the file has to be written or removed.
func (c *Change) Changed() bool {
	return (c.Before == nil) != (c.After == nil) || !bytes.Equal(c.Before, c.After) || c.Mode != 0
}

// Plan says how to edit a settings file so that it holds one entry of ours per
// wanted event and none for other events. Every other byte stays. Entries of
// ours that are there already are brought up to date in their place; if nothing
// differs nothing changes.
//
// Plan is a pure function. It fails with a *FileError when the file cannot be
// edited without a guess, and plans nothing that PlanRemove could not take back
// to the byte.
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
		made.Dirs = w.Made.Dirs // what else it says is of another time
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
	if additions, err = w.additions(d); err != nil { // their places may be gone
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
	c.Diff = unified(w.File, c.Before, c.After)
	return c, nil
}

func cannotClose(a Agent) string {
	return fmt.Sprintf("%s cannot be told to fail closed: it goes on when %s does not answer in time", a.Title, hookProgram)
}

// presume makes up for a record that is lost: whatever holds nothing but our
// entries was made for them.
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

// isMade reports whether an installation made what a path leads to.
func (d *document) isMade(made *installation.Made, path string) bool {
	switch event, inHooks := strings.CutPrefix(path, "hooks/"); {
	case path == "hooks":
		return made.Hooks
	case inHooks:
		return slices.ContainsFunc(made.Events, func(key string) bool { return d.agent.sameEvent(key, event) })
	}
	return slices.Contains(made.Keys, path)
}

// make notes that an installation makes what a path leads to.
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

// at tells handlers of one document apart.
func (h handler) at() [3]int { return [3]int{h.section, h.item, h.index} }

// choose picks the entry of each wanted event that stays. Is there more than
// one, the agent would run us twice; one that fires for everything is better
// than one behind a matcher.
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

// verify makes sure, before anything is written, that the new file holds what
// was wanted and that it can be taken back to what it would be without us.
// It returns the new file taken apart.
func (w Wanted) verify(c *Change, plain []byte, want []string) (*document, error) {
	bad := func(what string) (*document, error) {
		return nil, &FileError{
			File: w.File, Problem: what + ", so it is left alone",
			Hint: "this is a mistake of grapnel: please report how the file is written, and write it in another way meanwhile",
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
		return bad("the edited file would not hold the entries that are wanted")
	}
	back, err := takeOut(d, nil, &c.Made)
	if err != nil {
		return bad("the edited file would be broken (" + err.Error() + ")")
	}
	if len(trimSpace(plain)) == 0 {
		if !back.empty {
			return bad("the new file could not be removed again")
		}
	} else if !bytes.Equal(back.data, plain) {
		return bad("the edit could not be taken back to the byte")
	}
	return d, nil
}

// check refuses what would harm the agent.
func (w Wanted) check() error {
	if err := w.Hook.check(w.Agent); err != nil {
		return err
	}
	if w.Timeout <= 0 { // Claude Code ignores the whole file then
		return usagef("the timeout must be more than 0, got %v", w.Timeout)
	}
	for _, name := range w.Events {
		if err := w.Agent.May(name); err != nil {
			return err
		}
	}
	return nil
}
