package grapnel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The functions in this file read and change raw JSON without decoding it into maps. The
// unchanged parts then keep their key order and number spelling, because an agent validates the
// returned input against the model's original.
//
// They need valid JSON and return nothing, or an undefined result, for anything else. An attacker
// controls the nesting depth of an agent's JSON, so these functions do not recurse over it; only
// a pointer or a patch bounds the recursion. If an object has duplicate keys, the last one wins,
// as in every agent's parser.

// member is one key of an object, or one element of an array (key "").
type member struct {
	key    string
	rawKey []byte
	value  json.RawMessage
}

// rawMembers splits an object or array. It returns nil for anything else.
func rawMembers(raw json.RawMessage) (members []member, object bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' && raw[0] != '[' {
		return nil, false
	}
	object = raw[0] == '{'
	inner := raw[1 : len(raw)-1]
	for i := rawjson.SkipSpace(inner, 0); i < len(inner); {
		var m member
		if object {
			end := skipValue(inner, i)
			m.rawKey = inner[i:end]
			var ok bool
			if m.key, ok = rawString(m.rawKey); !ok {
				return nil, object
			}
			i = rawjson.SkipSpace(inner, rawjson.SkipSpace(inner, end)+1) // after the colon
		}
		end := skipValue(inner, i)
		if end <= i {
			return nil, object
		}
		m.value = inner[i:end]
		members = append(members, m)
		i = rawjson.SkipSpace(inner, rawjson.SkipSpace(inner, end)+1) // after the comma
	}
	return members, object
}

// lastMembers returns the members of an object and the index of each key in that list. For
// duplicate keys it keeps only the last value. It returns nil for anything except an object.
func lastMembers(raw json.RawMessage) (members []member, at map[string]int) {
	all, object := rawMembers(raw)
	if !object {
		return nil, nil
	}
	at = make(map[string]int, len(all))
	members = all[:0]
	for _, m := range all {
		if i, again := at[m.key]; again {
			members[i].value = m.value
			continue
		}
		at[m.key] = len(members)
		members = append(members, m)
	}
	return members, at
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

// skipValue returns the index after the value that begins at i.
func skipValue(b []byte, i int) int {
	if i < len(b) && b[i] != '"' && b[i] != '{' && b[i] != '[' { // a number or a word
		for i < len(b) && strings.IndexByte(",:]} \t\n\r", b[i]) < 0 {
			i++
		}
		return i
	}
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

// skipString returns the index after the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(b)
}

// nextString returns the start and end of the next string after i that is a value and not a key.
// If no such string exists, begin is -1.
func nextString(raw []byte, i int) (begin, end int) {
	for {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return -1, len(raw)
		}
		begin = i + n
		end = skipString(raw, begin)
		if colon := rawjson.SkipSpace(raw, end); colon >= len(raw) || raw[colon] != ':' {
			return begin, end
		}
		i = end
	}
}

// rawFind returns the values at an RFC 6901 pointer. The key * matches every element of an array.
func rawFind(raw json.RawMessage, pointer string) []json.RawMessage {
	if pointer == "" {
		return []json.RawMessage{raw}
	}
	members, object := rawMembers(raw)
	return findIn(members, object, pointer)
}

// findIn does the work of rawFind on JSON that is already split. The pointer must not be empty.
func findIn(members []member, object bool, pointer string) []json.RawMessage {
	key, rest := splitPointer(pointer)
	if object {
		for _, m := range slices.Backward(members) {
			if m.key == key {
				return rawFind(m.value, rest)
			}
		}
		return nil
	}
	if key != "*" {
		i := arrayIndex(key, len(members))
		if i < 0 {
			return nil
		}
		return rawFind(members[i].value, rest)
	}
	var found []json.RawMessage
	for _, m := range members {
		found = append(found, rawFind(m.value, rest)...)
	}
	return found
}

// rawReplace replaces the single value at a pointer. The key * matches the only element of an
// array.
func rawReplace(raw json.RawMessage, pointer string, value json.RawMessage) (json.RawMessage, error) {
	if pointer == "" {
		return value, nil
	}
	key, rest := splitPointer(pointer)
	members, at := lastMembers(raw)
	i, found := at[key]
	object := at != nil
	if !object {
		members, _ = rawMembers(raw)
		if key == "*" && len(members) == 1 {
			key = "0"
		}
		i = arrayIndex(key, len(members))
		found = i >= 0
	}
	if !found {
		return nil, fmt.Errorf("no value at %s", pointer)
	}
	changed, err := rawReplace(members[i].value, rest, value)
	if err != nil {
		return nil, err
	}
	members[i].value = changed
	return joinMembers(members, object), nil
}

// arrayIndex parses an RFC 6901 array index below n. It returns -1 if key is not a valid index.
func arrayIndex(key string, n int) int {
	i, err := strconv.Atoi(key)
	if err != nil || i < 0 || i >= n || strconv.Itoa(i) != key { // 01 and +1 are keys, not indices
		return -1
	}
	return i
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

func splitPointer(pointer string) (key, rest string) {
	key, rest, more := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if more {
		rest = "/" + rest
	}
	return unescapePointer.Replace(key), rest
}

// mergePatch applies an RFC 7396 merge patch.
func mergePatch(target, patch json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(patch) { // json.Valid also limits the nesting depth of the patch
		return nil, errors.New("patch: not valid JSON")
	}
	return applyPatch(target, patch), nil
}

func applyPatch(target, patch json.RawMessage) json.RawMessage {
	if !isObject(patch) {
		return patch
	}
	changes, _ := lastMembers(patch)
	members, at := lastMembers(target)
	for _, c := range changes {
		i, has := at[c.key]
		switch {
		case has && string(c.value) == "null":
			members[i].value = nil
		case has:
			members[i].value = applyPatch(members[i].value, c.value)
		case string(c.value) != "null":
			members = append(members, member{key: c.key, rawKey: c.rawKey, value: applyPatch(nil, c.value)})
		}
	}
	left := members[:0]
	for i := range members {
		if members[i].value != nil {
			left = append(left, members[i])
		}
	}
	return joinMembers(left, true)
}

// rawStrings calls yield with every decoded string, except object keys, until yield returns
// false.
func rawStrings(raw json.RawMessage, yield func(string) bool) {
	for begin, end := nextString(raw, 0); begin >= 0; begin, end = nextString(raw, end) {
		if text, ok := rawString(raw[begin:end]); ok && !yield(text) {
			return
		}
	}
}

// rawMapStrings passes every decoded string, except object keys, through change. It preserves all
// other bytes and reports whether any string changed.
func rawMapStrings(raw json.RawMessage, change func(string) string) (json.RawMessage, bool) {
	var out []byte
	done := 0
	for begin, end := nextString(raw, 0); begin >= 0; begin, end = nextString(raw, end) {
		text, ok := rawString(raw[begin:end])
		if !ok {
			continue
		}
		if now := change(text); now != text {
			out = append(append(out, raw[done:begin]...), rawjson.Quote(now)...)
			done = end
		}
	}
	if done == 0 {
		return raw, false
	}
	return append(out, raw[done:]...), true
}

// rawString decodes a JSON string.
func rawString(raw json.RawMessage) (string, bool) {
	return rawjson.Unquote(bytes.TrimSpace(raw))
}

// rawDecode decodes JSON into the same types as encoding/json: map, slice, string, float64, bool
// and nil. It needs valid JSON and makes one pass over it.
func rawDecode(raw json.RawMessage) any {
	v, _ := decodeAt(raw, rawjson.SkipSpace(raw, 0))
	return v
}

// decodeAt decodes the value that begins at i and returns the index after it.
func decodeAt(b []byte, i int) (any, int) {
	if i >= len(b) {
		return nil, len(b)
	}
	switch b[i] {
	case '{':
		object := map[string]any{}
		for i = rawjson.SkipSpace(b, i+1); i < len(b) && b[i] == '"'; {
			var key, value any
			key, i = decodeAt(b, i)
			value, i = decodeAt(b, rawjson.SkipSpace(b, rawjson.SkipSpace(b, i)+1)) // after the colon
			name, _ := key.(string)
			object[name] = value
			if i = rawjson.SkipSpace(b, i); i < len(b) && b[i] == ',' {
				i = rawjson.SkipSpace(b, i+1)
			}
		}
		return object, i + 1
	case '[':
		list := []any{}
		for i = rawjson.SkipSpace(b, i+1); i < len(b) && b[i] != ']'; {
			var value any
			value, i = decodeAt(b, i)
			list = append(list, value)
			if i = rawjson.SkipSpace(b, i); i < len(b) && b[i] == ',' {
				i = rawjson.SkipSpace(b, i+1)
			}
		}
		return list, i + 1
	}
	end := max(skipValue(b, i), i+1)
	word := b[i:min(end, len(b))]
	switch word[0] {
	case '"':
		text, _ := rawString(word)
		return text, end
	case 't', 'f':
		return word[0] == 't', end
	case 'n':
		return nil, end
	default:
		number, _ := strconv.ParseFloat(string(word), 64)
		return number, end
	}
}

// decode decodes raw into the value that a pointer points to. Unlike json.Unmarshal it rejects
// null, because null would silently leave the value unchanged.
func decode(raw json.RawMessage, into any) error {
	err := json.Unmarshal(raw, into)
	got := ""
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		got = wrong.Value
	} else if err == nil && string(bytes.TrimSpace(raw)) == "null" {
		got = "null"
	}
	if got != "" {
		return fmt.Errorf("want %v, got %s", reflect.TypeOf(into).Elem(), got)
	}
	return err
}

// overlayObject merges the members of value into the members of old. If one of them is not an
// object, the result is value.
func overlayObject(old, value json.RawMessage) json.RawMessage {
	var under, over map[string]json.RawMessage
	if !isObject(old) || !isObject(value) || json.Unmarshal(old, &under) != nil || json.Unmarshal(value, &over) != nil {
		return value
	}
	maps.Copy(under, over)
	return encode(under)
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{'
}

// encode returns v as JSON, or null if v cannot be encoded.
func encode(v any) json.RawMessage {
	raw, err := rawjson.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
