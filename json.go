package grapnel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Raw JSON is read and changed in place of being decoded into maps, so that what
// a hook did not touch keeps its key order and the spelling of its numbers: an
// agent validates the input it gets back against what the model wrote.

// member is one key of an object, or one element of an array (key "").
type member struct {
	key    string
	rawKey []byte
	value  json.RawMessage
}

// rawMembers splits an object or array. It wants valid JSON; anything else gives nil.
func rawMembers(raw json.RawMessage) (members []member, object bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' && raw[0] != '[' {
		return nil, false
	}
	object = raw[0] == '{'
	for i := skipSpace(raw, 1); i < len(raw) && raw[i] != '}' && raw[i] != ']'; {
		var m member
		if object {
			end := skipValue(raw, i)
			m.rawKey = raw[i:end]
			if err := json.Unmarshal(m.rawKey, &m.key); err != nil {
				return nil, object
			}
			i = skipSpace(raw, skipSpace(raw, end)+1) // the colon
		}
		end := skipValue(raw, i)
		if end <= i || end > len(raw) {
			return nil, object
		}
		m.value = raw[i:end]
		members = append(members, m)
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return members, object
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index behind the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
		default:
			for i < len(b) && !strings.ContainsRune("{}[],: \t\n\r\"", rune(b[i])) {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

func joinMembers(members []member, object bool) json.RawMessage {
	var b bytes.Buffer
	open, shut := byte('['), byte(']')
	if object {
		open, shut = '{', '}'
	}
	b.WriteByte(open)
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		if object {
			b.Write(m.rawKey)
			b.WriteByte(':')
		}
		b.Write(m.value)
	}
	b.WriteByte(shut)
	return b.Bytes()
}

// rawFind returns the values at an RFC 6901 pointer, in which * stands for every
// element of an array. Of two equal keys the last counts, as in every agent's parser.
func rawFind(raw json.RawMessage, pointer string) []json.RawMessage {
	if pointer == "" {
		return []json.RawMessage{raw}
	}
	key, rest := splitPointer(pointer)
	members, object := rawMembers(raw)
	if !object {
		var found []json.RawMessage
		for i, m := range members {
			if key == "*" || key == strconv.Itoa(i) {
				found = append(found, rawFind(m.value, rest)...)
			}
		}
		return found
	}
	for i := len(members) - 1; i >= 0; i-- {
		if members[i].key == key {
			return rawFind(members[i].value, rest)
		}
	}
	return nil
}

// rawReplace replaces the value at a pointer that exists.
func rawReplace(raw json.RawMessage, pointer string, value json.RawMessage) (json.RawMessage, error) {
	if pointer == "" {
		return value, nil
	}
	key, rest := splitPointer(pointer)
	members, object := rawMembers(raw)
	for i := len(members) - 1; i >= 0; i-- {
		if object && members[i].key == key || !object && strconv.Itoa(i) == key {
			changed, err := rawReplace(members[i].value, rest, value)
			if err != nil {
				return nil, err
			}
			members[i].value = changed
			return joinMembers(members, object), nil
		}
	}
	return nil, fmt.Errorf("nothing at %s", pointer)
}

func splitPointer(pointer string) (key, rest string) {
	key, rest, more := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if more {
		rest = "/" + rest
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(key), rest
}

// mergePatch applies an RFC 7396 merge patch.
func mergePatch(target, patch json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(patch) {
		return nil, errors.New("patch: not valid JSON")
	}
	if !isObject(patch) {
		return patch, nil
	}
	var members []member
	if isObject(target) {
		members, _ = rawMembers(target)
	}
	changes, _ := rawMembers(patch)
	for _, c := range changes {
		at := -1
		for i := range members {
			if members[i].key == c.key {
				at = i
			}
		}
		if string(c.value) == "null" {
			if at >= 0 {
				members = append(members[:at:at], members[at+1:]...)
			}
			continue
		}
		var old json.RawMessage
		if at >= 0 {
			old = members[at].value
		}
		value, err := mergePatch(old, c.value)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			members = append(members, member{key: c.key, rawKey: c.rawKey, value: value})
		} else {
			members[at].value = value
		}
	}
	return joinMembers(members, true), nil
}

// rawStrings calls yield with every decoded string, object keys left out.
func rawStrings(raw json.RawMessage, yield func(string) bool) bool {
	if text, ok := rawString(raw); ok {
		return yield(text)
	}
	members, _ := rawMembers(raw)
	for _, m := range members {
		if !rawStrings(m.value, yield) {
			return false
		}
	}
	return true
}

// rawMapStrings passes every decoded string through change.
func rawMapStrings(raw json.RawMessage, change func(string) string) (json.RawMessage, bool) {
	if text, ok := rawString(raw); ok {
		if now := change(text); now != text {
			return quote(now), true
		}
		return raw, false
	}
	members, object := rawMembers(raw)
	any := false
	for i := range members {
		value, changed := rawMapStrings(members[i].value, change)
		members[i].value = value
		any = any || changed
	}
	if !any {
		return raw, false
	}
	return joinMembers(members, object), true
}

func rawString(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", false
	}
	return text, true
}

// rawEqual compares JSON values without regard to key order and white space.
// Numbers are compared as written: 1 and 1.0 are different inputs to a tool.
func rawEqual(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := decodeAny(a)
	y, errY := decodeAny(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func decodeAny(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

func decodeInto(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return fmt.Errorf("want %s, got %s", wrong.Type, wrong.Value)
		}
		return err
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{'
}

// quote and encode write JSON without HTML escapes, so that what a rule matches
// is what the agent said.
func quote(text string) json.RawMessage { return encode(text) }

func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
