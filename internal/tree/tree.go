// Package tree holds what stands in files that others have made, as values that know
// their line and column, so that a message can say where it is wrong. [ParseJSON] reads
// JSON; package toml below reads TOML, and stands apart because of its weight.
package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Node is one value of a file. It knows where it stands.
type Node struct {
	Kind      Kind
	Line, Col int // from 1, columns in characters
	Raw       json.RawMessage
	Text      string // of a text: what it says
	Members   map[string]*Node
	Names     []string // of the members, in the order in which they first stand there
	Items     []*Node
}

// A Kind says what a value is.
type Kind uint8

// The kinds of JSON. What TOML has beside them, dates, are numbers without a value.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Object
)

// String returns what to call a value in a message.
func (k Kind) String() string {
	return [...]string{"null", "true or false", "a number", "text", "a list", "an object"}[k]
}

// Get returns a member; nil when the node is none of an object or has no such member.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	return n.Members[name]
}

// Is reports whether a value is there and of a kind.
func (n *Node) Is(kind Kind) bool { return n != nil && n.Kind == kind }

// IsTrue reports whether a value is there and true.
func (n *Node) IsTrue() bool { return n.Is(Bool) && string(n.Raw) == "true" }

// Number returns the value of a number.
func (n *Node) Number() (f float64, ok bool) {
	return f, n.Is(Number) && json.Unmarshal(n.Raw, &f) == nil
}

// NewObject returns an object without members.
func NewObject(line, col int) *Node {
	return &Node{Kind: Object, Line: line, Col: col, Members: map[string]*Node{}}
}

// Put adds a member that is not there yet.
func (n *Node) Put(name string, value *Node) {
	n.Names = append(n.Names, name)
	n.Members[name] = value
}

// An Error says what makes a file unreadable, and where.
type Error struct {
	Line, Col int
	Msg       string
}

// Error returns the message without the position.
func (e *Error) Error() string { return e.Msg }

// MaxDepth bounds nesting.
const MaxDepth = 200

// ParseJSON reads a file. Of equal names in an object the last counts, as it does for
// JavaScript. A file in which nothing stands is an empty object.
func ParseJSON(data []byte) (*Node, *Error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	r := &jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), Cursor: NewCursor(data)}
	if len(bytes.TrimSpace(data)) == 0 {
		return &Node{Kind: Object, Line: 1, Col: 1}, nil
	}
	r.dec.UseNumber()
	if !json.Valid(data) { // at each event: what is wrong is looked for only then
		var whole json.RawMessage
		err := json.Unmarshal(data, &whole)
		at := len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = int(syntax.Offset) - 1
		}
		r.GoTo(at)
		return nil, &Error{Line: r.Line, Col: r.Col, Msg: "is not JSON: " + err.Error()}
	}
	n, err := r.value(0)
	if err != nil {
		return nil, &Error{Line: r.Line, Col: r.Col, Msg: err.Error()}
	}
	return n, nil
}

// jsonReader walks over a file that is valid JSON.
type jsonReader struct {
	dec *json.Decoder
	Cursor
}

// A Cursor knows the line and the column of one byte, and finds those of the bytes
// behind it without looking at what is before.
type Cursor struct {
	Line, Col int // from 1, columns in characters
	data      []byte
	at        int
}

// NewCursor returns one that is at the first byte.
func NewCursor(data []byte) Cursor { return Cursor{Line: 1, Col: 1, data: data} }

// GoTo moves to a byte, or to the end.
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

func (r *jsonReader) value(depth int) (*Node, error) {
	start := int(r.dec.InputOffset())
	for start < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[start]) >= 0 {
		start++
	}
	r.GoTo(start)
	n := &Node{Line: r.Line, Col: r.Col}
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if depth > MaxDepth {
		return nil, fmt.Errorf("its values are nested deeper than %d", MaxDepth)
	}
	switch token := token.(type) {
	case json.Delim:
		if err := r.inside(n, token, depth); err != nil {
			return nil, err
		}
	case string:
		n.Kind, n.Text = Text, token
	case json.Number:
		n.Kind = Number
	case bool:
		n.Kind = Bool
	}
	n.Raw = r.data[start:r.dec.InputOffset()]
	return n, nil
}

// inside reads the members of an object or the items of a list.
func (r *jsonReader) inside(n *Node, open json.Delim, depth int) error {
	n.Kind = List
	if open == '{' {
		n.Kind, n.Members = Object, map[string]*Node{}
	}
	for r.dec.More() {
		var name string
		if n.Kind == Object {
			token, err := r.dec.Token()
			if err != nil {
				return err
			}
			name, _ = token.(string)
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if n.Kind == List {
			n.Items = append(n.Items, value)
			continue
		}
		if n.Members[name] == nil {
			n.Names = append(n.Names, name)
		}
		n.Members[name] = value
	}
	_, err := r.dec.Token()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
