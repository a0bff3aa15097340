package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Sorted returns JSON without white space. The keys of each object are sorted by bytes, numbers
// keep their spelling, and only characters that must be escaped are escaped.
func Sorted(raw []byte) (string, error) {
	text, err := sorted(raw)
	return string(text), err
}

func sorted(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	err := dec.Decode(&value)
	if err == nil && SkipSpace(raw, int(dec.InputOffset())) < len(raw) {
		err = errors.New("more text follows the value")
	}
	if err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	return AppendSorted(make([]byte, 0, len(raw)), value), nil
}

// AppendSorted appends a value that encoding/json decoded, with numbers as json.Number, in the form
// of [Sorted]. It recurses as deep as the value is nested, which the decoder limits.
func AppendSorted(b []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		keys := slices.AppendSeq(make([]string, 0, len(v)), maps.Keys(v))
		slices.Sort(keys)
		b = append(b, '{')
		for i, key := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendSorted(append(AppendQuoted(b, key), ':'), v[key])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendSorted(b, item)
		}
		return append(b, ']')
	case string:
		return AppendQuoted(b, v)
	case json.Number:
		return append(b, v...)
	default: // true, false, null
		word, _ := json.Marshal(v)
		return append(b, word...)
	}
}

// AppendQuoted appends s as a JSON string. encoding/json would also escape the line separators
// U+2028 and U+2029, and a rule would not find them. Bytes that are not UTF-8 become U+FFFD.
func AppendQuoted(b []byte, s string) []byte {
	const special = "\b\f\n\r\t\"\\"
	b = append(b, '"')
	done := 0
	for i, r := range s {
		if r >= ' ' && r != '"' && r != '\\' && r != utf8.RuneError {
			continue
		}
		b = append(b, s[done:i]...)
		done = i + 1
		switch at := strings.IndexRune(special, r); {
		case at >= 0:
			b = append(b, '\\', `bfnrt"\`[at])
		case r < ' ':
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			_, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			done = i + size
		}
	}
	return append(append(b, s[done:]...), '"')
}
