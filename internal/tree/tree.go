// Package tree holds the values of files in JSON and TOML with their lines and columns, so that
// messages can give the position of an error. [ParseJSON] reads JSON. The subpackage toml reads
// TOML; it is separate because of its size.
package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Node is one value of a file, with its position.
type Node struct {
	Kind      Kind
	Line, Col int // from 1, columns in characters
	Raw       json.RawMessage
	Text      string // the value of a text
	Members   map[string]*Node
	Names     []string // of the members, in the order of their first occurrence
	Items     []*Node
}

// A Kind is the kind of a value.
type Kind uint8

// The kinds of JSON. The dates of TOML are numbers without a value.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Object
)

// String returns the name of the kind for messages.
func (k Kind) String() string {
	return [...]string{"null", "true or false", "a number", "text", "a list", "an object"}[k]
}

// Get returns a member. It returns nil if n is nil or not an object, or has no such member.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	return n.Members[name]
}

// Is reports whether a value exists and is of a kind.
func (n *Node) Is(kind Kind) bool { return n != nil && n.Kind == kind }

// IsTrue reports whether a value exists and is true.
func (n *Node) IsTrue() bool { return n.Is(Bool) && string(n.Raw) == "true" }

// Number returns the value of a number. ok is false if the node is not a number.
func (n *Node) Number() (f float64, ok bool) {
	return f, n.Is(Number) && json.Unmarshal(n.Raw, &f) == nil
}

// NewObject returns an object without members.
func NewObject(line, col int) *Node {
	return &Node{Kind: Object, Line: line, Col: col, Members: map[string]*Node{}}
}

// Put adds a member. The object must not have a member with this name.
func (n *Node) Put(name string, value *Node) {
	n.Names = append(n.Names, name)
	n.Members[name] = value
}

// An Error is a syntax error with its position.
type Error struct {
	Line, Col int
	Msg       string
}

// Error returns the message without the position.
func (e *Error) Error() string { return e.Msg }

// MaxDepth limits nesting.
const MaxDepth = 200

// ParseJSON reads a file. If a name occurs more than once in an object, its last value applies,
// as in JavaScript. An empty file, or one with only white space, is an empty object.
func ParseJSON(data []byte) (*Node, *Error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	r := &jsonReader{Cursor: NewCursor(data)}
	if len(bytes.TrimSpace(data)) == 0 {
		return &Node{Kind: Object, Line: 1, Col: 1}, nil
	}
	if !json.Valid(data) { // this runs at each event, so the error is located only for invalid files
		var whole json.RawMessage
		err := json.Unmarshal(data, &whole)
		at := len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = int(syntax.Offset) - 1
		}
		r.GoTo(at)
		return nil, &Error{Line: r.Line, Col: r.Col, Msg: "is not JSON: " + err.Error()}
	}
	n, _, err := r.value(rawjson.SkipSpace(data, 0), 0)
	if err != nil {
		return nil, &Error{Line: r.Line, Col: r.Col, Msg: err.Error()}
	}
	return n, nil
}

// A jsonReader reads a file that is valid JSON. It walks the raw bytes, because the tokens of
// encoding/json take three times as long, and hook programs read files at each event.
type jsonReader struct{ Cursor }

// A Cursor holds the line and the column of one byte. It computes the position of a later byte
// without reading the earlier ones again.
type Cursor struct {
	Line, Col int // from 1, columns in characters
	data      []byte
	at        int
}

// NewCursor returns a Cursor at the first byte.
func NewCursor(data []byte) Cursor { return Cursor{Line: 1, Col: 1, data: data} }

// GoTo moves to a byte, or to the end if that comes first. To move back, it counts again from the
// first byte.
func (c *Cursor) GoTo(at int) {
	if at < c.at {
		c.at, c.Line, c.Col = 0, 1, 1
	}
	at = min(at, len(c.data))
	passed := c.data[c.at:at]
	if i := bytes.LastIndexByte(passed, '\n'); i >= 0 {
		c.Line += bytes.Count(passed, []byte("\n"))
		c.Col = 1
		passed = passed[i+1:]
	}
	c.Col += utf8.RuneCount(passed)
	c.at = at
}

// value reads the value that begins at i, and returns the index after it.
func (r *jsonReader) value(i, depth int) (n *Node, end int, err error) {
	r.GoTo(i)
	n = &Node{Line: r.Line, Col: r.Col}
	if depth > MaxDepth {
		return nil, -1, fmt.Errorf("its values are nested deeper than %d", MaxDepth)
	}
	switch r.data[i] {
	case '{':
		n.Kind, n.Members = Object, map[string]*Node{}
		end, err = r.inside(n, i, depth)
	case '[':
		n.Kind = List
		end, err = r.inside(n, i, depth)
	default:
		end = rawjson.SkipValue(r.data, i)
	}
	if err != nil {
		return nil, -1, err
	}
	n.Raw = r.data[i:end]
	switch n.Raw[0] {
	case '{', '[', 'n':
	case '"':
		n.Kind, n.Text = Text, textOf(n.Raw)
	case 't', 'f':
		n.Kind = Bool
	default:
		n.Kind = Number
	}
	return n, end, nil
}

// textOf decodes a string of valid JSON.
func textOf(raw []byte) string {
	text, _ := rawjson.Unquote(raw)
	return text
}

// inside reads the members of an object or the items of a list, to its end.
func (r *jsonReader) inside(n *Node, i, depth int) (end int, err error) {
	end = rawjson.Inside(r.data, i, func(name []byte, begin int) int {
		value, end, problem := r.value(begin, depth+1)
		if err = problem; err != nil {
			return -1
		}
		if n.Kind == List {
			n.Items = append(n.Items, value)
			return end
		}
		key := textOf(name)
		if n.Members[key] == nil {
			n.Names = append(n.Names, key)
		}
		n.Members[key] = value
		return end
	})
	return end, err
}
