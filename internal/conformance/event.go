package conformance

import (
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel"
)

// An eventDef is one event as a case writes it.
type eventDef struct {
	Event  grapnel.Kind    `json:"event"`
	Native string          `json:"native_event"`
	Input  json.RawMessage `json:"input"`
}

// input is an event's own fields.
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
	ThreadID     *string         `json:"thread_id"`
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

// resolve finds the event by the system's own name where that stands alone.
func (d *eventDef) resolve(f *family) (err error) {
	if d.Event == "" && d.Native != "" {
		d.Event, err = f.kindOf(d.Native)
	}
	if err == nil && !d.Event.Known() {
		err = fmt.Errorf("unknown event %q", d.Event)
	}
	return err
}

// event makes the Event. What has no place in it stays in its Native part. An
// event that cannot be had is empty: whoever fires it says so to the engine.
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
	s := &ev.Session
	s.ID, s.User, s.Channel, s.Model, s.Turn = in.SessionID, in.UserID, in.Channel, in.Model, in.Turn.String()
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
	default: // notices: their Native part says all
	}
	return ev, nil
}

// primary is the field of an event that hooks read and rewrite.
type primary struct {
	word  string // in cases
	field grapnel.Field
}

// sessionField is a field that no event permits to change.
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

// value is the field as JSON.
func (p primary) value(ev *grapnel.Event) json.RawMessage {
	if p.field == sessionField {
		return encode(ev.Session.ID)
	}
	value, ok := ev.Get(p.field)
	if !ok {
		return json.RawMessage("null")
	}
	return value
}

// text is a value as text: a text itself, and anything else as compact JSON with its
// members in order.
func (p primary) text(value json.RawMessage) string {
	if p.field != grapnel.FieldInput {
		return text(value)
	}
	return string(encode(plain(value)))
}

// text is the text that a JSON value is; another value has none.
func text(value json.RawMessage) string {
	var s string
	if strict(value, &s) != nil {
		return ""
	}
	return s
}
