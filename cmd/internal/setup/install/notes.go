package install

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// note returns one sentence about a position in the file.
func (d *document) note(offset int, format string, args ...any) string {
	line, _ := position(d.data, offset)
	return fmt.Sprintf("%s:%d: ", d.file, line) + fmt.Sprintf(format, args...)
}

// notes returns sentences about the settings that disable hooks or change how they run. rel names
// the file of the agent, see Switch.File.
func (d *document) notes(rel string) []string {
	var notes []string
	for _, sw := range d.agent.Setup.Off {
		if sw.File != rel {
			continue
		}
		path := strings.Split(sw.Path, ".")
		c := d.root
		for _, key := range path[:len(path)-1] {
			c = newObject(c.value(key))
		}
		it := c.member(path[len(path)-1])
		switch {
		case it == nil:
		case sw.Names:
			names := slices.ContainsFunc(c.texts(it.key), d.agent.switchedOff)
			if names {
				notes = append(notes, d.note(it.start, "%s names the hook of Grapnel, which %s", sw.Path, sw.Effect))
			}
		case sw.Is == "":
			notes = append(notes, d.note(it.start, "%s is set, which %s", sw.Path, sw.Effect))
		default:
			if want, err := expand(sw.Is, nil, false); err == nil && same(it.value, want) {
				notes = append(notes, d.note(it.start, "%s is %s, which %s", sw.Path, sw.Is, sw.Effect))
			}
		}
	}
	if rel == "" {
		notes = append(notes, d.strictNotes()...)
		notes = append(notes, d.topNotes()...)
	}
	return notes
}

// topNotes returns notes about top-level members that make the agent ignore the file.
func (d *document) topNotes() []string {
	if d.root == nil || len(d.agent.Setup.Tops) == 0 {
		return nil
	}
	var notes []string
	for _, it := range d.root.items {
		if !slices.Contains(d.agent.Setup.Tops, it.key) {
			notes = append(notes, d.note(it.start, "%q is not allowed here, so %s ignores the whole file, including Grapnel's entries; remove it", it.key, d.agent.Title))
		}
	}
	return notes
}

// switchedOff reports whether a name in a list of disabled hooks means an entry of Grapnel.
func (a Agent) switchedOff(name string) bool {
	if _, ours := parseEntry(name, nil); ours || slices.ContainsFunc(a.Setup.Edits, func(e dialect.Edit) bool { return e.Key != "" && e.Key == name }) {
		return true
	}
	return a.Setup.Label != "" && name == a.Setup.Label
}

// tomlNotes returns notes about the settings of a TOML file that switch hooks off.
func (a Agent) tomlNotes(rel, file string, data []byte) []string {
	var top map[string]any
	if err := toml.Unmarshal(data, &top); err != nil {
		return []string{fmt.Sprintf("cannot read %s, so settings in it that switch hooks off are unknown: %v", file, err)}
	}
	var notes []string
	for _, sw := range a.Setup.Off {
		if sw.File != rel {
			continue
		}
		var v any = top
		for key := range strings.SplitSeq(sw.Path, ".") {
			table, _ := v.(map[string]any)
			v = table[key]
		}
		switch {
		case v == nil:
		case sw.Is == "":
			notes = append(notes, fmt.Sprintf("%s: %s is set, which %s", file, sw.Path, sw.Effect))
		case fmt.Sprintf("%v", v) == strings.Trim(sw.Is, `"`):
			notes = append(notes, fmt.Sprintf("%s: %s is %s, which %s", file, sw.Path, sw.Is, sw.Effect))
		}
	}
	return notes
}

// strictNotes returns notes about entries of other programs that make a strict agent ignore the
// whole file.
func (d *document) strictNotes() []string {
	if !d.agent.Setup.Strict {
		return nil
	}
	sections, err := d.sections()
	if err != nil {
		return nil
	}
	var notes []string
	void := func(offset int, what string) {
		notes = append(notes, d.note(offset, "%s, so %s ignores the whole file, including Grapnel's entries; repair or remove it", what, d.agent.Title))
	}
	commands := d.agent.members("command")
	for _, s := range sections {
		if s.event != "" && d.agent.event(s.event) == nil {
			if d.agent.Setup.Shape == dialect.ShapeNamed {
				continue // the agent ignores only this event
			}
			void(s.c.open, fmt.Sprintf("unknown event %q", s.event))
			continue
		}
		for _, g := range s.items {
			for _, h := range g.handlers {
				obj := newObject(h.value)
				switch {
				case h.ours:
				case obj == nil:
					void(h.value.StartOffset, "this hook is not an object {...}")
				case h.index < 0 && obj.value("hooks") != nil:
					void(h.value.StartOffset, "this hook has hooks inside")
				case !slices.ContainsFunc(commands, func(key string) bool { return obj.str(key) != "" }) && obj.value("prompt") == nil:
					void(h.value.StartOffset, "this hook has no command")
				}
			}
		}
	}
	return notes
}

// survivesCuts returns an error for a file that its agent cannot read because it removes comments
// inside strings.
func (d *document) survivesCuts() error {
	if !d.agent.Setup.Cuts || d.root == nil {
		return nil
	}
	root, err := hujson.Parse(append(slices.Clip(d.data), '\n'))
	if err != nil {
		return nil // cannot happen: parse has accepted it
	}
	for v := range root.All() {
		if v.Value.Kind() != '"' {
			continue
		}
		text := string(v.Value.(hujson.Literal))
		if strings.Contains(text, "//") || strings.Contains(text, "/*") {
			return d.errorAt(v.StartOffset, fmt.Sprintf("a string contains // or /*: %s reads that as a comment and cannot read the file", d.agent.Title), "rewrite the string, then run the command again")
		}
	}
	return nil
}

// surroundings returns notes about problems outside the files of the job.
func (s *session) surroundings(j *job) []string {
	var notes []string
	a := j.agent
	for _, r := range s.recs {
		if r.Agent == a.Name && r.Settings != j.file && (r.Scope == string(User)) != (j.scope == User) && s.concerns(r) {
			notes = append(notes, fmt.Sprintf("Grapnel is also installed in %s, so %s sends each event twice there; uninstall one of the two", r.Settings, a.Title))
		}
	}
	if j.scope == Project {
		notes = append(notes, fmt.Sprintf("do not commit the entries in %s: they contain a path and an installation of this machine", j.file))
	}
	if info, err := os.Stat(j.file); err == nil && s.Root == "" && j.scope != Managed {
		if uid, foreign := foreignOwner(info); foreign {
			notes = append(notes, fmt.Sprintf("%s is owned by user %d; an agent of that user cannot find this installation: install as that user, or with --root", j.file, uid))
		}
	}
	if j.changed() {
		todo := a.Setup.Todo
		if j.scope == Project {
			todo = slices.Concat(todo, a.Setup.TodoProject)
		}
		for _, line := range todo {
			notes = append(notes, strings.ReplaceAll(line, "$file", j.file))
		}
	}
	for _, n := range s.neighbours(j) {
		data, err := readFile(n.file)
		if err != nil || data == nil {
			continue
		}
		if strings.HasSuffix(n.file, ".toml") {
			notes = append(notes, a.tomlNotes(n.rel, n.file, data)...)
			continue
		}
		d, err := parse(a, n.file, data)
		var sections []section
		if err == nil {
			sections, err = d.sections()
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s does not read this file: %v", a.Title, err))
			continue
		}
		notes = append(notes, d.notes(n.rel)...)
		switch {
		case len(ours(sections)) == 0 || s.recorded(a, n.file) != nil || a.Setup.Shape == dialect.ShapePlugin:
		case n.managed && j.scope != Managed:
			notes = append(notes, fmt.Sprintf("Grapnel is also installed in %s for every user, so %s sends each event twice; uninstall this one", n.file, a.Title))
		case !n.managed:
			notes = append(notes, fmt.Sprintf("%s contains a copy of Grapnel's entry from an unknown installation; remove it", n.file))
		}
	}
	return notes
}

// concerns reports whether an installation in another scope affects this one. Installations of
// different projects do not affect each other.
func (s *session) concerns(r installation.Record) bool {
	return r.Scope != string(Project) || s.ProjectDir != "" && r.Project == s.ProjectDir
}

// A neighbour is another file that applies together with the files of a job: the hooks of another
// scope, or a file that Setup.Off names.
type neighbour struct {
	rel, file string
	managed   bool
}

func (s *session) neighbours(j *job) []neighbour {
	a := j.agent
	var all []neighbour
	add := func(scope Scope, rel, file string) {
		base := s.base(scope)
		if base == "" || file == "" {
			return
		}
		name, err := a.below(scope, base, file, s.Env)
		here := err != nil || slices.ContainsFunc(j.changes, func(c *Change) bool { return c.File == name })
		if here || slices.ContainsFunc(all, func(n neighbour) bool { return n.file == name }) {
			return
		}
		all = append(all, neighbour{rel, name, scope == Managed})
	}
	if a.Setup.Shape != dialect.ShapeFiles && (a.Setup.Shape != dialect.ShapePlugin || len(a.Setup.Edits) > 0) {
		add(Project, "", a.Setup.Project)
		add(User, "", a.Setup.User)
		add(Managed, "", a.managed())
	}
	for _, sw := range a.Setup.Off {
		switch {
		case sw.File == "":
		case strings.HasPrefix(sw.File, "/"):
			add(Managed, sw.File, sw.File)
		default:
			add(Project, sw.File, sw.File)
			add(User, sw.File, sw.File)
		}
	}
	slices.SortFunc(all, func(x, y neighbour) int { return strings.Compare(x.file, y.file) })
	return all
}
