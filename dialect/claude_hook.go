package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// writeClaudeEvent writes an event for a hook program of Claude Code. A payload from Claude Code
// stays unchanged, except for the changes of earlier hooks.
func writeClaudeEvent(ev *grapnel.Event) ([]byte, error) {
	row, err := eventRow(claudeEvents, claudeName, ev)
	if err != nil {
		return nil, err
	}
	var m members
	if own := ev.Agent.Name == claudeName; own && rawjson.IsObject(trim(ev.Native)) {
		m = membersOf(ev.Native)
		m.text("hook_event_name", row.Native)
		claudeNow(&m, row, ev)
	} else {
		s := &ev.Session
		m.text("session_id", s.ID)
		m.set("transcript_path", rawjson.Quote(s.Transcript))
		m.set("cwd", rawjson.Quote(s.CWD))
		m.text("prompt_id", s.Turn)
		if own {
			m.text("permission_mode", s.Mode) // other agents use other mode names
		}
		if s.Subagent != nil {
			m.text("agent_id", s.Subagent.ID)
			m.text("agent_type", s.Subagent.Type)
		}
		m.text("hook_event_name", row.Native)
		err = claudeParts(&m, row, ev)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write %s for a hook of %s: %w", ev.Kind, claudeName, err)
	}
	return m.line()
}

// claudeNow overwrites the fields of the agent's payload that earlier hooks may have changed.
func claudeNow(m *members, row *EventRow, ev *grapnel.Event) {
	switch {
	case ev.Prompt != nil && text(m.get("prompt")) != ev.Prompt.Text:
		m.set("prompt", rawjson.Quote(ev.Prompt.Text))
	case row.Native == "MessageDisplay" && ev.Model != nil:
		m.set("delta", ev.Model.Response)
	case row.Native == "PostCompact" && ev.Compact != nil:
		m.text("compact_summary", ev.Compact.Summary)
	case ev.Elicitation != nil:
		claudeAnswer(m, ev.Elicitation.Answer)
	}
	if t := ev.Tool; t != nil {
		if t.Input != nil {
			m.set("tool_input", inputAs(ev, t.Input))
		}
		switch row.Native {
		case "PostToolUse":
			m.set("tool_response", t.Output)
		case "PostToolUseFailure":
			m.set("error", t.Output)
		}
	}
}

func claudeAnswer(m *members, answer json.RawMessage) {
	about := split(answer)
	m.set("action", about["action"])
	m.set("content", about["content"])
}

// claudeParts writes the parts of an event from another agent, or of an event without payload.
func claudeParts(m *members, row *EventRow, ev *grapnel.Event) error {
	switch row.Native {
	case "SessionStart":
		m.text("source", ev.Cause)
		m.text("model", ev.Session.Model)
	case "DirectoryAdded":
		m.text("source", ev.Cause)
	case "Setup":
		m.text("trigger", ev.Cause)
	case "InstructionsLoaded":
		m.text("load_reason", ev.Cause)
	case "FileChanged":
		m.text("event", ev.Cause)
	case "SessionEnd":
		reason := ev.Cause
		if !slices.Contains([]string{"clear", "resume", "logout", "prompt_input_exit"}, reason) {
			reason = "other"
		}
		m.text("reason", reason)
	case "UserPromptSubmit":
		m.set("prompt", rawjson.Quote(deref(ev.Prompt).Text))
	case "UserPromptExpansion":
		m.text("expansion_type", ev.Cause)
		m.set("prompt", rawjson.Quote(deref(ev.Prompt).Text))
	case "MessageDisplay":
		response := deref(ev.Model).Response
		if _, ok := rawjson.Unquote(response); !ok {
			response = rawjson.Quote(cmp.Or(outputText(response), string(response)))
		}
		m.set("index", json.RawMessage("0"))
		m.flag("final", true)
		m.set("delta", response)
	case "PreToolUse", "PermissionRequest", "PermissionDenied", "PostToolUse", "PostToolUseFailure":
		return claudeTool(m, row, ev)
	case "PostToolBatch":
		calls := []json.RawMessage{}
		for i := range ev.Calls {
			var call members
			if err := claudeCall(&call, ev, &ev.Calls[i]); err != nil {
				return err
			}
			call.set("tool_response", ev.Calls[i].Output)
			calls = append(calls, call.raw())
		}
		list, err := rawjson.Line(calls)
		m.set("tool_calls", trim(list))
		return err
	case "Notification":
		n := deref(ev.Notification)
		m.set("message", rawjson.Quote(n.Message))
		m.text("title", n.Title)
		if n.Type == "ToolPermission" {
			n.Type = "permission_prompt"
		}
		m.text("notification_type", n.Type)
	case "Stop", "SubagentStop":
		stop := deref(ev.Stop)
		m.flag("stop_hook_active", stop.Active)
		m.set("last_assistant_message", rawjson.Quote(stop.LastMessage))
		if row.Native == "SubagentStop" {
			m.text("agent_transcript_path", deref(ev.Session.Subagent).Transcript)
		}
	case "StopFailure":
		m.set("error", rawjson.Quote(cmp.Or(ev.Cause, "unknown")))
		m.text("last_assistant_message", deref(ev.Stop).LastMessage)
	case "TaskCreated", "TaskCompleted":
		task := deref(ev.Task)
		m.set("task_id", rawjson.Quote(task.ID))
		m.set("task_subject", rawjson.Quote(task.Subject))
		m.text("task_description", task.Description)
	case "PreCompact":
		m.set("trigger", rawjson.Quote(cmp.Or(ev.Cause, "auto")))
		m.set("custom_instructions", rawjson.Quote(deref(ev.Compact).Instructions))
	case "PostCompact":
		m.set("trigger", rawjson.Quote(cmp.Or(ev.Cause, "auto")))
		m.set("compact_summary", rawjson.Quote(deref(ev.Compact).Summary))
	case "ConfigChange":
		config := deref(ev.Config)
		m.text("source", config.Source)
		m.text("file_path", config.File)
	case "Elicitation", "ElicitationResult":
		e := deref(ev.Elicitation)
		m.set("mcp_server_name", rawjson.Quote(e.Server))
		m.set("message", rawjson.Quote(e.Message))
		m.set("requested_schema", e.Schema)
		claudeAnswer(m, e.Answer)
	}
	return nil
}

// deref returns the part of an event that p points to, or the zero value if p is nil.
func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// claudeSubject returns the payload member that Claude Code compares matchers with for an event;
// empty = the event has no such member and ignores matchers.
func claudeSubject(event string) string {
	switch event {
	case "PreToolUse", "PermissionRequest", "PermissionDenied", "PostToolUse", "PostToolUseFailure":
		return "tool_name"
	case "SubagentStart", "SubagentStop":
		return "agent_type"
	case "SessionStart", "ConfigChange", "DirectoryAdded":
		return "source"
	case "SessionEnd":
		return "reason"
	case "Setup", "PreCompact", "PostCompact":
		return "trigger"
	case "InstructionsLoaded":
		return "load_reason"
	case "UserPromptExpansion":
		return "command_name"
	case "Notification":
		return "notification_type"
	case "StopFailure":
		return "error"
	case "PreModelSwitch", "PostModelSwitch":
		return "to_model"
	case "FileChanged":
		return "file_path"
	case "Elicitation", "ElicitationResult":
		return "mcp_server_name"
	}
	return ""
}

// ClaudeSubject returns Claude Code's name for an event of any agent, and the text that Claude Code
// compares hook matchers with: the tool's name as its hooks see it, the reason for the start of a
// session, the server that asks, and so on. The event is "" if Claude Code has no equivalent. The
// subject is "" if the event ignores matchers.
func ClaudeSubject(ev *grapnel.Event) (event, subject string) {
	row, err := eventRow(claudeEvents, claudeName, ev)
	if err != nil {
		return "", ""
	}
	switch member := claudeSubject(row.Native); {
	case member == "tool_name":
		return row.Native, toolSubject(ev, claudeName, claudeTools)
	case member == "agent_type":
		return row.Native, deref(ev.Session.Subagent).Type
	case member != "" && ev.Agent.Name == claudeName && ev.Native != nil:
		subject = text(split(ev.Native)[member])
		if row.Native == "FileChanged" {
			subject = subject[strings.LastIndexAny(subject, `/\`)+1:]
		}
		return row.Native, subject
	case member != "":
		var m members
		_ = claudeParts(&m, row, ev) // only the parts with tools can fail
		return row.Native, text(m.get(member))
	}
	return row.Native, ""
}

func claudeCall(m *members, ev *grapnel.Event, t *grapnel.Tool) error {
	r, err := render(ev, t, claudeName)
	if err != nil {
		return err
	}
	m.text("tool_name", r.name)
	m.set("tool_input", r.input.raw())
	m.text("tool_use_id", t.ID)
	if t.MCP != nil {
		m.set("mcp_server", members{{"name", rawjson.Quote(t.MCP.Server)}}.raw())
	}
	return nil
}

func claudeTool(m *members, row *EventRow, ev *grapnel.Event) error {
	t := ev.Tool
	if t == nil {
		return errors.New("it has no tool")
	}
	if err := claudeCall(m, ev, t); err != nil {
		return err
	}
	switch row.Native {
	case "PermissionDenied":
		m.set("reason", rawjson.Quote(ev.Cause))
	case "PostToolUse":
		m.set("tool_response", claudeOutput(ev))
	case "PostToolUseFailure":
		m.set("error", rawjson.Quote(cmp.Or(outputText(t.Output), string(t.Output))))
		m.flag("is_interrupt", ev.Cause == "interrupt")
	}
	return nil
}

// claudeOutput converts another agent's output to Claude Code's format for shells and MCP servers.
// Other tools have their own output formats, so their output is passed on unchanged.
func claudeOutput(ev *grapnel.Event) json.RawMessage {
	output := ev.Tool.Output
	text := outputText(output)
	switch {
	case output == nil:
		return json.RawMessage("{}")
	case ev.Agent.Name == claudeName, text == "":
		return output
	case ev.Tool.MCP != nil:
		return fmt.Appendf(nil, `[{"type":"text","text":%s}]`, rawjson.Quote(text))
	case ev.Tool.Class == grapnel.ClassShell:
		return fmt.Appendf(nil, `{"stdout":%s,"stderr":"","interrupted":false,"isImage":false}`, rawjson.Quote(text))
	default:
		return output
	}
}

// claudeHookEnv returns the variables by which hooks find their project. It omits CLAUDECODE,
// because programs use that variable to detect that Claude Code runs them.
func claudeHookEnv(ev *grapnel.Event) []string {
	return variables(
		[2]string{"CLAUDE_PROJECT_DIR", cmp.Or(ev.Session.Root, ev.Session.CWD)},
		[2]string{"CLAUDE_CODE_SESSION_ID", ev.Session.ID},
	)
}

// The required types of the members of an answer, in the names of typeNamed. One wrong type voids
// the whole answer (seen live).
const (
	claudeTypes = "continue=bool stopReason=string suppressOutput=bool systemMessage=string terminalSequence=string decision=string reason=string " +
		"hookSpecificOutput=object"
	claudeSpecificTypes = "hookEventName=string permissionDecision=string permissionDecisionReason=string decision=object updatedInput=object " +
		"displayContent=string action=string content=object additionalContext=string initialUserMessage=string sessionTitle=string " +
		"watchPaths=list reloadSkills=bool suppressOriginalPrompt=bool classifierContext=string retry=bool"
	claudePermissionTypes = "behavior=string message=string interrupt=bool updatedInput=object updatedPermissions=list"
)

// claudeAnswered is an answer in which every member has the right type.
type claudeAnswered struct {
	top, specific, permission map[string]json.RawMessage
}

// readClaudeAnswer checks an answer as Claude Code does.
func readClaudeAnswer(native string, stdout []byte) (*claudeAnswered, error) {
	if !json.Valid(stdout) {
		return nil, errors.New("stdout starts with { but is not a valid JSON object (stdout must contain only the JSON object)")
	}
	a := &claudeAnswered{top: split(stdout)}
	if err := fits("", a.top, claudeTypes); err != nil {
		return nil, err
	}
	if err := oneOf("decision", a.top["decision"], "approve", "block"); err != nil {
		return nil, err
	}
	if a.top["hookSpecificOutput"] == nil {
		return a, nil
	}
	a.specific = split(a.top["hookSpecificOutput"])
	if err := fits("hookSpecificOutput.", a.specific, claudeSpecificTypes); err != nil {
		return nil, err
	}
	if name := text(a.specific["hookEventName"]); name != native {
		return nil, fmt.Errorf("hookSpecificOutput.hookEventName is %q and must be %q", name, native)
	}
	if err := oneOf("permissionDecision", a.specific["permissionDecision"], "allow", "deny", "ask", "defer"); err != nil {
		return nil, err
	}
	if err := oneOf("action", a.specific["action"], "accept", "decline", "cancel"); err != nil {
		return nil, err
	}
	if a.specific["decision"] == nil {
		return a, nil
	}
	a.permission = split(a.specific["decision"])
	if err := fits("hookSpecificOutput.decision.", a.permission, claudePermissionTypes); err != nil {
		return nil, err
	}
	if a.permission["behavior"] == nil {
		return nil, errors.New("hookSpecificOutput.decision has no behavior")
	}
	return a, oneOf("behavior", a.permission["behavior"], "allow", "deny")
}

func fits(at string, about map[string]json.RawMessage, types string) error {
	var wrong []string
	for _, p := range each(types) {
		if raw, want := about[p.member], typeNamed(p.word); raw != nil && kindOf(raw) != want {
			wrong = append(wrong, fmt.Sprintf("%s%s is %s and must be %s", at, p.member, kindOf(raw), want))
		}
	}
	if wrong == nil {
		return nil
	}
	slices.Sort(wrong)
	return errors.New(strings.Join(wrong, ", "))
}

func oneOf(name string, raw json.RawMessage, words ...string) error {
	if raw == nil || slices.Contains(words, text(raw)) {
		return nil
	}
	return fmt.Errorf("%s is %s and must be %s", name, shorten(raw), strings.Join(words, " or "))
}

// readClaudeOutcome reads the answer of a hook program of Claude Code.
//
// Exit code 2 blocks, with any content on stdout. This also holds where Claude Code itself would
// ignore the code but the event can be blocked. Any other nonzero code is an error, and valid JSON
// with such a code is used too. An answer that has a member of a wrong type or is for another event
// is void and an error; Claude Code drops it without an error.
//
// defer becomes Ask, with the word itself in Native for Claude Code. Only Claude Code can defer a
// call; for other agents ask is the next stricter decision.
func readClaudeOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	var o grapnel.Outcome
	row, err := eventRow(claudeEvents, claudeName, ev)
	if err != nil {
		return o, err
	}
	if row.Native == "WorktreeCreate" {
		return readClaudeWorktree(out)
	}
	stdout := trim(out.Stdout)
	var bad error
	if rawjson.IsObject(stdout) {
		var a *claudeAnswered
		if a, bad = readClaudeAnswer(row.Native, stdout); bad == nil {
			bad = a.outcome(&o, row, ev)
		}
		if bad != nil {
			bad = fmt.Errorf("cannot use its answer: %w", bad)
		}
	} else if bad = hiddenAnswer(stdout); bad == nil && len(stdout) > 0 && out.Exit == 0 && (ev.Kind == grapnel.SessionStart || ev.Kind == grapnel.PromptBefore) {
		o.Context = []string{string(stdout)}
	}
	switch contract := contractFor(ev); {
	case out.Exit == 0:
		return o, bad
	case out.Exit == 2 && contract != nil && contract.Blocks != grapnel.BlockingNothing:
		if o.Decision != grapnel.Block {
			o.Decision, o.Reason = grapnel.Block, ""
		}
		o.Reason = cmp.Or(o.Reason, strings.TrimSpace(string(out.Stderr)))
		return o, bad
	default: // includes exit code 2 if the event cannot be blocked: the user sees stderr
		return o, errors.Join(failure(out), bad)
	}
}

// outcome adds the content of an answer to o.
func (a *claudeAnswered) outcome(o *grapnel.Outcome, row *EventRow, ev *grapnel.Event) error {
	top, s := a.top, a.specific
	o.Message, o.Reason = text(top["systemMessage"]), text(top["reason"])
	switch {
	case text(top["decision"]) == "block":
		o.Decision = grapnel.Block
	case text(top["decision"]) == "approve" && row.Native == "PreToolUse": // for other events it has no meaning
		o.Decision = grapnel.Allow
	}
	if string(top["continue"]) == "false" {
		o.Halt = cmp.Or(text(top["stopReason"]), o.Reason, "stopped by a hook")
	}
	for _, name := range []string{"suppressOutput", "terminalSequence"} {
		native(o, claudeName, name, top[name])
	}
	for _, name := range claudeNative {
		native(o, claudeName, name, s[name])
	}
	if more := text(s["additionalContext"]); more != "" {
		contract := contractFor(ev)
		switch {
		case row.Kind == grapnel.AgentAfter || row.Kind == grapnel.SubagentAfter:
			// Claude Code continues the agent as for a block.
			if o.Decision != grapnel.Block {
				o.Decision, o.Reason = grapnel.Block, more
			} else {
				o.Context = []string{more}
			}
		case contract != nil && contract.Context:
			o.Context = []string{more}
		default:
			native(o, claudeName, "additionalContext", s["additionalContext"])
		}
	}
	switch row.Native {
	case "PreToolUse", "PreModelSwitch":
		return a.decide(o, ev)
	case "PermissionRequest":
		return a.permit(o, ev)
	case "PostToolUse":
		return a.output(o, ev)
	case "MessageDisplay":
		if shown := s["displayContent"]; shown != nil {
			set(o, grapnel.FieldResponse, shown)
		}
	case "Elicitation", "ElicitationResult":
		switch action := text(s["action"]); action {
		case "":
		case "decline":
			o.Decision, o.Reason = grapnel.Block, cmp.Or(o.Reason, o.Message)
		default:
			answer := members{{"action", s["action"]}}
			answer.set("content", s["content"])
			set(o, grapnel.FieldAnswer, answer.raw())
		}
	}
	return nil
}

// claudeNative lists the members that only Claude Code supports.
var claudeNative = []string{
	"initialUserMessage", "sessionTitle", "watchPaths", "reloadSkills", "suppressOriginalPrompt", "classifierContext", "retry",
}

func (a *claudeAnswered) decide(o *grapnel.Outcome, ev *grapnel.Event) error {
	var d grapnel.Decision
	switch text(a.specific["permissionDecision"]) {
	case "deny":
		d = grapnel.Block
	case "ask":
		d = grapnel.Ask
	case "defer":
		d = grapnel.Ask
		native(o, claudeName, "permissionDecision", a.specific["permissionDecision"])
	case "allow":
		d = grapnel.Allow
	}
	if reason := text(a.specific["permissionDecisionReason"]); d >= o.Decision && reason != "" {
		o.Reason = reason
	}
	o.Decision = max(o.Decision, d)
	if input := a.specific["updatedInput"]; input != nil {
		return changeOrAsk(o, ev, claudeName, input)
	}
	return nil
}

func (a *claudeAnswered) permit(o *grapnel.Outcome, ev *grapnel.Event) error {
	p := a.permission
	switch text(p["behavior"]) {
	case "deny":
		o.Decision, o.Reason = grapnel.Block, cmp.Or(text(p["message"]), o.Reason)
		if flag(p["interrupt"]) {
			o.Halt = cmp.Or(o.Reason, "interrupted by a hook")
		}
	case "allow":
		o.Decision = max(o.Decision, grapnel.Allow)
		native(o, claudeName, "updatedPermissions", p["updatedPermissions"])
		if input := p["updatedInput"]; input != nil {
			return changeOrAsk(o, ev, claudeName, input)
		}
	}
	return nil
}

// changeOrAsk adds a change of the input. If the change cannot be applied, an Allow is dropped,
// because it was given for another input than the one that would run.
func changeOrAsk(o *grapnel.Outcome, ev *grapnel.Event, agent string, input json.RawMessage) error {
	if o.Decision == grapnel.Block {
		return nil // a blocked call is not changed
	}
	err := change(o, ev, agent, input)
	if err != nil && o.Decision == grapnel.Allow {
		o.Decision = grapnel.None
	}
	if err != nil {
		o.Set, o.Patch = nil, nil // apply all changes or none
	}
	return err
}

func (a *claudeAnswered) output(o *grapnel.Outcome, ev *grapnel.Event) error {
	updated := a.specific["updatedToolOutput"]
	if mcp := a.specific["updatedMCPToolOutput"]; mcp != nil && ev.Tool != nil && ev.Tool.MCP != nil {
		updated = mcp
	}
	if updated == nil {
		return nil
	}
	if ev.Agent.Name == claudeName || ev.Tool == nil {
		set(o, grapnel.FieldOutput, updated)
		return nil
	}
	text := outputText(updated)
	switch {
	case text == "" && outputText(ev.Tool.Output) != "":
		return fmt.Errorf("its updatedToolOutput has no text that %s can show", ev.Agent.Name)
	case ev.Agent.Name == geminiName:
		set(o, grapnel.FieldOutput, members{{"llmContent", rawjson.Quote(text)}, {"returnDisplay", rawjson.Quote(text)}}.raw())
	default:
		set(o, grapnel.FieldOutput, rawjson.Quote(text))
	}
	return nil
}

// readClaudeWorktree reads the only plain text answer: its last line is the path of the new
// worktree, and a nonzero exit code means that no worktree exists.
func readClaudeWorktree(out Output) (grapnel.Outcome, error) {
	var o grapnel.Outcome
	if out.Exit != 0 {
		o.Decision, o.Reason = grapnel.Block, strings.TrimSpace(string(out.Stderr))
		return o, nil
	}
	lines := strings.Split(strings.TrimSpace(string(out.Stdout)), "\n")
	if path := strings.TrimSpace(lines[len(lines)-1]); path != "" {
		native(&o, claudeName, "worktreePath", rawjson.Quote(path))
	}
	return o, nil
}
