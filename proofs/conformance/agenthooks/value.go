package agenthooks

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// tree decodes JSON and keeps numbers as text.
func tree(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// plain returns the value as it looks after a round trip through JSON.
func plain(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	out, err := tree(raw)
	if err != nil {
		return err.Error()
	}
	return out
}

// literal reverts the escapes of U+2028 and U+2029, which encoding/json writes even without
// HTML escaping. It skips pairs of backslashes, because those are not part of such an escape.
var literal = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")

// compact writes JSON without white space and with only the required escapes.
func compact(v any) string {
	raw, err := rawjson.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return literal.Replace(string(raw))
}

// equal compares whole values. Types must match, objects must be complete with members in any
// order, and integers are compared exactly.
func equal(want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, is := got.(map[string]any)
		return is && maps.EqualFunc(want, got, equal)
	case []any:
		got, is := got.([]any)
		return is && slices.EqualFunc(want, got, equal)
	case json.Number:
		got, is := got.(json.Number)
		return is && (want == got || sameFloat(want, got))
	default:
		return want == got
	}
}

// sameFloat compares two numbers as float64. It returns false if one of them is an integer.
func sameFloat(a, b json.Number) bool {
	if !strings.ContainsAny(string(a), ".eE") || !strings.ContainsAny(string(b), ".eE") {
		return false
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

// equalRaw compares a value with the vector's JSON.
func equalRaw(want json.RawMessage, got any) bool {
	w, err := tree(want)
	return err == nil && equal(w, got)
}

var pathStep = regexp.MustCompile(`^(?:\.?([^.\[\]]+)|\[([0-9]+)\])`)

// steps splits a path in the notation of vectors, such as a.b[0].c.
func steps(path string) (steps []any, ok bool) {
	for path != "" {
		m := pathStep.FindStringSubmatch(path)
		if m == nil {
			return nil, false
		}
		path = path[len(m[0]):]
		if m[2] == "" {
			steps = append(steps, m[1])
			continue
		}
		i, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, false
		}
		steps = append(steps, i)
	}
	return steps, true
}

// find returns the value at a path, and whether the path exists. A null value exists.
func find(v any, path string) (any, bool) {
	way, ok := steps(path)
	if !ok {
		return nil, false
	}
	for _, s := range way {
		switch s := s.(type) {
		case string:
			object, is := v.(map[string]any)
			inner, has := object[s]
			if !is || !has {
				return nil, false
			}
			v = inner
		case int:
			list, is := v.([]any)
			if !is || s >= len(list) {
				return nil, false
			}
			v = list[s]
		}
	}
	return v, true
}

// store sets the value at a path. The path must exist, as reported by find.
func store(root any, path string, value any) any {
	way, ok := steps(path)
	if !ok || len(way) == 0 {
		return value
	}
	v := root
	for i, s := range way {
		last := i == len(way)-1
		switch s := s.(type) {
		case string:
			object, _ := v.(map[string]any)
			if last {
				object[s] = value
			}
			v = object[s]
		case int:
			list, _ := v.([]any)
			if last {
				list[s] = value
			}
			v = list[s]
		}
	}
	return root
}

// matches reports whether every path in match exists and has the given value.
func matches(v any, match map[string]json.RawMessage) bool {
	for path, want := range match {
		got, has := find(v, path)
		if !has || !equalRaw(want, got) {
			return false
		}
	}
	return true
}
