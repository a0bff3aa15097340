package sample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Same compares JSON values without regard to white space and the order of keys.
func Same(a, b json.RawMessage) bool { return bytes.Equal(canonical(a), canonical(b)) }

// canonical is a value with its keys in order and its numbers as they are written, and
// what is no JSON as it is.
func canonical(raw json.RawMessage) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	text, err := rawjson.Marshal(v)
	if err != nil {
		return raw
	}
	return text
}

// ShownEvent is an event as messages show it. It leaves out what repeats the input,
// and what its agent can be told.
func ShownEvent(ev *grapnel.Event) string {
	out := *ev
	out.ID, out.Native, out.Can = "", nil, nil
	if ev.Tool != nil {
		tool := *ev.Tool
		tool.Facts = nil
		out.Tool = &tool
	}
	return Shown(&out)
}

// Shown is a value as messages show it: as JSON, and not too long.
func Shown(v any) string {
	text, err := rawjson.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v (%v)", v, err)
	}
	return Short(string(text))
}

// Short cuts what nobody would read.
func Short(text string) string {
	const limit = 2000
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s… (%d more bytes)", strings.ToValidUTF8(text[:limit], ""), len(text)-limit)
}
