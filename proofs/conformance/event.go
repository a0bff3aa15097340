package conformance

import (
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// An eventDef is one event in the format of a case.
type eventDef struct {
	Event  grapnel.Kind    `json:"event"`
	Native string          `json:"native_event"`
	Input  json.RawMessage `json:"input"`
}

// input has the event's own fields.
type input struct {
	ToolName     string          `json:"tool_name"`
	ToolInput    json.RawMessage `json:"tool_input"`
	ToolOutput   json.RawMessage `json:"tool_output"`
	IsError      bool            `json:"is_error"`
	Prompt       string          `json:"prompt"`
	Content      string          `json:"content"`
	Response     json.RawMessage `json:"response"`
	UserID       string          `json:"user_id"`
	Channel      string          `json:"channel"`
	ThreadID     string          `json:"thread_id"`
	ThreadIDs    []string        `json:"thread_ids"`
	SessionID    string          `json:"session_id"`
	Context      string          `json:"context"`
	Model        string          `json:"model"`
	Turn         json.Number     `json:"turn"`
	MessageCount json.Number     `json:"message_count"`
	InputTokens  json.Number     `json:"input_tokens"`
	OutputTokens json.Number     `json:"output_tokens"`
	StopReason   string          `json:"stop_reason"`
	Reason       string          `json:"reason"`
}

// setSession sets the data of the session in which the event happens.
func (in *input) setSession(s *grapnel.Session) {
	s.ID, s.User, s.Channel, s.Model = in.SessionID, in.UserID, in.Channel, in.Model
	s.Thread, s.Threads = in.ThreadID, in.ThreadIDs
	if in.Context != "chat" {
		s.Job = in.Context
	}
}

// resolve sets the event from the system's own name, if only that name is given.
func (d *eventDef) resolve(f *family) (err error) {
	if d.Event == "" && d.Native != "" {
		d.Event, err = f.kindOf(d.Native)
	}
	if err == nil && !d.Event.Known() {
		err = fmt.Errorf("unknown event %q", d.Event)
	}
	return err
}

// event returns the Event. Fields without a counterpart in Event stay in its Native part. An
// event that cannot be read is empty, and the caller that fires it reports that to the engine.
func (d *eventDef) event(b *bench) (*grapnel.Event, error) {
	if err := d.resolve(b.family); err != nil {
		return nil, err
	}
	ev := &grapnel.Event{
		Kind: d.Event, Agent: grapnel.Agent{Name: b.family.name}, Native: d.Input,
		Session: grapnel.Session{CWD: b.dir, Root: b.dir},
	}
	var in input
	if len(d.Input) > 0 && unobtainable(d.Input) == nil {
		if err := strict(d.Input, &in); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
	}
	ev.Cause = in.Reason
	in.setSession(&ev.Session)
	ev.Session.Turn = in.Turn.String()
	switch d.Event {
	case grapnel.ToolBefore, grapnel.PermissionBefore, grapnel.PermissionDenied, grapnel.ToolAfter, grapnel.ToolFailed:
		ev.Tool = &grapnel.Tool{Name: in.ToolName, Input: in.ToolInput, Output: in.ToolOutput, Failed: in.IsError || d.Event == grapnel.ToolFailed}
		if ev.Tool.Input == nil {
			ev.Tool.Input = json.RawMessage("{}")
		}
	case grapnel.PromptBefore, grapnel.AgentBefore:
		ev.Prompt = &grapnel.Prompt{Text: in.Prompt}
	case grapnel.AgentAfter:
		ev.Stop = &grapnel.Stop{LastMessage: text(in.Response)}
		ev.Model = &grapnel.Model{Response: in.Response}
	case grapnel.ModelBefore, grapnel.ModelAfter, grapnel.ResponseBefore:
		ev.Model = &grapnel.Model{Response: in.Response}
	case grapnel.MessageReceived, grapnel.MessageBefore, grapnel.MessageSent:
		ev.Message = &grapnel.Message{Channel: in.Channel, Content: in.Content}
	default: // notices: everything is in their Native part
	}
	return ev, nil
}

// primary is the field of an event that hooks read and rewrite.
type primary struct {
	word  string // its name in cases
	field grapnel.Field
}

// sessionField is a field that hooks cannot change at any event.
const sessionField grapnel.Field = "session_id"

func primaryOf(kind grapnel.Kind) primary {
	switch kind {
	case grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolFailed, grapnel.PermissionBefore, grapnel.PermissionDenied:
		return primary{"tool_input", grapnel.FieldInput}
	case grapnel.PromptBefore, grapnel.AgentBefore:
		return primary{"prompt", grapnel.FieldPrompt}
	case grapnel.MessageReceived, grapnel.MessageBefore, grapnel.MessageSent:
		return primary{"content", grapnel.FieldText}
	case grapnel.ResponseBefore, grapnel.ModelAfter, grapnel.AgentAfter:
		return primary{"response", grapnel.FieldResponse}
	default:
		return primary{"session_id", sessionField}
	}
}

// value returns the field as JSON.
func (p primary) value(ev *grapnel.Event) json.RawMessage {
	if p.field == sessionField {
		return rawjson.Must(ev.Session.ID)
	}
	value, ok := ev.Get(p.field)
	if !ok {
		return json.RawMessage("null")
	}
	return value
}

// text returns a value as text: the content of a string, or any other value as compact JSON
// with sorted members.
func (p primary) text(value json.RawMessage) string {
	if p.field != grapnel.FieldInput {
		return text(value)
	}
	return string(rawjson.Must(plain(value)))
}

// text returns the content of a JSON string, or "" for another value.
func text(value json.RawMessage) string {
	var s string
	if strict(value, &s) != nil {
		return ""
	}
	return s
}
