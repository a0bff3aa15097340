package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A visitor is called with each value of a JSON text, from the outside in, with the path to it. It
// returns the new value. done means that nested values are not visited; done with a nil value
// removes the value. For an object or array that it wants to visit, it must return the value that
// it got.
type visitor func(path []string, raw json.RawMessage) (now json.RawMessage, done bool, err error)

// A renamer is called with the path of a member, which ends with the member's name. It returns the
// name to write, and the name to use in the paths of nested values.
type renamer func(path []string) (written, known string, err error)

// walkJSON calls visit for each value of a JSON text. Unchanged parts keep their order and the text
// of numbers.
func walkJSON(raw json.RawMessage, visit visitor) (json.RawMessage, error) {
	return walkNamed(raw, visit, nil)
}

// walkNamed is walkJSON that also calls rename for member names; nil = keep the names. Its running
// time is linear in the size of the text, regardless of the nesting depth.
func walkNamed(raw json.RawMessage, visit visitor, rename renamer) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return raw, nil
	}
	if !json.Valid(raw) {
		return nil, errors.New("not valid JSON")
	}
	w := walker{raw: raw, visit: visit, rename: rename, out: make([]byte, 0, len(raw))}
	w.measure()
	kept, err := w.value(0, len(raw), nil)
	switch {
	case err != nil:
		return nil, err
	case !kept:
		return nil, nil
	}
	return w.out, nil
}

// A walker copies valid JSON.
type walker struct {
	raw    []byte
	visit  visitor
	rename renamer
	out    []byte

	begins, ends []int // offsets of the objects and arrays, in the order of their begin
	at           int   // index in begins
}

// measure records where each object and array ends.
func (w *walker) measure() {
	var open []int
	for t := range rawjson.Tokens(w.raw) {
		switch t.Kind {
		case '{', '[':
			open = append(open, len(w.begins))
			w.begins, w.ends = append(w.begins, t.Begin), append(w.ends, 0)
		case '}', ']':
			w.ends[open[len(open)-1]] = t.End
			open = open[:len(open)-1]
		}
	}
}

// end returns the index after the value that begins at i.
func (w *walker) end(i int) int {
	if w.raw[i] != '{' && w.raw[i] != '[' {
		return rawjson.SkipValue(w.raw, i)
	}
	for w.begins[w.at] < i { // skip those that were not visited
		w.at++
	}
	return w.ends[w.at]
}

// value copies the value between two indexes, and reports whether it was kept.
func (w *walker) value(i, end int, path []string) (kept bool, err error) {
	if len(path) > MaxDepth {
		return false, fmt.Errorf("nested deeper than %d", MaxDepth)
	}
	raw := w.raw[i:end]
	now, done, err := w.visit(path, raw)
	switch {
	case err != nil:
		return false, err
	case done && now == nil:
		return false, nil
	case done || raw[0] != '{' && raw[0] != '[':
		w.out = append(w.out, now...)
		return true, nil
	}
	return true, w.inside(i, path)
}

// inside copies an object or array.
func (w *walker) inside(i int, path []string) (err error) {
	w.out = append(w.out, w.raw[i])
	first := true
	path = append(slices.Clip(path), "")
	last, n := len(path)-1, 0
	end := rawjson.Inside(w.raw, i, func(name []byte, begin int) int {
		before := len(w.out)
		if !first {
			w.out = append(w.out, ',')
		}
		path[last] = strconv.Itoa(n)
		n++
		if name != nil {
			if name, err = w.name(name, path); err != nil {
				return -1
			}
			w.out = append(append(w.out, name...), ':')
		}
		end := w.end(begin)
		var kept bool
		if kept, err = w.value(begin, end, path); err != nil {
			return -1
		}
		if kept {
			first = false
		} else {
			w.out = w.out[:before]
		}
		return end
	})
	if err != nil {
		return err
	}
	w.out = append(w.out, w.raw[end-1])
	return nil
}

// name sets the last element of path to the name of a member, and returns the name to write.
func (w *walker) name(raw []byte, path []string) ([]byte, error) {
	last := len(path) - 1
	name, _ := rawjson.Unquote(raw)
	path[last] = name
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = rawjson.AppendQuoted(nil, name)
	}
	if w.rename == nil {
		return raw, nil
	}
	written, known, err := w.rename(path)
	if err != nil {
		return nil, err
	}
	path[last] = known
	if written == name {
		return raw, nil
	}
	return rawjson.AppendQuoted(nil, written), nil
}
