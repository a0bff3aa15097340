package genkit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/firebase/genkit/go/ai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// tool wraps a tool call.
func (t *turn) tool(ctx context.Context, params *ai.ToolParams, next ai.ToolNext) (*ai.MultipartToolResponse, error) {
	input, err := host.JSON(params.Request.Input)
	if err != nil {
		return nil, fmt.Errorf("grapnel: cannot encode the input for hooks: %w", err)
	}
	if string(input) == "null" {
		input = json.RawMessage("{}")
	}
	call := host.Call{ID: params.Request.Ref, Name: params.Tool.Name(), Input: input}
	if why := t.forbids(call.Name); why != "" {
		return &ai.MultipartToolResponse{Output: map[string]any{"error": why}}, nil
	}
	r, done, err := t.session.BeforeTool(ctx, call)
	if err != nil && host.Refused(err) == nil { // the context is done: the tool must not run
		return nil, err
	}
	if err != nil {
		t.end(err)
	}
	if done {
		t.answered(&r)
		return &ai.MultipartToolResponse{Output: output(&r)}, nil
	}
	request := *params.Request
	if string(r.Call.Input) != string(input) {
		request.Input = nil
		if err := json.Unmarshal(r.Call.Input, &request.Input); err != nil {
			return nil, fmt.Errorf("grapnel: cannot decode the input that hooks changed: %w", err)
		}
	}
	got, failure := next(context.WithValue(ctx, inside{}, r.Call), &ai.ToolParams{Request: &request, Tool: params.Tool})
	if interrupted, _ := ai.IsToolInterruptError(failure); interrupted {
		return got, failure // it has not ended, and is judged again when it is called again
	}
	return t.after(ctx, r.Call, got, failure)
}

// forbids returns the reason why a tool cannot be called even if its hooks would allow it, or
// "".
func (t *turn) forbids(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over != nil:
		return t.over.Text
	case t.offered != nil && !slices.Contains(t.offered, name):
		return "the tool " + name + " may not be used now"
	default:
		return ""
	}
}

// after judges the result of a call. If hooks change nothing, it returns the original result or
// failure.
func (t *turn) after(ctx context.Context, call host.Call, got *ai.MultipartToolResponse, failure error) (*ai.MultipartToolResponse, error) {
	var raw json.RawMessage
	whole := failure == nil && len(got.Content) > 0
	if failure == nil {
		shown := got.Output
		if whole {
			shown = got
		}
		var err error
		if raw, err = host.JSON(shown); err != nil {
			return nil, fmt.Errorf("grapnel: cannot encode the output for hooks: %w", err)
		}
	}
	var noHooks *host.Session
	was, _ := noHooks.AfterTool(ctx, call, raw, failure)
	r, err := t.session.AfterTool(ctx, call, raw, failure)
	if err != nil {
		t.end(err)
	}
	t.answered(&r)
	same := string(r.Output) == string(was.Output)
	if err == nil && r.Unchanged(&was) {
		return got, failure
	}
	if !whole || failure != nil {
		now := &ai.MultipartToolResponse{Output: output(&r)}
		if failure == nil {
			now.Metadata = got.Metadata
		}
		return now, nil
	}
	now := &ai.MultipartToolResponse{}
	if same {
		*now = *got
	} else if err := json.Unmarshal(r.Output, now); err != nil || now.Output == nil && now.Content == nil {
		return &ai.MultipartToolResponse{Output: output(&r)}, nil //nolint:nilerr // the result has another shape
	}
	if r.Output, err = host.JSON(now.Output); err != nil {
		return nil, err
	}
	now.Output = output(&r)
	return now, nil
}

// answered stores a result until the next model call.
func (t *turn) answered(r *host.Result) {
	if !t.session.Listens(grapnel.ToolBatchAfter) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results = append(t.results, *r)
}

// output returns the output for the model. If hooks add to it, the output is an object with the
// additions as separate members.
func output(r *host.Result) any {
	var value any
	_ = json.Unmarshal(r.Output, &value) // it is valid JSON
	added := r.Context
	if r.Next != nil { // a middleware cannot call other tools
		added = append(added, fmt.Sprintf("Call the tool %s next, with %s.", r.Next.Name, r.Next.Input))
	}
	out, ok := value.(map[string]any)
	switch {
	case ok:
	case r.Failed:
		out = map[string]any{"error": value}
	case r.Feedback == "" && len(added) == 0:
		return value
	default:
		out = map[string]any{"output": value}
	}
	if r.Feedback != "" {
		out["hook_feedback"] = r.Feedback
	}
	if len(added) > 0 {
		out["hook_context"] = strings.Join(added, "\n")
	}
	return out
}
