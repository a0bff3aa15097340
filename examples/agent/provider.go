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
	maxAnswer  = 32 << 20 // bytes of an answer that are read
	maxLine    = 4 << 20  // bytes of one of its lines, where it comes in pieces
	maxExcerpt = 400      // bytes of what is not understood that an error quotes
)

// A provider asks an endpoint that speaks as OpenAI's chat completions do.
type provider struct {
	base   string        // of the address: the path /chat/completions follows
	key    string        // empty = none is sent
	whole  bool          // answers come in one piece
	limit  time.Duration // of one answer
	client *http.Client

	calls sync.Map // the IDs of all calls so far
}

// The wire. What a server sends beside it is left alone.
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
			Message      wireMessage `json:"message"` // of a whole answer
			Delta        wireMessage `json:"delta"`   // of a piece
			FinishReason string      `json:"finish_reason"`
		} `json:"choices"`
		Usage *host.Usage     `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
)

// wireArguments are JSON in a text. Some servers give the JSON itself.
type wireArguments string

// UnmarshalJSON takes both.
func (a *wireArguments) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	*a = wireArguments(text)
	return nil
}

// Generate asks the model. It is what makes the provider a [host.Provider].
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

// failure is an error of the connection, or why it was given up.
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
			return nil, fmt.Errorf("params of the request are no JSON object: %w", err)
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

func toWire(m *host.Message) wireMessage {
	w := wireMessage{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
	if m.Role == "tool" || len(w.Content) == 0 {
		w.Content = toJSON(m.Text()) // servers want a text here
	}
	for _, call := range m.ToolCalls {
		// What the model wrote and is no JSON goes back to it as it was.
		arguments := string(call.Args)
		_ = json.Unmarshal(call.Args, &arguments)
		w.ToolCalls = append(w.ToolCalls, wireCall{ID: call.ID, Type: "function", Function: wireFunction{Name: call.Name, Arguments: wireArguments(arguments)}})
	}
	return w
}

// once reads an answer that comes in one piece.
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

// pieces reads an answer that comes as events. What ends before its end is
// [host.FinishIncomplete].
func (p *provider) pieces(ctx context.Context, r io.Reader, yield func(string) error) (*host.Response, error) {
	var made assembly
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		data = strings.TrimSpace(data)
		switch {
		case !ok || data == "": // a comment, which keeps the connection open, or a name
			continue
		case data == "[DONE]":
			return made.response(p.ownID), nil
		}
		var a wireAnswer
		if err := json.Unmarshal([]byte(data), &a); err != nil {
			return nil, fmt.Errorf("cannot read a piece of the model's answer: %s", excerpt([]byte(data)))
		}
		if len(a.Error) > 0 {
			return nil, fmt.Errorf("the model's endpoint gave up: %s", excerpt(a.Error))
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
		return nil, p.failure(ctx, "the model's answer was given up", ctx.Err())
	}
	if made.finish == "" || lines.Err() != nil {
		made.finish = host.FinishIncomplete
	}
	return made.response(p.ownID), nil
}

// An assembly is an answer as far as it has come.
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
	if err := json.Unmarshal(m.Content, &piece); err != nil || piece == "" { // null mostly
		return nil //nolint:nilerr // what is no text is not for us
	}
	a.text.WriteString(piece)
	return yield(piece)
}

// call adds a piece of a call to the call that it belongs to: the one with its index and
// its ID, as far as it has them. Some servers give all calls the same index, but IDs of
// their own, some it is the other way round, and some put neither beside later pieces.
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

// ownID is the ID of a call, or another one where there is none or an earlier call has
// it. Some servers number the calls of each answer from 0, and a limit would count them
// as one.
func (p *provider) ownID(id string) string {
	for {
		if id != "" {
			if _, known := p.calls.LoadOrStore(id, true); !known {
				return id
			}
		}
		id = rand.Text()[:9] // Mistral's models take this length only
	}
}

// response is the answer. ownID makes the IDs of its calls.
func (a *assembly) response(ownID func(string) string) *host.Response {
	r := &host.Response{Content: json.RawMessage("null"), FinishReason: a.finish, Usage: a.usage}
	if a.text.Len() > 0 || len(a.calls) == 0 {
		r.Content = toJSON(a.text.String())
	}
	if a.finish == host.FinishIncomplete {
		return r // half a call is none
	}
	for _, c := range a.calls {
		args := json.RawMessage(c.Function.Arguments)
		switch {
		case len(args) == 0:
			args = json.RawMessage("{}")
		case !json.Valid(args):
			args = toJSON(string(c.Function.Arguments)) // the tool says that it is no object
		}
		r.ToolCalls = append(r.ToolCalls, host.ToolCall{ID: ownID(c.ID), Name: c.Function.Name, Args: args})
	}
	return r
}

// toJSON writes a value as JSON that leaves what a text holds as it is.
func toJSON(value any) json.RawMessage {
	raw, err := host.JSON(value)
	if err != nil { // a schema or parameters of ours that are no JSON
		panic(fmt.Sprintf("agent: cannot write %T as JSON: %v", value, err))
	}
	return raw
}

// excerpt is the beginning of what a server says.
func excerpt(text []byte) string {
	if len(text) == 0 {
		return "(nothing)"
	}
	if len(text) > maxExcerpt {
		text = append(text[:maxExcerpt:maxExcerpt], " ..."...)
	}
	return inLine(string(text))
}
