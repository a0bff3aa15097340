package ironclaw

import (
	"cmp"
	"encoding/json"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A HookEvent is the data of a [HookPoint]: [Inbound], [ToolCall], [Outbound], [SessionStart],
// [SessionEnd] or [ResponseTransform]. No other package can add events.
type HookEvent interface {
	// Point returns the point at which the event happens.
	Point() HookPoint
	// PrimaryContent returns the text that rules read and that a modification replaces: Content,
	// Response, SessionID, or Parameters as compact JSON with sorted keys.
	PrimaryContent() string
	// engineEvent returns the event in the engine's form.
	engineEvent() *grapnel.Event
}

// Inbound is a message of the user, at [BeforeInbound].
type Inbound struct {
	UserID   string `json:"user_id"`
	Channel  string `json:"channel"`
	Content  string `json:"content"`
	ThreadID string `json:"thread_id,omitempty"` // empty = the message is in no thread
}

// ToolCall is a call of a tool, at [BeforeToolCall].
type ToolCall struct {
	ToolName   string          `json:"tool_name"`
	Parameters json.RawMessage `json:"parameters"` // any JSON value; empty = null
	UserID     string          `json:"user_id"`
	Context    string          `json:"context"` // chat while a user waits, or the ID of a job; empty = chat
}

// Outbound is a message to the user, at [BeforeOutbound].
type Outbound struct {
	UserID   string `json:"user_id"`
	Channel  string `json:"channel"`
	Content  string `json:"content"`
	ThreadID string `json:"thread_id,omitempty"` // empty = the message is in no thread
}

// SessionStart is the begin of a session, at [OnSessionStart]. Hooks cannot modify it.
type SessionStart struct {
	UserID    string `json:"user_id"`
	SessionID string `json:"session_id"`
}

// SessionEnd is the end of a session, at [OnSessionEnd]. Hooks cannot modify it.
type SessionEnd struct {
	UserID    string   `json:"user_id"`
	SessionID string   `json:"session_id"`
	ThreadIDs []string `json:"thread_ids"` // the conversations of the session
}

// ResponseTransform is the final answer of a turn, at [TransformResponse].
type ResponseTransform struct {
	UserID   string `json:"user_id"`
	ThreadID string `json:"thread_id"`
	Response string `json:"response"`
}

// Point returns [BeforeInbound].
func (Inbound) Point() HookPoint { return BeforeInbound }

// Point returns [BeforeToolCall].
func (ToolCall) Point() HookPoint { return BeforeToolCall }

// Point returns [BeforeOutbound].
func (Outbound) Point() HookPoint { return BeforeOutbound }

// Point returns [OnSessionStart].
func (SessionStart) Point() HookPoint { return OnSessionStart }

// Point returns [OnSessionEnd].
func (SessionEnd) Point() HookPoint { return OnSessionEnd }

// Point returns [TransformResponse].
func (ResponseTransform) Point() HookPoint { return TransformResponse }

// PrimaryContent returns the Content.
func (e Inbound) PrimaryContent() string { return e.Content }

// PrimaryContent returns the Parameters as compact JSON with sorted keys. If they are not JSON, it
// returns them unchanged.
func (e ToolCall) PrimaryContent() string {
	text, err := rawjson.Sorted(orNull(e.Parameters))
	if err != nil {
		return string(e.Parameters)
	}
	return text
}

// PrimaryContent returns the Content.
func (e Outbound) PrimaryContent() string { return e.Content }

// PrimaryContent returns the SessionID.
func (e SessionStart) PrimaryContent() string { return e.SessionID }

// PrimaryContent returns the SessionID.
func (e SessionEnd) PrimaryContent() string { return e.SessionID }

// PrimaryContent returns the Response.
func (e ResponseTransform) PrimaryContent() string { return e.Response }

func orNull(params json.RawMessage) json.RawMessage {
	if len(params) == 0 {
		return json.RawMessage("null")
	}
	return params
}

// chat is the context of a call while a user waits.
const chat = "chat"

func newEvent(e HookEvent, s grapnel.Session) *grapnel.Event {
	return &grapnel.Event{Kind: e.Point().Kind(), Agent: grapnel.Agent{Name: presetName}, Session: s}
}

func (e Inbound) engineEvent() *grapnel.Event {
	ev := newEvent(e, grapnel.Session{User: e.UserID, Channel: e.Channel, Thread: e.ThreadID})
	ev.Prompt = &grapnel.Prompt{Text: e.Content}
	return ev
}

func (e ToolCall) engineEvent() *grapnel.Event {
	ev := newEvent(e, grapnel.Session{User: e.UserID})
	if e.Context != chat {
		ev.Session.Job = e.Context
	}
	ev.Tool = &grapnel.Tool{Name: e.ToolName, Input: orNull(e.Parameters)}
	return ev
}

func (e Outbound) engineEvent() *grapnel.Event {
	ev := newEvent(e, grapnel.Session{User: e.UserID, Channel: e.Channel, Thread: e.ThreadID})
	ev.Message = &grapnel.Message{Channel: e.Channel, Content: e.Content}
	return ev
}

func (e SessionStart) engineEvent() *grapnel.Event {
	return newEvent(e, grapnel.Session{User: e.UserID, ID: e.SessionID})
}

func (e SessionEnd) engineEvent() *grapnel.Event {
	return newEvent(e, grapnel.Session{User: e.UserID, ID: e.SessionID, Threads: e.ThreadIDs})
}

func (e ResponseTransform) engineEvent() *grapnel.Event {
	ev := newEvent(e, grapnel.Session{User: e.UserID, Thread: e.ThreadID})
	ev.Model = &grapnel.Model{Response: rawjson.Quote(e.Response)}
	return ev
}

// primaryField returns the field of an engine's event that a modification replaces, or "".
func primaryField(kind grapnel.Kind) grapnel.Field {
	switch kind {
	case grapnel.PromptBefore:
		return grapnel.FieldPrompt
	case grapnel.ToolBefore:
		return grapnel.FieldInput
	case grapnel.MessageBefore:
		return grapnel.FieldText
	case grapnel.ResponseBefore:
		return grapnel.FieldResponse
	default:
		return ""
	}
}

// eventOf returns an event of the engine in the form that hooks get, or nil if they do not get it.
func eventOf(ev *grapnel.Event) HookEvent {
	s := &ev.Session
	text := func(field grapnel.Field) string {
		raw, _ := ev.Get(field)
		if text, ok := rawjson.Unquote(raw); ok {
			return text
		}
		return string(raw)
	}
	switch ev.Kind {
	case grapnel.PromptBefore:
		return Inbound{s.User, s.Channel, text(grapnel.FieldPrompt), s.Thread}
	case grapnel.ToolBefore:
		call := ToolCall{UserID: s.User, Context: cmp.Or(s.Job, chat)}
		if ev.Tool != nil {
			call.ToolName, call.Parameters = ev.Tool.Name, ev.Tool.Input
		}
		return call
	case grapnel.MessageBefore:
		channel := s.Channel
		if ev.Message != nil && ev.Message.Channel != "" {
			channel = ev.Message.Channel
		}
		return Outbound{s.User, channel, text(grapnel.FieldText), s.Thread}
	case grapnel.SessionStart:
		return SessionStart{s.User, s.ID}
	case grapnel.SessionEnd:
		return SessionEnd{s.User, s.ID, s.Threads}
	case grapnel.ResponseBefore:
		return ResponseTransform{s.User, s.Thread, text(grapnel.FieldResponse)}
	default:
		return nil
	}
}
