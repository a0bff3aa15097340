package host

import (
	"context"
	"encoding/json"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A ChatMessage is one message of a conversation, in the format for models and hooks.
type ChatMessage struct {
	Role       string          `json:"role"`    // system, user, assistant, tool
	Content    json.RawMessage `json:"content"` // usually a text; null if an assistant message only calls tools
	ToolCalls  []ToolCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"` // tool messages: the ID of the call
	IsError    bool            `json:"is_error,omitempty"`     // tool messages: the call failed or was refused
}

// Text returns a message with a text as content.
func Text(role, text string) ChatMessage {
	return ChatMessage{Role: role, Content: rawjson.Quote(text)}
}

// Text returns the content as text, or its JSON if it is not a string.
func (m *ChatMessage) Text() string { return textOf(m.Content) }

// A ToolCall is a call that a model requests.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// A Request is the input of a model call.
type Request struct {
	Model      string          `json:"model"`
	Messages   []ChatMessage   `json:"messages"`
	Tools      []ToolSchema    `json:"tools,omitempty"`
	ToolChoice string          `json:"tool_choice,omitempty"` // auto, any, none
	Params     json.RawMessage `json:"params,omitempty"`      // temperature and similar parameters, for the provider
}

// A ToolSchema describes a tool for the model.
type ToolSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // JSON Schema of the input
}

// A Response is a model's answer. In a Loop, content and arguments that are not JSON are treated
// as text.
type Response struct {
	Content      json.RawMessage `json:"content"`    // a text, or null
	ToolCalls    []ToolCall      `json:"tool_calls"` // encoded as [] if empty, never absent
	FinishReason string          `json:"finish_reason"`
	Attachments  []string        `json:"attachments,omitempty"`
	Usage        *Usage          `json:"usage,omitempty"`
}

// Values of FinishReason for streamed responses.
const (
	FinishIncremental = "incremental"       // the response continues
	FinishIncomplete  = "stream_incomplete" // the response broke off
)

// Usage is the token usage of a model call.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// MarshalJSON encodes the response. tool_calls is always present, and [] if empty.
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

// A Provider calls a model. Generate may call yield with each piece of text, in order, until
// yield returns an error, which Generate then returns. If a response breaks off, Generate returns
// the received part with [FinishIncomplete].
type Provider interface {
	Generate(ctx context.Context, r *Request, yield func(piece string) error) (*Response, error)
}

// ProviderFunc adapts a function to a Provider.
type ProviderFunc func(ctx context.Context, r *Request, yield func(piece string) error) (*Response, error)

// Generate calls f.
func (f ProviderFunc) Generate(ctx context.Context, r *Request, yield func(piece string) error) (*Response, error) {
	return f(ctx, r, yield)
}

// An AgentTool is a tool of a Loop.
type AgentTool struct {
	ToolInfo
	Description string
	Schema      json.RawMessage // JSON Schema of its input; empty = any object
	Run         ToolFunc
}

// Infos returns the ToolInfo of each tool, for Options.Tools.
func Infos(tools []AgentTool) []ToolInfo {
	infos := make([]ToolInfo, len(tools))
	for i := range tools {
		infos[i] = tools[i].ToolInfo
	}
	return infos
}
