package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// ToolInfo is what hooks need to know of a tool.
type ToolInfo struct {
	Name  string
	Class grapnel.Class  // what it does; empty = other
	MCP   *grapnel.MCP   // the server it belongs to; nil = none, or each Call says
	Facts []grapnel.Fact // where in its input commands, paths, URLs and content stand; nil = members of the usual names are taken at their word
	Ask   bool           // the agent asks a person before each call, unless a hook allows it

	// Secrets are members of its input that hooks neither see nor change, in any letter
	// case: they see [Redacted] in their place.
	Secrets []string
}

// Redacted is what hooks see in the place of a secret.
const Redacted = "[REDACTED]"

// A Call is a call of a tool that the model wants.
type Call struct {
	ID    string
	Name  string
	MCP   *grapnel.MCP    // the server it belongs to; nil = that of its ToolInfo
	Input json.RawMessage // a JSON object; empty and null count as {}
	Job   bool            // it is of a background job: see Manners
}

// A ToolFunc runs a tool. Output that is not JSON counts as text. An error means that
// the tool failed, and its text is what the model is told; a [ToolError] can say that in
// JSON.
type ToolFunc func(ctx context.Context, input json.RawMessage) (output json.RawMessage, err error)

// A ToolError is a failure that has an output of its own.
type ToolError struct {
	Output json.RawMessage
}

// Error is the output as text.
func (e *ToolError) Error() string { return textOf(e.Output) }

// A Result is what came of a call.
type Result struct {
	Call   Call            // as it ran, or would have
	Output json.RawMessage // what the model shall read
	Failed bool            // the tool failed, or did not run

	Refusal  *Refusal // not nil: it did not run
	Feedback string   // what hooks tell the model about the output
	Context  []string // what they add to what the model sees
	Next     *Call    // a call to make next, whose result takes the place of this one
}

// Text is all that the model shall read, as text.
func (r *Result) Text() string {
	text := textOf(r.Output)
	if r.Feedback != "" {
		text = Below(text, []string{r.Feedback})
	}
	return Below(text, r.Context)
}

// Tool calls a tool for the session in ctx; see [Session.Tool].
func Tool(ctx context.Context, call Call, next ToolFunc) (Result, error) {
	return FromContext(ctx).Tool(ctx, call, next)
}

// Tool calls a tool: tool.before, and where somebody has to be asked
// permission.before, then next, then tool.after or tool.failed. Hooks may change the
// input, answer in the tool's place, or refuse, and change the output. What was asked
// and allowed is what runs: an input that was changed meanwhile is judged once more.
//
// A call that was refused gives a Result for the model too, so that the agent can go
// on, with other calls of the same answer for one. The error says that it cannot: a
// Refusal that halts the turn, or ctx.Err(), beside a valid Result. What next returns as
// an error is in the Result.
//
// If ctx is done before next is called, next does not run and the error is ctx.Err():
// nothing is fired if ctx was done at the start, and neither tool.after nor tool.failed
// is fired if it was done while hooks ran. Once next has run, exactly one of tool.after
// and tool.failed is fired, also if ctx is done by then.
func (s *Session) Tool(ctx context.Context, call Call, next ToolFunc) (Result, error) {
	r, done, err := s.BeforeTool(ctx, call)
	if done {
		return r, err
	}
	output, err := next(ctx, r.Call.Input)
	return s.AfterTool(ctx, r.Call, output, err)
}

// BeforeTool is the first half of [Session.Tool], for those who cannot wrap. Is the
// call not done, it is to be made as the Result's Call says, and [Session.AfterTool] is
// to follow. A call that is done is answered already: its Result is final and nothing
// follows. If ctx is done, so is the call, and the error is ctx.Err().
func (s *Session) BeforeTool(ctx context.Context, call Call) (r Result, done bool, err error) {
	if len(call.Input) == 0 || string(call.Input) == "null" {
		call.Input = json.RawMessage("{}")
	}
	if err := contextError(ctx); err != nil {
		return canceled(call, err)
	}
	r.Call = call
	info := s.tool(call.Name)
	if !info.Ask && !s.Listens(grapnel.ToolBefore) {
		return r, false, nil
	}
	if !isObject(call.Input) { // every guard would look past it
		return s.notRun(call, s.refuse(&grapnel.Event{Kind: grapnel.ToolBefore}, "its input is not a JSON object, so nobody can judge it", true))
	}
	ev := s.toolEvent(grapnel.ToolBefore, &call, info)
	if name := misspelt(call.Input, info.Facts); name != "" {
		return s.notRun(call, s.refuse(ev, fmt.Sprintf("its input has a member %q, whose name is not spelt as the tool's: in another letter case hooks do not see it, and the tool may", name), true))
	}
	v := s.Fire(ctx, ev)
	no := s.take(&r.Call, info, ev, &v)
	if no == nil && (v.Decision == grapnel.Ask || v.Decision == grapnel.None && info.Ask && !answered(&v)) {
		v, no = s.permit(ctx, &r.Call, info, v)
	}
	if err := contextError(ctx); err != nil && !no.decided() {
		return canceled(r.Call, err)
	}
	if no != nil {
		return s.notRun(r.Call, no)
	}
	if answered(&v) { // a result in the place of the tool's
		r, err = s.AfterTool(ctx, r.Call, v.Changes[grapnel.FieldOutput], nil)
		return r, true, err
	}
	return r, false, nil
}

// answered reports whether a hook gave the result of a call that did not run.
func answered(v *grapnel.Verdict) bool { return v.Changes[grapnel.FieldOutput] != nil }

// take takes what hooks made of a call's input, or says why the call may not be made.
func (s *Session) take(call *Call, info *ToolInfo, ev *grapnel.Event, v *grapnel.Verdict) *Refusal {
	if no := s.refusal(ev, v); no != nil {
		return no
	}
	input, ok := v.Changes[grapnel.FieldInput]
	if !ok {
		return nil
	}
	if !isObject(input) { // as in BeforeTool
		return s.refuse(ev, "hooks changed its input into something that is not a JSON object", true)
	}
	if len(info.Secrets) > 0 {
		var err error
		if input, err = unveil(input, call.Input, info.Secrets); err != nil {
			return s.refuse(ev, fmt.Sprintf("hooks changed the input into something that its secrets cannot be put back into: %v", err), true)
		}
	}
	call.Input = input
	return nil
}

// permit asks whether a call may be made: the hooks of permission.before, and where
// they have no opinion the person. v is what tool.before said. An input that is changed
// here is judged there once more, and that Verdict counts from then on.
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
			if no = s.refusal(again, &v); no != nil {
				return v, no
			}
			if _, third := v.Changes[grapnel.FieldInput]; third {
				return v, s.refuse(again, "hooks of tool.before and permission.before do not agree on the input", true)
			}
			allowed = allowed && v.Decision != grapnel.Ask // which is about another input than the one before
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

// notRun is the result of a call that was refused.
func (s *Session) notRun(call Call, no *Refusal) (Result, bool, error) {
	if call.Job {
		no.Text = s.host.opts.Manners.Job.text(no.Reason, no.Failed)
	}
	r := Result{Call: call, Output: rawjson.Quote(no.Text), Failed: true, Refusal: no}
	if no.Halt {
		return r, true, no
	}
	return r, true, nil
}

// canceled is the result of a call whose context was done before the tool ran.
func canceled(call Call, err error) (Result, bool, error) {
	return Result{Call: call, Output: rawjson.Quote("the call was not made: " + err.Error()), Failed: true}, true, err
}

// AfterTool is the second half of [Session.Tool]: what the tool gave, or how it
// failed.
func (s *Session) AfterTool(ctx context.Context, call Call, output json.RawMessage, failure error) (Result, error) {
	r := Result{Call: call, Output: output}
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
		return r, nil
	}
	info := s.tool(call.Name)
	ev := s.toolEvent(kind, &call, info)
	ev.Tool.Output, ev.Tool.Failed = r.Output, r.Failed
	v := s.Fire(context.WithoutCancel(ctx), ev) // it has happened, and is heard of
	r.Output = changed(&v, grapnel.FieldOutput, r.Output)
	r.Context = v.Context
	if v.Decision == grapnel.Block {
		r.Feedback = v.Reason()
	}
	if v.Halt != "" {
		return r, s.refusal(ev, &v)
	}
	if raw, ok := v.Changes[grapnel.FieldNext]; ok {
		next := struct {
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}{}
		if err := json.Unmarshal(raw, &next); err != nil || next.Name == "" {
			s.host.opts.Tell(ctx, fmt.Sprintf("grapnel: a hook wants a next call that cannot be read: want {name, input}, got %s", raw))
		} else {
			r.Next = &Call{ID: call.ID, Name: next.Name, Input: next.Input, Job: call.Job}
		}
	}
	return r, nil
}

// ToolBatch tells that all calls of one answer of the model are done: toolbatch.after.
// It returns what hooks add to what the model sees. The error is a Refusal or ctx.Err():
// the model is not called again, and the turn ends.
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

// Choose asks which tools the model may choose from: toolset.before. mode is auto,
// any or none. The error is a Refusal or ctx.Err(): no tool may be offered.
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
		_ = json.Unmarshal(raw, &names) // the engine has looked at it
	}
	return names, textOf(changed(&v, grapnel.FieldMode, rawjson.Quote(mode))), nil
}

// tool is what is known of a tool.
func (s *Session) tool(name string) *ToolInfo {
	if s != nil {
		if info, ok := s.host.tools[name]; ok {
			return info
		}
	}
	return &unknownTool
}

var unknownTool ToolInfo

// toolEvent is an event about a call, without its secrets.
func (s *Session) toolEvent(kind grapnel.Kind, call *Call, info *ToolInfo) *grapnel.Event {
	t := &grapnel.Tool{ID: call.ID, Name: call.Name, Class: info.Class, MCP: cmp.Or(call.MCP, info.MCP), Facts: info.Facts, Input: call.Input}
	if len(info.Secrets) > 0 {
		t.Input = veil(call.Input, info.Secrets)
	}
	dialect.Classify(t)
	return &grapnel.Event{Kind: kind, Tool: t}
}
