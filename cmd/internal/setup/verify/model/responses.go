package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The relevant parts of an OpenAI Responses request. Input is a list of messages, calls and
// results.
type (
	responsesRequest struct {
		Model  string            `json:"model"`
		Stream bool              `json:"stream"`
		Tools  []json.RawMessage `json:"tools"`
		Input  []responsesItem   `json:"input"`
	}
	responsesItem struct {
		Type      string     `json:"type"`
		Role      string     `json:"role"`      // message
		Content   openAIText `json:"content"`   // message
		CallID    string     `json:"call_id"`   // calls and results
		Name      string     `json:"name"`      // calls
		Arguments string     `json:"arguments"` // function_call: JSON
		Input     string     `json:"input"`     // custom_tool_call: any text
		Output    openAIText `json:"output"`    // results

		Tools []json.RawMessage `json:"tools"` // additional_tools: newer models have all tools here
	}
)

func readResponses(body []byte) (*conversation, error) {
	var req responsesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	conv := &conversation{tools: len(req.Tools) > 0, stream: req.Stream, model: req.Model}
	calls := map[string]responsesItem{}
	answered := false // the model has sent text, so far without a call
	ended := func() {
		if answered {
			conv.answers++
		}
		answered = false
	}
	for _, item := range req.Input {
		switch {
		case item.Type == "additional_tools":
			conv.tools = conv.tools || len(item.Tools) > 0
		case strings.HasSuffix(item.Type, "_call"):
			answered = false // the text and this call are one turn
			calls[item.CallID] = item
			conv.roles = append(conv.roles, "assistant")
			conv.heard("assistant", fmt.Sprintf("call of %s %s", item.Name, item.Arguments+item.Input))
		case strings.HasSuffix(item.Type, "_call_output"):
			call := calls[item.CallID]
			conv.result(ToolResult{ID: item.CallID, Tool: call.Name, Input: call.Arguments + call.Input, Text: item.Output.String()})
			conv.roles = append(conv.roles, "tool")
			conv.heard("tool", fmt.Sprintf("result of %s %s", call.Name, item.Output))
		case item.Role != "":
			ended()
			answered = item.Role == "assistant"
			conv.roles = append(conv.roles, item.Role)
			for _, text := range item.Content {
				if item.Role == "user" {
					conv.prompt(text)
				}
				conv.heard(item.Role, text)
			}
		}
	}
	ended()
	return conv, nil
}

// writeResponses encodes step as one response: a message, then its calls.
func writeResponses(s *Server, conv *conversation, step Step) answer {
	var (
		output []any
		sse    bytes.Buffer
	)
	event := func(kind string, fields map[string]any) {
		fields["type"] = kind
		fmt.Fprintf(&sse, "event: %s\ndata: %s\n\n", kind, rawjson.Must(fields))
	}
	response := map[string]any{"id": s.newID("resp"), "object": "response", "status": "in_progress", "model": conv.model, "output": []any{}}
	event("response.created", map[string]any{"response": response})
	done := func(item map[string]any) {
		event("response.output_item.done", map[string]any{"output_index": len(output), "item": item})
		output = append(output, item)
	}
	if step.Text != "" {
		id := s.newID("msg")
		item := func(content ...any) map[string]any {
			if content == nil {
				content = []any{}
			}
			return map[string]any{"type": "message", "role": "assistant", "id": id, "content": content}
		}
		event("response.output_item.added", map[string]any{"output_index": 0, "item": item()})
		for _, piece := range chunks(step.Text, step.Chunks) {
			event("response.output_text.delta", map[string]any{"output_index": 0, "content_index": 0, "item_id": id, "delta": piece})
		}
		done(item(map[string]any{"type": "output_text", "text": step.Text}))
	}
	for _, call := range step.Calls {
		item := map[string]any{"type": "function_call", "name": call.Tool, "call_id": s.newID("call"), "arguments": string(rawjson.Must(call.input()))}
		if call.Raw != "" {
			delete(item, "arguments")
			item["type"], item["input"], item["status"] = "custom_tool_call", call.Raw, "completed"
		}
		done(item)
	}
	completed := map[string]any{
		"id": response["id"], "object": "response", "status": "completed", "model": conv.model, "output": output,
		"usage": map[string]any{"input_tokens": 9, "input_tokens_details": nil, "output_tokens": 2, "output_tokens_details": nil, "total_tokens": 11},
	}
	event("response.completed", map[string]any{"response": completed})
	if conv.stream {
		return answer{"text/event-stream", sse.Bytes()}
	}
	return plainJSON(completed)
}
