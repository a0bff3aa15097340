package agenthooks

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Canonical encodes a JSON value by the JSON Canonicalization Scheme (RFC 8785): without white
// space, members sorted by the UTF-16 code units of their names, and numbers as in ECMAScript.
// The error names the place of a value without a canonical form, such as 1e999 or an unpaired
// surrogate.
func Canonical(raw json.RawMessage) ([]byte, error) {
	v, err := parse(raw, "")
	if err != nil {
		return nil, err
	}
	return appendCanonical(nil, v, "")
}

func appendCanonical(b []byte, v any, path string) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return nil, &unfit{path, "not valid Unicode"}
		}
		return rawjson.AppendQuoted(b, v), nil
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return nil, &unfit{path, "a number that is not finite"}
		}
		return appendNumber(b, f), nil
	case []any:
		b = append(b, '[')
		for i, inner := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, inner, element(path, i)); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		b = append(b, '{')
		for i, name := range slices.SortedFunc(maps.Keys(v), byUnits) {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, name, path); err != nil {
				return nil, err
			}
			b = append(b, ':')
			if b, err = appendCanonical(b, v[name], member(path, name)); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	default:
		return rawjson.AppendSorted(b, v), nil
	}
}

// appendNumber formats a number like ECMAScript's Number.prototype.toString.
func appendNumber(b []byte, f float64) []byte {
	if f == 0 {
		return append(b, '0') // also for -0
	}
	if size := math.Abs(f); size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); b[n-2] == '0' && (b[n-3] == '-' || b[n-3] == '+') { // e-07 becomes e-7
		b = append(b[:n-2], b[n-1])
	}
	return b
}

// byUnits compares names by their UTF-16 code units. The byte order differs, because U+10000 and
// above are encoded as surrogates, which sort before U+E000.
func byUnits(x, y string) int {
	for {
		if x == "" || y == "" {
			return len(x) - len(y)
		}
		a, sizeA := utf8.DecodeRuneInString(x)
		b, sizeB := utf8.DecodeRuneInString(y)
		if a != b {
			if a >= 0x10000 && b >= 0x10000 {
				return int(a - b)
			}
			return int(firstUnit(a) - firstUnit(b))
		}
		x, y = x[sizeA:], y[sizeB:]
	}
}

func firstUnit(r rune) rune {
	if r >= 0x10000 {
		return 0xD800 + (r-0x10000)>>10
	}
	return r
}

// maxInteger is the largest integer that every JSON parser preserves.
const maxInteger = 1<<53 - 1

// exactIntegers refuses integers that change if a parser converts them to float64, because two
// different IDs could then have the same identity. 9007199254740993.0 and 1e21 are floats and are
// accepted.
func exactIntegers(v any, path string) error {
	switch v := v.(type) {
	case json.Number:
		if !exact(string(v)) {
			return &unfit{path, "an integer beyond ±9007199254740991"}
		}
	case []any:
		for i, inner := range v {
			if err := exactIntegers(inner, element(path, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := exactIntegers(v[name], member(path, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func exact(number string) bool {
	for _, c := range number {
		if c == '.' || c == 'e' || c == 'E' {
			return true
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return err == nil && n <= maxInteger && n >= -maxInteger
}
