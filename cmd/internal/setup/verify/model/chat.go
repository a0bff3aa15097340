package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The relevant parts of an OpenAI chat completions request.
type (
	chatRequest struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Tools  []struct {
			Function struct {
				Name       string     `json:"name"`
				Parameters jsonSchema `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role       string     `json:"role"`
			Content    openAIText `json:"content"`
			ToolCallID string     `json:"tool_call_id"` // role tool
			ToolCalls  []chatCall `json:"tool_calls"`   // role assistant
		} `json:"messages"`
	}
	chatCall struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
)

// openAIText is content as a string or as a list of parts. Only parts of type text are used. Null
// means no text.
type openAIText []string

func (c *openAIText) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		var parts []struct {
			Text string `json:"text"`
		}
		err := json.Unmarshal(b, &parts)
		for _, part := range parts {
			*c = append(*c, part.Text)
		}
		return err
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if text != "" {
		*c = openAIText{text}
	}
	return nil
}

func (c openAIText) String() string { return strings.Join(c, "") }

// classifier is the tool by which Qwen Code requests an answer in a given format. A request that
// offers only this tool is a side call.
const classifier = "respond_in_schema"

func readChat(body []byte) (*conversation, error) {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	conv := &conversation{tools: len(req.Tools) > 0, stream: req.Stream, model: req.Model}
	if len(req.Tools) == 1 && req.Tools[0].Function.Name == classifier {
		conv.tools = false
		step := Do(Call{Tool: classifier, Input: req.Tools[0].Function.Parameters.object()})
		conv.side = &step
	}
	calls := map[string]chatCall{}
	for _, msg := range req.Messages {
		conv.roles = append(conv.roles, msg.Role)
		if msg.Role == "tool" {
			call := calls[msg.ToolCallID]
			conv.result(ToolResult{ID: msg.ToolCallID, Tool: call.Function.Name, Input: call.Function.Arguments, Text: msg.Content.String()})
			conv.heard(msg.Role, fmt.Sprintf("result of %s %s", call.Function.Name, msg.Content))
			continue
		}
		for _, text := range msg.Content {
			if msg.Role == "user" {
				conv.prompt(text)
			}
			conv.heard(msg.Role, text)
		}
		for _, call := range msg.ToolCalls {
			calls[call.ID] = call
			conv.heard(msg.Role, fmt.Sprintf("call of %s %s", call.Function.Name, call.Function.Arguments))
		}
		if msg.Role == "assistant" && len(msg.ToolCalls) == 0 {
			conv.answers++
		}
	}
	return conv, nil
}

// writeChat encodes step as a stream of deltas, or as one message.
func writeChat(s *Server, conv *conversation, step Step) answer {
	var calls []any
	for i, call := range step.Calls {
		calls = append(calls, map[string]any{
			"index": i, "id": s.newID("call"), "type": "function",
			"function": map[string]any{"name": call.Tool, "arguments": string(rawjson.Must(call.input()))},
		})
	}
	finish := "stop"
	message := map[string]any{"role": "assistant", "content": step.Text}
	if len(calls) > 0 {
		finish = "tool_calls"
		message["tool_calls"] = calls
	}
	id := s.newID("chatcmpl")
	object := func(kind string, choices ...any) map[string]any {
		if choices == nil {
			choices = []any{}
		}
		return map[string]any{"id": id, "object": kind, "created": 1, "model": conv.model, "choices": choices}
	}
	usage := map[string]any{"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
	if !conv.stream {
		whole := object("chat.completion", map[string]any{"index": 0, "message": message, "finish_reason": finish})
		whole["usage"] = usage
		return plainJSON(whole)
	}

	var sse bytes.Buffer
	chunk := func(v any) { fmt.Fprintf(&sse, "data: %s\n\n", rawjson.Must(v)) }
	delta := func(delta map[string]any, finish any) {
		chunk(object("chat.completion.chunk", map[string]any{"index": 0, "delta": delta, "finish_reason": finish}))
	}
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	if step.Text != "" {
		for _, piece := range chunks(step.Text, step.Chunks) {
			delta(map[string]any{"content": piece}, nil)
		}
	}
	if len(calls) > 0 {
		delta(map[string]any{"tool_calls": calls}, nil)
	}
	delta(map[string]any{}, finish)
	last := object("chat.completion.chunk")
	last["usage"] = usage // in a separate chunk: all agents request it with stream_options
	chunk(last)
	sse.WriteString("data: [DONE]\n\n")
	return answer{"text/event-stream", sse.Bytes()}
}

// A jsonSchema is the part of a JSON Schema that is needed to create a matching value.
type jsonSchema struct {
	Type       any                   `json:"type"`
	Enum       []any                 `json:"enum"`
	Required   []string              `json:"required"`
	Properties map[string]jsonSchema `json:"properties"`
}

// object returns a value for every required property: the first one of its enum, or the empty value
// of its type.
func (s jsonSchema) object() map[string]any {
	out := map[string]any{}
	for _, name := range s.Required {
		out[name] = s.Properties[name].value()
	}
	return out
}

func (s jsonSchema) value() any {
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch s.Type {
	case "object":
		return s.object()
	case "array":
		return []any{}
	case "boolean":
		return false
	case "integer", "number":
		return 0
	default:
		return "side call"
	}
}
