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

// rawMembers splits an object or array. It returns nil for anything else.
func rawMembers(raw json.RawMessage) (members []rawjson.Member, object bool) {
	if !rawjson.Members(raw, func(m rawjson.Member) { members = append(members, m) }) {
		members = nil
	}
	return members, rawjson.IsObject(raw)
}

// lastMembers returns the members of an object and the index of each key in that list. For
// duplicate keys it keeps only the last value. It returns nil for anything except an object.
func lastMembers(raw json.RawMessage) (members []rawjson.Member, at map[string]int) {
	all, object := rawMembers(raw)
	if !object {
		return nil, nil
	}
	at = make(map[string]int, len(all))
	members = all[:0]
	for _, m := range all {
		if i, again := at[m.Name]; again {
			members[i].Value = m.Value
			continue
		}
		at[m.Name] = len(members)
		members = append(members, m)
	}
	return members, at
}

func joinMembers(members []rawjson.Member, object bool) json.RawMessage {
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
			b.Write(m.Quoted)
			b.WriteByte(':')
		}
		b.Write(m.Value)
	}
	b.WriteByte(shut)
	return b.Bytes()
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
func findIn(members []rawjson.Member, object bool, pointer string) []json.RawMessage {
	key, rest := splitPointer(pointer)
	if object {
		for _, m := range slices.Backward(members) {
			if m.Name == key {
				return rawFind(m.Value, rest)
			}
		}
		return nil
	}
	if key != "*" {
		i := arrayIndex(key, len(members))
		if i < 0 {
			return nil
		}
		return rawFind(members[i].Value, rest)
	}
	var found []json.RawMessage
	for _, m := range members {
		found = append(found, rawFind(m.Value, rest)...)
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
	changed, err := rawReplace(members[i].Value, rest, value)
	if err != nil {
		return nil, err
	}
	members[i].Value = changed
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
	if !rawjson.IsObject(patch) {
		return patch
	}
	changes, _ := lastMembers(patch)
	members, at := lastMembers(target)
	for _, c := range changes {
		i, has := at[c.Name]
		switch {
		case has && string(c.Value) == "null":
			members[i].Value = nil
		case has:
			members[i].Value = applyPatch(members[i].Value, c.Value)
		case string(c.Value) != "null":
			members = append(members, rawjson.Member{Name: c.Name, Quoted: c.Quoted, Value: applyPatch(nil, c.Value)})
		}
	}
	left := members[:0]
	for i := range members {
		if members[i].Value != nil {
			left = append(left, members[i])
		}
	}
	return joinMembers(left, true)
}

// rawStrings calls yield with every decoded string, except object keys, until yield returns
// false.
func rawStrings(raw json.RawMessage, yield func(string) bool) {
	for t := range rawjson.Tokens(raw) {
		if t.Kind != '"' {
			continue
		}
		if text, ok := rawjson.Unquote(raw[t.Begin:t.End]); ok && !yield(text) {
			return
		}
	}
}

// rawMapStrings passes every decoded string, except object keys, through change. It preserves all
// other bytes and reports whether any string changed.
func rawMapStrings(raw json.RawMessage, change func(string) string) (json.RawMessage, bool) {
	var out []byte
	done := 0
	for t := range rawjson.Tokens(raw) {
		if t.Kind != '"' {
			continue
		}
		text, ok := rawjson.Unquote(raw[t.Begin:t.End])
		if !ok {
			continue
		}
		if now := change(text); now != text {
			out = append(append(out, raw[done:t.Begin]...), rawjson.Quote(now)...)
			done = t.End
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
	if !rawjson.IsObject(old) || !rawjson.IsObject(value) || json.Unmarshal(old, &under) != nil || json.Unmarshal(value, &over) != nil {
		return value
	}
	maps.Copy(under, over)
	return rawjson.OrNull(under)
}
