package outbound

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A body is a format for event notifications.
type body struct {
	// write returns the notification about an event for the hook of this name. at is the time of
	// the event. It is pure.
	write func(hook string, ev *grapnel.Event, at time.Time) ([]byte, error)
	// anyStatus means that a delivery succeeds with every response status.
	anyStatus bool
}

// bodies lists the formats by their names in files.
var bodies = map[string]body{
	"":         {write: writeSummary},
	"ironclaw": {write: writeIronClaw, anyStatus: true},
}

// WriteBody returns the notification about an event for the hook of this name. language is the
// Body of a [Config]. If the event has no time, it uses at. An unknown language is an [*Error]
// with BadBody.
func WriteBody(language, hook string, ev *grapnel.Event, at time.Time) ([]byte, error) {
	b, known := bodies[language]
	if !known {
		return nil, fault(BadBody, "unknown body %q", language)
	}
	return b.write(hook, ev, cmp.Or(ev.Time, at))
}

// summary is Grapnel's default notification. Its members are named as in "grapnel log".
type summary struct {
	Hook     string       `json:"hook"`
	Time     time.Time    `json:"time"`
	ID       string       `json:"id,omitempty"`
	Agent    string       `json:"agent,omitempty"`
	Session  string       `json:"session,omitempty"`
	Event    grapnel.Kind `json:"event"`
	Tool     string       `json:"tool,omitempty"`
	Decision string       `json:"decision,omitempty"` // the merged decision of all hooks
}

func writeSummary(hook string, ev *grapnel.Event, at time.Time) ([]byte, error) {
	s := summary{Hook: hook, Time: at.UTC(), ID: ev.ID, Agent: ev.Agent.Name, Session: ev.Session.ID, Event: ev.Kind}
	if ev.Tool != nil {
		s.Tool = ev.Tool.Name
	}
	if ev.Verdict != nil {
		s.Decision = ev.Verdict.Decision.String()
	}
	return rawjson.Marshal(s)
}

// ironclawBody is the body of IronClaw's outbound webhooks.
type ironclawBody struct {
	Hook      string        `json:"hook"`
	Point     string        `json:"point"`
	Timestamp string        `json:"timestamp"`
	Event     ironclawEvent `json:"event"`
	Metadata  bool          `json:"metadata_present"` // always false: IronClaw never sends metadata
}

// ironclawEvent is an event without its content. Each type has different members.
type ironclawEvent struct {
	Type           string  `json:"type"`
	Channel        *string `json:"channel,omitempty"`
	HasThreadID    *bool   `json:"has_thread_id,omitempty"`
	ContentLength  *int    `json:"content_length,omitempty"` // in bytes, like all lengths
	ToolName       *string `json:"tool_name,omitempty"`
	Context        *string `json:"context,omitempty"`
	ParameterCount *int    `json:"parameter_count,omitempty"`
	ResponseLength *int    `json:"response_length,omitempty"`
}

// ironclawTime is RFC 3339 in the format of Rust's chrono for UTC: with a numeric offset instead
// of Z.
const ironclawTime = "2006-01-02T15:04:05.999999999-07:00"

func writeIronClaw(hook string, ev *grapnel.Event, at time.Time) ([]byte, error) {
	i := slices.IndexFunc(dialect.IronClawEvents(), func(row dialect.EventRow) bool { return row.Kind == ev.Kind })
	if i < 0 {
		return nil, fault(BadBody, "IronClaw has no event that corresponds to %s", ev.Kind)
	}
	b := ironclawBody{Hook: hook, Point: dialect.IronClawEvents()[i].Native, Timestamp: at.UTC().Format(ironclawTime)}
	thread := ev.Session.Thread != "" || ev.Session.ID != "" // the session of most agents has one conversation
	switch ev.Kind {
	case grapnel.PromptBefore:
		var prompt grapnel.Prompt
		if ev.Prompt != nil {
			prompt = *ev.Prompt
		}
		b.Event = ironclawEvent{Type: "inbound", Channel: &ev.Session.Channel, HasThreadID: &thread, ContentLength: new(len(prompt.Text))}
	case grapnel.ToolBefore:
		var tool grapnel.Tool
		if ev.Tool != nil {
			tool = *ev.Tool
		}
		b.Event = ironclawEvent{Type: "toolCall", ToolName: &tool.Name, Context: new(cmp.Or(ev.Session.Job, "chat")), ParameterCount: new(countParameters(tool.Input))}
	case grapnel.MessageBefore:
		var message grapnel.Message
		if ev.Message != nil {
			message = *ev.Message
		}
		b.Event = ironclawEvent{
			Type: "outbound", Channel: new(cmp.Or(message.Channel, ev.Session.Channel)), HasThreadID: &thread, ContentLength: new(len(message.Content)),
		}
	case grapnel.ResponseBefore:
		b.Event = ironclawEvent{Type: "responseTransform", ResponseLength: new(responseLength(ev.Model))}
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
