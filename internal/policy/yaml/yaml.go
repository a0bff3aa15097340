// Package yaml reads YAML into a tree in which every node has its line and column, so that an
// error message can give the exact position in a policy. It reads one document of YAML 1.2. It
// rejects tags, merge keys, keys that are not text, and any text that two YAML libraries could
// read differently. It does not decode into structs and does not write YAML.
// Tests in proofs/reference/yaml compare it with another library.
package yaml

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// MaxSize is the maximum size of a file in bytes: some 30,000 rules.
const MaxSize = 4 << 20

const (
	// maxDepth limits nesting: the reader recurses, and a Go stack overflow cannot be recovered.
	maxDepth = 100

	// maxNodes and maxCopied (bytes of text) limit the expansion of aliases.
	maxNodes  = 500_000
	maxCopied = 8 << 20
)

// Kind is the kind of a node.
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

// String returns the name of the kind for messages.
func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}[k]
}

// Node is one value of a file.
type Node struct {
	Kind  Kind
	Line  int    // from 1
	Col   int    // from 1, in characters
	Text  string // text of a scalar, without quotes
	Items []*Node
	Pairs []Pair
}

// Pair is one entry of a mapping.
type Pair struct {
	Key   *Node // always a String
	Value *Node
}

// Error is a syntax error, or YAML that this package does not support.
type Error struct {
	Line, Col int
	Msg       string
}

// Error returns the message without the position.
func (e *Error) Error() string { return e.Msg }

// Parse reads one document. An empty document is a Null node. The error is an *Error.
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
		default: // a bug in the reader must not crash the program
			root, err = nil, &Error{1, 1, fmt.Sprintf("cannot be read as YAML: %v", r)}
		}
	}()
	r := reader{s: text(data), line: 1, col: 1, anchors: map[string]anchor{}, source: source}
	return r.file(), nil
}

// Get returns the value of a key, or nil if n is not a mapping or has no such key.
func (n *Node) Get(key string) *Node {
	for _, p := range n.Pairs {
		if p.Key.Text == key {
			return p.Value
		}
	}
	return nil
}

// JSON returns the node as JSON. Numbers keep their spelling if it is valid JSON.
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
