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
	members := make(map[string]json.RawMessage, 16)
	if rawjson.ValidMembers(payload, func(m rawjson.Member) { members[m.Name] = m.Value }) {
		return members, nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(payload, &raw) // returns the syntax error
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, fmt.Errorf("the payload is not valid JSON at byte %d: %w", syntax.Offset, err)
	}
	return nil, fmt.Errorf("the payload is not valid JSON: %w", err)
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
	if !rawjson.IsObject(raw) {
		return nil
	}
	members := make(map[string]json.RawMessage, 16)
	rawjson.Members(raw, func(m rawjson.Member) { members[m.Name] = m.Value })
	return members
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
