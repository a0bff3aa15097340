package agenthooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Values are trees as in encoding/json, with numbers in their original text: nil, bool, string,
// json.Number, []any, map[string]any. Trees are immutable and may share parts; a change copies
// the path to the changed value.

// maxDepth and maxSize limit a context: levels of nesting, and bytes of JSON. Larger contexts are
// refused, never cut.
const (
	maxDepth = 128
	maxSize  = 5 << 20
)

// unfit is the error of a value that cannot be judged. It contains the place and the violated
// rule, never the value.
type unfit struct {
	path string
	rule string
}

func (u *unfit) Error() string {
	if len(u.path) > maxPath { // member names come from the model
		return cutText(u.path, maxPath) + ": " + u.rule
	}
	if u.path == "" {
		return u.rule
	}
	return u.path + ": " + u.rule
}

const maxPath = 120

// parse parses one JSON value. path is its place, for errors.
//
// It refuses input that JSON parsers read differently, because the tool must get the same value
// that the interceptors judged: duplicate members, unpaired surrogates, and bytes that are not
// UTF-8, which encoding/json would replace.
func parse(raw []byte, path string) (any, error) {
	if len(raw) > maxSize {
		return nil, &unfit{path, fmt.Sprintf("longer than %d bytes", maxSize)}
	}
	if !json.Valid(raw) { // json.Decoder does not detect all errors between tokens
		return nil, &unfit{path, "not valid JSON"}
	}
	p := parser{raw: raw, in: json.NewDecoder(bytes.NewReader(raw))}
	p.in.UseNumber()
	return p.value(path, 1)
}

// parser parses a value token by token and checks the bytes of each token.
type parser struct {
	raw []byte
	in  *json.Decoder
}

func (p *parser) token(path string) (json.Token, error) {
	begin := p.in.InputOffset()
	token, err := p.in.Token()
	if err != nil {
		return nil, &unfit{path, "not valid JSON"}
	}
	if _, is := token.(string); is && !faithful(p.raw[begin:p.in.InputOffset()]) {
		return nil, &unfit{path, "not valid Unicode"}
	}
	return token, nil
}

func (p *parser) value(path string, depth int) (any, error) {
	token, err := p.token(path)
	if err != nil {
		return nil, err
	}
	open, is := token.(json.Delim)
	if !is {
		return token, nil
	}
	if depth > maxDepth {
		return nil, &unfit{path, fmt.Sprintf("nested deeper than %d levels", maxDepth)}
	}
	object, list := map[string]any{}, []any{}
	for p.in.More() {
		if open == '[' {
			v, err := p.value(element(path, len(list)), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			continue
		}
		token, err := p.token(path)
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		at := member(path, name)
		if _, again := object[name]; again {
			return nil, &unfit{at, "there twice"}
		}
		if object[name], err = p.value(at, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := p.in.Token(); err != nil && !errors.Is(err, io.EOF) { // the closing bracket
		return nil, &unfit{path, "not valid JSON"}
	}
	if open == '{' {
		return object, nil
	}
	return list, nil
}

func member(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// faithful reports whether a JSON string decodes without loss: it is valid UTF-8, and each
// escaped surrogate has its pair.
func faithful(raw []byte) bool {
	if !utf8.Valid(raw) {
		return false
	}
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return true
		}
		raw = raw[i:]
		unit, is := escapedUnit(raw)
		switch {
		case !is:
			raw = raw[2:]
			continue
		case unit < 0xD800 || unit > 0xDFFF:
			raw = raw[6:]
			continue
		}
		low, is := escapedUnit(raw[6:])
		if unit > 0xDBFF || !is || low < 0xDC00 || low > 0xDFFF {
			return false
		}
		raw = raw[12:]
	}
}

// escapedUnit parses a \uXXXX escape.
func escapedUnit(raw []byte) (uint64, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return unit, err == nil
}

// depthOf returns the number of nesting levels of a value; a number has 0.
func depthOf(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, depthOf(inner))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, depthOf(inner))
		}
	default:
		return 0
	}
	return deepest + 1
}

// cutText cuts a text to at most limit bytes, and adds a mark.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return rawjson.Cut(s, limit) + "…"
}
