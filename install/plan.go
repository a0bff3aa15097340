package install

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/grapnel-dev/grapnel/dialect"
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

	// Dir is the directory of the plugin, for agents whose settings name it.
	Dir string

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
	spots, err := d.spots()
	if err != nil {
		return nil, err
	}
	if err := d.survivesCuts(); err != nil {
		return nil, err
	}

	there := ours(spots)
	made, without := &record.Made{}, rest{data: w.Current}
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
	wishes, err := w.wishes(d)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, wish := range wishes {
		ids = append(ids, wish.id)
	}
	keep := choose(there, ids)
	next, err := takeOut(d, func(h handler) bool { return !slices.Contains(keep, h.at()) }, made)
	if err != nil {
		return nil, err
	}
	if d, err = parse(w.Agent, w.File, next.data); err != nil {
		return nil, err
	}
	if wishes, err = w.wishes(d); err != nil { // their places may be gone
		return nil, err
	}
	if d, c.Notes, err = w.update(d, wishes); err != nil {
		return nil, err
	}
	if c.After, err = w.add(d, wishes, made); err != nil {
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

// PlanRemove says how to take our entries out of a settings file, and what was
// created for them. Without memory of that (made is nil) whatever is left empty
// is taken to be ours, except for a file that others use, too. Groups that the user
// gave a matcher stay.
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
	spots, err := d.spots()
	if err != nil {
		return nil, err
	}
	there := ours(spots)
	if len(there) == 0 {
		return c, nil
	}
	for _, h := range there {
		if h.entry.Event != "" && !slices.Contains(c.Events, h.entry.Event) {
			c.Events = append(c.Events, h.entry.Event)
		}
	}
	if made == nil {
		made = a.presume(there)
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

// Inspect reads a file of the agent and says what in it concerns us. It fails with a
// *FileError if the agent could not read the file.
func (a Agent) Inspect(file string, data []byte) (*Inspection, error) {
	if a.isText(file) {
		return &Inspection{Entries: a.textEntries(file, data)}, nil
	}
	d, err := parse(a, file, data)
	if err != nil {
		return nil, err
	}
	spots, err := d.spots()
	if err != nil {
		return nil, err
	}
	in := &Inspection{Notes: d.notes("")}
	for _, h := range ours(spots) {
		if h.entry.Event != "" {
			in.Entries = append(in.Entries, h.entry)
		}
	}
	return in, nil
}

// presume makes up for a record that is lost: whatever holds nothing but our
// entries was made for them.
func (a Agent) presume(there []handler) *record.Made {
	made := &record.Made{Hooks: true, File: a.Setup.Own}
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

func cloneMade(m *record.Made) *record.Made {
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
func (d *document) isMade(made *record.Made, path string) bool {
	switch event, inHooks := strings.CutPrefix(path, "hooks/"); {
	case path == "hooks":
		return made.Hooks
	case inHooks:
		return slices.ContainsFunc(made.Events, func(key string) bool { return d.agent.sameEvent(key, event) })
	}
	return slices.Contains(made.Keys, path)
}

// make notes that an installation makes what a path leads to.
func makes(made *record.Made, path string) {
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
func (h handler) at() [3]int { return [3]int{h.spot, h.item, h.index} }

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

// A rest is what is left of a file after takeOut.
type rest struct {
	data  []byte
	empty bool // {} and nothing else
}

// takeOut removes those of our entries that drop chooses, all if it is nil, and
// what they leave empty as far as it was made for them.
func takeOut(d *document, drop func(handler) bool, made *record.Made) (rest, error) {
	spots, err := d.spots()
	if err != nil || d.root == nil {
		return rest{data: d.data}, err
	}
	all := drop == nil
	if all {
		drop = func(handler) bool { return true }
	}
	var splices []splice
	gone := map[string][]int{} // path of a container -> its items that go
	goes := func(path []string) {
		parent, key := path[:len(path)-1], path[len(path)-1]
		at := slices.IndexFunc(d.seen[join(parent)].items, func(it item) bool { return it.key == key })
		gone[join(parent)] = append(gone[join(parent)], at)
	}
	others := false // entries that are not ours stay
	for _, s := range spots {
		inner, empty := takeOutOf(d, s.items, drop)
		splices = append(splices, inner...)
		others = others || len(empty) < len(s.items)
		if d.isMade(made, join(s.path)) && len(empty) == len(s.items) && (len(empty) > 0 || all) {
			goes(s.path)
			continue
		}
		splices = append(splices, d.remove(s.c, func(i int) bool { return slices.Contains(empty, i) }, gap(made, join(s.path)))...)
	}
	if all && !others {
		for _, f := range d.agent.top() {
			if d.isMade(made, f.key) && d.root.value(f.key) != nil {
				goes([]string{f.key})
			}
		}
	}
	// From the inside to the outside: what becomes empty goes with what holds it.
	paths := slices.Collect(maps.Keys(d.seen))
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(depth(b), depth(a)), cmp.Compare(a, b)) })
	for _, path := range paths {
		c, items := d.seen[path], gone[path]
		switch {
		case len(items) == 0:
		case all && path != "" && len(items) == len(c.items) && d.isMade(made, path):
			goes(strings.Split(path, "/"))
		default:
			splices = append(splices, d.remove(c, func(i int) bool { return slices.Contains(items, i) }, gap(made, path))...)
		}
	}
	data := apply(d.data, splices)
	return rest{data: data, empty: blankObject(data)}, nil
}

// depth is the number of keys in a path.
func depth(path string) int {
	if path == "" {
		return 0
	}
	return 1 + strings.Count(path, "/")
}

// takeOutOf returns the splices for single handlers, and the items that are
// ours alone and go as a whole.
func takeOutOf(d *document, groups []group, drop func(handler) bool) (splices []splice, empty []int) {
	followed := false // something that stays comes behind
	for g, group := range slices.Backward(groups) {
		var gone []int
		for _, h := range group.handlers {
			if h.ours && drop(h) {
				gone = append(gone, h.index)
			}
		}
		whole := group.plain && len(gone) > 0 && (group.list == nil || len(gone) == len(group.list.items))
		if whole && !(followed && d.agent.Setup.Keep && group.list != nil) {
			empty = append(empty, g)
			continue
		}
		followed = true
		if len(gone) > 0 {
			splices = append(splices, d.remove(group.list, func(i int) bool { return slices.Contains(gone, i) }, nil)...)
		}
	}
	slices.Reverse(empty)
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

// A wish is one thing of ours that the file shall hold.
type wish struct {
	id    string   // the event, or of which edit
	path  []string // of the list or the object that gets it
	key   string   // in an object
	value any      // for update
	item  any      // for add: the value, or the group around it
}

// wishes lists what the document shall hold, in the order of the agent's table.
func (w Wanted) wishes(d *document) ([]wish, error) {
	a := w.Agent
	var wishes []wish
	if a.Setup.Shape == dialect.ShapePlugin {
		for i := range a.Setup.Edits {
			e := &a.Setup.Edits[i]
			path := strings.Split(e.Path, ".")
			if e.Only {
				kind := hujson.Kind('[')
				if e.Key != "" {
					kind = '{'
				}
				if c, err := d.at(path, kind); err != nil || c == nil {
					if err != nil {
						return nil, err
					}
					continue
				}
			}
			value, err := expand(e.Value, map[string]any{"dir": filepath.ToSlash(w.Dir)}, false)
			if err != nil {
				return nil, fmt.Errorf("%s: its setup has an edit that cannot be read: %w", a.Name, err)
			}
			wishes = append(wishes, wish{id: editID(e), path: path, key: e.Key, value: value, item: value})
		}
		return wishes, nil
	}
	var events *container
	if a.Setup.Shape != dialect.ShapeList {
		var err error
		if events, err = d.at(d.base(), '{'); err != nil {
			return nil, err
		}
	}
	for _, ev := range a.Events {
		if !slices.Contains(w.Events, ev.Native) {
			continue
		}
		value, err := w.entry(ev.Native)
		if err != nil {
			return nil, fmt.Errorf("%s: its setup has an entry that cannot be read: %w", a.Name, err)
		}
		wish := wish{id: ev.Native, path: d.base(), value: value, item: value}
		if a.Setup.Shape != dialect.ShapeList {
			key := ev.Native
			if events != nil {
				for _, it := range events.items { // as the file spells it
					if a.sameEvent(it.key, ev.Native) && newArray(it.value) != nil {
						key = it.key
						break
					}
				}
			}
			wish.path = append(slices.Clone(wish.path), key)
		}
		if a.Setup.Shape == dialect.ShapeGroups {
			group := []field{{"hooks", list{{value: value}}}}
			if a.Setup.Matcher != "" {
				group = slices.Insert(group, 0, field{"matcher", a.Setup.Matcher})
			}
			wish.item = group
		}
		wishes = append(wishes, wish)
	}
	return wishes, nil
}

// top are the members that the top of the file has beside the hooks.
func (a Agent) top() []field {
	v, err := expand("{"+a.Setup.Top+"}", nil, false)
	if err != nil {
		return nil // a test reads every template
	}
	return v.([]field)
}

// update rewrites our entries that are there but not as they are wanted.
func (w Wanted) update(d *document, wishes []wish) (*document, []string, error) {
	spots, err := d.spots()
	if err != nil {
		return nil, nil, err
	}
	var splices []splice
	var notes []string
	for _, h := range ours(spots) {
		if !h.everything() {
			line, _ := position(d.data, h.value.StartOffset)
			notes = append(notes, fmt.Sprintf("%s:%d: our entry for %s stands behind the matcher %q and fires for nothing else; move it out of there if that is not meant",
				w.File, line, h.id, h.matcher))
		}
		at := slices.IndexFunc(wishes, func(wish wish) bool { return wish.id == h.id })
		if at < 0 || same(h.value, wishes[at].value) {
			continue
		}
		start, end := h.value.StartOffset, h.value.EndOffset
		l := layout{style: styleOf(d), lines: bytes.ContainsRune(d.data[start:end], '\n'), indent: d.indentAt(start)}
		var b strings.Builder
		field{value: wishes[at].value}.write(&b, l)
		splices = append(splices, splice{at: start, cut: end - start, text: b.String()})
	}
	if len(splices) == 0 {
		return d, notes, nil
	}
	d, err = parse(w.Agent, w.File, apply(d.data, splices))
	return d, notes, err
}

// A node is a place that gets something: an object with members, or a list.
type node struct {
	path  []string
	nodes []*node // members that are objects or lists themselves
	items []field // what is added
	list  bool
}

// node finds or makes the node that a path leads to.
func (n *node) node(path []string) *node {
	for i := range path {
		at := slices.IndexFunc(n.nodes, func(kid *node) bool { return kid.path[i] == path[i] })
		if at < 0 {
			n.nodes = append(n.nodes, &node{path: path[:i+1]})
			at = len(n.nodes) - 1
		}
		n = n.nodes[at]
	}
	return n
}

// value is what the node is where there is nothing yet. It notes in made what that
// creates.
func (n *node) value(made *record.Made) any {
	var fields []field
	for _, kid := range n.nodes {
		makes(made, join(kid.path))
		fields = append(fields, field{kid.path[len(kid.path)-1], kid.value(made)})
	}
	if n.list {
		return list(n.items)
	}
	return append(fields, n.items...)
}

// add returns the file with what is wished for and not there, and notes in made what
// had to be created.
func (w Wanted) add(d *document, wishes []wish, made *record.Made) ([]byte, error) {
	spots, err := d.spots()
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	others := false
	for _, s := range spots {
		for _, g := range s.items {
			others = others || !slices.ContainsFunc(g.handlers, func(h handler) bool { return h.ours })
		}
	}
	for _, h := range ours(spots) {
		has[h.id] = true
	}
	root := &node{}
	for _, wish := range wishes {
		if has[wish.id] {
			continue
		}
		n := root.node(wish.path)
		n.list = wish.key == ""
		n.items = append(n.items, field{wish.key, wish.item})
	}
	if len(root.nodes) == 0 {
		return d.data, nil
	}
	var top []field
	for _, f := range w.Agent.top() {
		if d.root.value(f.key) != nil || d.agent.over(d.file) {
			continue
		}
		if others {
			return nil, d.errorAt(d.root.open, fmt.Sprintf("the file has hooks but no %q, so %s ignores all of it", f.key, w.Agent.Title),
				fmt.Sprintf("add {%s}; mind that the hooks that stand there will run then", w.Agent.Setup.Top))
		}
		makes(made, f.key)
		top = append(top, f)
	}
	s := styleOf(d)
	if d.root == nil {
		if w.Current == nil {
			made.File = true
		} else {
			blank := string(w.Current)
			made.Blank = &blank
		}
		var b strings.Builder
		field{value: append(top, root.value(made).([]field)...)}.write(&b, layout{style: s, lines: true})
		return []byte(b.String() + s.newline), nil
	}
	return apply(d.data, d.addTo(d.root, root, top, s, nil, made)), nil
}

// addTo returns the splices that add to a container what the node holds, behind the
// fields first.
func (d *document) addTo(c *container, n *node, first []field, s style, parent *layout, made *record.Made) []splice {
	l := d.layoutOf(c, s, parent)
	var splices []splice
	created := slices.Clone(first)
	for _, kid := range n.nodes {
		key := kid.path[len(kid.path)-1]
		if old := c.value(key); old != nil {
			splices = append(splices, d.addTo(newContainer(old), kid, nil, s, &l, made)...)
			continue
		}
		makes(made, join(kid.path))
		created = append(created, field{key, kid.value(made)})
	}
	created = append(created, n.items...)
	if len(created) == 0 {
		return splices
	}
	ss, gap := d.insert(c, l, created)
	if len(c.items) == 0 {
		if made.Gaps == nil {
			made.Gaps = map[string]string{}
		}
		made.Gaps[join(n.path)] = gap
	}
	return append(splices, ss...)
}

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
	spots, err := d.spots()
	if err != nil {
		return bad("the edited file would be broken (" + err.Error() + ")")
	}
	var has []string
	for _, h := range ours(spots) {
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

// check refuses a wish that would harm the agent if it were granted.
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
