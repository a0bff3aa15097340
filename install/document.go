package install

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

const (
	maxSize  = 8 << 20 // of a settings file, bytes
	maxDepth = 500     // of nested values; the parser recurses
)

// A FileError says why a settings file is left alone, and what to do about it.
type FileError struct {
	File         string
	Line, Column int // counted from 1, columns in bytes; 0: the whole file
	Problem      string
	Hint         string // the way out
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

// A document is a settings file, taken apart but not changed: every node knows
// its place in data.
type document struct {
	agent Agent
	file  string
	data  []byte
	root  *container // nil if the file holds nothing but white space
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
	start int    // offset of the key, or of the value of an element
	value *hujson.Value
	comma int // offset of the comma behind it; -1 if it is the last
}

func (it item) end() int { return it.value.EndOffset }

// newContainer looks at a value as a container; nil if it is a scalar.
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
		c.items[n-1].comma = -1 // there are no trailing commas: parse refuses them
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

// member returns the last member with the key, which is the one that counts for
// a JavaScript program; nil if there is none.
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

// value returns the value of member(key); nil if there is none.
func (c *container) value(key string) *hujson.Value {
	if m := c.member(key); m != nil {
		return m.value
	}
	return nil
}

// str returns a string member, or "".
func (c *container) str(key string) string {
	if v := c.value(key); v != nil && v.Value.Kind() == '"' {
		return v.Value.(hujson.Literal).String()
	}
	return ""
}

// is reports whether the member is the literal.
func (c *container) is(key, literal string) bool {
	v := c.value(key)
	if v == nil {
		return false
	}
	lit, ok := v.Value.(hujson.Literal)
	return ok && string(lit) == literal
}

// texts returns the strings among the elements of an array member.
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

// parse takes a settings file apart. It refuses what the agent would not read,
// and what could not be edited without a guess.
func parse(a Agent, file string, data []byte) (*document, error) {
	d := &document{agent: a, file: file, data: data}
	repair := "repair the file, then run the command again"
	if len(data) > maxSize {
		return nil, &FileError{File: file, Problem: fmt.Sprintf("larger than %d MiB", maxSize>>20), Hint: "this is hardly a settings file; move it away"}
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
	if comment >= 0 && !a.Comments {
		return nil, d.errorAt(comment, fmt.Sprintf("a comment: %s reads plain JSON and ignores the whole file", a.Title), "remove the comment, then run the command again")
	}
	// The parser wants a line feed behind a comment at the end. Nothing is ever
	// edited behind the root, so one more does not shift anything.
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
			return nil, d.errorAt(last.end()+len(last.value.AfterExtra), fmt.Sprintf("a comma behind the last item: %s does not read the file", a.Title), "remove the comma, then run the command again")
		}
	}
	if d.root = newObject(&root); d.root == nil {
		return nil, d.errorAt(root.StartOffset, "the settings are not an object {...}", repair)
	}
	return d, nil
}

// parseError turns an error of the parser into a FileError.
func (d *document) parseError(err error, hint string) error {
	e := &FileError{File: d.file, Problem: err.Error(), Hint: hint}
	if _, serr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &e.Line, &e.Column); serr == nil {
		if cause := errors.Unwrap(err); cause != nil {
			e.Problem = cause.Error()
		}
		if line, column := position(d.data, len(d.data)); e.Line > line { // in the line feed of parse
			e.Line, e.Column = line, column
		}
	}
	// The parser repeats the literal, which may be long, and may be a key.
	if strings.HasPrefix(e.Problem, "invalid literal") {
		e.Problem = "invalid literal"
	}
	e.Problem = "not valid JSON: " + e.Problem
	return e
}

// errorAt makes a FileError for the offset.
func (d *document) errorAt(offset int, problem, hint string) error {
	line, column := position(d.data, offset)
	return &FileError{File: d.file, Line: line, Column: column, Problem: problem, Hint: hint}
}

func position(data []byte, offset int) (line, column int) {
	before := data[:offset]
	return 1 + bytes.Count(before, []byte("\n")), offset - bytes.LastIndexByte(before, '\n')
}

// survey finds, without recursion, the offset of the first comment and the
// offset where nesting gets too deep; -1 if there is no such place.
func survey(data []byte) (comment, deep int) {
	comment = -1
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
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

// commentLen is the length of the comment that data starts with; 0 if it does
// not. The line end behind a line comment is not part of it.
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

// afterComments returns the length of extra up to the end of its last comment,
// and whether that is a line comment, which only a line end closes. Extra is
// white space and comments.
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

// trimSpace trims what JSON calls white space, and no more.
func trimSpace(data []byte) []byte { return bytes.Trim(data, " \t\r\n") }

// hooks returns the object of hooks, nil if the file has none. It refuses keys
// that stand there twice: readers differ in which one counts, and so would an
// edit.
func (d *document) hooks() (*container, error) {
	if d.root == nil {
		return nil, nil
	}
	var found *item
	for i := range d.root.items {
		it := &d.root.items[i]
		if it.key != "hooks" {
			continue
		}
		if found != nil {
			return nil, d.errorAt(it.start, `the key "hooks" stands here a second time`, "join the two, then run the command again")
		}
		found = it
	}
	if found == nil {
		return nil, nil
	}
	c := newObject(found.value)
	if c == nil {
		return nil, d.errorAt(found.value.StartOffset, `"hooks" is not an object {...}`, "repair the file, then run the command again")
	}
	seen := map[string]bool{}
	for _, it := range c.items {
		if seen[it.key] {
			return nil, d.errorAt(it.start, fmt.Sprintf("the event %q stands here a second time", it.key), "join the two, then run the command again")
		}
		seen[it.key] = true
		if d.agent.event(it.key) != nil && newArray(it.value) == nil {
			return nil, d.errorAt(it.value.StartOffset, fmt.Sprintf("the hooks of %s are not a list [...]", it.key), "repair the file, then run the command again")
		}
	}
	return c, nil
}

// A handler is one program that an agent runs at an event.
type handler struct {
	event, group int // indexes of the event in "hooks" and of the group in the event
	index        int // in the list of the group
	obj          *container
	entry        Entry
	matcher      string // of the group
	ours         bool
}

// A group is what an event holds a list of: handlers behind a matcher.
type group struct {
	list     *container // the handlers; nil if the group is malformed
	handlers []handler
	plain    bool // as we make them: for everything, and with no other keys
}

// groups takes an event's list apart.
func (d *document) groups(hooks *container, event int) []group {
	list := newArray(hooks.items[event].value)
	if list == nil {
		return nil
	}
	gs := make([]group, len(list.items))
	for i, it := range list.items {
		obj := newObject(it.value)
		g := &gs[i]
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
		for j, h := range g.list.items {
			obj := newObject(h.value)
			if obj == nil {
				continue
			}
			entry, ours := parseEntry(obj.str("command"), obj.texts("args"))
			entry.Event = hooks.items[event].key
			g.handlers = append(g.handlers, handler{event: event, group: i, index: j, obj: obj, entry: entry, matcher: matcher, ours: ours})
		}
	}
	return gs
}

// ours lists our own handlers in the order of the file.
func (d *document) ours(hooks *container) []handler {
	if hooks == nil {
		return nil
	}
	var hs []handler
	for i := range hooks.items {
		for _, g := range d.groups(hooks, i) {
			for _, h := range g.handlers {
				if h.ours {
					hs = append(hs, h)
				}
			}
		}
	}
	return hs
}
