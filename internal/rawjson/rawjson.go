// Package rawjson reads and writes JSON of agents and policies without changing its text: it does
// not escape HTML characters, so that a rule matches the text that the agent sent. No other package
// looks for the ends of strings and values by itself:
//
//	rawjson.Members(input, func(m rawjson.Member) { ... }) // split an object or array
//	rawjson.Marshal(v)                                     // write a value
//
// Input that arrives in parts is not its job; see cmd/internal/hookcmd.
package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Marshal returns v as JSON on one line, without a newline at the end.
func Marshal(v any) (json.RawMessage, error) {
	line, err := Line(v)
	if err != nil {
		return nil, err
	}
	return line[:len(line)-1], nil
}

// Line returns v as JSON on one line that ends with a newline.
func Line(v any) ([]byte, error) { return lines(v, "") }

// Lines returns v as JSON for people: each member is on its own line, indented by two spaces for
// each level. The text ends with a newline.
func Lines(v any) ([]byte, error) { return lines(v, "  ") }

func lines(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// OrNull is like [Marshal], but returns null for a value that cannot be JSON.
func OrNull(v any) json.RawMessage {
	raw, err := Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// Must is like [Marshal], but panics for a value that cannot be JSON.
func Must(v any) json.RawMessage {
	raw, err := Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("cannot write %T as JSON: %v", v, err))
	}
	return raw
}

// Quote returns text as a JSON string.
func Quote(text string) json.RawMessage {
	return Must(text)
}

// QuoteSome returns text as a JSON string, or nil for an empty text.
func QuoteSome(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return Quote(text)
}

// Equal compares JSON values and ignores key order and white space. Numbers are compared as
// written: 1 and 1.0 are different inputs to a tool. Of duplicate keys the last one applies. Text
// that is not JSON equals only itself.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := sorted(a)
	y, errY := sorted(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Unquote decodes a JSON string that has no white space around it. It takes one pass, while
// encoding/json would read each byte of a large file three times. Like encoding/json, it replaces
// invalid UTF-8 and half a surrogate pair by U+FFFD. It returns false if raw is not a valid string.
func Unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && bytes.IndexByte(inner, '"') < 0 && utf8.Valid(inner) && !hasControl(inner) {
		return string(inner), true
	}
	var b strings.Builder
	b.Grow(len(inner))
	for len(inner) > 0 {
		plain := 0
		for plain < len(inner) && inner[plain] >= ' ' && inner[plain] < utf8.RuneSelf && inner[plain] != '\\' && inner[plain] != '"' {
			plain++
		}
		b.Write(inner[:plain])
		inner = inner[plain:]
		switch {
		case len(inner) == 0:
		case inner[0] >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(inner)
			b.WriteRune(r)
			inner = inner[size:]
		default:
			r, size := Unescape(inner)
			if size == 0 {
				return "", false // a quote, a control character, or an invalid escape
			}
			b.WriteRune(r)
			inner = inner[size:]
		}
	}
	return b.String(), true
}

// Unescape decodes the escape at the beginning of b. A size of 0 means that it is not valid.
func Unescape(b []byte) (r rune, size int) {
	if len(b) < 2 || b[0] != '\\' {
		return 0, 0
	}
	if b[1] == 'u' {
		return unescapeRune(b)
	}
	if c := unescapeByte(b[1]); c != 0 {
		return rune(c), 2
	}
	return 0, 0
}

// unescapeByte decodes a one-letter escape; 0 = invalid.
func unescapeByte(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

func hasControl(b []byte) bool {
	return slices.ContainsFunc(b, func(c byte) bool { return c < ' ' })
}

// unescapeRune decodes \uXXXX, or two of them that form a surrogate pair. A size of 0 means that b
// starts with neither.
func unescapeRune(b []byte) (r rune, size int) {
	unit := func(b []byte) (rune, bool) {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0, false
		}
		v, err := strconv.ParseUint(string(b[2:6]), 16, 16)
		return rune(v), err == nil
	}
	first, ok := unit(b)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(first) {
		if second, ok := unit(b[6:]); ok {
			if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return first, 6
}

// Cut returns the beginning of a text: at most limit bytes, cut between characters.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(limit, 0)]
}
