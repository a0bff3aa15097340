package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// encode writes a value as JSON with what a text holds left as it is. Values that
// cannot be written are null.
func encode(value any) json.RawMessage {
	raw, err := JSON(value)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// JSON writes a value as hooks see it: what a text holds stays as it is, where
// encoding/json would escape <, > and &.
func JSON(value any) (json.RawMessage, error) {
	return rawjson.Marshal(value)
}

// textOf is the text that a JSON value is, or the JSON of a value that is none. What
// is null or not there has no text.
func textOf(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// like gives what hooks have made of [textOf] a value the shape back that it had, so that
// content which is a list of parts does not become a text that looks like one.
func like(was, now json.RawMessage) json.RawMessage {
	text := textOf(now)
	if len(was) > 0 && was[0] != '"' && text != "" && text[0] == was[0] && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return now
}

// asJSON gives what is no JSON as a text: a conversation is JSON, and what a model or a
// tool writes may be anything. What is empty is nil, which is written as null.
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

// isObject reports whether raw is a JSON object, and all of it.
func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) && json.Valid(raw)
}

func asToolError(err error) (json.RawMessage, bool) {
	own, ok := errors.AsType[*ToolError](err)
	if !ok || !json.Valid(own.Output) {
		return nil, false
	}
	return own.Output, true
}

// A member is one member of a JSON object, in its place.
type member struct {
	name  string
	value json.RawMessage
}

// members takes an object apart. Members that come twice are both there.
func members(object json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var all []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{}
		m.name, _ = name.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func object(all []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(rawjson.Quote(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// secret reports whether a member is one of the names. Case does not count, since it
// does not for those who decode JSON in Go: a hook could slip "TOKEN" past a "token".
func (m *member) secret(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, m.name) })
}

// misspelt returns a member that a Fact names in another letter case, or "". To those
// who decode JSON in Go it is the same one: a model could slip "Command" past the rules
// for "command".
func misspelt(input json.RawMessage, facts []grapnel.Fact) string {
	if len(facts) == 0 {
		return ""
	}
	all, _ := members(input) // it is an object
	for _, m := range all {
		for _, f := range facts {
			name, _, _ := strings.Cut(strings.TrimPrefix(f.At, "/"), "/")
			if m.name != name && strings.EqualFold(m.name, name) && !slices.ContainsFunc(facts, func(f grapnel.Fact) bool { return f.At == "/"+m.name }) {
				return m.name
			}
		}
	}
	return ""
}

// veil puts [Redacted] in the place of secrets. Of an input that is no object nothing
// is shown.
func veil(input json.RawMessage, names []string) json.RawMessage {
	all, err := members(input)
	if err != nil {
		return rawjson.Quote(Redacted)
	}
	for i := range all {
		if all[i].secret(names) {
			all[i].value = rawjson.Quote(Redacted)
		}
	}
	return object(all)
}

// unveil puts the secrets of the original into a changed input, whatever hooks have
// put into their places, and only those that were there.
func unveil(input, original json.RawMessage, names []string) (json.RawMessage, error) {
	now, err := members(input)
	if err != nil {
		return nil, err
	}
	was, err := members(original)
	if err != nil {
		return nil, err
	}
	was = slices.DeleteFunc(was, func(m member) bool { return !m.secret(names) })
	var out []member
	for _, m := range now {
		switch {
		case !m.secret(names):
			out = append(out, m)
		case len(was) > 0:
			// In the order in which they came, whatever hooks call them: a tool that takes the
			// first of two, or the last, gets what it would have got.
			out = append(out, was[0])
			was = was[1:]
		}
	}
	return object(append(out, was...)), nil
}
