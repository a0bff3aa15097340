package install

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/installation"
)

// PlanRemove plans the removal of Grapnel's entries from a settings file, and of everything that
// was created for them. If made is nil, it assumes that Grapnel created everything that becomes
// empty, except a file that others use too. Groups to which the user gave a matcher stay.
//
// Like Plan it is a pure function and may return a *FileError.
func PlanRemove(a Agent, file string, current []byte, made *installation.Made) (*Change, error) {
	c := &Change{Agent: a.Name, File: file, Before: current, After: current}
	if current == nil {
		return c, nil
	}
	d, err := parse(a, file, current)
	if err != nil {
		return nil, err
	}
	sections, err := d.sections()
	if err != nil {
		return nil, err
	}
	there := ours(sections)
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
	c.Diff = Unified(file, c.Before, c.After)
	return c, nil
}

// A rest is the content of a file after takeOut.
type rest struct {
	data  []byte
	empty bool // only {} is left
}

// takeOut removes the entries of Grapnel for which drop returns true, all if drop is nil, and the
// containers that become empty if they were created for the entries.
func takeOut(d *document, drop func(handler) bool, made *installation.Made) (rest, error) {
	sections, err := d.sections()
	if err != nil || d.root == nil {
		return rest{data: d.data}, err
	}
	all := drop == nil
	if all {
		drop = func(handler) bool { return true }
	}
	var splices []splice
	gone := map[string][]int{} // path of a container -> indexes of its items to remove
	goes := func(path []string) {
		parent, key := path[:len(path)-1], path[len(path)-1]
		at := slices.IndexFunc(d.seen[join(parent)].items, func(it item) bool { return it.key == key })
		gone[join(parent)] = append(gone[join(parent)], at)
	}
	others := false // entries of other programs stay
	for _, s := range sections {
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
	// From the inside to the outside: an empty container is removed from its parent.
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

// depth returns the number of keys in a path.
func depth(path string) int {
	if path == "" {
		return 0
	}
	return 1 + strings.Count(path, "/")
}

// takeOutOf returns the splices that remove single handlers, and the indexes of items that
// contain only handlers to remove.
func takeOutOf(d *document, groups []group, drop func(handler) bool) (splices []splice, empty []int) {
	followed := false // a later item stays
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

// blankObject reports whether data is {} with optional white space.
func blankObject(data []byte) bool {
	data = trimSpace(data)
	return len(data) >= 2 && data[0] == '{' && data[len(data)-1] == '}' && len(trimSpace(data[1:len(data)-1])) == 0
}

func gap(made *installation.Made, key string) *string {
	if g, ok := made.Gaps[key]; ok {
		return &g
	}
	return nil
}
