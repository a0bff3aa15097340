// Package rawjson writes JSON as agents and policies do: without escapes for HTML, so that a
// rule matches the text that the agent sent.
package rawjson

import (
	"bytes"
	"encoding/json"
)

// Marshal returns v as JSON on one line, without a line break at its end.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Quote returns a JSON string.
func Quote(text string) json.RawMessage {
	raw, _ := Marshal(text) // a string always encodes
	return raw
}
