package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// ToolInfo describes a tool for hooks.
type ToolInfo struct {
	Name  string
	Class grapnel.Class  // kind of work; empty = other
	MCP   *grapnel.MCP   // its MCP server; nil = not an MCP tool, or set in each Call
	Facts []grapnel.Fact // places of commands, paths, URLs and content in the input; nil = members with usual names are trusted
	Ask   bool           // the agent asks a person before each call, unless a hook allows it

	// Members are places of further input members that rules read, such as "/amount", as in a Fact.
	// A tool in Go reads a member in any letter case. Hooks get these members, and the members that
	// Facts names or that have usual names, in this spelling.
	Members []string

	// Secrets are names of input members that hooks neither get nor change, in any letter case.
	// Hooks get [Redacted] instead.
	Secrets []string
}

// Redacted replaces secrets in the data for hooks.
const Redacted = "[REDACTED]"

// A Call is a tool call that the model requests.
type Call struct {
	ID    string
	Name  string
	MCP   *grapnel.MCP    // its MCP server; nil = the server in ToolInfo
	Input json.RawMessage // a JSON object; empty and null are treated as {}

	// Context is text for the model that hooks of tool.before added. BeforeTool sets it, and
	// AfterTool copies it to the Result, so pass the Result's Call of BeforeTool to AfterTool.
	Context []string

	read *grapnel.Tool // what hooks of tool.before read; later events are the same if the Input is
}

// A ToolFunc runs a tool. Output that is not JSON is treated as text. An error means that the
// tool failed, and the model gets its text; use a [ToolError] for an error in JSON.
type ToolFunc func(ctx context.Context, input json.RawMessage) (output json.RawMessage, err error)

// A ToolError is a failure with a JSON output.
type ToolError struct {
	Output json.RawMessage
}

// Error returns the output as text.
func (e *ToolError) Error() string { return textOf(e.Output) }

// A Result is the result of a call.
type Result struct {
	Call   Call            // as it ran, or would have run
	Output json.RawMessage // output for the model
	Failed bool            // the tool failed, or did not run

	Refusal  *Refusal // not nil: the tool did not run
	Feedback string   // message of hooks to the model about the output
	Context  []string // additional text of hooks for the model
	Next     *Call    // a call to make next; its result replaces this one
}

// Text returns the output, feedback and context for the model as text.
func (r *Result) Text() string {
	text := textOf(r.Output)
	if r.Feedback != "" {
		text = Below(text, []string{r.Feedback})
	}
	return Below(text, r.Context)
}

// Unchanged reports whether the model can get the tool's own output or error. was is the Result
// without hooks, from AfterTool of a nil Session. Context of tool.before alone leaves an error as it
// is.
func (r *Result) Unchanged(was *Result) bool {
	added := len(r.Context)
	if r.Failed {
		added -= len(r.Call.Context)
	}
	return string(r.Output) == string(was.Output) && r.Feedback == "" && added == 0 && r.Next == nil
}

// Tool calls a tool for the session in ctx; see [Session.Tool]. Without a session, the tool does
// not run, and the error is ErrNoSession.
func Tool(ctx context.Context, call Call, next ToolFunc) (Result, error) {
	s, err := requireSession(ctx)
	if err != nil {
		return Result{Call: call, Output: rawjson.Quote(err.Error()), Failed: true}, err
	}
	return s.Tool(ctx, call, next)
}

// Tool runs a tool call. It fires tool.before, and permission.before if a person must be asked.
// Then it calls next, and fires tool.after or tool.failed. Hooks may change the input, answer
// instead of the tool, refuse, and change the output. Only an approved input runs: an input that
// changes after the approval is judged again.
//
// A refused call also has a Result for the model, so the agent can continue, for example with
// other calls of the same response. A non-nil error means that the agent cannot continue: a
// Refusal that halts the turn, or ctx.Err(). The Result is valid then, too. An error from next is
// part of the Result.
//
// If ctx is done before next is called, next does not run and the error is ctx.Err(). If ctx was
// done at the start, nothing is fired. If it was done while hooks ran, neither tool.after nor
// tool.failed is fired. If next has run, exactly one of tool.after and tool.failed is fired, even
// if ctx is done by then.
func (s *Session) Tool(ctx context.Context, call Call, next ToolFunc) (Result, error) {
	r := Result{Call: call}
	done, err := s.before(ctx, &r)
	if !done {
		var output json.RawMessage
		output, err = next(ctx, r.Call.Input)
		err = s.after(ctx, &r, output, err)
	}
	return r, err
}

// BeforeTool is the first half of [Session.Tool], for agents that cannot wrap the call. If done
// is false, run the tool with the Result's Call and then call [Session.AfterTool]. If done is
// true, the Result is final and the tool must not run. If ctx is done, done is true and the error
// is ctx.Err().
func (s *Session) BeforeTool(ctx context.Context, call Call) (r Result, done bool, err error) {
	r.Call = call
	done, err = s.before(ctx, &r)
	return r, done, err
}

// before does the work of BeforeTool for the Call of r, and sets the rest of r. It works in place and
// has its second half in a separate function, because copies of a Result make the stack of each
// tool's goroutine grow.
func (s *Session) before(ctx context.Context, r *Result) (done bool, err error) {
	if len(r.Call.Input) == 0 || string(r.Call.Input) == "null" {
		r.Call.Input = json.RawMessage("{}")
	}
	r.Call.read = nil // another session may have read it
	if err := contextError(ctx); err != nil {
		return r.canceled(err)
	}
	info := s.tool(r.Call.Name)
	if !info.Ask && !s.Listens(grapnel.ToolBefore) {
		return false, nil
	}
	return s.judgeCall(ctx, r, info)
}

// judgeCall fires the events of before.
func (s *Session) judgeCall(ctx context.Context, r *Result, info *ToolInfo) (done bool, err error) {
	if !rawjson.IsObject(r.Call.Input) || !json.Valid(r.Call.Input) { // guards could not read its members
		return s.notRun(r, s.refuse(&grapnel.Event{Kind: grapnel.ToolBefore}, "the input is not a JSON object, so hooks cannot judge it", true))
	}
	ev, err := s.readCall(grapnel.ToolBefore, &r.Call, info)
	if err != nil {
		return s.notRun(r, s.refuse(ev, fmt.Sprintf("cannot judge the input: %v", err), true))
	}
	v := s.Fire(ctx, ev)
	r.Call.Context, r.Call.read = v.Context, ev.Tool
	no := s.take(&r.Call, info, ev, &v)
	if no == nil && (v.Decision == grapnel.Ask || v.Decision == grapnel.None && info.Ask && !answered(&v)) {
		v, no = s.permit(ctx, &r.Call, info, v)
	}
	if err := contextError(ctx); err != nil && !no.decided() {
		return r.canceled(err)
	}
	if no != nil {
		return s.notRun(r, no)
	}
	if answered(&v) { // a hook provided the result
		return true, s.after(ctx, r, v.Changes[grapnel.FieldOutput], nil)
	}
	return false, nil
}

// answered reports whether a hook provided the result of a call that did not run.
func answered(v *grapnel.Verdict) bool { return v.Changes[grapnel.FieldOutput] != nil }

// take applies hooks' changes to a call's input. It returns a Refusal if the call may not run.
func (s *Session) take(call *Call, info *ToolInfo, ev *grapnel.Event, v *grapnel.Verdict) *Refusal {
	if no := s.refusal(ev, v); no != nil {
		return no
	}
	input, ok := v.Changes[grapnel.FieldInput]
	if !ok {
		return nil
	}
	if !rawjson.IsObject(input) || !json.Valid(input) { // see BeforeTool
		return s.refuse(ev, "hooks changed the input to a value that is not a JSON object", true)
	}
	var err error
	if len(info.Secrets) > 0 {
		if input, err = unveil(input, call.Input, info.Secrets); err != nil {
			return s.refuse(ev, fmt.Sprintf("cannot restore the secrets in the input that hooks changed: %v", err), true)
		}
	}
	// If hooks got a member under another spelling, the tool gets it as the model spelled it.
	if input, err = rawjson.Fold(input, rawjson.Keys(call.Input)); err != nil {
		return s.refuse(ev, fmt.Sprintf("cannot judge the input that hooks changed: %v", err), true)
	}
	call.Input = input
	return nil
}

// permit asks whether a call may run: first the hooks of permission.before, and the person if
// they have no opinion. v is the Verdict of tool.before. If hooks change the input here,
// tool.before judges it again, and permit returns that Verdict.
func (s *Session) permit(ctx context.Context, call *Call, info *ToolInfo, v grapnel.Verdict) (_ grapnel.Verdict, no *Refusal) {
	defer func() {
		if no != nil {
			ev := s.toolEvent(grapnel.PermissionDenied, call, info)
			ev.Cause = no.Reason
			s.notice(ctx, ev)
		}
	}()
	reason := v.Reason()
	if s.Listens(grapnel.PermissionBefore) {
		ev := s.toolEvent(grapnel.PermissionBefore, call, info)
		ev.Cause = reason
		p := s.Fire(ctx, ev)
		if no = s.take(call, info, ev, &p); no != nil {
			return v, no
		}
		allowed := p.Decision == grapnel.Allow
		if _, other := p.Changes[grapnel.FieldInput]; other && s.Listens(grapnel.ToolBefore) {
			again := s.toolEvent(grapnel.ToolBefore, call, info)
			v = s.Fire(ctx, again)
			call.Context = v.Context // of the input that runs
			if no = s.refusal(again, &v); no != nil {
				return v, no
			}
			if _, third := v.Changes[grapnel.FieldInput]; third {
				return v, s.refuse(again, "hooks of tool.before and permission.before changed the input in different ways", true)
			}
			allowed = allowed && v.Decision != grapnel.Ask // an Ask applies to another input than the earlier Allow
			reason = lines(reason, v.Reason())
		}
		if allowed {
			return v, nil
		}
		if p.Decision == grapnel.Ask {
			reason = lines(reason, p.Reason())
		}
	}
	question := s.toolEvent(grapnel.PermissionBefore, call, info)
	question.Cause = reason
	s.fill(question)
	return v, s.ask(ctx, question, reason)
}

// notRun makes r the result of a refused call.
func (s *Session) notRun(r *Result, no *Refusal) (done bool, err error) {
	if s.Info().Job != "" {
		no.Text = s.host.opts.Manners.Job.text(no.Reason, no.Failed)
	}
	r.Output, r.Failed, r.Refusal, r.Context = rawjson.Quote(no.Text), true, no, r.Call.Context
	if no.Halt {
		return true, no
	}
	return true, nil
}

// canceled makes r the result of a call if its context was done before the tool ran.
func (r *Result) canceled(err error) (done bool, _ error) {
	r.Output, r.Failed = rawjson.Quote("the call was canceled: "+err.Error()), true
	return true, err
}

// AfterTool is the second half of [Session.Tool]. It takes the output of the tool or its error.
func (s *Session) AfterTool(ctx context.Context, call Call, output json.RawMessage, failure error) (Result, error) {
	r := Result{Call: call}
	err := s.after(ctx, &r, output, failure)
	return r, err
}

// after does the work of AfterTool for the Call of r, and sets the rest of r.
func (s *Session) after(ctx context.Context, r *Result, output json.RawMessage, failure error) error {
	r.Output, r.Context = output, r.Call.Context
	kind := grapnel.ToolAfter
	if failure != nil {
		r.Failed, kind = true, grapnel.ToolFailed
		if own, ok := asToolError(failure); ok {
			r.Output = own
		} else {
			r.Output = rawjson.Quote(failure.Error())
		}
	}
	if r.Output = asJSON(r.Output); len(r.Output) == 0 {
		r.Output = json.RawMessage("null")
	}
	if !s.Listens(kind) {
		return nil
	}
	ev := s.toolEvent(kind, &r.Call, s.tool(r.Call.Name))
	ev.Tool.Output, ev.Tool.Failed = r.Output, r.Failed
	v := s.Fire(context.WithoutCancel(ctx), ev) // the tool has run, so the event is fired even if ctx is done
	r.Output = changed(&v, grapnel.FieldOutput, r.Output)
	r.Context = slices.Concat(r.Context, v.Context)
	if v.Decision == grapnel.Block {
		r.Feedback = v.Reason()
	}
	if v.Halt != "" {
		return s.refusal(ev, &v)
	}
	if raw, ok := v.Changes[grapnel.FieldNext]; ok {
		next := struct {
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}{}
		if err := json.Unmarshal(raw, &next); err != nil || next.Name == "" {
			s.host.opts.ShowMessage(ctx, fmt.Sprintf("grapnel: a hook requested an invalid next call: want {name, input}, got %s", raw))
		} else {
			r.Next = &Call{ID: r.Call.ID, Name: next.Name, Input: next.Input}
		}
	}
	return nil
}

// ToolBatch fires toolbatch.after when all calls of one model response are done. It returns
// context from hooks for the model. If it returns an error, a Refusal or ctx.Err(), the model
// must not be called again and the turn ends.
func (s *Session) ToolBatch(ctx context.Context, results []Result) ([]string, error) {
	if !s.Listens(grapnel.ToolBatchAfter) {
		return nil, nil
	}
	ev := &grapnel.Event{Kind: grapnel.ToolBatchAfter}
	for i := range results {
		r := &results[i]
		t := s.toolEvent(grapnel.ToolAfter, &r.Call, s.tool(r.Call.Name)).Tool
		t.Output, t.Failed = r.Output, r.Failed
		ev.Calls = append(ev.Calls, *t)
	}
	v, err := s.judge(ctx, ev)
	if err != nil {
		return nil, err
	}
	return v.Context, nil
}

// Choose fires toolset.before to ask which tools the model may choose from. mode is auto, any or
// none. If it returns an error, a Refusal or ctx.Err(), no tool may be offered.
func (s *Session) Choose(ctx context.Context, names []string, mode string) ([]string, string, error) {
	if !s.Listens(grapnel.ToolsetBefore) {
		return names, mode, nil
	}
	ev := &grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{Allowed: names, Mode: mode}}
	v := s.Fire(ctx, ev)
	if err := mayRun(ctx, s.halted(ev, &v)); err != nil {
		return nil, "none", err
	}
	if raw, ok := v.Changes[grapnel.FieldTools]; ok {
		names = []string{}
		_ = json.Unmarshal(raw, &names) // the engine has validated it
	}
	return names, textOf(changed(&v, grapnel.FieldMode, rawjson.Quote(mode))), nil
}

// tool returns the ToolInfo of a tool, or a default for unknown tools.
func (s *Session) tool(name string) *ToolInfo {
	if s != nil {
		if info, ok := s.host.tools[name]; ok {
			return info
		}
	}
	return &unknownTool
}

var unknownTool ToolInfo

// toolEvent returns an event about a call that BeforeTool accepted.
func (s *Session) toolEvent(kind grapnel.Kind, call *Call, info *ToolInfo) *grapnel.Event {
	ev, _ := s.readCall(kind, call, info)
	return ev
}

// readCall returns an event about a call, with secrets redacted. An error means that hooks cannot
// judge the input.
func (s *Session) readCall(kind grapnel.Kind, call *Call, info *ToolInfo) (*grapnel.Event, error) {
	if call.same() {
		t := *call.read
		return &grapnel.Event{Kind: kind, Tool: &t}, nil
	}
	t := &grapnel.Tool{ID: call.ID, Name: call.Name, Class: info.Class, MCP: cmp.Or(call.MCP, info.MCP), Facts: info.Facts, Input: call.Input}
	if len(info.Secrets) > 0 {
		t.Input = veil(call.Input, info.Secrets)
	}
	err := t.FoldKeys(info.Members...)
	t.Complete()
	return &grapnel.Event{Kind: kind, Tool: t}, err
}

// same reports whether hooks of tool.before read this call. The agent or a hook may have changed it.
func (c *Call) same() bool {
	t := c.read
	return t != nil && len(c.Input) > 0 && len(t.Input) == len(c.Input) && &t.Input[0] == &c.Input[0] && t.ID == c.ID && t.Name == c.Name && (c.MCP == nil || c.MCP == t.MCP)
}
