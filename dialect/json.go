package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Agent payloads are split, not decoded. encoding/json folds the case of keys when it fills a
// struct, and merges an object that occurs twice. Here keys match exactly, and of duplicate keys
// the last one is used, as in the parsers of the agents. A guard that saw another tool_name than
// the agent runs could be bypassed.

// topLevel splits the payload's object. The values share the payload's memory.
func topLevel(payload []byte) (map[string]json.RawMessage, error) {
	payload = trim(payload)
	switch {
	case len(payload) == 0:
		return nil, errors.New("the payload is empty")
	case payload[0] != '{':
		return nil, errors.New("the payload is not a JSON object")
	}
	if members, ok := splitValid(payload); ok {
		return members, nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(payload, &raw) // returns the syntax error
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, fmt.Errorf("the payload is not valid JSON at byte %d: %w", syntax.Offset, err)
	}
	return nil, fmt.Errorf("the payload is not valid JSON: %w", err)
}

// maxNesting is the nesting limit of encoding/json.
const maxNesting = 10_000

// splitValid returns the members of an object if it is valid JSON to its end by the rules of
// json.Valid. It needs one pass: most of a large payload is the content of a file, and json.Valid
// alone would take longer than all other work on it.
func splitValid(raw []byte) (members map[string]json.RawMessage, ok bool) {
	s := validScan{raw: raw, members: make(map[string]json.RawMessage, 16)}
	for i := 0; i >= 0 && i < len(raw); {
		if len(s.open) == 1 {
			s.begin = i
		}
		if c := raw[i]; c == '{' || c == '[' {
			if len(s.open) == maxNesting {
				return nil, false
			}
			s.open = append(s.open, c+2) // in ASCII, the closing bracket is two after the opening one
			if i = rawjson.SkipSpace(raw, i+1); i == len(raw) || raw[i] != c+2 {
				if c == '{' {
					i = s.key(i)
				}
				continue
			}
		} else {
			if i = validScalar(raw, i); i < 0 {
				return nil, false
			}
			s.end(i)
		}
		if i = s.close(i); len(s.open) == 0 {
			return s.members, i == len(raw)
		}
		if i == len(raw) || raw[i] != ',' {
			return nil, false
		}
		if i = rawjson.SkipSpace(raw, i+1); s.open[len(s.open)-1] == '}' {
			i = s.key(i)
		}
	}
	return nil, false
}

// A validScan is the state of splitValid.
type validScan struct {
	raw     []byte
	members map[string]json.RawMessage
	open    []byte // closing brackets of the open objects and arrays
	name    string // of the current member
	begin   int    // start of its value
}

// key reads the key at i and returns the start of its value, or -1.
func (s *validScan) key(i int) int {
	end := validString(s.raw, i)
	if end < 0 {
		return -1
	}
	if len(s.open) == 1 {
		s.name, _ = rawjson.Unquote(s.raw[i:end])
	}
	if i = rawjson.SkipSpace(s.raw, end); i == len(s.raw) || s.raw[i] != ':' {
		return -1
	}
	return rawjson.SkipSpace(s.raw, i+1)
}

// end stores the current member if its value ends before i at the top level.
func (s *validScan) end(i int) {
	if len(s.open) == 1 {
		s.members[s.name] = s.raw[s.begin:i:i]
	}
}

// close skips the ends of objects and arrays at i, and white space. It returns the next index.
func (s *validScan) close(i int) int {
	for i = rawjson.SkipSpace(s.raw, i); i < len(s.raw) && len(s.open) > 0 && s.raw[i] == s.open[len(s.open)-1]; i = rawjson.SkipSpace(s.raw, i) {
		i++
		s.open = s.open[:len(s.open)-1]
		s.end(i)
	}
	return i
}

// validScalar returns the index after the valid string, number or literal at i, or -1.
func validScalar(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return validString(raw, i)
	case 't':
		return validWord(raw, i, "true")
	case 'f':
		return validWord(raw, i, "false")
	case 'n':
		return validWord(raw, i, "null")
	case '-':
		i++
	}
	digits := func(i int) int { // returns the index after one or more digits, or -1
		begin := i
		for i < len(raw) && raw[i] >= '0' && raw[i] <= '9' {
			i++
		}
		if i == begin {
			return -1
		}
		return i
	}
	begin := i
	if i = digits(i); i < 0 || raw[begin] == '0' && i > begin+1 {
		return -1
	}
	if i < len(raw) && raw[i] == '.' {
		if i = digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(raw) && (raw[i] == 'e' || raw[i] == 'E') {
		if i++; i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		return digits(i)
	}
	return i
}

func validWord(raw []byte, i int, word string) int {
	if !bytes.HasPrefix(raw[i:], []byte(word)) {
		return -1
	}
	return i + len(word)
}

// validString returns the index after the valid string that begins at i, or -1.
func validString(raw []byte, i int) int {
	if i >= len(raw) || raw[i] != '"' {
		return -1
	}
	for i++; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			size := validEscape(raw[i+1:])
			if size == 0 {
				return -1
			}
			i += size
		}
	}
	return -1
}

// validEscape returns the length of the escape after a backslash; 0 = invalid.
func validEscape(raw []byte) int {
	if len(raw) == 0 {
		return 0
	}
	switch raw[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(raw) > 4 && isHex(raw[1]) && isHex(raw[2]) && isHex(raw[3]) && isHex(raw[4]) {
			return 5
		}
	}
	return 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// trim removes surrounding white space and the byte order marks before a payload: some pipes on
// Windows add one each.
func trim(payload []byte) []byte {
	for {
		payload = bytes.TrimSpace(payload)
		rest, marked := bytes.CutPrefix(payload, []byte("\xef\xbb\xbf"))
		if !marked {
			return payload
		}
		payload = rest
	}
}

// split returns the members of an object. For a malformed object it returns the members before the
// error: agents write the event name before the tool input, so a truncated payload still shows its
// event.
func split(raw []byte) map[string]json.RawMessage {
	raw = trim(raw)
	if !isObject(raw) {
		return nil
	}
	members := make(map[string]json.RawMessage, 16)
	eachMember(raw, func(name string, value json.RawMessage) { members[name] = value })
	return members
}

// eachMember calls yield with the members of an object in their order, as far as the object is
// readable.
func eachMember(raw []byte, yield func(name string, value json.RawMessage)) {
	for i := 1; ; i++ { // raw[i-1] is the opening brace or a comma
		i = rawjson.SkipSpace(raw, i)
		end := valueEnd(raw, i)
		if end < 0 || raw[i] != '"' {
			return
		}
		key, ok := rawjson.Unquote(raw[i:end])
		i = rawjson.SkipSpace(raw, end)
		if !ok || i == len(raw) || raw[i] != ':' {
			return
		}
		i = rawjson.SkipSpace(raw, i+1)
		if end = valueEnd(raw, i); end < 0 {
			return
		}
		yield(key, raw[i:end:end])
		if i = rawjson.SkipSpace(raw, end); i == len(raw) || raw[i] != ',' {
			return
		}
	}
}

// valueEnd returns the index after the value that begins at i, or -1 if the value is not complete.
// It does not recurse, so deep nesting uses no stack.
func valueEnd(raw []byte, i int) int {
	begin, depth := i, 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			if i = stringEnd(raw, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return -1
			}
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return -1
			}
			i++
			continue
		default: // a number, true, false, null
			for i < len(raw) && bytes.IndexByte([]byte("{}[],:\" \t\n\r"), raw[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			if i == begin {
				return -1
			}
			return i
		}
	}
	return -1
}

// stringEnd returns the index after the string with its opening quote at i, or -1.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// text returns the value of a JSON string, or "" for anything else.
func text(raw json.RawMessage) string {
	s, _ := rawjson.Unquote(raw)
	return s
}

// flag reports whether raw is true.
func flag(raw json.RawMessage) bool { return string(raw) == "true" }

// present returns nil for null, because agents do not distinguish a null member from an absent one.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// encode writes JSON on one line, with a newline.
func encode(v any) ([]byte, error) {
	line, err := rawjson.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(line, '\n'), nil
}
