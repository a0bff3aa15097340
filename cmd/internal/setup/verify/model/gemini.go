package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The relevant parts of a Gemini generateContent request.
type (
	geminiRequest struct {
		Tools []struct {
			FunctionDeclarations []json.RawMessage `json:"functionDeclarations"`
		} `json:"tools"`
		Contents []struct {
			Role  string       `json:"role"`
			Parts []geminiPart `json:"parts"`
		} `json:"contents"`
	}
	geminiPart struct {
		Text         string `json:"text"`
		FunctionCall *struct {
			ID   string          `json:"id"`
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"functionCall"`
		FunctionResponse *struct {
			ID       string         `json:"id"`
			Name     string         `json:"name"`
			Response map[string]any `json:"response"`
		} `json:"functionResponse"`
	}
)

func readGemini(body []byte) (*conversation, error) {
	var req geminiRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	conv := &conversation{}
	for _, tool := range req.Tools {
		conv.tools = conv.tools || len(tool.FunctionDeclarations) > 0
	}
	inputs := map[string]json.RawMessage{}
	for _, content := range req.Contents {
		conv.roles = append(conv.roles, content.Role)
		called := false
		for _, part := range content.Parts {
			switch {
			case part.FunctionCall != nil:
				called = true
				inputs[part.FunctionCall.ID] = part.FunctionCall.Args
				conv.heard(content.Role, fmt.Sprintf("call of %s %s", part.FunctionCall.Name, part.FunctionCall.Args))
			case part.FunctionResponse != nil:
				res := part.FunctionResponse
				text, failed := geminiResult(res.Response)
				conv.result(ToolResult{ID: res.ID, Tool: res.Name, Input: string(inputs[res.ID]), Text: text, IsError: failed})
				conv.heard(content.Role, fmt.Sprintf("result of %s %s", res.Name, text))
			default:
				if content.Role == "user" {
					conv.prompt(part.Text)
				}
				conv.heard(content.Role, part.Text)
			}
		}
		if content.Role == "model" && !called {
			conv.answers++
		}
	}
	return conv, nil
}

// geminiResult returns the text of a function response, and whether it is an error: Gemini CLI
// answers with {"output": text} or {"error": text}.
func geminiResult(response map[string]any) (text string, failed bool) {
	for _, key := range []string{"error", "output"} {
		if s, ok := response[key].(string); ok && len(response) == 1 {
			return s, key == "error"
		}
	}
	_, failed = response["error"]
	return string(rawjson.Must(response)), failed
}

// writeGemini encodes step as a stream of responses, of which only the last one has a finish reason,
// or as one complete response.
func writeGemini(s *Server, conv *conversation, step Step) answer {
	var turns [][]any // parts of each response
	if step.Text != "" || len(step.Calls) == 0 {
		for _, piece := range chunks(step.Text, step.Chunks) {
			turns = append(turns, []any{map[string]any{"text": piece}})
		}
	}
	if len(step.Calls) > 0 {
		var parts []any
		for _, call := range step.Calls {
			parts = append(parts, map[string]any{"functionCall": map[string]any{"id": s.newID("call"), "name": call.Tool, "args": call.input()}})
		}
		if step.Text != "" && step.Chunks == 0 {
			turns[0] = append(turns[0], parts...)
		} else {
			turns = append(turns, parts)
		}
	}
	if !conv.stream {
		return plainJSON(geminiResponse(slices.Concat(turns...), true))
	}
	var sse bytes.Buffer
	for i, parts := range turns {
		fmt.Fprintf(&sse, "data: %s\n\n", rawjson.Must(geminiResponse(parts, i == len(turns)-1)))
	}
	return answer{"text/event-stream", sse.Bytes()}
}

func geminiResponse(parts []any, last bool) map[string]any {
	candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
	if last {
		candidate["finishReason"] = "STOP"
	}
	return map[string]any{
		"candidates":    []any{candidate},
		"usageMetadata": map[string]any{"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12},
	}
}
