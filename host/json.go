package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// JSON returns value in the encoding that hooks get. Unlike encoding/json it does not escape <, >
// and &.
func JSON(value any) (json.RawMessage, error) {
	return rawjson.Marshal(value)
}

// textOf returns the text of a JSON string, or the JSON of any other value. For null and for
// empty input it returns the empty string.
func textOf(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// like restores the JSON type of a value that hooks changed as the text of [textOf]. A list of
// parts then remains a list and does not become a string.
func like(was, now json.RawMessage) json.RawMessage {
	text := textOf(now)
	if len(was) > 0 && was[0] != '"' && text != "" && text[0] == was[0] && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return now
}

// asJSON returns raw if it is valid JSON, and raw as a JSON string otherwise, because models and
// tools may write any text but conversations are JSON. For empty input it returns nil, which is
// encoded as null.
func asJSON(raw json.RawMessage) json.RawMessage {
	switch {
	case len(raw) == 0:
		return nil
	case json.Valid(raw):
		return raw
	default:
		return rawjson.Quote(string(raw))
	}
}

func asToolError(err error) (json.RawMessage, bool) {
	own, ok := errors.AsType[*ToolError](err)
	if !ok || !json.Valid(own.Output) {
		return nil, false
	}
	return own.Output, true
}

// members splits an object into its members, in order. It keeps duplicate members.
func members(object json.RawMessage) ([]rawjson.Member, error) {
	var all []rawjson.Member
	if !rawjson.IsObject(object) || !rawjson.ValidMembers(object, func(m rawjson.Member) { all = append(all, m) }) {
		return nil, errors.New("it is not a JSON object")
	}
	return all, nil
}

func object(all []rawjson.Member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(rawjson.Quote(m.Name))
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// secret reports whether a member has one of the names in any letter case. Go's JSON decoders
// ignore case, so a hook could otherwise bypass "token" with "TOKEN".
func secret(m *rawjson.Member, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, m.Name) })
}

// veil replaces secrets by [Redacted]. If the input is not an object, veil replaces all of it.
func veil(input json.RawMessage, names []string) json.RawMessage {
	all, err := members(input)
	if err != nil {
		return rawjson.Quote(Redacted)
	}
	for i := range all {
		if secret(&all[i], names) {
			all[i].Value = rawjson.Quote(Redacted)
		}
	}
	return object(all)
}

// unveil restores the secrets of the original input in a changed input. It ignores values that
// hooks set for them, and does not add secrets that the original did not have.
func unveil(input, original json.RawMessage, names []string) (json.RawMessage, error) {
	now, err := members(input)
	if err != nil {
		return nil, err
	}
	was, err := members(original)
	if err != nil {
		return nil, err
	}
	was = slices.DeleteFunc(was, func(m rawjson.Member) bool { return !secret(&m, names) })
	var out []rawjson.Member
	for _, m := range now {
		switch {
		case !secret(&m, names):
			out = append(out, m)
		case len(was) > 0:
			// Restore duplicates in their original order, because a tool may read the first or
			// the last one. The names that hooks gave them do not matter.
			out = append(out, was[0])
			was = was[1:]
		}
	}
	return object(append(out, was...)), nil
}
