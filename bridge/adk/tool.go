package adk

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// beforeTool judges a call. A non-nil result replaces the tool's result.
func (b *bridge) beforeTool(ctx agent.Context, t tool.Tool, args map[string]any) (map[string]any, error) {
	r := b.of(ctx)
	w := r.at(ctx)
	if no := r.ended(); no != nil {
		return refused(no), nil
	}
	call, err := callOf(ctx, t, args)
	if err != nil {
		return nil, err
	}
	result, done, err := w.session.BeforeTool(ctx, call)
	if err != nil && host.Refused(err) == nil { // the context is done: the tool must not run
		return nil, err
	}
	if err != nil {
		r.end(err)
	}
	if done {
		r.answered(w, call.ID, result)
		return output(&result), nil
	}
	r.keepContext(call.ID, result.Call.Context)
	if string(result.Call.Input) == string(call.Input) {
		return nil, nil
	}
	var now map[string]any
	if err := json.Unmarshal(result.Call.Input, &now); err != nil {
		return nil, fmt.Errorf("cannot decode the input that hooks changed: %w", err)
	}
	if args == nil && len(now) > 0 { // without a map, the tool would not get the change
		return nil, fmt.Errorf("hooks changed the input of a call without input to %s", result.Call.Input)
	}
	clear(args)
	maps.Copy(args, now)
	return nil, nil
}

// refused returns the result for a call in a turn that has ended.
func refused(no *host.Refusal) map[string]any { return map[string]any{"error": no.Text} }

// afterTool judges the result of a call.
func (b *bridge) afterTool(ctx agent.Context, t tool.Tool, args, got map[string]any, failure error) (map[string]any, error) {
	r := b.of(ctx)
	w := r.at(ctx)
	if failure != nil || r.wasAnswered(ctx.FunctionCallID()) || got == nil && (t.IsLongRunning() || defers(t)) {
		return nil, nil //nolint:nilerr // it was already reported, or has not ended yet
	}
	raw, err := host.JSON(got)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the output for hooks: %w", err)
	}
	return b.after(ctx, r, w, t, args, raw, nil)
}

// defers reports whether the tool's result comes later from outside.
func defers(t tool.Tool) bool {
	d, ok := t.(interface{ DefersResponse() bool })
	return ok && d.DefersResponse()
}

// A whole wraps a tool that streams as one that does not. ADK calls no callbacks for streaming
// tools. It joins the pieces the same way.
type whole struct {
	tool.Tool
	stream streaming
}

type streaming interface {
	Declaration() *genai.FunctionDeclaration
	RunStream(ctx agent.Context, args any) iter.Seq2[string, error]
}

// Declaration returns the tool's declaration for the model.
func (w *whole) Declaration() *genai.FunctionDeclaration { return w.stream.Declaration() }

// Run calls the tool and joins its output.
func (w *whole) Run(ctx agent.Context, args any) (map[string]any, error) {
	var b strings.Builder
	for piece, err := range w.stream.RunStream(ctx, args) {
		if err != nil {
			return nil, err
		}
		b.WriteString(piece)
	}
	return map[string]any{"result": b.String()}, nil
}

// guardStreams wraps streaming tools, so hooks judge their calls too.
func guardStreams(request *model.LLMRequest) {
	for name, value := range request.Tools {
		stream, ok := value.(streaming)
		t, isTool := value.(tool.Tool)
		if ok && isTool {
			request.Tools[name] = &whole{t, stream}
		}
	}
}

// toolError judges a failure. The call stays failed, unless hooks return another text for the
// model.
func (b *bridge) toolError(ctx agent.Context, t tool.Tool, args map[string]any, failure error) (map[string]any, error) {
	r := b.of(ctx)
	return b.after(ctx, r, r.at(ctx), t, args, nil, failure)
}

func (b *bridge) after(ctx agent.Context, r *run, w *working, t tool.Tool, args map[string]any, got json.RawMessage, failure error) (map[string]any, error) {
	call, err := callOf(ctx, t, args)
	if err != nil {
		return nil, err
	}
	call.Context = r.contextOf(call.ID)
	var noHooks *host.Session
	was, _ := noHooks.AfterTool(ctx, call, got, failure)
	result, err := w.session.AfterTool(ctx, call, got, failure)
	if err != nil {
		r.end(err)
	}
	r.answered(w, call.ID, result)
	if result.Unchanged(&was) {
		return nil, nil
	}
	return output(&result), nil
}

// answered stores a result. It marks the call as reported, and keeps the result for the batch
// event before the next model call.
func (r *run) answered(w *working, id string, result host.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported == nil {
		r.reported = map[string]bool{}
	}
	r.reported[id] = true
	if w.session.Listens(grapnel.ToolBatchAfter) {
		w.results = append(w.results, result)
	}
}

// keepContext stores the context that hooks of tool.before added to a call, for afterTool.
func (r *run) keepContext(id string, added []string) {
	if len(added) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.added == nil {
		r.added = map[string][]string{}
	}
	r.added[id] = added
}

// contextOf returns the context that keepContext stored, and forgets it.
func (r *run) contextOf(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	added := r.added[id]
	delete(r.added, id)
	return added
}

func (r *run) wasAnswered(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported[id]
}

func callOf(ctx agent.Context, t tool.Tool, args map[string]any) (host.Call, error) {
	input := json.RawMessage("{}")
	if len(args) > 0 {
		var err error
		if input, err = host.JSON(args); err != nil {
			return host.Call{}, fmt.Errorf("cannot encode the input for hooks: %w", err)
		}
	}
	return host.Call{ID: ctx.FunctionCallID(), Name: t.Name(), Input: input}, nil
}

// output returns a result as ADK passes it to the model: an object. Additions of hooks are
// separate members.
func output(r *host.Result) map[string]any {
	var value any
	_ = json.Unmarshal(r.Output, &value) // it is valid JSON
	out, ok := value.(map[string]any)
	if !ok {
		out = map[string]any{"result": value}
		if r.Failed {
			out = map[string]any{"error": value}
		}
	}
	if r.Feedback != "" {
		out["hook_feedback"] = r.Feedback
	}
	added := r.Context
	if r.Next != nil { // a callback cannot call a tool
		added = append(added, fmt.Sprintf("Call the tool %s next, with %s.", r.Next.Name, r.Next.Input))
	}
	if len(added) > 0 {
		out["hook_context"] = strings.Join(added, "\n")
	}
	return out
}
