// Package toml reads TOML into the nodes of package tree.
package toml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/grapnel-dev/grapnel/internal/tree"
)

// Parse reads a TOML file into the nodes of a JSON file. A value that JSON does not have, such as
// a date, becomes a number without a value.
func Parse(data []byte) (*tree.Node, *tree.Error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	r := reader{Cursor: tree.NewCursor(data), defined: map[*tree.Node]bool{}}
	r.parser.Reset(data)
	root := tree.NewObject(1, 1)
	table := root
	for r.parser.NextExpression() {
		var err *tree.Error
		if e := r.parser.Expression(); e.Kind == unstable.KeyValue {
			err = r.pair(table, e, 0)
		} else { // comments are ignored
			table, err = r.header(root, e)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.parser.Error(); err != nil {
		at := &tree.Error{Line: 1, Col: 1, Msg: "is not TOML: " + err.Error()}
		if wrong, ok := errors.AsType[*unstable.ParserError](err); ok {
			at.Msg = "is not TOML: " + wrong.Message
			r.GoTo(int(r.parser.Range(wrong.Highlight).Offset))
			at.Line, at.Col = r.Line, r.Col
		}
		return nil, at
	}
	return root, nil
}

type reader struct {
	parser unstable.Parser
	tree.Cursor
	defined map[*tree.Node]bool // tables that a header or a value has already defined
}

// where returns the position of n, or the position of or if n has none.
func (r *reader) where(n *unstable.Node, or *tree.Node) (line, col int) {
	if n.Raw.Length == 0 {
		return or.Line, or.Col
	}
	r.GoTo(int(n.Raw.Offset))
	return r.Line, r.Col
}

func duplicateKey(key string, line, col int) *tree.Error {
	return &tree.Error{Line: line, Col: col, Msg: fmt.Sprintf("is not TOML: duplicate key %q", key)}
}

// into follows a dotted key from a table and creates missing tables. It does not follow the last
// part of the key, but returns it.
func (r *reader) into(table *tree.Node, key unstable.Iterator) (in *tree.Node, last string, line, col int, err *tree.Error) {
	for key.Next() {
		line, col = r.where(key.Node(), table)
		last = string(key.Node().Data)
		if key.IsLast() {
			break
		}
		next := table.Members[last]
		switch {
		case next == nil:
			next = tree.NewObject(line, col)
			table.Put(last, next)
		case next.Is(tree.List) && len(next.Items) > 0 && r.defined[next]:
			next = next.Items[len(next.Items)-1]
		}
		if !next.Is(tree.Object) {
			return nil, "", 0, 0, duplicateKey(last, line, col)
		}
		table = next
	}
	return table, last, line, col, nil
}

// header finds or creates the table for the lines after a header.
func (r *reader) header(root *tree.Node, e *unstable.Node) (*tree.Node, *tree.Error) {
	in, name, line, col, err := r.into(root, e.Key())
	if err != nil {
		return nil, err
	}
	there := in.Members[name]
	if e.Kind == unstable.ArrayTable {
		if there == nil {
			there = &tree.Node{Kind: tree.List, Line: line, Col: col}
			r.defined[there] = true
			in.Put(name, there)
		}
		if !there.Is(tree.List) || !r.defined[there] {
			return nil, duplicateKey(name, line, col)
		}
		item := tree.NewObject(line, col)
		there.Items = append(there.Items, item)
		return item, nil
	}
	if there == nil {
		there = tree.NewObject(line, col)
		in.Put(name, there)
	}
	if !there.Is(tree.Object) || r.defined[there] {
		return nil, duplicateKey(name, line, col)
	}
	r.defined[there] = true
	return there, nil
}

// pair reads key = value.
func (r *reader) pair(table *tree.Node, e *unstable.Node, depth int) *tree.Error {
	in, name, line, col, err := r.into(table, e.Key())
	if err != nil {
		return err
	}
	if in.Members[name] != nil {
		return duplicateKey(name, line, col)
	}
	value, err := r.value(e.Value(), &tree.Node{Line: line, Col: col}, depth)
	if err == nil {
		in.Put(name, value)
	}
	return err
}

func (r *reader) value(e *unstable.Node, key *tree.Node, depth int) (*tree.Node, *tree.Error) {
	line, col := r.where(e, key)
	n := &tree.Node{Line: line, Col: col}
	if depth > tree.MaxDepth {
		return nil, &tree.Error{Line: line, Col: col, Msg: fmt.Sprintf("its values are nested deeper than %d", tree.MaxDepth)}
	}
	text := string(e.Data)
	switch e.Kind {
	case unstable.Array:
		n.Kind = tree.List
		for it := e.Children(); it.Next(); {
			item, err := r.value(it.Node(), n, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
	case unstable.InlineTable:
		n = tree.NewObject(line, col)
		r.defined[n] = true
		for it := e.Children(); it.Next(); {
			if err := r.pair(n, it.Node(), depth+1); err != nil {
				return nil, err
			}
		}
	case unstable.Bool:
		n.Kind, n.Raw = tree.Bool, json.RawMessage(text)
	case unstable.Integer:
		i, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return nil, &tree.Error{Line: line, Col: col, Msg: fmt.Sprintf("is not TOML: %s does not fit into a 64-bit integer", text)}
		}
		n.Kind, n.Raw = tree.Number, strconv.AppendInt(nil, i, 10)
	case unstable.Float:
		f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
		n.Kind, n.Raw = tree.Number, json.RawMessage(text)
		if err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			n.Raw = strconv.AppendFloat(nil, f, 'g', -1, 64)
		}
	case unstable.String:
		n.Kind, n.Text = tree.Text, text
		n.Raw, _ = json.Marshal(text) // marshaling a text cannot fail
	default: // a date, which no hook uses
		n.Kind, n.Raw = tree.Number, json.RawMessage(text)
	}
	return n, nil
}
