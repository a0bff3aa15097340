package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Server returns a receiving middleware for a server. name is the server's name in policies.
// Add it before any other middleware, so that the judged call is the one that runs. At
// tools/call it fires tool.before, permission.before, permission.denied, tool.after and
// tool.failed. At tools/list it fires toolset.before for each page of the list.
//
// A server cannot end the turn of an agent. If a hook halts, the result of the call is replaced
// by the reason, with isError; a list becomes an error.
//
// Under the protocol of 2026-07-28, a call may first need input from the client. Hooks judge
// such a call each time it arrives, and its result when it has one.
func (b *Bridge) Server(name string) sdk.Middleware {
	return b.guard(func(sdk.Session) string { return name }, func(no *host.Refusal) (sdk.Result, error) {
		return failure(no.Text), nil
	})
}

// guard returns the middleware for a server or a client. halted returns the result of a call
// that ends the turn.
func (b *Bridge) guard(server func(sdk.Session) string, halted func(*host.Refusal) (sdk.Result, error)) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != "tools/call" && method != "tools/list" {
				return next(ctx, method, r)
			}
			ctx, s, err := b.session(ctx, r)
			switch {
			case err == nil && method == "tools/list":
				return list(ctx, s, server(r.GetSession()), r, next)
			case err == nil:
				var result sdk.Result
				if result, err = call(ctx, s, server(r.GetSession()), r, next); err == nil {
					return result, nil
				}
			}
			if no := host.Refused(err); no != nil && method == "tools/call" {
				return halted(no)
			}
			return nil, err
		}
	}
}

// list removes the tools that hooks do not allow.
func list(ctx context.Context, s *host.Session, server string, r sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	result, err := next(ctx, "tools/list", r)
	page, ok := result.(*sdk.ListToolsResult)
	if err != nil || !ok || !s.Listens(grapnel.ToolsetBefore) {
		return result, err
	}
	names := make([]string, len(page.Tools))
	for i, t := range page.Tools {
		names[i] = canonical(server, t.Name)
	}
	names, mode, err := s.Choose(ctx, names, "auto")
	if err != nil {
		return nil, err
	}
	other := *page
	other.Tools = slices.DeleteFunc(slices.Clone(page.Tools), func(t *sdk.Tool) bool {
		return mode == "none" || !slices.Contains(names, canonical(server, t.Name))
	})
	return &other, nil
}

// maxNext is the maximum length of a chain of next calls.
const maxNext = grapnel.MaxStops

// call makes a call, and then the next calls that hooks request instead of its result.
func call(ctx context.Context, s *host.Session, server string, r sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	name, input, err := asked(r.GetParams())
	if err != nil {
		return nil, err
	}
	c := host.Call{ID: rand.Text(), Name: canonical(server, name), MCP: &grapnel.MCP{Server: server, Tool: name}, Input: input}
	for range maxNext {
		judged, done, err := s.BeforeTool(ctx, c)
		if err != nil {
			return nil, err
		}
		if !done {
			now := r
			if c.MCP.Tool != name || string(judged.Call.Input) != string(input) {
				now = change(r, c.MCP.Tool, judged.Call.Input)
			}
			result, failed := next(ctx, "tools/call", now)
			if given, ok := result.(*sdk.CallToolResult); failed == nil && ok && given.InputRequests != nil {
				return result, failed // it asks the client for input
			}
			var same bool
			if judged, same, err = after(ctx, s, judged.Call, result, failed); err != nil {
				return nil, err
			}
			if same {
				return result, failed
			}
		}
		if judged.Next == nil {
			return read(&judged), nil
		}
		tool := strings.TrimPrefix(judged.Next.Name, canonical(server, ""))
		c = *judged.Next
		c.Name, c.MCP = canonical(server, tool), &grapnel.MCP{Server: server, Tool: tool}
	}
	return nil, fmt.Errorf("hooks requested more than %d calls in a row", maxNext)
}

func canonical(server, tool string) string { return "mcp__" + server + "__" + tool }

// asked returns the tool and the input of a call.
func asked(params sdk.Params) (name string, input json.RawMessage, err error) {
	switch p := params.(type) {
	case *sdk.CallToolParamsRaw:
		name, input = p.Name, p.Arguments
	case *sdk.CallToolParams:
		name = p.Name
		if p.Arguments != nil {
			if input, err = host.JSON(p.Arguments); err != nil {
				return "", nil, fmt.Errorf("cannot encode the arguments of %s for hooks: %w", name, err)
			}
		}
	default:
		return "", nil, fmt.Errorf("cannot pass a call to hooks: its parameters are a %T", params)
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return name, input, nil
}

// change returns a request for another call. It does not modify the caller's request.
func change(r sdk.Request, tool string, input json.RawMessage) sdk.Request {
	var params sdk.Params
	switch p := r.GetParams().(type) {
	case *sdk.CallToolParamsRaw:
		other := *p
		other.Name, other.Arguments = tool, input
		params = &other
	case *sdk.CallToolParams:
		other := *p
		other.Name, other.Arguments = tool, input
		params = &other
	}
	switch r := r.(type) {
	case *sdk.CallToolRequest:
		other := *r
		other.Params = params.(*sdk.CallToolParamsRaw)
		return &other
	default:
		return &sdk.ClientRequest[sdk.Params]{Session: r.GetSession().(*sdk.ClientSession), Params: params}
	}
}

// after fires tool.after or tool.failed. same means that hooks changed nothing.
func after(ctx context.Context, s *host.Session, c host.Call, result sdk.Result, failed error) (r host.Result, same bool, err error) {
	if !s.Listens(grapnel.ToolAfter) && !s.Listens(grapnel.ToolFailed) && len(c.Context) == 0 {
		return r, true, nil
	}
	var output json.RawMessage
	if failed == nil {
		if output, err = host.JSON(result); err != nil {
			return r, false, fmt.Errorf("cannot encode the result of %s for hooks: %w", c.Name, err)
		}
		if given, ok := result.(*sdk.CallToolResult); ok && given.IsError {
			failed = &host.ToolError{Output: output}
		}
	}
	var noHooks *host.Session
	was, _ := noHooks.AfterTool(ctx, c, output, failed)
	if r, err = s.AfterTool(ctx, c, output, failed); err != nil {
		return r, false, err
	}
	return r, r.Unchanged(&was) && len(r.Context) == 0, nil
}

// read returns the result for the model.
func read(r *host.Result) *sdk.CallToolResult {
	var result sdk.CallToolResult
	head := struct {
		Content json.RawMessage `json:"content"`
	}{}
	if json.Unmarshal(r.Output, &head) != nil || head.Content == nil || json.Unmarshal(r.Output, &result) != nil {
		result = sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Text()}}, IsError: r.Failed}
		return &result
	}
	added := *r
	added.Output = nil
	if text := added.Text(); text != "" {
		result.Content = append(result.Content, &sdk.TextContent{Text: text})
	}
	return &result
}

func failure(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: true}
}
