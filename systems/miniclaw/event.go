package miniclaw

import (
	"encoding/json"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// An Event is a moment in the work of an agent: [AgentStart], [PreToolCall], [PostToolCall] or
// [AgentEnd]. An agent dispatches them in this order. No other package can add events.
type Event interface {
	// engineEvent returns the event in the engine's form.
	engineEvent() *grapnel.Event
}

// AgentStart is dispatched once, before the first call of the model.
type AgentStart struct {
	Prompt string `json:"prompt"`
}

// PreToolCall is dispatched before a tool runs. Only at this event an [Action] has an effect.
type PreToolCall struct {
	ToolName string          `json:"tool_name"`
	Args     json.RawMessage `json:"args"` // any JSON value; empty = null
}

// PostToolCall is dispatched after a tool ran. A blocked call has none.
type PostToolCall struct {
	ToolName string          `json:"tool_name"`
	Args     json.RawMessage `json:"args"` // any JSON value; empty = null
	Result   string          `json:"result"`
}

// AgentEnd is dispatched once, after the final answer.
type AgentEnd struct {
	Response string `json:"response"`
}

// kinds lists the engine's events that hooks get. A call that failed is a PostToolCall too.
var kinds = []grapnel.Kind{grapnel.AgentBefore, grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolFailed, grapnel.AgentAfter}

func newEvent(kind grapnel.Kind) *grapnel.Event {
	return &grapnel.Event{Kind: kind, Agent: grapnel.Agent{Name: dialect.Miniclaw().Name}}
}

func (e AgentStart) engineEvent() *grapnel.Event {
	ev := newEvent(grapnel.AgentBefore)
	ev.Prompt = &grapnel.Prompt{Text: e.Prompt}
	return ev
}

func (e PreToolCall) engineEvent() *grapnel.Event {
	ev := newEvent(grapnel.ToolBefore)
	ev.Tool = &grapnel.Tool{Name: e.ToolName, Input: orNull(e.Args)}
	return ev
}

func (e PostToolCall) engineEvent() *grapnel.Event {
	ev := newEvent(grapnel.ToolAfter)
	ev.Tool = &grapnel.Tool{Name: e.ToolName, Input: orNull(e.Args), Output: rawjson.Quote(e.Result)}
	return ev
}

func (e AgentEnd) engineEvent() *grapnel.Event {
	ev := newEvent(grapnel.AgentAfter)
	ev.Stop = &grapnel.Stop{LastMessage: e.Response}
	ev.Model = &grapnel.Model{Response: rawjson.Quote(e.Response)}
	return ev
}

func orNull(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("null")
	}
	return args
}

// eventOf returns an event of the engine in the form that hooks get, or nil if they do not get it.
func eventOf(ev *grapnel.Event) Event {
	var tool grapnel.Tool
	if ev.Tool != nil {
		tool = *ev.Tool
	}
	switch ev.Kind {
	case grapnel.AgentBefore:
		if ev.Prompt == nil {
			return AgentStart{}
		}
		return AgentStart{ev.Prompt.Text}
	case grapnel.ToolBefore:
		return PreToolCall{tool.Name, tool.Input}
	case grapnel.ToolAfter, grapnel.ToolFailed:
		result, isText := rawjson.Unquote(tool.Output)
		if !isText {
			result = string(tool.Output)
		}
		return PostToolCall{tool.Name, tool.Input, result}
	case grapnel.AgentAfter:
		if ev.Stop == nil {
			return AgentEnd{}
		}
		return AgentEnd{ev.Stop.LastMessage}
	default:
		return nil
	}
}
