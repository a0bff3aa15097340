package install

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/grapnel-dev/grapnel/install/record"
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

	// Made is from the record of the installation that is in the file; nil if
	// there is none.
	Made *record.Made
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
	Made   record.Made

	// Perm is the permission of a file that has to be created; 0 means 0600.
	// Directories get the same with the right to search.
	Perm fs.FileMode
}

// Changed reports whether the file has to be written or removed.
func (c *Change) Changed() bool {
	return (c.Before == nil) != (c.After == nil) || !bytes.Equal(c.Before, c.After)
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
	hooks, err := d.hooks()
	if err != nil {
		return nil, err
	}

	there := d.ours(hooks)
	made, without := &record.Made{}, rest{data: w.Current}
	switch {
	case len(there) > 0:
		if made = cloneMade(w.Made); made == nil {
			made = presume(there)
		}
		if without, err = takeOut(d, nil, made); err != nil {
			return nil, err
		}
	case w.Current == nil && w.Made != nil:
		made.Dirs = w.Made.Dirs // what else it says is of another time
	}

	c := &Change{Agent: w.Agent.Name, File: w.File, Before: w.Current}
	keep := choose(there, w.Events)
	next, err := takeOut(d, func(h handler) bool { return !slices.Contains(keep, h.at()) }, made)
	if err != nil {
		return nil, err
	}
	if d, err = parse(w.Agent, w.File, next.data); err != nil {
		return nil, err
	}
	if d, c.Notes, err = w.update(d); err != nil {
		return nil, err
	}
	after, err := w.add(d, made)
	if err != nil {
		return nil, err
	}
	c.After = after
	made.Events = slices.DeleteFunc(made.Events, func(ev string) bool { return !slices.Contains(w.Events, ev) })
	c.Made = *made

	if d, err = w.verify(c, without.data); err != nil {
		return nil, err
	}
	for _, ev := range w.Agent.Events {
		if slices.Contains(w.Events, ev.Name) {
			c.Events = append(c.Events, ev.Name)
		}
	}
	if w.FailClosed && !w.Agent.OnFailure {
		c.Notes = append(c.Notes, fmt.Sprintf("%s cannot be told to fail closed: it goes on when %s does not answer in time", w.Agent.Title, hookProgram))
	}
	c.Notes = append(c.Notes, w.Agent.notes(d)...)
	c.Diff = unified(w.File, c.Before, c.After)
	return c, nil
}

// PlanRemove says how to take our entries out of a settings file, and what was
// created for them. Without memory of that (made is nil) whatever is left empty
// is taken to be ours, except for the file. Groups that the user gave a matcher
// stay.
//
// Like Plan it is pure and may fail with a *FileError.
func PlanRemove(a Agent, file string, current []byte, made *record.Made) (*Change, error) {
	c := &Change{Agent: a.Name, File: file, Before: current, After: current}
	if current == nil {
		return c, nil
	}
	d, err := parse(a, file, current)
	if err != nil {
		return nil, err
	}
	hooks, err := d.hooks()
	if err != nil {
		return nil, err
	}
	there := d.ours(hooks)
	if len(there) == 0 {
		return c, nil
	}
	for _, h := range there {
		if !slices.Contains(c.Events, h.entry.Event) {
			c.Events = append(c.Events, h.entry.Event)
		}
	}
	if made == nil {
		made = presume(there)
	}
	out, err := takeOut(d, nil, made)
	if err != nil {
		return nil, err
	}
	c.After = out.data
	if out.empty && made.Blank != nil {
		c.After = append([]byte{}, *made.Blank...)
	} else if out.empty && made.File {
		c.After = nil
		c.Made.Dirs = made.Dirs
	}
	c.Diff = unified(file, c.Before, c.After)
	return c, nil
}

// An Inspection is what Inspect finds.
type Inspection struct {
	Entries []Entry  // of ours, in the order of the file
	Notes   []string // settings that switch hooks off or change how they run
}

// Inspect reads a settings file of the agent and says what in it concerns us.
// It fails with a *FileError if the agent could not read the file.
func (a Agent) Inspect(file string, data []byte) (*Inspection, error) {
	d, err := parse(a, file, data)
	if err != nil {
		return nil, err
	}
	hooks, err := d.hooks()
	if err != nil {
		return nil, err
	}
	in := &Inspection{Notes: a.notes(d)}
	for _, h := range d.ours(hooks) {
		in.Entries = append(in.Entries, h.entry)
	}
	return in, nil
}

// presume makes up for a record that is lost: whatever holds nothing but our
// entries was made for them.
func presume(there []handler) *record.Made {
	made := &record.Made{Hooks: true}
	for _, h := range there {
		made.Events = append(made.Events, h.entry.Event)
	}
	return made
}

func cloneMade(m *record.Made) *record.Made {
	if m == nil {
		return nil
	}
	c := *m
	c.Dirs = slices.Clone(m.Dirs)
	c.Events = slices.Clone(m.Events)
	c.Gaps = maps.Clone(m.Gaps)
	return &c
}

// at tells handlers of one document apart.
func (h handler) at() [3]int { return [3]int{h.event, h.group, h.index} }

// choose picks the entry of each wanted event that stays. Is there more than
// one, the agent would run us twice; one that fires for everything is better
// than one behind a matcher.
func choose(there []handler, events []string) [][3]int {
	best := map[string]handler{}
	for _, h := range there {
		old, ok := best[h.entry.Event]
		if slices.Contains(events, h.entry.Event) && (!ok || !old.everything() && h.everything()) {
			best[h.entry.Event] = h
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

// A rest is what is left of a file after takeOut.
type rest struct {
	data  []byte
	empty bool // {} and nothing else
}

// takeOut removes those of our entries that drop chooses, all if it is nil, and
// what they leave empty as far as it was made for them.
func takeOut(d *document, drop func(handler) bool, made *record.Made) (rest, error) {
	hooks, err := d.hooks()
	if err != nil || hooks == nil {
		return rest{data: d.data}, err
	}
	all := drop == nil
	if all {
		drop = func(handler) bool { return true }
	}
	var splices []splice
	var gone []int // events to be removed
	for i, ev := range hooks.items {
		list := newArray(ev.value)
		if list == nil {
			continue
		}
		ours := slices.Contains(made.Events, ev.key)
		groups := d.groups(hooks, i)
		inner, empty := takeOutOf(d, groups, drop)
		if ours && len(empty) == len(list.items) && (len(empty) > 0 || all) {
			gone = append(gone, i)
			continue
		}
		splices = append(splices, inner...)
		splices = append(splices, d.remove(list, func(g int) bool { return slices.Contains(empty, g) }, gap(made, "hooks/"+ev.key))...)
	}
	if len(gone) > 0 && len(gone) == len(hooks.items) && made.Hooks && all {
		splices = d.remove(d.root, func(i int) bool { return d.root.items[i].key == "hooks" }, gap(made, ""))
	} else {
		splices = append(splices, d.remove(hooks, func(i int) bool { return slices.Contains(gone, i) }, gap(made, "hooks"))...)
	}
	data := apply(d.data, splices)
	return rest{data: data, empty: blankObject(data)}, nil
}

// takeOutOf returns the splices for single handlers, and the groups that are
// ours alone and go as a whole.
func takeOutOf(d *document, groups []group, drop func(handler) bool) (splices []splice, empty []int) {
	for g, group := range groups {
		var gone []int
		for _, h := range group.handlers {
			if h.ours && drop(h) {
				gone = append(gone, h.index)
			}
		}
		switch {
		case len(gone) == 0:
		case group.plain && len(gone) == len(group.list.items):
			empty = append(empty, g)
		default:
			splices = append(splices, d.remove(group.list, func(i int) bool { return slices.Contains(gone, i) }, nil)...)
		}
	}
	return splices, empty
}

// blankObject reports whether data is {} but for white space.
func blankObject(data []byte) bool {
	data = trimSpace(data)
	return len(data) >= 2 && data[0] == '{' && data[len(data)-1] == '}' && len(trimSpace(data[1:len(data)-1])) == 0
}

func gap(made *record.Made, key string) *string {
	if g, ok := made.Gaps[key]; ok {
		return &g
	}
	return nil
}

// update rewrites our entries that are there but not as they are wanted.
func (w Wanted) update(d *document) (*document, []string, error) {
	hooks, err := d.hooks()
	if err != nil {
		return nil, nil, err
	}
	var splices []splice
	var notes []string
	for _, h := range d.ours(hooks) {
		if !h.everything() {
			line, _ := position(d.data, h.obj.open)
			notes = append(notes, fmt.Sprintf("%s:%d: our entry for %s stands behind the matcher %q and fires for nothing else; move it out of there if that is not meant",
				w.File, line, h.entry.Event, h.matcher))
		}
		want := w.entry(h.entry.Event)
		if sameEntry(h.obj, want) {
			continue
		}
		l := layout{style: styleOf(d), lines: bytes.ContainsRune(d.data[h.obj.open:h.obj.close], '\n'), indent: d.indentAt(h.obj.open)}
		var b strings.Builder
		field{value: want}.write(&b, l)
		splices = append(splices, splice{at: h.obj.open, cut: h.obj.close + 1 - h.obj.open, text: b.String()})
	}
	if len(splices) == 0 {
		return d, notes, nil
	}
	d, err = parse(w.Agent, w.File, apply(d.data, splices))
	return d, notes, err
}

// add returns the file with entries for the wanted events that have none, and
// notes in made what had to be created.
func (w Wanted) add(d *document, made *record.Made) ([]byte, error) {
	hooks, err := d.hooks()
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, h := range d.ours(hooks) {
		has[h.entry.Event] = true
	}
	s := styleOf(d)
	keepGap := func(key string, c *container, gap string) {
		if len(c.items) > 0 {
			return
		}
		if made.Gaps == nil {
			made.Gaps = map[string]string{}
		}
		made.Gaps[key] = gap
	}
	root := layout{style: s, lines: true, indent: s.unit}
	if d.root != nil {
		root = d.layoutOf(d.root, s, nil)
	}
	events := root.nested()
	if hooks != nil {
		events = d.layoutOf(hooks, s, &root)
	}

	var splices []splice
	var created []field
	for _, ev := range w.Agent.Events {
		if !slices.Contains(w.Events, ev.Name) || has[ev.Name] {
			continue
		}
		group := field{value: w.group(ev.Name)}
		if old := hooks.value(ev.Name); old != nil {
			c := newArray(old)
			ss, gap := d.insert(c, d.layoutOf(c, s, &events), []field{group})
			splices = append(splices, ss...)
			keepGap("hooks/"+ev.Name, c, gap)
			continue
		}
		created = append(created, field{ev.Name, list{group}})
		made.Events = append(made.Events, ev.Name)
	}
	switch {
	case d.root == nil:
		if len(created) == 0 {
			return w.Current, nil
		}
		made.Hooks = true
		if w.Current == nil {
			made.File = true
		} else {
			blank := string(w.Current)
			made.Blank = &blank
		}
		var b strings.Builder
		field{value: []field{{"hooks", created}}}.write(&b, layout{style: s, lines: true})
		return []byte(b.String() + s.newline), nil
	case len(created) == 0:
	case hooks == nil:
		made.Hooks = true
		ss, gap := d.insert(d.root, root, []field{{"hooks", created}})
		splices = append(splices, ss...)
		keepGap("", d.root, gap)
	default:
		ss, gap := d.insert(hooks, events, created)
		splices = append(splices, ss...)
		keepGap("hooks", hooks, gap)
	}
	return apply(d.data, splices), nil
}

// group is what the list of an event gets: our entry in a group of its own.
func (w Wanted) group(event string) []field {
	g := []field{{"hooks", list{{value: w.entry(event)}}}}
	if w.Agent.Matcher != "" {
		g = slices.Insert(g, 0, field{"matcher", w.Agent.Matcher})
	}
	return g
}

// entry is our handler for an event.
func (w Wanted) entry(event string) []field {
	e := []field{{"type", "command"}}
	if w.Agent.Label != "" {
		e = append(e, field{"name", w.Agent.Label})
	}
	e = append(e,
		field{"command", w.Hook.Command(w.Agent, event)},
		field{"timeout", int64(w.Agent.wait(event, w.Timeout) / w.Agent.Unit)})
	if ev := w.Agent.event(event); w.FailClosed && w.Agent.OnFailure && ev != nil && ev.FailClosed {
		e = append(e, field{"onFailure", "block"})
	}
	return e
}

// sameEntry reports whether the object holds exactly the fields, in any order.
func sameEntry(obj *container, want []field) bool {
	if len(obj.items) != len(want) {
		return false
	}
	for _, f := range want {
		v := obj.value(f.key)
		if v == nil {
			return false
		}
		lit, ok := v.Value.(hujson.Literal)
		if !ok {
			return false
		}
		var b strings.Builder
		field{value: f.value}.write(&b, layout{})
		if lit.Kind() == '"' {
			lit = hujson.String(lit.String())
		}
		if string(lit) != b.String() {
			return false
		}
	}
	return true
}

// verify makes sure, before anything is written, that the new file holds what
// was wanted and that it can be taken back to what it would be without us.
// It returns the new file taken apart.
func (w Wanted) verify(c *Change, plain []byte) (*document, error) {
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
	hooks, err := d.hooks()
	if err != nil {
		return bad("the edited file would be broken (" + err.Error() + ")")
	}
	var has []string
	for _, h := range d.ours(hooks) {
		has = append(has, h.entry.Event)
	}
	slices.Sort(has)
	want := slices.Clone(w.Events)
	slices.Sort(want)
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

// check refuses a wish that would harm the agent if it were granted.
func (w Wanted) check() error {
	if err := w.Hook.check(w.Agent); err != nil {
		return err
	}
	if w.Timeout <= 0 { // Claude Code ignores the whole file then
		return usagef("the timeout must be more than 0, got %v", w.Timeout)
	}
	for _, name := range w.Events {
		if err := w.Agent.may(name); err != nil {
			return err
		}
	}
	return nil
}
