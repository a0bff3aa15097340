package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// readTOML reads a TOML file into the nodes of a JSON one. What JSON has no word for
// is a number that has no value.
func readTOML(data []byte) (*jsonNode, *Error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	r := tomlReader{cursor: cursor{data: data, line: 1, col: 1}, defined: map[*jsonNode]bool{}}
	r.parser.Reset(data)
	root := newTable(1, 1)
	table := root
	for r.parser.NextExpression() {
		var err *Error
		if e := r.parser.Expression(); e.Kind == unstable.KeyValue {
			err = r.pair(table, e, 0)
		} else { // comments are not kept
			table, err = r.header(root, e)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.parser.Error(); err != nil {
		at := &Error{Line: 1, Col: 1, Msg: "is not TOML: " + err.Error()}
		if wrong, ok := errors.AsType[*unstable.ParserError](err); ok {
			at.Msg = "is not TOML: " + wrong.Message
			r.goTo(int(r.parser.Range(wrong.Highlight).Offset))
			at.Line, at.Col = r.line, r.col
		}
		return nil, at
	}
	return root, nil
}

type tomlReader struct {
	parser unstable.Parser
	cursor
	defined map[*jsonNode]bool // tables that a header, or a value, has already made
}

func newTable(line, col int) *jsonNode {
	return &jsonNode{kind: jsonObject, line: line, col: col, members: map[string]*jsonNode{}}
}

func (n *jsonNode) put(name string, value *jsonNode) {
	n.names = append(n.names, name)
	n.members[name] = value
}

// where is where a node stands, or where the one before it does.
func (r *tomlReader) where(n *unstable.Node, or *jsonNode) (line, col int) {
	if n.Raw.Length == 0 {
		return or.line, or.col
	}
	r.goTo(int(n.Raw.Offset))
	return r.line, r.col
}

func twice(key string, line, col int) *Error {
	return &Error{Line: line, Col: col, Msg: fmt.Sprintf("is not TOML: %q stands twice", key)}
}

// into goes down a dotted key from a table, and makes the tables that are missing. It
// returns the last part, which it does not follow.
func (r *tomlReader) into(table *jsonNode, key unstable.Iterator) (in *jsonNode, last string, line, col int, err *Error) {
	for key.Next() {
		line, col = r.where(key.Node(), table)
		last = string(key.Node().Data)
		if key.IsLast() {
			break
		}
		next := table.members[last]
		switch {
		case next == nil:
			next = newTable(line, col)
			table.put(last, next)
		case next.is(jsonList) && len(next.items) > 0 && r.defined[next]:
			next = next.items[len(next.items)-1]
		}
		if !next.is(jsonObject) {
			return nil, "", 0, 0, twice(last, line, col)
		}
		table = next
	}
	return table, last, line, col, nil
}

// header finds or makes the table that the lines behind a header are about.
func (r *tomlReader) header(root *jsonNode, e *unstable.Node) (*jsonNode, *Error) {
	in, name, line, col, err := r.into(root, e.Key())
	if err != nil {
		return nil, err
	}
	there := in.members[name]
	if e.Kind == unstable.ArrayTable {
		if there == nil {
			there = &jsonNode{kind: jsonList, line: line, col: col}
			r.defined[there] = true
			in.put(name, there)
		}
		if !there.is(jsonList) || !r.defined[there] {
			return nil, twice(name, line, col)
		}
		item := newTable(line, col)
		there.items = append(there.items, item)
		return item, nil
	}
	if there == nil {
		there = newTable(line, col)
		in.put(name, there)
	}
	if !there.is(jsonObject) || r.defined[there] {
		return nil, twice(name, line, col)
	}
	r.defined[there] = true
	return there, nil
}

// pair reads key = value.
func (r *tomlReader) pair(table *jsonNode, e *unstable.Node, depth int) *Error {
	in, name, line, col, err := r.into(table, e.Key())
	if err != nil {
		return err
	}
	if in.members[name] != nil {
		return twice(name, line, col)
	}
	value, err := r.value(e.Value(), &jsonNode{line: line, col: col}, depth)
	if err == nil {
		in.put(name, value)
	}
	return err
}

func (r *tomlReader) value(e *unstable.Node, key *jsonNode, depth int) (*jsonNode, *Error) {
	line, col := r.where(e, key)
	n := &jsonNode{line: line, col: col}
	if depth > maxJSONDepth {
		return nil, &Error{Line: line, Col: col, Msg: fmt.Sprintf("its values are nested deeper than %d", maxJSONDepth)}
	}
	text := string(e.Data)
	switch e.Kind {
	case unstable.Array:
		n.kind = jsonList
		for it := e.Children(); it.Next(); {
			item, err := r.value(it.Node(), n, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case unstable.InlineTable:
		n = newTable(line, col)
		r.defined[n] = true
		for it := e.Children(); it.Next(); {
			if err := r.pair(n, it.Node(), depth+1); err != nil {
				return nil, err
			}
		}
	case unstable.Bool:
		n.kind, n.raw = jsonBool, json.RawMessage(text)
	case unstable.Integer:
		i, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return nil, &Error{Line: line, Col: col, Msg: fmt.Sprintf("is not TOML: %s is no integer of 64 bits", text)}
		}
		n.kind, n.raw = jsonNumber, strconv.AppendInt(nil, i, 10)
	case unstable.Float:
		f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
		n.kind, n.raw = jsonNumber, json.RawMessage(text)
		if err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			n.raw = strconv.AppendFloat(nil, f, 'g', -1, 64)
		}
	case unstable.String:
		n.kind, n.text = jsonText, text
		n.raw, _ = json.Marshal(text) // texts can be written
	default: // a date, which no hook has
		n.kind, n.raw = jsonNumber, json.RawMessage(text)
	}
	return n, nil
}
