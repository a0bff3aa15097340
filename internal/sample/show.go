package sample

import (
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// ShownEvent returns an event in the form for messages. It omits the fields that repeat the
// input.
func ShownEvent(ev *grapnel.Event) string {
	out := *ev
	out.ID, out.Native = "", nil
	if ev.Tool != nil {
		tool := *ev.Tool
		tool.Facts = nil
		out.Tool = &tool
	}
	return Shown(&out)
}

// Shown returns a value in the form for messages: as JSON of limited length.
func Shown(v any) string {
	text, err := rawjson.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v (%v)", v, err)
	}
	return Short(string(text))
}

// Short truncates a long text and adds the number of omitted bytes.
func Short(text string) string {
	const limit = 2000
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s… (%d more bytes)", strings.ToValidUTF8(text[:limit], ""), len(text)-limit)
}
