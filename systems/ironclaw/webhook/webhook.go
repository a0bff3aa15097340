// Package webhook makes the bodies of IronClaw's outbound webhooks: sizes and names, never content.
//
// It is exported because package outbound needs it, and is not an API.
package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// body is the body of IronClaw's outbound webhooks.
type body struct {
	Hook      string `json:"hook"`
	Point     string `json:"point"`
	Timestamp string `json:"timestamp"`
	Event     event  `json:"event"`
	Metadata  bool   `json:"metadata_present"` // always false: IronClaw never sends metadata
}

// event is an event without its content. Each type has different members.
type event struct {
	Type           string  `json:"type"`
	Channel        *string `json:"channel,omitempty"`
	HasThreadID    *bool   `json:"has_thread_id,omitempty"`
	ContentLength  *int    `json:"content_length,omitempty"` // in bytes, like all lengths
	ToolName       *string `json:"tool_name,omitempty"`
	Context        *string `json:"context,omitempty"`
	ParameterCount *int    `json:"parameter_count,omitempty"`
	ResponseLength *int    `json:"response_length,omitempty"`
}

// timeFormat is RFC 3339 in the format of Rust's chrono for UTC: with a numeric offset instead
// of Z.
const timeFormat = "2006-01-02T15:04:05.999999999-07:00"

// Body returns the body of a delivery about an event, for the hook of this name. at is the time of the
// event. It returns an error for an event that IronClaw does not have.
func Body(hook string, ev *grapnel.Event, at time.Time) ([]byte, error) {
	i := slices.IndexFunc(dialect.IronClawEvents(), func(row dialect.EventRow) bool { return row.Kind == ev.Kind })
	if i < 0 {
		return nil, fmt.Errorf("IronClaw has no event that corresponds to %s", ev.Kind)
	}
	b := body{Hook: hook, Point: dialect.IronClawEvents()[i].Native, Timestamp: at.UTC().Format(timeFormat)}
	thread := ev.Session.Thread != "" || ev.Session.ID != "" // the session of most agents has one conversation
	switch ev.Kind {
	case grapnel.PromptBefore:
		var prompt grapnel.Prompt
		if ev.Prompt != nil {
			prompt = *ev.Prompt
		}
		b.Event = event{Type: "inbound", Channel: &ev.Session.Channel, HasThreadID: &thread, ContentLength: new(len(prompt.Text))}
	case grapnel.ToolBefore:
		var tool grapnel.Tool
		if ev.Tool != nil {
			tool = *ev.Tool
		}
		b.Event = event{Type: "toolCall", ToolName: &tool.Name, Context: new(cmp.Or(ev.Session.Job, "chat")), ParameterCount: new(countParameters(tool.Input))}
	case grapnel.MessageBefore:
		var message grapnel.Message
		if ev.Message != nil {
			message = *ev.Message
		}
		b.Event = event{
			Type: "outbound", Channel: new(cmp.Or(message.Channel, ev.Session.Channel)), HasThreadID: &thread, ContentLength: new(len(message.Content)),
		}
	case grapnel.ResponseBefore:
		b.Event = event{Type: "responseTransform", ResponseLength: new(responseLength(ev.Model))}
	case grapnel.SessionStart:
		b.Event.Type = "sessionStart"
	case grapnel.SessionEnd:
		b.Event.Type = "sessionEnd"
	default: // IronClaw has no other events
	}
	return rawjson.Marshal(b)
}

// countParameters returns the number of an object's members, 0 for no input, and 1 for any other
// value.
func countParameters(input json.RawMessage) int {
	var members map[string]json.RawMessage
	if len(input) > 0 && json.Unmarshal(input, &members) != nil {
		return 1
	}
	return len(members)
}

// responseLength returns the length of the response text, or of its JSON if it is not a string.
func responseLength(m *grapnel.Model) int {
	if m == nil {
		return 0
	}
	var text string
	if json.Unmarshal(m.Response, &text) != nil {
		return len(m.Response)
	}
	return len(text)
}
