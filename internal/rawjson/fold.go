package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// A Key is a key of an object. Depth is the number of objects and arrays around it.
type Key struct {
	Name  string
	Depth int
}

// Fold returns a JSON value whose keys have the spelling that a Go program reads: encoding/json
// ignores letter case, so in an object for a struct, "Command" is "command". A key that differs
// from one of the given keys of the same depth only in letter case gets its name. The other bytes
// stay.
//
// Two keys of one object that differ only in letter case are an error, and so is a key twice: the
// last one usually wins, but null does not replace a text, and two objects are merged.
//
// raw must be valid JSON. If no key changes, Fold returns raw.
func Fold(raw json.RawMessage, names []Key) (json.RawMessage, error) {
	var (
		out  []byte
		done int
		// Keys of the open objects, folded, and the index of the first key of each open object or
		// array. The arrays keep small inputs off the heap.
		keys  [][]byte
		open  []int
		keys0 [8][]byte
		open0 [4]int
	)
	keys, open = keys0[:0], open0[:0]
	known := index(names)
	for t := range Tokens(raw) {
		switch t.Kind {
		case '{', '[':
			open = append(open, len(keys))
		case '}', ']':
			if len(open) == 0 {
				continue // not valid JSON
			}
			first := open[len(open)-1]
			if key := twice(keys[first:]); key != nil {
				return nil, fmt.Errorf("it has the key %q twice, or in two letter cases, and a Go program could use either value", key)
			}
			keys, open = keys[:first], open[:len(open)-1]
		case ':':
			folded, plain := foldKey(raw[t.Begin:t.End])
			keys = append(keys, folded)
			name := ""
			if known == nil {
				name = spelling(raw[t.Begin+1:t.End-1], folded, plain, names, len(open))
			} else {
				name = known.spelling(string(raw[t.Begin+1:t.End-1]), string(folded), plain, len(open))
			}
			if name != "" {
				out = append(append(out, raw[done:t.Begin]...), Quote(name)...)
				done = t.End
			}
		}
	}
	if done == 0 {
		return raw, nil
	}
	return append(out, raw[done:]...), nil
}

// Keys returns the keys of a JSON value at any depth. It needs valid JSON.
func Keys(raw json.RawMessage) (keys []Key) {
	depth := 0
	for t := range Tokens(raw) {
		switch t.Kind {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			if key, ok := Unquote(raw[t.Begin:t.End]); ok {
				keys = append(keys, Key{key, depth})
			}
		}
	}
	return keys
}

// spelling returns the name that replaces a key, or "" if the key stays.
func spelling(key, folded []byte, plain bool, names []Key, depth int) (found string) {
	for i := range names {
		switch name := names[i].Name; {
		case plain && len(name) != len(key), names[i].Depth != depth:
		case string(key) == name:
			return ""
		case found == "" && equalFolded(folded, name):
			found = name
		}
	}
	return found
}

// manyNames finds spellings by maps, because a model can choose the number of names.
type manyNames struct {
	exact  map[Key]bool
	folded map[Key]string // the first name with this folded form
	ascii  map[Key]string // the first one that is as long
}

// index returns nil for few names, for which spelling is faster.
func index(names []Key) *manyNames {
	const few = 64
	if len(names) <= few {
		return nil
	}
	m := &manyNames{map[Key]bool{}, map[Key]string{}, map[Key]string{}}
	for _, k := range names {
		m.exact[k] = true
		folded := Key{string(appendFolded(nil, k.Name)), k.Depth}
		if m.folded[folded] == "" {
			m.folded[folded] = k.Name
		}
		if m.ascii[folded] == "" && len(k.Name) == len(folded.Name) {
			m.ascii[folded] = k.Name
		}
	}
	return m
}

// spelling is like the function spelling.
func (m *manyNames) spelling(key, folded string, plain bool, depth int) string {
	switch at := (Key{folded, depth}); {
	case m.exact[Key{key, depth}]:
		return ""
	case plain:
		return m.ascii[at]
	default:
		return m.folded[at]
	}
}

// equalFolded reports whether folded is the folded form of a name.
func equalFolded(folded []byte, name string) bool {
	if !isASCII(name) {
		return bytes.Equal(folded, appendFolded(nil, name))
	}
	if len(folded) != len(name) {
		return false
	}
	for i := range len(name) {
		if lower(name[i]) != folded[i] {
			return false
		}
	}
	return true
}

// foldKey returns the folded form of a quoted key: equal for two keys exactly if encoding/json
// takes both for the same field. For a plain key, ASCII in lower case, it is the key itself.
func foldKey(quoted []byte) (folded []byte, plain bool) {
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c >= utf8.RuneSelf || c == '\\' || 'A' <= c && c <= 'Z' {
			key, _ := Unquote(quoted) // valid JSON
			return appendFolded(make([]byte, 0, len(key)), key), false
		}
	}
	return inner, true
}

func appendFolded(out []byte, key string) []byte {
	for _, r := range key {
		if r >= utf8.RuneSelf {
			// The smallest rune of those that differ only in letter case: U+212A is K.
			for next := unicode.SimpleFold(r); ; next = unicode.SimpleFold(next) {
				if next <= r {
					r = next
					break
				}
				r = next
			}
		}
		if r < utf8.RuneSelf {
			out = append(out, lower(byte(r)))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func isASCII[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// twice returns a key that occurs twice, or nil.
func twice(keys [][]byte) []byte {
	const few = 16
	if len(keys) > few { // an attacker chooses the number
		keys = slices.Clone(keys)
		slices.SortFunc(keys, bytes.Compare)
		for i := 1; i < len(keys); i++ {
			if bytes.Equal(keys[i-1], keys[i]) {
				return keys[i]
			}
		}
		return nil
	}
	for i, key := range keys {
		for _, other := range keys[:i] {
			if bytes.Equal(key, other) {
				return key
			}
		}
	}
	return nil
}
