package install

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

const (
	maxSize  = 8 << 20 // bytes of a settings file
	maxDepth = 500     // of nested values; the parser is recursive
)

// A FileError is the reason why a settings file is not edited, with a hint for the user.
type FileError struct {
	File         string
	Line, Column int // counted from 1, columns in bytes; 0 = the whole file
	Problem      string
	Hint         string // what the user can do
}

// Error returns FILE:LINE:COLUMN, the problem and the hint on one line.
func (e *FileError) Error() string {
	where := e.File
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	if e.Hint == "" {
		return where + ": " + e.Problem
	}
	return where + ": " + e.Problem + "; " + e.Hint
}

// A document is a parsed settings file. Every node has its offsets in data.
type document struct {
	agent Agent
	file  string
	data  []byte
	root  *container            // nil if the file is empty or has only white space
	seen  map[string]*container // by path: the containers that at has visited

	commandKeys, eventKeys []string // members of an entry that contain the command, and the event
}

// A container is an object or an array.
type container struct {
	kind        hujson.Kind // '{' or '['
	open, close int         // offsets of the brackets
	items       []item
}

// An item is a member of an object or an element of an array.
type item struct {
	key   string // of a member, decoded
	start int    // offset of the key, or of the value if it is an element
	value *hujson.Value
	comma int // offset of the following comma; -1 for the last item
}

func (it item) end() int { return it.value.EndOffset }

// newContainer returns a value as a container; nil if it is a scalar.
func newContainer(v *hujson.Value) *container {
	c := &container{kind: v.Value.Kind(), open: v.StartOffset, close: v.EndOffset - 1}
	switch v := v.Value.(type) {
	case *hujson.Object:
		for i := range v.Members {
			m := &v.Members[i]
			c.items = append(c.items, item{key: m.Name.Value.(hujson.Literal).String(), start: m.Name.StartOffset, value: &m.Value})
		}
	case *hujson.Array:
		for i := range v.Elements {
			e := &v.Elements[i]
			c.items = append(c.items, item{start: e.StartOffset, value: e})
		}
	default:
		return nil
	}
	for i := range c.items {
		it := &c.items[i]
		it.comma = it.end() + len(it.value.AfterExtra)
	}
	if n := len(c.items); n > 0 {
		c.items[n-1].comma = -1 // parse rejects trailing commas
	}
	return c
}

func newObject(v *hujson.Value) *container { return newContainerOf(v, '{') }
func newArray(v *hujson.Value) *container  { return newContainerOf(v, '[') }

func newContainerOf(v *hujson.Value, kind hujson.Kind) *container {
	if v == nil || v.Value.Kind() != kind {
		return nil
	}
	return newContainer(v)
}

// member returns the last member with the key, because JavaScript uses the last one. It returns
// nil if no member has the key.
func (c *container) member(key string) *item {
	if c == nil || c.kind != '{' {
		return nil
	}
	for i := len(c.items) - 1; i >= 0; i-- {
		if c.items[i].key == key {
			return &c.items[i]
		}
	}
	return nil
}

// value returns the value of member(key); nil if the key does not exist.
func (c *container) value(key string) *hujson.Value {
	if m := c.member(key); m != nil {
		return m.value
	}
	return nil
}

// str returns the value of a string member, or "".
func (c *container) str(key string) string {
	if v := c.value(key); v != nil && v.Value.Kind() == '"' {
		return v.Value.(hujson.Literal).String()
	}
	return ""
}

// texts returns the strings in an array member.
func (c *container) texts(key string) []string {
	list := newArray(c.value(key))
	if list == nil {
		return nil
	}
	var ss []string
	for _, it := range list.items {
		if it.value.Value.Kind() == '"' {
			ss = append(ss, it.value.Value.(hujson.Literal).String())
		}
	}
	return ss
}

// parse parses a settings file. It returns an error if the agent could not read the file, or if
// an edit would be ambiguous.
func parse(a Agent, file string, data []byte) (*document, error) {
	d := &document{
		agent: a, file: file, data: data, seen: map[string]*container{},
		commandKeys: a.members("command", "powershell", "program"), eventKeys: a.members("event"),
	}
	repair, comma := "repair the file, then run the command again", a.Title+" does not read the file"
	if a.Setup.JSON5 {
		comma = "Grapnel can only edit JSON with comments"
		repair = fmt.Sprintf("%s may accept this, but Grapnel can only edit JSON with comments: convert the file, then run the command again", a.Title)
	}
	if len(data) > maxSize {
		return nil, &FileError{File: file, Problem: fmt.Sprintf("larger than %d MiB", maxSize>>20), Hint: "this is probably not a settings file; move it away"}
	}
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return nil, d.errorAt(0, "the file starts with a byte order mark, which JSON does not allow", "save it as UTF-8 without one")
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return nil, d.errorAt(0, "the file is UTF-16, which is not JSON", "save it as UTF-8")
	}
	if len(trimSpace(data)) == 0 {
		return d, nil
	}
	comment, deep := survey(data)
	if deep >= 0 {
		return nil, d.errorAt(deep, fmt.Sprintf("values are nested more than %d deep", maxDepth), repair)
	}
	if comment >= 0 && !a.Setup.Comments {
		return nil, d.errorAt(comment, fmt.Sprintf("a comment: %s reads plain JSON and ignores the whole file", a.Title), "remove the comment, then run the command again")
	}
	// The parser requires a newline after a final comment. Nothing is edited after the root, so
	// the added newline changes no offset.
	root, err := hujson.Parse(append(slices.Clip(data), '\n'))
	if err != nil {
		return nil, d.parseError(err, repair)
	}
	for v := range root.All() {
		c := newContainer(v)
		if c == nil || len(c.items) == 0 {
			continue
		}
		if last := c.items[len(c.items)-1]; last.value.AfterExtra != nil {
			return nil, d.errorAt(last.end()+len(last.value.AfterExtra), "a comma after the last item: "+comma, "remove the comma, then run the command again")
		}
	}
	if d.root = newObject(&root); d.root == nil {
		return nil, d.errorAt(root.StartOffset, "the settings are not an object {...}", repair)
	}
	return d, nil
}

// parseError converts an error of the parser to a FileError.
func (d *document) parseError(err error, hint string) error {
	e := &FileError{File: d.file, Problem: err.Error(), Hint: hint}
	if _, serr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &e.Line, &e.Column); serr == nil {
		if cause := errors.Unwrap(err); cause != nil {
			e.Problem = cause.Error()
		}
		if line, column := position(d.data, len(d.data)); e.Line > line { // in the newline that parse has added
			e.Line, e.Column = line, column
		}
	}
	// The parser quotes the literal, which may be long and may be a secret key.
	if strings.HasPrefix(e.Problem, "invalid literal") {
		e.Problem = "invalid literal"
	}
	e.Problem = "not valid JSON: " + e.Problem
	return e
}

// errorAt returns a FileError for the offset.
func (d *document) errorAt(offset int, problem, hint string) error {
	line, column := position(d.data, offset)
	return &FileError{File: d.file, Line: line, Column: column, Problem: problem, Hint: hint}
}

func position(data []byte, offset int) (line, column int) {
	before := data[:offset]
	return 1 + bytes.Count(before, []byte("\n")), offset - bytes.LastIndexByte(before, '\n')
}

// survey returns the offset of the first comment and the offset at which nesting gets too deep.
// An offset is -1 if no such place exists. survey is not recursive.
func survey(data []byte) (comment, deep int) {
	comment = -1
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end := rawjson.SkipString(data, i)
			if end < 0 {
				return comment, -1
			}
			i = end - 1
		case '/':
			n := commentLen(data[i:])
			if n == 0 {
				continue
			}
			if comment < 0 {
				comment = i
			}
			i += n - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return comment, i
			}
		case '}', ']':
			depth--
		}
	}
	return comment, -1
}

// commentLen returns the length of the comment at the beginning of data, or 0 if no comment is
// there. The newline after a line comment is not included.
func commentLen(data []byte) int {
	switch {
	case bytes.HasPrefix(data, []byte("//")):
		n := bytes.IndexByte(data, '\n')
		if n < 0 {
			return len(data)
		}
		if data[n-1] == '\r' {
			n--
		}
		return n
	case bytes.HasPrefix(data, []byte("/*")):
		if n := bytes.Index(data[2:], []byte("*/")); n >= 0 {
			return n + 4
		}
		return len(data)
	}
	return 0
}

// afterComments returns the length of extra up to the end of its last comment, and whether that
// is a line comment, which only a newline ends. extra contains only white space and comments.
func afterComments(extra []byte) (n int, line bool) {
	for i := 0; i < len(extra); {
		if c := commentLen(extra[i:]); c > 0 {
			line = extra[i+1] == '/'
			i += c
			n = i
			continue
		}
		i++
	}
	return n, line
}

// trimSpace trims only the white space of JSON.
func trimSpace(data []byte) []byte { return bytes.Trim(data, " \t\r\n") }

// base returns the path of the object with the events. In some files it is the top-level object.
func (d *document) base() []string {
	switch {
	case d.agent.over(d.file):
		return nil
	case d.agent.Setup.Shape == dialect.ShapeNamed:
		return []string{d.agent.Setup.Label}
	}
	return []string{"hooks"}
}

// bases returns the paths of all objects with events, of Grapnel and of other programs.
func (d *document) bases() [][]string {
	if d.agent.Setup.Shape != dialect.ShapeNamed {
		return [][]string{d.base()}
	}
	var bases [][]string
	for _, it := range d.root.items {
		bases = append(bases, []string{it.key})
	}
	return bases
}

// grouped reports whether the entries of an event are in groups.
func (a Agent) grouped(event string) bool {
	if a.Setup.Shape == dialect.ShapeNamed {
		row := a.event(event)
		return row != nil && (row.Kind == grapnel.ToolBefore || row.Kind == grapnel.ToolAfter)
	}
	return a.Setup.Shape == dialect.ShapeGroups
}

// over reports whether the file is one of Setup.Over.
func (a Agent) over(file string) bool {
	file = filepath.ToSlash(file)
	return slices.ContainsFunc(a.Setup.Over, func(rel string) bool { return file == rel || strings.HasSuffix(file, "/"+rel) })
}

// at returns the container at a path of keys, or nil. It stores the containers on the way in
// seen. It returns an error for duplicate keys: readers differ in which one they use, and an edit
// could change the wrong one.
func (d *document) at(path []string, kind hujson.Kind) (*container, error) {
	c := d.root
	for i, key := range path {
		if c == nil {
			return nil, nil
		}
		d.seen[join(path[:i])] = c
		var found *item
		for j := range c.items {
			if c.items[j].key != key {
				continue
			}
			if found != nil {
				return nil, d.errorAt(c.items[j].start, fmt.Sprintf("the key %q is defined twice", key), "merge the two, then run the command again")
			}
			found = &c.items[j]
		}
		if found == nil {
			return nil, nil
		}
		want, what := hujson.Kind('{'), "an object {...}"
		if i == len(path)-1 && kind == '[' {
			want, what = kind, "a list [...]"
		}
		if c = newContainerOf(found.value, want); c == nil {
			return nil, d.errorAt(found.value.StartOffset, fmt.Sprintf("%q is not %s", key, what), "repair the file, then run the command again")
		}
	}
	if c != nil {
		d.seen[join(path)] = c
	}
	return c, nil
}

// join returns the name of a path, which installation.Made uses too.
func join(path []string) string { return strings.Join(path, "/") }

// A section is a list or an object of the file that may contain entries of Grapnel.
type section struct {
	path  []string
	c     *container
	event string        // event of all entries; empty: each entry names its own
	edit  *dialect.Edit // how an entry of Grapnel is recognized; nil: as a hook entry
	items []group
}

// A group is an item of a section. For agents with groups it is a list of handlers with a
// matcher; for others it is one handler.
type group struct {
	list     *container // the list of handlers; nil without groups
	handlers []handler
	plain    bool // as Grapnel writes it: without a matcher for certain tools and without other keys
}

// A handler is one program that an agent runs at an event, or another entry of Grapnel that a
// section can contain.
type handler struct {
	section, item int
	index         int // index in the list of the group; -1: it is the item itself
	value         *hujson.Value
	id            string // event or edit, see addition
	entry         Entry
	matcher       string // matcher of the group
	ours          bool
}

// sections returns the sections of the file with their entries. It returns an error for a file in
// which the agent could not find them.
func (d *document) sections() ([]section, error) {
	if d.root == nil {
		return nil, nil
	}
	var sections []section
	var err error
	switch d.agent.Setup.Shape {
	case dialect.ShapeFiles: // has no documents
	case dialect.ShapeGroups, dialect.ShapeFlat, dialect.ShapeNamed:
		for _, base := range d.bases() {
			var inner []section
			if inner, err = d.eventSections(base); err != nil {
				break
			}
			sections = append(sections, inner...)
		}
	case dialect.ShapeList:
		var c *container
		if c, err = d.at(d.base(), '['); c != nil {
			sections = append(sections, section{path: d.base(), c: c})
		}
	case dialect.ShapePlugin:
		sections, err = d.editSections()
	}
	if err != nil {
		return nil, err
	}
	for i := range sections {
		d.groups(&sections[i], i)
	}
	return sections, nil
}

// eventSections returns one section for each event of the object at a path.
func (d *document) eventSections(base []string) (sections []section, err error) {
	events, err := d.at(base, '{')
	if err != nil || events == nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, it := range events.items {
		if seen[it.key] {
			return nil, d.errorAt(it.start, fmt.Sprintf("the event %q is defined twice", it.key), "merge the two, then run the command again")
		}
		seen[it.key] = true
		list := newArray(it.value)
		if list == nil {
			if d.agent.event(it.key) != nil {
				return nil, d.errorAt(it.value.StartOffset, fmt.Sprintf("the hooks of %s are not a list [...]", it.key), "repair the file, then run the command again")
			}
			continue
		}
		path := append(slices.Clone(base), it.key)
		d.seen[join(path)] = list
		sections = append(sections, section{path: path, c: list, event: it.key})
	}
	return sections, nil
}

func (d *document) editSections() (sections []section, err error) {
	for i := range d.agent.Setup.Edits {
		e := &d.agent.Setup.Edits[i]
		c, err := d.edited(e)
		if err != nil {
			return nil, err
		}
		if c != nil {
			sections = append(sections, section{path: strings.Split(e.Path, "."), c: c, edit: e})
		}
	}
	return sections, nil
}

// edited returns the list or the object of an edit; nil if the file does not have it.
func (d *document) edited(e *dialect.Edit) (*container, error) {
	kind := hujson.Kind('[')
	if e.Key != "" {
		kind = '{'
	}
	return d.at(strings.Split(e.Path, "."), kind)
}

// groups parses the items of a section.
func (d *document) groups(s *section, at int) {
	s.items = make([]group, len(s.c.items))
	for i, it := range s.c.items {
		g := &s.items[i]
		switch {
		case s.edit != nil:
			g.plain = true
			g.handlers = []handler{{section: at, item: i, index: -1, value: it.value, id: editID(s.edit), ours: d.agent.edits(s.edit, it)}}
		case !d.agent.grouped(s.event):
			g.plain = true
			g.handlers = []handler{d.handler(s, it.value)}
			g.handlers[0].section, g.handlers[0].item, g.handlers[0].index = at, i, -1
		default:
			obj := newObject(it.value)
			if g.list = newArray(obj.value("hooks")); g.list == nil {
				continue
			}
			matcher := obj.str("matcher")
			g.plain = matcher == "" || matcher == "*"
			keys := map[string]bool{}
			for _, m := range obj.items {
				if keys[m.key] || m.key != "hooks" && (m.key != "matcher" || m.value.Value.Kind() != '"') {
					g.plain = false
				}
				keys[m.key] = true
			}
			for j, it := range g.list.items {
				if newObject(it.value) == nil {
					continue
				}
				h := d.handler(s, it.value)
				h.section, h.item, h.index, h.matcher = at, i, j, matcher
				g.handlers = append(g.handlers, h)
			}
		}
	}
}

// handler parses one entry. The template of the agent determines which members contain the
// command and the event.
func (d *document) handler(s *section, v *hujson.Value) handler {
	h := handler{value: v, id: s.event}
	find := func(obj *container) bool {
		for _, key := range d.commandKeys {
			if obj != nil && !h.ours {
				h.entry, h.ours = parseEntry(obj.str(key), obj.texts("args"))
			}
		}
		return h.ours
	}
	obj := newObject(v)
	if !find(obj) && obj != nil {
		for _, it := range obj.items { // some agents nest the entry one level deeper
			if find(newObject(it.value)) {
				break
			}
		}
	}
	if h.ours && s.event == "" {
		for _, key := range d.eventKeys {
			h.id = obj.str(key)
		}
	}
	if ev := d.agent.event(h.id); ev != nil {
		h.id = ev.Native
	}
	h.entry.Event = h.id
	return h
}

// members returns the names of the members that have these words as values in the template.
func (a Agent) members(words ...string) []string {
	memberIs := regexp.MustCompile(`"(\w+)"\s*:\s*\$([a-z]+)`)
	var keys []string
	for _, m := range memberIs.FindAllStringSubmatch(a.Setup.Entry, -1) {
		if slices.Contains(words, m[2]) {
			keys = append(keys, m[1])
		}
	}
	return keys
}

// editID returns the ID of the addition for an edit.
func editID(e *dialect.Edit) string { return e.Path + " " + e.Key }

// edits reports whether an item was written by the edit.
func (a Agent) edits(e *dialect.Edit, it item) bool {
	if e.Key != "" {
		return it.key == e.Key
	}
	if it.value.Value.Kind() != '"' {
		return false
	}
	text := it.value.Value.(hujson.Literal).String()
	if e.Value == "$dir" {
		rest, ok := a.inPlugin(text)
		return ok && rest == ""
	}
	want, err := expand(e.Value, nil, false)
	return err == nil && want == any(text)
}

// pluginDir returns the directory of a plugin, below the state directory. If there is another
// installation of the same agent, whose settings a variable has moved, the path contains the
// token of the installation. The plugin contains the token.
func pluginDir(a Agent, id string) string { return path.Join("plugins", a.Name, id, "grapnel") }

// inPlugin reports whether a file is in such a directory, or is one, and returns the rest of its
// path.
func (a Agent) inPlugin(file string) (rest string, ok bool) {
	_, after, _ := strings.Cut(strings.ReplaceAll(file, `\`, "/")+"/", "/plugins/"+a.Name+"/")
	first, rest, _ := strings.Cut(after, "/")
	if first != "grapnel" {
		first, rest, _ = strings.Cut(rest, "/")
	}
	return strings.TrimSuffix(rest, "/"), first == "grapnel"
}

// ours returns the handlers of Grapnel in the order of the file.
func ours(sections []section) []handler {
	var hs []handler
	for _, s := range sections {
		for _, g := range s.items {
			for _, h := range g.handlers {
				if h.ours {
					hs = append(hs, h)
				}
			}
		}
	}
	return hs
}
