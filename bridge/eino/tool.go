package eino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Tools guards the calls of a ToolsNode. Add it as the last entry of ToolCallMiddlewares in its
// config, so that the judged call is the one that runs. It fires tool.before,
// permission.before, permission.denied, tool.after and tool.failed.
//
// A refused call does not run, and the reason is its result. A failed tool ends the run, as
// always in Eino, unless a hook changes its output or adds to it: then the model gets that
// output. A tool that interrupts the run has not ended; it is judged again when it is called
// again. If a hook listens to tool.after or tool.failed, or adds context before the call, the
// output of a streaming tool is held until it has been judged. Calls of tools that do not exist do
// not reach the middleware.
func (b *Bridge) Tools() compose.ToolMiddleware {
	return compose.ToolMiddleware{
		Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
				text, err := invoke(ctx, b, in, &texts, func(ctx context.Context, in *compose.ToolInput) (string, error) {
					out, err := next(ctx, in)
					if err != nil {
						return "", err
					}
					return out.Result, nil
				})
				if err != nil {
					return nil, err
				}
				return &compose.ToolOutput{Result: text}, nil
			}
		},
		EnhancedInvokable: func(next compose.EnhancedInvokableToolEndpoint) compose.EnhancedInvokableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
				result, err := invoke(ctx, b, in, &results, func(ctx context.Context, in *compose.ToolInput) (*schema.ToolResult, error) {
					out, err := next(ctx, in)
					if err != nil {
						return nil, err
					}
					return out.Result, nil
				})
				if err != nil {
					return nil, err
				}
				return &compose.EnhancedInvokableToolOutput{Result: result}, nil
			}
		},
		Streamable: func(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.StreamToolOutput, error) {
				r, err := stream(ctx, b, in, &texts, func(ctx context.Context, in *compose.ToolInput) (*schema.StreamReader[string], error) {
					out, err := next(ctx, in)
					if err != nil {
						return nil, err
					}
					return out.Result, nil
				})
				if err != nil {
					return nil, err
				}
				return &compose.StreamToolOutput{Result: r}, nil
			}
		},
		EnhancedStreamable: func(next compose.EnhancedStreamableToolEndpoint) compose.EnhancedStreamableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
				r, err := stream(ctx, b, in, &results, func(ctx context.Context, in *compose.ToolInput) (*schema.StreamReader[*schema.ToolResult], error) {
					out, err := next(ctx, in)
					if err != nil {
						return nil, err
					}
					return out.Result, nil
				})
				if err != nil {
					return nil, err
				}
				return &compose.EnhancedStreamableToolOutput{Result: r}, nil
			}
		},
	}
}

// A kind describes a type of tool output: texts, or results with several parts.
type kind[V any] struct {
	show  func(V) (json.RawMessage, error) // as hooks see it
	read  func(*host.Result) V             // as the model gets it
	merge func([]V) (V, error)             // joins pieces
}

var texts = kind[string]{
	show:  func(text string) (json.RawMessage, error) { return show(text), nil },
	read:  (*host.Result).Text,
	merge: func(pieces []string) (string, error) { return strings.Join(pieces, ""), nil },
}

var results = kind[*schema.ToolResult]{
	show: func(r *schema.ToolResult) (json.RawMessage, error) { return host.JSON(r) },
	read: func(r *host.Result) *schema.ToolResult {
		var out schema.ToolResult
		if json.Unmarshal(r.Output, &out) != nil || len(out.Parts) == 0 {
			return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: r.Text()}}}
		}
		added := *r
		added.Output = nil
		if text := added.Text(); text != "" {
			out.Parts = append(out.Parts, schema.ToolOutputPart{Type: schema.ToolPartTypeText, Text: text})
		}
		return &out
	},
	merge: schema.ConcatToolResults,
}

// maxNext is the maximum length of a chain of next calls.
const maxNext = grapnel.MaxStops

// invoke makes a call in the session of ctx.
func invoke[V any](ctx context.Context, b *Bridge, in *compose.ToolInput, k *kind[V], run func(context.Context, *compose.ToolInput) (V, error)) (V, error) {
	var none V
	ctx, s, err := b.session(ctx)
	if err != nil {
		return none, err
	}
	call := host.Call{ID: in.CallID, Name: in.Name, Input: input(in.Arguments)}
	for range maxNext {
		r, done, err := s.BeforeTool(ctx, call)
		if err != nil {
			return none, err
		}
		if !done {
			value, failure := run(ctx, asked(in, r.Call.Input))
			if _, interrupted := compose.IsInterruptRerunError(failure); interrupted {
				return none, failure
			}
			var same bool
			r, same, err = after(ctx, s, r.Call, value, failure, k)
			switch {
			case err != nil:
				return none, err
			case same:
				return value, failure
			}
		}
		switch {
		case r.Next == nil:
			return k.read(&r), nil
		case r.Next.Name != in.Name: // a ToolsNode does not give access to its other tools
			r.Context = append(r.Context, fmt.Sprintf("Call the tool %s next, with %s.", r.Next.Name, r.Next.Input))
			return k.read(&r), nil
		}
		call = *r.Next
	}
	return none, fmt.Errorf("hooks requested the tool %s more than %d times in a row", in.Name, maxNext)
}

// stream makes a call of a streaming tool in the session of ctx; see invoke.
func stream[V any](ctx context.Context, b *Bridge, in *compose.ToolInput, k *kind[V], run func(context.Context, *compose.ToolInput) (*schema.StreamReader[V], error)) (*schema.StreamReader[V], error) {
	ctx, s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	whole := func(ctx context.Context, in *compose.ToolInput) (V, error) {
		var none V
		r, err := run(ctx, in)
		if err != nil {
			return none, err
		}
		pieces, err := drain(r)
		if err != nil {
			return none, err
		}
		return k.merge(pieces)
	}
	var value V
	if !s.Listens(grapnel.ToolAfter) && !s.Listens(grapnel.ToolFailed) {
		r, done, err := s.BeforeTool(ctx, host.Call{ID: in.CallID, Name: in.Name, Input: input(in.Arguments)})
		switch {
		case err != nil:
			return nil, err
		case done:
			return schema.StreamReaderFromArray([]V{k.read(&r)}), nil
		case len(r.Call.Context) == 0:
			return run(ctx, asked(in, r.Call.Input))
		}
		if value, err = whole(ctx, asked(in, r.Call.Input)); err != nil {
			return nil, err
		}
		if r, _, err = after(ctx, s, r.Call, value, nil, k); err != nil {
			return nil, err
		}
		value = k.read(&r)
	} else {
		value, err = invoke(ctx, b, in, k, whole)
	}
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]V{value}), nil
}

// drain reads a stream to its end.
func drain[V any](r *schema.StreamReader[V]) (pieces []V, err error) {
	defer r.Close()
	for {
		piece, err := r.Recv()
		if errors.Is(err, io.EOF) {
			return pieces, nil
		}
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, piece)
	}
}

// after fires tool.after or tool.failed. same means that hooks changed nothing.
func after[V any](ctx context.Context, s *host.Session, call host.Call, value V, failure error, k *kind[V]) (r host.Result, same bool, err error) {
	if !s.Listens(grapnel.ToolAfter) && !s.Listens(grapnel.ToolFailed) && len(call.Context) == 0 {
		return r, true, nil
	}
	var output json.RawMessage
	if failure == nil {
		if output, err = k.show(value); err != nil {
			return r, false, fmt.Errorf("cannot encode the output of the tool %s for hooks: %w", call.Name, err)
		}
	}
	var noHooks *host.Session
	was, _ := noHooks.AfterTool(ctx, call, output, failure)
	if r, err = s.AfterTool(ctx, call, output, failure); err != nil {
		return r, false, err
	}
	return r, r.Unchanged(&was), nil
}

// input returns the arguments of a call as hooks see them. Invalid JSON becomes a string, which
// a host with guards refuses.
func input(arguments string) json.RawMessage {
	switch {
	case strings.TrimSpace(arguments) == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(arguments)):
		return json.RawMessage(arguments)
	default:
		return quote(arguments)
	}
}

// asked returns the call with the input that hooks approved. An unchanged input reaches the
// tool byte by byte as the model wrote it.
func asked(in *compose.ToolInput, judged json.RawMessage) *compose.ToolInput {
	if string(judged) == string(input(in.Arguments)) {
		return in
	}
	other := *in
	other.Arguments = string(judged)
	return &other
}
