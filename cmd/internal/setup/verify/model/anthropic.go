package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The relevant parts of an Anthropic Messages request. Content is a string or a list of blocks,
// both in messages and in tool results.
type (
	anthropicRequest struct {
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		Tools    []json.RawMessage `json:"tools"`
		Messages []struct {
			Role    string           `json:"role"`
			Content anthropicContent `json:"content"`
		} `json:"messages"`
	}
	anthropicContent []anthropicBlock
	anthropicBlock   struct {
		Type      string           `json:"type"`
		Text      string           `json:"text"`        // text
		ID        string           `json:"id"`          // tool_use
		Name      string           `json:"name"`        // tool_use
		Input     json.RawMessage  `json:"input"`       // tool_use
		ToolUseID string           `json:"tool_use_id"` // tool_result
		Content   anthropicContent `json:"content"`     // tool_result
		IsError   bool             `json:"is_error"`    // tool_result
	}
)

func (c *anthropicContent) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		*c = anthropicContent{{Type: "text"}}
		return json.Unmarshal(b, &(*c)[0].Text)
	}
	return json.Unmarshal(b, (*[]anthropicBlock)(c))
}

func (c anthropicContent) text() string {
	var b strings.Builder
	for _, block := range c {
		b.WriteString(block.Text)
	}
	return b.String()
}

func readAnthropic(body []byte) (*conversation, error) {
	var req anthropicRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	conv := &conversation{tools: len(req.Tools) > 0, stream: req.Stream, model: req.Model}
	calls := map[string]anthropicBlock{}
	for _, msg := range req.Messages {
		conv.roles = append(conv.roles, msg.Role)
		called := false
		for _, block := range msg.Content {
			switch {
			case block.Type == "tool_use":
				called = true
				calls[block.ID] = block
				conv.heard(msg.Role, fmt.Sprintf("call of %s %s", block.Name, block.Input))
			case block.Type == "tool_result":
				call := calls[block.ToolUseID]
				conv.result(ToolResult{
					ID: block.ToolUseID, Tool: call.Name, Input: string(call.Input),
					Text: block.Content.text(), IsError: block.IsError,
				})
				conv.heard(msg.Role, fmt.Sprintf("result of %s %s", call.Name, block.Content.text()))
			case block.Type == "text":
				if msg.Role == "user" {
					conv.prompt(block.Text)
				}
				conv.heard(msg.Role, block.Text)
			}
		}
		if msg.Role == "assistant" && !called {
			conv.answers++
		}
	}
	return conv, nil
}

// writeAnthropic encodes step as one message: its text, then its calls.
func writeAnthropic(s *Server, conv *conversation, step Step) answer {
	var (
		content []any
		sse     bytes.Buffer
	)
	event := func(kind string, fields map[string]any) {
		fields["type"] = kind
		fmt.Fprintf(&sse, "event: %s\ndata: %s\n\n", kind, rawjson.Must(fields))
	}
	message := map[string]any{
		"id": s.newID("msg"), "type": "message", "role": "assistant", "model": conv.model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 9, "output_tokens": 5},
	}
	event("message_start", map[string]any{"message": message})
	block := func(whole, start map[string]any, deltas ...map[string]any) {
		index := len(content)
		content = append(content, whole)
		event("content_block_start", map[string]any{"index": index, "content_block": start})
		for _, delta := range deltas {
			event("content_block_delta", map[string]any{"index": index, "delta": delta})
		}
		event("content_block_stop", map[string]any{"index": index})
	}
	if step.Text != "" {
		var deltas []map[string]any
		for _, piece := range chunks(step.Text, step.Chunks) {
			deltas = append(deltas, map[string]any{"type": "text_delta", "text": piece})
		}
		block(map[string]any{"type": "text", "text": step.Text}, map[string]any{"type": "text", "text": ""}, deltas...)
	}
	stop := "end_turn"
	for _, call := range step.Calls {
		stop = "tool_use"
		id := s.newID("toolu")
		block(
			map[string]any{"type": "tool_use", "id": id, "name": call.Tool, "input": call.input()},
			map[string]any{"type": "tool_use", "id": id, "name": call.Tool, "input": map[string]any{}},
			map[string]any{"type": "input_json_delta", "partial_json": string(rawjson.Must(call.input()))},
		)
	}
	event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
		"usage": map[string]any{"input_tokens": 9, "output_tokens": 5},
	})
	event("message_stop", map[string]any{})
	if conv.stream {
		return answer{"text/event-stream", sse.Bytes()}
	}
	message["content"], message["stop_reason"] = content, stop
	return plainJSON(message)
}
