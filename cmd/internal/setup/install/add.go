package install

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// An addition is one entry of Grapnel that the file must have.
type addition struct {
	id    string   // the event, or the ID of the edit
	path  []string // path of the list or the object that gets the entry
	key   string   // key in the object
	value any      // for update
	item  any      // for add: the value, or a group that contains it
}

// additions returns the entries of Grapnel, in the order of the agent's table.
func (w Wanted) additions(d *document) ([]addition, error) {
	a := w.Agent
	if a.Setup.Shape == dialect.ShapePlugin {
		return w.pluginAdditions(d)
	}
	var events *container
	if a.Setup.Shape != dialect.ShapeList {
		var err error
		if events, err = d.at(d.base(), '{'); err != nil {
			return nil, err
		}
	}
	var additions []addition
	for _, ev := range a.Events {
		if !slices.Contains(w.Events, ev.Native) {
			continue
		}
		value, err := w.entry(ev.Native)
		if err != nil {
			return nil, fmt.Errorf("cannot read an entry of the setup of %s: %w", a.Name, err)
		}
		addition := addition{id: ev.Native, path: d.base(), value: value, item: value}
		if a.Setup.Shape != dialect.ShapeList {
			addition.path = append(slices.Clone(addition.path), a.spelled(events, ev.Native))
		}
		if a.grouped(ev.Native) {
			group := []field{{"hooks", list{{value: value}}}}
			if a.Setup.Matcher != "" {
				group = slices.Insert(group, 0, field{"matcher", a.Setup.Matcher})
			}
			addition.item = group
		}
		additions = append(additions, addition)
	}
	return additions, nil
}

// pluginAdditions returns the edits that make an agent load Grapnel's plugin.
func (w Wanted) pluginAdditions(d *document) (additions []addition, err error) {
	for i := range w.Agent.Setup.Edits {
		e := &w.Agent.Setup.Edits[i]
		if e.Only {
			if c, err := d.edited(e); err != nil {
				return nil, err
			} else if c == nil {
				continue
			}
		}
		value, err := expand(e.Value, map[string]any{"dir": filepath.ToSlash(w.Dir)}, false)
		if err != nil {
			return nil, fmt.Errorf("cannot read an edit of the setup of %s: %w", w.Agent.Name, err)
		}
		additions = append(additions, addition{id: editID(e), path: strings.Split(e.Path, "."), key: e.Key, value: value, item: value})
	}
	return additions, nil
}

// spelled returns the name of an event as the file spells it.
func (a Agent) spelled(events *container, native string) string {
	if events != nil {
		for _, it := range events.items {
			if a.sameEvent(it.key, native) && newArray(it.value) != nil {
				return it.key
			}
		}
	}
	return native
}

// top returns the top-level members of the file in addition to the hooks.
func (a Agent) top() []field {
	v, err := expand("{"+a.Setup.Top+"}", nil, false)
	if err != nil {
		return nil // cannot happen: a test reads every template
	}
	return v.([]field)
}

// update rewrites existing entries of Grapnel that differ from the wanted ones.
func (w Wanted) update(d *document, additions []addition) (*document, []string, error) {
	sections, err := d.sections()
	if err != nil {
		return nil, nil, err
	}
	var splices []splice
	var notes []string
	for _, h := range ours(sections) {
		if !h.everything() {
			line, _ := position(d.data, h.value.StartOffset)
			notes = append(notes, fmt.Sprintf("%s:%d: Grapnel's entry for %s has the matcher %q and fires for nothing else; move it if that is not intended",
				w.File, line, h.id, h.matcher))
		}
		at := slices.IndexFunc(additions, func(addition addition) bool { return addition.id == h.id })
		if at < 0 || same(h.value, additions[at].value) {
			continue
		}
		start, end := h.value.StartOffset, h.value.EndOffset
		l := layout{style: styleOf(d), lines: bytes.ContainsRune(d.data[start:end], '\n'), indent: d.indentAt(start)}
		var b strings.Builder
		field{value: additions[at].value}.write(&b, l)
		splices = append(splices, splice{at: start, cut: end - start, text: b.String()})
	}
	if len(splices) == 0 {
		return d, notes, nil
	}
	d, err = parse(w.Agent, w.File, apply(d.data, splices))
	return d, notes, err
}

// A node is an object or a list that gets new members or elements.
type node struct {
	path  []string
	nodes []*node // members that are objects or lists themselves
	items []field // fields to add
	list  bool
}

// node returns the node at a path, and creates it if necessary.
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

// value returns the content of a node that does not exist in the file yet. It records in made
// what this creates.
func (n *node) value(made *installation.Made) any {
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

// add returns the file with the missing additions, and records in made the parts that had to be
// created.
func (w Wanted) add(d *document, additions []addition, made *installation.Made) ([]byte, error) {
	sections, err := d.sections()
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	others := false
	for _, s := range sections {
		for _, g := range s.items {
			others = others || !slices.ContainsFunc(g.handlers, func(h handler) bool { return h.ours })
		}
	}
	for _, h := range ours(sections) {
		has[h.id] = true
	}
	root := &node{}
	for _, addition := range additions {
		if has[addition.id] {
			continue
		}
		n := root.node(addition.path)
		n.list = addition.key == ""
		n.items = append(n.items, field{addition.key, addition.item})
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
				fmt.Sprintf("add {%s}; then the agent also runs the other hooks of this file", w.Agent.Setup.Top))
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

// addTo returns the splices that add the content of a node to a container, after the fields
// first.
func (d *document) addTo(c *container, n *node, first []field, s style, parent *layout, made *installation.Made) []splice {
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
