package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/host"
)

const maxAnswer = 32 << 20 // limit for a response in bytes, and for one line of it

// A provider calls an endpoint with OpenAI's chat completions API, with streamed responses.
type provider struct {
	base, key string        // base URL, without /chat/completions; API key, empty = not sent
	limit     time.Duration // time limit for one response
	calls     sync.Map      // IDs of all calls so far
}

// A wireCall is a tool call in the wire format, or a piece of it.
type wireCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON
	} `json:"function"`
}

// Generate calls the model. It implements [host.Provider].
func (p *provider) Generate(ctx context.Context, r *host.Request, yield func(piece string) error) (*host.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("no answer within %v (--timeout)", p.limit))
	defer cancel()
	address := strings.TrimSuffix(p.base, "/") + "/chat/completions"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body(r)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot ask the model: %w", cmp.Or(context.Cause(ctx), err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return nil, fmt.Errorf("the model's endpoint %s answers %s: %.400q", address, resp.Status, text)
	}
	return p.pieces(ctx, io.LimitReader(resp.Body, maxAnswer), yield)
}

func body(r *host.Request) []byte {
	messages, tools, body := []any{}, []any{}, map[string]any{}
	_ = json.Unmarshal(r.Params, &body) // of hooks; what is no object adds nothing
	for i := range r.Messages {
		messages = append(messages, toWire(&r.Messages[i]))
	}
	for _, t := range r.Tools {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Schema}})
	}
	body["model"], body["messages"], body["stream"] = r.Model, messages, true
	if len(tools) > 0 {
		body["tools"], body["tool_choice"] = tools, cmp.Or(map[string]string{"any": "required", "none": "none"}[r.ToolChoice], "auto")
	}
	return toJSON(body)
}

func toWire(m *host.ChatMessage) map[string]any {
	w := map[string]any{"role": m.Role, "content": m.Content}
	if m.Role == "tool" || len(m.Content) == 0 {
		w["content"] = m.Text() // servers require a string here
	}
	if m.ToolCallID != "" {
		w["tool_call_id"] = m.ToolCallID
	}
	calls := make([]wireCall, len(m.ToolCalls))
	for i, call := range m.ToolCalls {
		calls[i].ID, calls[i].Type, calls[i].Function.Name, calls[i].Function.Arguments = call.ID, "function", call.Name, string(call.Args)
		_ = json.Unmarshal(call.Args, &calls[i].Function.Arguments) // a model that wrote invalid JSON gets its own text back
	}
	if len(calls) > 0 {
		w["tool_calls"] = calls
	}
	return w
}

// pieces reads a response. If it ends early, the finish reason is [host.FinishIncomplete].
func (p *provider) pieces(ctx context.Context, r io.Reader, yield func(string) error) (*host.Response, error) {
	var made assembly
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		data = strings.TrimSpace(data)
		switch {
		case !ok || data == "": // a comment, which keeps the connection open, or another field
			continue
		case data == "[DONE]":
			return made.response(p.ownID), nil
		}
		var a struct {
			Choices []struct {
				Delta struct {
					Content any
					Calls   []wireCall `json:"tool_calls"`
				}
				Finish string `json:"finish_reason"`
			}
			Usage *host.Usage
			Error json.RawMessage
		}
		switch err := json.Unmarshal([]byte(data), &a); {
		case err != nil:
			return nil, fmt.Errorf("cannot read a piece of the model's answer: %.400q", data)
		case len(a.Error) > 0:
			return nil, fmt.Errorf("the model's endpoint returned an error: %.400q", a.Error)
		}
		made.usage = cmp.Or(a.Usage, made.usage)
		for _, c := range a.Choices { // there is one, or none
			made.finish = cmp.Or(c.Finish, made.finish)
			for _, call := range c.Delta.Calls {
				made.call(call)
			}
			if piece, ok := c.Delta.Content.(string); ok && piece != "" { // usually null
				made.text.WriteString(piece)
				if err := yield(piece); err != nil {
					return nil, err
				}
			}
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the model's answer was canceled: %w", context.Cause(ctx))
	}
	if made.finish == "" || lines.Err() != nil {
		made.finish = host.FinishIncomplete
	}
	return made.response(p.ownID), nil
}

// An assembly is the part of a response that has been received.
type assembly struct {
	text   strings.Builder
	calls  []*wireCall
	finish string
	usage  *host.Usage
}

// call adds a piece to its call, identified by index and ID if they are present. Some servers
// send the same index for all calls but different IDs, others the reverse, and others send
// neither with later pieces.
func (a *assembly) call(c wireCall) {
	for _, o := range slices.Backward(a.calls) {
		indexed := c.Index != nil && o.Index != nil
		switch {
		case indexed && *c.Index != *o.Index:
		case c.Function.Name == "", c.ID != "" && c.ID == o.ID, c.ID == "" && indexed:
			o.Function.Name = cmp.Or(o.Function.Name, c.Function.Name)
			o.Function.Arguments += c.Function.Arguments
			return
		}
	}
	a.calls = append(a.calls, &c)
}

// ownID returns the ID of a call, or a new one if the ID is empty or already used. Some servers
// number the calls of each response from 0, and a limit would count equal IDs as one call.
func (p *provider) ownID(id string) string {
	_, known := p.calls.LoadOrStore(id, true)
	for id == "" || known {
		id = rand.Text()[:9] // Mistral's models accept only this length
		_, known = p.calls.LoadOrStore(id, true)
	}
	return id
}

// response returns the complete response. ownID creates the IDs of its calls.
func (a *assembly) response(ownID func(string) string) *host.Response {
	r := &host.Response{Content: json.RawMessage("null"), FinishReason: a.finish, Usage: a.usage}
	if a.text.Len() > 0 || len(a.calls) == 0 {
		r.Content = toJSON(a.text.String())
	}
	if a.finish == host.FinishIncomplete {
		return r // an incomplete call is dropped
	}
	for _, c := range a.calls {
		args := json.RawMessage(cmp.Or(c.Function.Arguments, "{}"))
		if !json.Valid(args) {
			args = toJSON(c.Function.Arguments) // the tool reports that it is not an object
		}
		r.ToolCalls = append(r.ToolCalls, host.ToolCall{ID: ownID(c.ID), Name: c.Function.Name, Args: args})
	}
	return r
}

// toJSON encodes a value as JSON without HTML escaping.
func toJSON(value any) json.RawMessage {
	raw, err := host.JSON(value)
	if err != nil { // one of our schemas or parameters is invalid JSON
		panic(fmt.Sprintf("agent: cannot write %T as JSON: %v", value, err))
	}
	return raw
}
