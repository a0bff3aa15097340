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

// Sorted writes JSON without white space, the keys of each object in the order of
// their bytes, numbers as they are spelt, and only what must be escaped escaped.
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

// appendSorted recurses as deep as the decoder has, which is bounded.
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

// AppendQuoted writes a JSON string. encoding/json would escape the line separators
// U+2028 and U+2029 too, and a rule would not find them.
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
