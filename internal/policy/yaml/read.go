package yaml

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A reader reads the text once. Any error ends the reading with a panic with an *Error, which
// Parse recovers, so no incomplete tree can be used by mistake.
type reader struct {
	s        string
	i        int // the current offset
	brackets int // number of open [ and {

	// The line and the column of the offset seen. Nodes are made from left to right, so counting
	// continues from there and each byte of the file is counted once.
	seen, line, col int

	plainly bool // whether the last text was not quoted

	anchors map[string]anchor
	nodes   int
	copied  int

	source *Source // nil = the caller does not need the positions of values
}

type anchor struct {
	node                *Node
	nodes, height, text int
}

// text returns data with "\n" at the end of every line. It rejects anything except the printable
// UTF-8 that YAML allows.
func text(data []byte) string {
	s := strings.TrimPrefix(string(data), "\ufeff")
	if strings.IndexByte(s, '\r') >= 0 {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	}
	for i := 0; i < len(s); {
		c, size := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(s[i:])
		}
		bad := ""
		switch {
		case c == utf8.RuneError && size == 1:
			bad = fmt.Sprintf("the byte 0x%02x is not UTF-8: save the file as UTF-8", s[i])
		case c == 0xfeff:
			bad = "a byte order mark (U+FEFF) is allowed only at the start of the file: delete it"
		case c < ' ' && c != '\t' && c != '\n', 0x7f <= c && c < 0xa0 && c != 0x85, c == 0xfffe, c == 0xffff:
			bad = fmt.Sprintf("the control character U+%04X is not allowed: delete it, or write \"\\x%02x\"", c, c)
			if c > 0xff {
				bad = fmt.Sprintf("U+%04X is not a character: delete it", c)
			}
		}
		if bad != "" {
			r := reader{s: s, line: 1, col: 1}
			r.fail(i, "%s", bad)
		}
		i += size
	}
	return s
}

// fail ends the reading with an error at an offset.
func (r *reader) fail(at int, format string, args ...any) {
	if at < r.seen {
		r.seen, r.line, r.col = 0, 1, 1
	}
	line, col := r.at(at)
	panic(&Error{line, col, fmt.Sprintf(format, args...)})
}

// at returns the line and the column of an offset.
func (r *reader) at(offset int) (line, col int) {
	for r.seen < offset && r.seen < len(r.s) {
		c := r.s[r.seen]
		r.seen++
		switch {
		case c == '\n':
			r.line, r.col = r.line+1, 1
		case c < utf8.RuneSelf || c >= 0xc0: // the first byte of a character
			r.col++
		}
	}
	return r.line, r.col
}

// add makes a node for the text at an offset.
func (r *reader) add(kind Kind, at, depth int) *Node {
	r.nodes++
	switch {
	case depth > maxDepth:
		r.fail(at, "nested deeper than %d", maxDepth)
	case r.nodes > maxNodes:
		r.fail(at, "more than %d values", maxNodes)
	}
	n := &Node{Kind: kind}
	n.Line, n.Col = r.at(at)
	return n
}

// peek returns the byte ahead of the current offset, or 0 at the end; a text cannot contain 0.
func (r *reader) peek(ahead int) byte {
	if r.i+ahead < len(r.s) {
		return r.s[r.i+ahead]
	}
	return 0
}

func blank(c byte) bool { return c == ' ' || c == '\t' }
func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == 0 }
func flow(c byte) bool  { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}' }

// bare reports whether c ends an indicator (":", "-", "?") before it.
func (r *reader) bare(c byte) bool { return space(c) || r.brackets > 0 && flow(c) }

func (r *reader) dash() bool { return r.peek(0) == '-' && r.bare(r.peek(1)) }

// marker reports whether a line that begins or ends a document starts here.
func (r *reader) marker() bool {
	return (r.i == 0 || r.s[r.i-1] == '\n') && space(r.peek(3)) &&
		(strings.HasPrefix(r.s[r.i:], "---") || strings.HasPrefix(r.s[r.i:], "..."))
}

// end reports whether the document ends here.
func (r *reader) end() bool { return r.i >= len(r.s) || r.marker() }

// column returns the number of bytes before the current offset in its line.
func (r *reader) column() int { return r.i - strings.LastIndexByte(r.s[:r.i], '\n') - 1 }

// first reports whether the line has only spaces before the current offset.
func (r *reader) first() bool {
	i := r.i
	for i > 0 && r.s[i-1] == ' ' {
		i--
	}
	return i == 0 || r.s[i-1] == '\n'
}

// skip skips blanks, line ends and comments, and reports whether the next text is the first in
// its line.
func (r *reader) skip() (first bool) {
	first = r.first()
	tab := -1
	for ; r.i < len(r.s); r.i++ {
		switch c := r.s[r.i]; {
		case c == ' ':
		case c == '\t':
			if tab < 0 {
				tab = r.i
			}
		case c == '\n':
			first, tab = true, -1
		case c == '#' && (r.i == 0 || space(r.s[r.i-1])):
			r.comment()
			r.i--
		default:
			if first && tab >= 0 && r.brackets == 0 {
				r.fail(tab, "a tab cannot indent: write spaces")
			}
			return first
		}
	}
	return first
}

// comment skips a comment, up to the end of the line.
func (r *reader) comment() {
	start := r.i
	r.toEnd()
	r.source.comment(start, r.i)
}

// toEnd moves to the end of the line.
func (r *reader) toEnd() {
	if n := strings.IndexByte(r.s[r.i:], '\n'); n >= 0 {
		r.i += n
	} else {
		r.i = len(r.s)
	}
}

// rest rejects anything except a comment in the rest of the line.
func (r *reader) rest(what string) {
	start := r.i
	for blank(r.peek(0)) {
		r.i++
	}
	switch c := r.peek(0); {
	case c == '\n' || c == 0:
	case c == '#' && r.i > start:
		r.comment()
	case c == '#':
		r.fail(r.i, "a comment needs a space before #: write \" #\", or put the text in quotes")
	case c == '&':
		r.fail(r.i, "an anchor must be before its value: write `key: &name value`")
	default:
		r.fail(r.i, "only a comment may follow %s on its line: put the whole text in quotes, or start a new line", what)
	}
}

// file reads the only document of a file. Empty documents before and after it are ignored.
func (r *reader) file() *Node {
	root := &Node{Line: 1, Col: 1}
	found := false
	for r.skip(); r.i < len(r.s); r.skip() {
		if r.peek(0) == '%' && r.column() == 0 {
			r.directives()
		}
		if strings.HasPrefix(r.s[r.i:], "---") && r.marker() {
			r.i += 3
			r.skip()
		}
		if !r.end() {
			if found {
				r.fail(r.i, "a second document begins here: a file can contain only one, so write it into another file")
			}
			found = true
			root = r.node(-1, 0, r.first(), 0)
			r.skip()
		}
		switch {
		case !r.end():
			r.stray(0)
		case strings.HasPrefix(r.s[r.i:], "..."):
			r.i += 3
			r.rest("the end of a document (...)")
		}
	}
	return root
}

// directives reads the lines before "---". Only "YAML 1.x" has a meaning that every YAML library
// supports.
func (r *reader) directives() {
	for once := true; r.peek(0) == '%' && r.column() == 0; r.skip() {
		start := r.i
		if !once || !strings.HasPrefix(r.s[r.i:], "%YAML 1.") || r.peek(8) < '0' || r.peek(8) > '9' || !space(r.peek(9)) {
			r.fail(start, "this directive is not supported: delete the line (text that starts with %% needs quotes)")
		}
		once = false
		r.i += 9
		r.rest("a directive")
	}
	if !r.marker() || r.peek(0) != '-' {
		r.fail(min(r.i, len(r.s)), "a line --- must follow a directive")
	}
}

// stray rejects a line that is not part of any value. A mapping or a list begins at the column
// want.
func (r *reader) stray(want int) {
	switch got := r.column(); {
	case flow(r.peek(0)) && r.peek(0) != '[' && r.peek(0) != '{':
		r.fail(r.i, "%q closes no bracket", r.s[r.i:r.i+1])
	case got > want:
		r.fail(r.i, "this line is indented by %d spaces, but no line above it is: indent it by %d, like the other lines of its mapping or list", got, want)
	case r.dash():
		r.fail(r.i, "a list item is between the keys of a mapping: indent it below its key")
	default:
		r.fail(r.i, "this line does not fit the lines above it: a list item starts with \"- \", a key of a mapping ends with \":\"")
	}
}

// null returns the node for a missing value after an indicator.
func (r *reader) null(at, depth int) *Node {
	n := r.add(Null, at, depth)
	r.source.wrote(n, at, at)
	return n
}

// deeper reports whether this line is part of the value at the column parent. A list may begin at
// the column of its key.
func (r *reader) deeper(parent int, after byte) bool {
	c := r.column()
	return c > parent || c == parent && after == ':' && r.dash()
}

// value reads the value after ":" or "-".
func (r *reader) value(parent int, after byte, depth int) *Node {
	start := r.i
	first := r.skip()
	if r.end() || first && !r.deeper(parent, after) {
		return r.null(start, depth)
	}
	return r.node(parent, after, first, depth)
}

// node reads one value outside brackets. parent is the column of the value that contains it,
// after is the indicator before it (0 at the beginning of a document).
func (r *reader) node(parent int, after byte, first bool, depth int) *Node {
	start, col := r.i, r.column()
	name := ""
	if r.peek(0) == '&' {
		name = r.name()
		at := r.i
		below := r.skip()
		switch {
		case r.end() || below && !r.deeper(parent, after):
			return r.keep(name, r.null(at, depth))
		case below && r.peek(0) == '&' || !below && r.peek(0) == '&':
			r.fail(r.i, "a value can have only one anchor: delete one")
		case below:
			return r.keep(name, r.node(parent, after, true, depth))
		case r.dash():
			r.fail(r.i, "a list must start on the line below its anchor")
		}
	}
	begins := first || after == '-' // a list or a mapping may begin here
	switch c := r.peek(0); {
	case r.dash():
		if !begins {
			r.fail(r.i, "a list cannot start on this line: start it on the next line")
		}
		r.tabs(start)
		return r.written(r.list(col, depth), start)
	case c == '|' || c == '>':
		start = r.i
		return r.keep(name, r.written(r.block(parent, depth), start))
	}
	n := r.atom(parent, depth)
	plain := r.plainly
	if r.colon() {
		switch {
		case strings.IndexByte(r.s[start:r.i], '\n') >= 0:
			r.fail(r.i, "a key must be on one line: the text above may lack a space after its \":\", and text on several lines that contains \": \" needs quotes")
		case !begins:
			r.fail(r.i, "a mapping cannot start on this line: put text that contains \": \" in quotes, or start the mapping on the next line")
		}
		r.tabs(start)
		return r.written(r.mapping(col, r.keep(name, n), plain, depth), start)
	}
	r.rest("this value")
	return r.keep(name, n)
}

// tabs rejects a tab before a list or a mapping, because its column is ambiguous.
func (r *reader) tabs(start int) {
	line := strings.LastIndexByte(r.s[:start], '\n') + 1
	if i := strings.IndexByte(r.s[line:start], '\t'); i >= 0 {
		r.fail(line+i, "a tab cannot indent: write spaces")
	}
}

// list reads items, each after a dash at the same column.
func (r *reader) list(col, depth int) *Node {
	n := r.add(List, r.i, depth)
	for {
		dash := r.i
		r.i++
		item := r.value(col, '-', depth+1)
		r.source.item(item, dash)
		n.Items = append(n.Items, item)
		r.skip()
		switch {
		case r.end() || r.column() < col:
			return n
		case r.column() > col:
			r.stray(col)
		case !r.dash():
			return n
		}
	}
}

// mapping reads pairs, each with its key at the same column. The caller has read the first key.
func (r *reader) mapping(col int, key *Node, plain bool, depth int) *Node {
	n := r.add(Map, r.seen, depth)
	n.Line, n.Col = key.Line, key.Col
	keys := map[string]int{}
	for {
		key = r.key(key, plain, keys)
		r.i++
		n.Pairs = append(n.Pairs, Pair{key, r.value(col, ':', depth+1)})
		r.skip()
		if r.end() || r.column() < col {
			return n
		}
		if r.column() > col || r.dash() {
			r.stray(col)
		}
		start, name := r.i, ""
		if r.peek(0) == '&' {
			name = r.name()
			if r.skip() || r.peek(0) == '&' {
				r.fail(start, "an anchor must be before its value: write `key: &name value`")
			}
		}
		if c := r.peek(0); c == '|' || c == '>' {
			r.fail(r.i, "a key cannot start with %q: put it in quotes", r.s[r.i:r.i+1])
		}
		key = r.keep(name, r.atom(col, depth+1))
		plain = r.plainly
		if !r.colon() {
			r.i = start
			r.fail(start, "a key of a mapping ends with \": \": write `key: value`, or indent the line below its key")
		}
		if strings.IndexByte(r.s[start:r.i], '\n') >= 0 {
			r.fail(start, "a key must be on one line, followed by \": \"")
		}
	}
}

// key returns a node as the key of a mapping. keys holds the earlier keys of the mapping with
// their lines.
func (r *reader) key(n *Node, plain bool, keys map[string]int) *Node {
	msg := ""
	switch first := keys[n.Text]; {
	case n.Kind == List || n.Kind == Map:
		msg = "a key must be text"
	case n.Kind == Null:
		msg = "a key must be text: put null in quotes"
	case plain && n.Text == "<<":
		msg = "merge keys (<<) are not supported: write the keys out"
	case first > 0:
		msg = fmt.Sprintf("key %q is defined twice, first in line %d: delete one", n.Text, first)
	}
	if msg != "" {
		panic(&Error{n.Line, n.Col, msg})
	}
	keys[n.Text] = n.Line
	key := &Node{Kind: String, Line: n.Line, Col: n.Col, Text: n.Text} // a copy, because an alias of the key keeps its kind
	r.source.same(key, n)
	return key
}

// colon moves to the ":" after a key and reports whether it exists.
func (r *reader) colon() bool {
	i := r.i
	for blank(r.peek(0)) {
		r.i++
	}
	if r.peek(0) == ':' && r.bare(r.peek(1)) {
		return true
	}
	r.i = i
	return false
}

// name reads the name of an anchor or an alias. YAML allows nearly any character in it, so that
// *x: is a name with a colon; this package only allows words.
func (r *reader) name() string {
	start := r.i
	r.i++
	for wordly(r.peek(0)) {
		r.i++
	}
	if r.i == start+1 || !r.bare(r.peek(0)) {
		r.fail(start, "%q starts the name of an anchor, which may contain letters, digits, - and _: put other text in quotes", r.s[start:start+1])
	}
	return r.s[start+1 : r.i]
}

func wordly(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// keep stores a value under the name of its anchor.
func (r *reader) keep(name string, n *Node) *Node {
	if name != "" {
		r.source.anchor(n, name)
		a := anchor{node: n}
		a.measure(n, 0)
		r.anchors[name] = a
	}
	return n
}

func (a *anchor) measure(n *Node, depth int) {
	a.nodes++
	a.height = max(a.height, depth)
	a.text += len(n.Text)
	for _, item := range n.Items {
		a.measure(item, depth+1)
	}
	for _, p := range n.Pairs {
		a.nodes++
		a.text += len(p.Key.Text)
		a.measure(p.Value, depth+1)
	}
}

// alias returns the value of an anchor that was read before.
func (r *reader) alias(depth int) *Node {
	start := r.i
	name := r.name()
	a := r.anchors[name]
	if a.node == nil {
		r.fail(start, "alias *%s has no anchor before it: put text that starts with * in quotes", name)
	}
	r.nodes += a.nodes
	r.copied += a.text
	switch {
	case r.nodes > maxNodes:
		r.fail(start, "more than %d values", maxNodes)
	case r.copied > maxCopied:
		r.fail(start, "aliases repeat more than %d bytes of text", maxCopied)
	case depth+a.height > maxDepth:
		r.fail(start, "nested deeper than %d", maxDepth)
	}
	if r.source != nil {
		copied := *a.node // a copy, because the alias has another position than its anchor
		return &copied
	}
	return a.node
}

// atom reads a value that is not a block: text, an alias, or a value in brackets.
func (r *reader) atom(parent, depth int) *Node {
	start := r.i
	return r.written(r.unwritten(parent, depth), start)
}

// written records the position of a value, from start to the current offset.
func (r *reader) written(n *Node, start int) *Node {
	r.source.wrote(n, start, r.i)
	return n
}

// unwritten does the work of atom, but does not record the position.
func (r *reader) unwritten(parent, depth int) *Node {
	start, c := r.i, r.peek(0)
	r.plainly = false
	switch c {
	case '"', '\'':
		n := r.add(String, start, depth)
		n.Text = r.quoted(parent)
		return n
	case '[', '{':
		return r.collection(depth)
	case '*':
		return r.alias(depth)
	case '!':
		for !r.bare(r.peek(0)) {
			r.i++
		}
		r.fail(start, "tags such as %s are not supported: delete it, and put text in quotes", r.s[start:r.i])
	case ']', '}', ',':
		r.fail(start, "%q closes no bracket: put text that starts with it in quotes", r.s[start:start+1])
	case '#', '%', '@', '`', '|', '>', '&':
		r.fail(start, "text that starts with %q must be in quotes", r.s[start:start+1])
	case '-', ':', '?':
		if !r.bare(r.peek(1)) {
			break
		}
		switch c {
		case '?':
			r.fail(start, "keys that start with \"? \" are not supported: write `key: value`")
		case ':':
			r.fail(start, "a key is missing before \":\"")
		}
		r.fail(start, "\"-\" starts a list item only at the start of a line, and not in brackets: put it in quotes")
	}
	n := r.add(Null, start, depth)
	n.Kind, n.Text = resolve(r.plain(parent))
	r.plainly = true
	return n
}

// collection reads a list or a mapping in brackets.
func (r *reader) collection(depth int) *Node {
	start := r.i
	n, closing := r.add(List, start, depth), byte(']')
	line := n.Line
	if r.peek(0) == '{' {
		n.Kind, closing = Map, '}'
	}
	r.brackets++
	r.i++
	var keys map[string]int
	if n.Kind == Map {
		keys = map[string]int{}
	}
	for {
		if r.inside(start) == closing {
			break
		}
		if n.Kind == List {
			n.Items = append(n.Items, r.item(start, depth+1))
		} else {
			n.Pairs = append(n.Pairs, r.pair(start, depth+1, keys))
		}
		c := r.inside(start)
		if c == closing {
			break
		}
		if c != ',' {
			r.fail(r.i, "write a comma or %q here: the %q of line %d is open", string(closing), r.s[start:start+1], line)
		}
		r.i++
	}
	r.i++
	r.brackets--
	if len(n.Pairs) > 0 {
		n.Line, n.Col = n.Pairs[0].Key.Line, n.Pairs[0].Key.Col
	}
	return n
}

// inside moves to the next text in the bracket that was opened at start.
func (r *reader) inside(start int) byte {
	if r.skip(); r.end() {
		r.fail(start, "%q is not closed", r.s[start:start+1])
	}
	return r.peek(0)
}

// word reads one value inside brackets. plain reports that it is text without quotes, quoted that
// a ":" may follow it without a space.
func (r *reader) word(start, depth int) (n *Node, plain, quoted bool) {
	name := ""
	if r.peek(0) == '&' {
		name = r.name()
		at := r.i
		if c := r.inside(start); c == ',' || c == ']' || c == '}' {
			return r.keep(name, r.null(at, depth)), false, false
		}
		if r.peek(0) == '&' {
			r.fail(r.i, "a value can have only one anchor: delete one")
		}
	}
	c := r.peek(0)
	quoted = c == '"' || c == '\'' || c == '[' || c == '{'
	n = r.keep(name, r.atom(-1, depth))
	return n, r.plainly && !quoted, quoted
}

// mark moves to the ":" after a key inside brackets and reports whether it exists.
func (r *reader) mark(start int, quoted bool) bool {
	at := r.i
	if r.inside(start) == ':' && (quoted || r.bare(r.peek(1))) {
		return true
	}
	r.i = at
	return false
}

// item reads an item of a list in brackets. There "a: b" is a mapping with one pair.
func (r *reader) item(start, depth int) *Node {
	at := r.i
	n, plain, quoted := r.word(start, depth)
	if !r.mark(start, quoted) {
		return n
	}
	if strings.IndexByte(r.s[at:r.i], '\n') >= 0 {
		r.fail(r.i, "a key in a list must be on one line, followed by \": \"")
	}
	if r.spaced(n, plain); !quoted && flow(r.peek(1)) {
		r.fail(r.i, "write a space after \":\" to make a key of the text before it, or put it in quotes")
	}
	m := r.add(Map, at, depth)
	m.Line, m.Col = n.Line, n.Col
	key := r.key(n, plain, map[string]int{})
	m.Pairs = []Pair{{key, r.marked(start, depth+1)}}
	return r.written(m, at)
}

// pair reads a pair of a mapping in brackets. A key alone has the value null.
func (r *reader) pair(start, depth int, keys map[string]int) Pair {
	n, plain, quoted := r.word(start, depth)
	end := r.i
	r.spaced(n, plain)
	key := r.key(n, plain, keys)
	if r.mark(start, quoted) {
		return Pair{key, r.marked(start, depth)}
	}
	return Pair{key, r.null(end, depth)}
}

// spaced rejects {a:b}: YAML reads a key that contains a colon, but people read a pair.
func (r *reader) spaced(key *Node, plain bool) {
	if plain && strings.IndexByte(key.Text, ':') >= 0 {
		panic(&Error{key.Line, key.Col, fmt.Sprintf("%q would be a key: write a space after \":\", or put it in quotes", key.Text)})
	}
}

// marked reads the value after ":" inside brackets.
func (r *reader) marked(start, depth int) *Node {
	r.i++
	at := r.i
	if c := r.inside(start); c == ',' || c == ']' || c == '}' {
		return r.null(at, depth)
	}
	n, _, _ := r.word(start, depth)
	return n
}
