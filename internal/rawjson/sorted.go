package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Sorted returns JSON without white space. The keys of each object are sorted by bytes, numbers
// keep their spelling, and only characters that must be escaped are escaped.
func Sorted(raw []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	err := dec.Decode(&value)
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return string(appendSorted(nil, value)), nil
		}
	}
	return "", fmt.Errorf("the input is not JSON: %w", err)
}

// appendSorted recurses as deep as the value is nested, which the decoder limits.
func appendSorted(b []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSorted(append(AppendQuoted(b, key), ':'), v[key])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSorted(b, item)
		}
		return append(b, ']')
	case string:
		return AppendQuoted(b, v)
	default: // a number, true, false, null
		word, _ := json.Marshal(v)
		return append(b, word...)
	}
}

// AppendQuoted appends s as a JSON string. encoding/json would also escape the line separators
// U+2028 and U+2029, and a rule would not find them.
func AppendQuoted(b []byte, s string) []byte {
	const special = "\b\f\n\r\t\"\\"
	b = append(b, '"')
	for _, r := range s {
		switch i := strings.IndexRune(special, r); {
		case i >= 0:
			b = append(b, '\\', `bfnrt"\`[i])
		case r < ' ':
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}
