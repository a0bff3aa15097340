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

const (
	maxAnswer  = 32 << 20 // limit for a response in bytes
	maxLine    = 4 << 20  // limit for a line of a streamed response in bytes
	maxExcerpt = 400      // limit in bytes for invalid input quoted in an error
)

// A provider calls an endpoint with OpenAI's chat completions API.
type provider struct {
	base   string        // base URL, without /chat/completions
	key    string        // API key; empty = not sent
	whole  bool          // responses are not streamed
	limit  time.Duration // time limit for one response
	client *http.Client

	calls sync.Map // IDs of all calls so far
}

// The wire format. Other members of a response are ignored.
type (
	wireMessage struct {
		Role       string          `json:"role,omitempty"`
		Content    json.RawMessage `json:"content,omitempty"`
		ToolCalls  []wireCall      `json:"tool_calls,omitempty"`
		ToolCallID string          `json:"tool_call_id,omitempty"`
	}
	wireCall struct {
		Index    *int         `json:"index,omitempty"`
		ID       string       `json:"id,omitempty"`
		Type     string       `json:"type,omitempty"`
		Function wireFunction `json:"function"`
	}
	wireFunction struct {
		Name        string          `json:"name,omitempty"`
		Arguments   wireArguments   `json:"arguments,omitempty"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	wireTool struct {
		Type     string       `json:"type"`
		Function wireFunction `json:"function"`
	}
	wireAnswer struct {
		Choices []struct {
			Message      wireMessage `json:"message"` // in an unstreamed response
			Delta        wireMessage `json:"delta"`   // in a piece of a streamed response
			FinishReason string      `json:"finish_reason"`
		} `json:"choices"`
		Usage *host.Usage     `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
)

// wireArguments are JSON in a string. Some servers send the JSON value itself.
type wireArguments string

// UnmarshalJSON accepts both forms.
func (a *wireArguments) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	*a = wireArguments(text)
	return nil
}

// Generate calls the model. It implements [host.Provider].
func (p *provider) Generate(ctx context.Context, r *host.Request, yield func(piece string) error) (*host.Response, error) {
	body, err := p.body(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("no answer within %v (--timeout)", p.limit))
	defer cancel()
	address := strings.TrimSuffix(p.base, "/") + "/chat/completions"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, p.failure(ctx, "cannot ask the model", err)
	}
	defer resp.Body.Close()
	answer := io.LimitReader(resp.Body, maxAnswer)
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer, maxExcerpt+1))
		return nil, fmt.Errorf("the model's endpoint %s answers %s: %s", address, resp.Status, excerpt(text))
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return p.pieces(ctx, answer, yield)
	}
	return p.once(ctx, answer, yield)
}

// failure returns an error of the connection, or the cause of ctx.
func (p *provider) failure(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (p *provider) body(r *host.Request) ([]byte, error) {
	body := map[string]any{}
	if len(r.Params) > 0 {
		if err := json.Unmarshal(r.Params, &body); err != nil {
			return nil, fmt.Errorf("the params of the request are not a JSON object: %w", err)
		}
	}
	messages := make([]wireMessage, len(r.Messages))
	for i := range r.Messages {
		messages[i] = toWire(&r.Messages[i])
	}
	body["model"], body["messages"] = r.Model, messages
	if !p.whole {
		body["stream"] = true
	}
	var tools []wireTool
	for _, t := range r.Tools {
		tools = append(tools, wireTool{"function", wireFunction{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
	if len(tools) > 0 {
		body["tools"] = tools
		switch r.ToolChoice {
		case "any":
			body["tool_choice"] = "required"
		case "auto", "none":
			body["tool_choice"] = r.ToolChoice
		}
	}
	return toJSON(body), nil
}

func toWire(m *host.ChatMessage) wireMessage {
	w := wireMessage{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
	if m.Role == "tool" || len(w.Content) == 0 {
		w.Content = toJSON(m.Text()) // servers require a string here
	}
	for _, call := range m.ToolCalls {
		// If the model wrote invalid JSON, it gets its own text back.
		arguments := string(call.Args)
		_ = json.Unmarshal(call.Args, &arguments)
		w.ToolCalls = append(w.ToolCalls, wireCall{ID: call.ID, Type: "function", Function: wireFunction{Name: call.Name, Arguments: wireArguments(arguments)}})
	}
	return w
}

// once reads an unstreamed response.
func (p *provider) once(ctx context.Context, r io.Reader, yield func(string) error) (*host.Response, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, p.failure(ctx, "cannot read the model's answer", err)
	}
	var a wireAnswer
	if err := json.Unmarshal(raw, &a); err != nil || len(a.Choices) == 0 {
		return nil, fmt.Errorf("the model's answer has no choices: %s", excerpt(raw))
	}
	c := &a.Choices[0]
	made := assembly{finish: c.FinishReason, usage: a.Usage}
	for _, call := range c.Message.ToolCalls {
		made.calls = append(made.calls, &call)
	}
	if err := made.add(&wireMessage{Content: c.Message.Content}, yield); err != nil {
		return nil, err
	}
	return made.response(p.ownID), nil
}

// pieces reads a streamed response. If the stream ends early, the finish reason is
// [host.FinishIncomplete].
func (p *provider) pieces(ctx context.Context, r io.Reader, yield func(string) error) (*host.Response, error) {
	var made assembly
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		data = strings.TrimSpace(data)
		switch {
		case !ok || data == "": // a comment, which keeps the connection open, or another field
			continue
		case data == "[DONE]":
			return made.response(p.ownID), nil
		}
		var a wireAnswer
		if err := json.Unmarshal([]byte(data), &a); err != nil {
			return nil, fmt.Errorf("cannot read a piece of the model's answer: %s", excerpt([]byte(data)))
		}
		if len(a.Error) > 0 {
			return nil, fmt.Errorf("the model's endpoint returned an error: %s", excerpt(a.Error))
		}
		if a.Usage != nil {
			made.usage = a.Usage
		}
		if len(a.Choices) == 0 {
			continue
		}
		c := &a.Choices[0]
		if c.FinishReason != "" {
			made.finish = c.FinishReason
		}
		if err := made.add(&c.Delta, yield); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, p.failure(ctx, "the model's answer was canceled", ctx.Err())
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

func (a *assembly) add(m *wireMessage, yield func(string) error) error {
	for _, c := range m.ToolCalls {
		a.call(c)
	}
	var piece string
	if err := json.Unmarshal(m.Content, &piece); err != nil || piece == "" { // usually null
		return nil //nolint:nilerr // non-text content is ignored
	}
	a.text.WriteString(piece)
	return yield(piece)
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
	for {
		if id != "" {
			if _, known := p.calls.LoadOrStore(id, true); !known {
				return id
			}
		}
		id = rand.Text()[:9] // Mistral's models accept only this length
	}
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
		args := json.RawMessage(c.Function.Arguments)
		switch {
		case len(args) == 0:
			args = json.RawMessage("{}")
		case !json.Valid(args):
			args = toJSON(string(c.Function.Arguments)) // the tool reports that it is not an object
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

// excerpt returns the beginning of a server's response, for errors.
func excerpt(text []byte) string {
	if len(text) == 0 {
		return "(nothing)"
	}
	if len(text) > maxExcerpt {
		text = append(text[:maxExcerpt:maxExcerpt], " ..."...)
	}
	return inLine(string(text))
}
