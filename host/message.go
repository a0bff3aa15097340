package host

import (
	"context"
	"encoding/json"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Message is one message of a conversation, as models see it and hooks too.
type Message struct {
	Role       string          `json:"role"`    // system, user, assistant, tool
	Content    json.RawMessage `json:"content"` // a text, mostly; null where an assistant only calls tools
	ToolCalls  []ToolCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"` // tool: the call that it answers
	IsError    bool            `json:"is_error,omitempty"`     // tool: it failed, or was refused
}

// Text returns a message that is a text.
func Text(role, text string) Message { return Message{Role: role, Content: rawjson.Quote(text)} }

// Text is the content as text; JSON where it is no text.
func (m *Message) Text() string { return textOf(m.Content) }

// A ToolCall is a call that a model wants.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// A Request is what the model is asked.
type Request struct {
	Model      string          `json:"model"`
	Messages   []Message       `json:"messages"`
	Tools      []ToolSchema    `json:"tools,omitempty"`
	ToolChoice string          `json:"tool_choice,omitempty"` // auto, any, none
	Params     json.RawMessage `json:"params,omitempty"`      // temperature and the like, for whoever calls the model
}

// A ToolSchema is what the model is told of a tool.
type ToolSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its input
}

// A Response is what the model answers. In a Loop, content and arguments that are no JSON
// count as text.
type Response struct {
	Content      json.RawMessage `json:"content"`    // a text, or null
	ToolCalls    []ToolCall      `json:"tool_calls"` // empty and never absent in JSON
	FinishReason string          `json:"finish_reason"`
	Attachments  []string        `json:"attachments,omitempty"`
	Usage        *Usage          `json:"usage,omitempty"`
}

// How a Response that comes in pieces ends.
const (
	FinishIncremental = "incremental"       // it goes on
	FinishIncomplete  = "stream_incomplete" // it broke off
)

// Usage is what a call of the model used.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// MarshalJSON writes the response with tool calls that are there, if only as [].
func (r Response) MarshalJSON() ([]byte, error) {
	type plain Response
	p := plain(r)
	if p.ToolCalls == nil {
		p.ToolCalls = []ToolCall{}
	}
	if len(p.Content) == 0 {
		p.Content = json.RawMessage("null")
	}
	return JSON(p)
}

// A Provider answers requests, as one of models does. Yield may be called with each piece
// of text as it comes, in order, until it returns an error, which Generate then returns. A
// response that broke off is returned with [FinishIncomplete] and what came of it.
type Provider interface {
	Generate(ctx context.Context, r *Request, yield func(piece string) error) (*Response, error)
}

// ProviderFunc lets a function be a Provider.
type ProviderFunc func(ctx context.Context, r *Request, yield func(piece string) error) (*Response, error)

// Generate calls f.
func (f ProviderFunc) Generate(ctx context.Context, r *Request, yield func(piece string) error) (*Response, error) {
	return f(ctx, r, yield)
}

// An AgentTool is what a Loop can do.
type AgentTool struct {
	ToolInfo
	Description string
	Schema      json.RawMessage // JSON Schema of its input; empty = any object
	Run         ToolFunc
}

// Infos is what a Host needs to know of tools.
func Infos(tools []AgentTool) []ToolInfo {
	infos := make([]ToolInfo, len(tools))
	for i := range tools {
		infos[i] = tools[i].ToolInfo
	}
	return infos
}
