// Package yaml reads YAML into a tree in which every node knows its line and
// column, so that an error in a policy can point at the word that is wrong. It reads what
// YAML 1.2 calls one document, without tags, merge keys and keys that are not text,
// and refuses what two readers could take differently. It does not decode into
// structs and does not write YAML.
package yaml

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// MaxSize is the size in bytes of the largest file that is read: some 30,000 rules.
const MaxSize = 4 << 20

const (
	// maxDepth bounds nesting: the reader recurses, and a Go stack that overflows
	// cannot be recovered from.
	maxDepth = 100

	// maxNodes and maxCopied (bytes of text) bound what aliases can blow a file up to.
	maxNodes  = 500_000
	maxCopied = 8 << 20
)

// Kind is what a node holds.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

// String returns what to call a node of this kind in a message.
func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}[k]
}

// Node is one value of a file.
type Node struct {
	Kind  Kind
	Line  int    // from 1
	Col   int    // from 1, in characters
	Text  string // of a scalar: what it says, unquoted
	Items []*Node
	Pairs []Pair
}

// Pair is one entry of a mapping.
type Pair struct {
	Key   *Node // always a String
	Value *Node
}

// Error is something that is not YAML, or is YAML that is not supported.
type Error struct {
	Line, Col int
	Msg       string
}

// Error returns the message without the position.
func (e *Error) Error() string { return e.Msg }

// Parse reads one document. An empty one is a Null node. The error is an *Error.
func Parse(data []byte) (*Node, error) { return parse(data, nil) }

func parse(data []byte, source *Source) (root *Node, err error) {
	if len(data) > MaxSize {
		return nil, &Error{1, 1, fmt.Sprintf("the file has %d bytes, more than %d", len(data), MaxSize)}
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			root, err = nil, r
		default: // a mistake in the reader is a file that cannot be read, not a crash
			root, err = nil, &Error{1, 1, fmt.Sprintf("cannot be read as YAML: %v", r)}
		}
	}()
	r := reader{s: text(data), line: 1, col: 1, anchors: map[string]anchor{}, source: source}
	return r.file(), nil
}

// Get returns the value of a key, or nil.
func (n *Node) Get(key string) *Node {
	for _, p := range n.Pairs {
		if p.Key.Text == key {
			return p.Value
		}
	}
	return nil
}

// JSON returns the node as JSON. Numbers keep their spelling where JSON has it.
func (n *Node) JSON() json.RawMessage {
	switch n.Kind {
	case Null:
		return json.RawMessage("null")
	case Bool:
		return json.RawMessage(n.Text)
	case Number:
		if json.Valid([]byte(n.Text)) {
			return json.RawMessage(n.Text)
		}
		return rawjson.Quote(n.Text)
	case String:
		return rawjson.Quote(n.Text)
	case List:
		parts := make([][]byte, len(n.Items))
		for i, item := range n.Items {
			parts[i] = item.JSON()
		}
		return fmt.Appendf(nil, "[%s]", bytes.Join(parts, []byte(",")))
	default:
		parts := make([][]byte, len(n.Pairs))
		for i, p := range n.Pairs {
			parts[i] = fmt.Appendf(nil, "%s:%s", rawjson.Quote(p.Key.Text), p.Value.JSON())
		}
		return fmt.Appendf(nil, "{%s}", bytes.Join(parts, []byte(",")))
	}
}
