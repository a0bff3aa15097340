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

// writeGeminiEvent writes an event for a hook program of Gemini CLI, as writeClaudeEvent does. The
// timestamp is the time of the event, and is omitted if the event has none.
func writeGeminiEvent(ev *grapnel.Event) ([]byte, error) {
	row, err := eventRow(geminiEvents, geminiName, ev)
	if err != nil {
		return nil, err
	}
	var m members
	if ev.Agent.Name == geminiName && rawjson.IsObject(trim(ev.Native)) {
		m = membersOf(ev.Native)
		m.text("hook_event_name", row.Native)
		geminiNow(&m, row, ev)
		return m.line()
	}
	m.text("session_id", ev.Session.ID)
	m.set("transcript_path", rawjson.Quote(ev.Session.Transcript))
	m.set("cwd", rawjson.Quote(ev.Session.CWD))
	m.text("hook_event_name", row.Native)
	if !ev.Time.IsZero() {
		m.text("timestamp", ev.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	if err := geminiParts(&m, row, ev); err != nil {
		return nil, fmt.Errorf("cannot write %s for a hook of %s: %w", ev.Kind, geminiName, err)
	}
	return m.line()
}

// geminiNow overwrites the fields of the agent's payload that earlier hooks may have changed.
func geminiNow(m *members, row *EventRow, ev *grapnel.Event) {
	if ev.Prompt != nil && text(m.get("prompt")) != ev.Prompt.Text {
		m.set("prompt", rawjson.Quote(ev.Prompt.Text))
	}
	if ev.Model != nil {
		m.set("llm_request", ev.Model.Request)
		m.set("llm_response", ev.Model.Response)
	}
	if t := ev.Tool; t != nil {
		if t.Input != nil {
			m.set("tool_input", inputAs(ev, t.Input))
		}
		if row.Native == "AfterTool" {
			m.set("tool_response", t.Output)
		}
	}
}

// geminiParts writes the parts of an event from another agent, or of an event without payload.
func geminiParts(m *members, row *EventRow, ev *grapnel.Event) error {
	switch row.Native {
	case "SessionStart":
		m.text("source", geminiCause(row, ev))
	case "SessionEnd":
		m.text("reason", geminiCause(row, ev))
	case "BeforeAgent":
		m.set("prompt", rawjson.Quote(deref(ev.Prompt).Text))
	case "AfterAgent":
		stop := deref(ev.Stop)
		m.set("prompt", rawjson.Quote(deref(ev.Prompt).Text))
		m.set("prompt_response", rawjson.Quote(stop.LastMessage))
		m.flag("stop_hook_active", stop.Active)
	case "BeforeModel", "BeforeToolSelection":
		m.set("llm_request", deref(ev.Model).Request)
	case "AfterModel":
		m.set("llm_request", deref(ev.Model).Request)
		m.set("llm_response", deref(ev.Model).Response)
	case "BeforeTool", "AfterTool":
		return geminiTool(m, row, ev)
	case "PreCompress":
		m.set("trigger", rawjson.Quote(geminiCause(row, ev)))
	case "Notification":
		n := deref(ev.Notification)
		if n.Type == "permission_prompt" {
			n.Type = "ToolPermission"
		}
		m.text("notification_type", n.Type)
		m.set("message", rawjson.Quote(n.Message))
		m.set("details", members{{"type", rawjson.Quote("info")}, {"title", rawjson.Quote(n.Title)}}.raw())
	}
	return nil
}

// geminiCause returns the cause of an event as Gemini CLI names it.
func geminiCause(row *EventRow, ev *grapnel.Event) string {
	cause := ev.Cause
	if ev.Agent.Name == geminiName {
		return cause
	}
	switch row.Native {
	case "SessionStart":
		if !slices.Contains([]string{"startup", "resume", "clear", ""}, cause) {
			return "resume" // after a compaction or a fork the session continues under another name
		}
	case "SessionEnd":
		if !slices.Contains([]string{"exit", "clear", "logout", "prompt_input_exit"}, cause) {
			return "other"
		}
	case "PreCompress":
		return cmp.Or(cause, "auto")
	}
	return cause
}

// GeminiSubject returns the text that Gemini CLI compares hook matchers with for an event of any
// agent: the tool's name as its hooks see it, the reason for the start or end of a session, or the
// origin of a compaction. It returns "" if the event ignores matchers.
func GeminiSubject(ev *grapnel.Event) string {
	row, err := eventRow(geminiEvents, geminiName, ev)
	if err != nil {
		return ""
	}
	switch row.Native {
	case "SessionStart", "SessionEnd", "PreCompress":
		return geminiCause(row, ev)
	case "BeforeTool", "AfterTool":
		return toolSubject(ev, geminiName, geminiTools)
	default:
		return ""
	}
}

func geminiTool(m *members, row *EventRow, ev *grapnel.Event) error {
	t := ev.Tool
	if t == nil {
		return errors.New("it has no tool")
	}
	r, err := render(ev, t, geminiName)
	if err != nil {
		return err
	}
	m.text("tool_name", r.name)
	m.set("tool_input", r.input.raw())
	if t.MCP != nil {
		m.set("mcp_context", members{{"server_name", rawjson.Quote(t.MCP.Server)}, {"tool_name", rawjson.Quote(t.MCP.Tool)}}.raw())
	}
	if row.Native == "AfterTool" {
		m.set("tool_response", geminiOutput(ev))
	}
	return nil
}

// geminiOutput converts another agent's output to Gemini CLI's format: the text of the output if it
// has one, or else the whole output.
func geminiOutput(ev *grapnel.Event) json.RawMessage {
	output := ev.Tool.Output
	if about := split(output); ev.Agent.Name == geminiName || about["llmContent"] != nil {
		return output
	}
	text := cmp.Or(outputText(output), string(output))
	m := members{{"llmContent", rawjson.Quote(text)}, {"returnDisplay", rawjson.Quote(text)}}
	if ev.Tool.Failed || ev.Kind == grapnel.ToolFailed {
		m.set("error", members{{"message", rawjson.Quote(text)}, {"type", rawjson.Quote(cmp.Or(ev.Cause, "execution_failed"))}}.raw())
	}
	return m.raw()
}

// geminiHookEnv returns the variables by which hooks find their project. Gemini CLI itself also
// sets Claude Code's variable.
func geminiHookEnv(ev *grapnel.Event) []string {
	root := cmp.Or(ev.Session.Root, ev.Session.CWD)
	return variables(
		[2]string{"GEMINI_PROJECT_DIR", root},
		[2]string{"GEMINI_CWD", ev.Session.CWD},
		[2]string{"GEMINI_SESSION_ID", ev.Session.ID},
		[2]string{"CLAUDE_PROJECT_DIR", root},
	)
}

// readGeminiOutcome reads the answer of a hook program of Gemini CLI: its stdout or, if that is
// empty, its stderr. JSON is used with any exit code, even if it is encoded twice. Other text is a
// message with exit codes 0 and 1, and the reason of a block with any other code.
//
// It is stricter than the agent in these cases:
//
//   - Exit code 2 blocks, even without output or with an "allow".
//   - Exit code 1 with text, which interpreters use for an uncaught exception, is an error. So is
//     a signal, and any other nonzero code that is not a block. The policy decides how the error
//     is treated, and JSON in the output is used too.
//   - An unknown decision, or a change that cannot be applied, is an error.
//
// "allow" means no opinion and skips no prompt.
func readGeminiOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	var o grapnel.Outcome
	row, err := eventRow(geminiEvents, geminiName, ev)
	if err != nil {
		return o, err
	}
	answer := trim(out.Stdout)
	if len(answer) == 0 {
		answer = trim(out.Stderr)
	}
	plain := string(answer)
	if inner, ok := rawjson.Unquote(answer); ok && json.Valid(answer) {
		answer = trim([]byte(inner))
	}
	isJSON := json.Valid(answer)
	if isJSON && rawjson.IsObject(answer) {
		err = geminiAnswer(&o, row, ev, split(answer))
	}
	contract := contractFor(ev)
	blockable := contract != nil && contract.Blocks != grapnel.BlockingNothing
	switch {
	case out.Exit == 2 && blockable:
		if row.Native == "BeforeModel" && o.Set[grapnel.FieldResponse] != nil {
			return o, err // the answer that replaces the model call is the block
		}
		if o.Decision != grapnel.Block && !isJSON {
			o.Reason = plain
		}
		o.Decision, o.Patch = grapnel.Block, nil // a blocked call is not changed
		delete(o.Set, grapnel.FieldInput)
		return o, err
	case isJSON && (answer[0] == '{' || answer[0] == '['):
		if answer[0] == '[' {
			err = hiddenAnswer(answer)
		}
		if out.Exit != 0 && o.Decision != grapnel.Block {
			err = errors.Join(err, failure(Output{Exit: out.Exit}))
		}
		return o, err
	case isJSON && out.Exit == 0: // a number, a boolean, null or a string
		return o, nil
	case isJSON || plain == "":
		if out.Exit == 0 {
			return o, nil
		}
		return o, failure(out)
	case out.Exit == 0:
		o.Message = plain
		return o, hiddenAnswer(answer)
	case out.Exit == 1:
		o.Message = "Warning: " + plain
		return o, failure(Output{Exit: 1})
	case out.Exit == -1:
		o.Message = plain
		return o, failure(Output{Exit: -1})
	case blockable:
		o.Decision, o.Reason = grapnel.Block, plain
		return o, nil
	default:
		return o, failure(Output{Exit: out.Exit, Stderr: []byte(plain)})
	}
}

// geminiAnswer adds the content of an answer to o.
func geminiAnswer(o *grapnel.Outcome, row *EventRow, ev *grapnel.Event, top map[string]json.RawMessage) error {
	var errs []error
	o.Message, o.Reason = text(top["systemMessage"]), text(top["reason"])
	switch decision := present(top["decision"]); text(decision) {
	case "block", "deny":
		o.Decision = grapnel.Block
	case "ask":
		o.Decision = grapnel.Ask
	case "allow", "approve":
	default:
		if decision != nil {
			errs = append(errs, fmt.Errorf("its decision %s is not allow, deny, block or ask", shorten(decision)))
		}
	}
	if string(top["continue"]) == "false" {
		o.Halt = cmp.Or(text(top["stopReason"]), o.Reason, "stopped by a hook")
	}
	if raw := top["suppressOutput"]; kindOf(raw) == "a boolean" {
		native(o, geminiName, "suppressOutput", raw)
	}
	specific := present(top["hookSpecificOutput"])
	if specific != nil && !rawjson.IsObject(specific) {
		errs = append(errs, fmt.Errorf("its hookSpecificOutput is %s, not an object", kindOf(specific)))
	}
	s := split(specific)
	if more := text(s["additionalContext"]); more != "" && row.Can.Context {
		o.Context = []string{more} // the agent ignores it for other events
	}
	errs = append(errs, geminiChanges(o, row, ev, s))
	return errors.Join(errs...)
}

// geminiChanges adds the changes in an answer to o.
func geminiChanges(o *grapnel.Outcome, row *EventRow, ev *grapnel.Event, s map[string]json.RawMessage) error {
	object := func(name string) (json.RawMessage, error) {
		raw := present(s[name])
		if raw != nil && !rawjson.IsObject(raw) {
			return nil, fmt.Errorf("its %s is %s, not an object", name, kindOf(raw))
		}
		return raw, nil
	}
	switch row.Native {
	case "BeforeTool":
		input, err := object("tool_input")
		if input == nil || err != nil {
			return err
		}
		return changeOrAsk(o, ev, geminiName, input)
	case "BeforeModel":
		return geminiModel(o, ev, object)
	case "AfterModel":
		response, err := object("llm_response")
		if response == nil || err != nil {
			return err
		}
		if !hasParts(response) {
			return errors.New("its llm_response has no candidates[0].content.parts")
		}
		set(o, grapnel.FieldResponse, response)
	case "BeforeToolSelection":
		config, err := object("toolConfig")
		if config == nil || err != nil {
			return err
		}
		return geminiChosen(o, split(config))
	case "AfterTool":
		next, err := object("tailToolCallRequest")
		if next == nil || err != nil {
			return err
		}
		return geminiTail(o, ev, split(next))
	case "AfterAgent":
		if flag(s["clearContext"]) {
			set(o, grapnel.FieldClear, json.RawMessage("true"))
		}
	}
	return nil
}

// geminiModel reads changes of a model call. A response with a deny replaces the model call, and
// the deny then has no further meaning.
func geminiModel(o *grapnel.Outcome, ev *grapnel.Event, object func(string) (json.RawMessage, error)) error {
	request, errRequest := object("llm_request")
	response, err := object("llm_response")
	if response != nil && o.Decision != grapnel.Block {
		native(o, geminiName, "llm_response", response) // another hook may deny
		response, err = nil, errors.New(`its llm_response is used only with the decision "deny"`)
	}
	switch {
	case response != nil:
		o.Decision, o.Reason = grapnel.None, ""
		set(o, grapnel.FieldResponse, response)
	case request != nil && o.Decision != grapnel.Block:
		o.Patch = map[grapnel.Field]json.RawMessage{grapnel.FieldRequest: geminiRequest(request, deref(ev.Model).Request)}
	}
	return errors.Join(errRequest, err)
}

// geminiRequest returns the changes of an llm_request as a merge patch: missing members stay, and
// others are replaced as a whole. If a config omits one of the four known settings, that setting is
// removed from the request (seen live).
func geminiRequest(request, seen json.RawMessage) json.RawMessage {
	was, patch := split(seen), membersOf(request)
	for i, e := range patch {
		if !rawjson.IsObject(e.value) {
			continue
		}
		now, gone := membersOf(e.value), membersOf(was[e.name])
		if e.name == "config" {
			for _, name := range geminiSettings {
				gone.set(name, json.RawMessage("null"))
			}
		}
		for _, old := range gone {
			if now.find(old.name) < 0 {
				now.set(old.name, json.RawMessage("null"))
			}
		}
		patch[i].value = now.raw()
	}
	return patch.raw()
}

var geminiSettings = []string{"temperature", "maxOutputTokens", "topP", "topK"}

// hasParts reports whether Gemini CLI accepts a response. Gemini CLI ignores a response without
// parts. A candidate without parts makes it fail, and a deny in the same answer is then lost.
func hasParts(response json.RawMessage) bool {
	var shape struct {
		Candidates []struct {
			Content struct {
				Parts []json.RawMessage `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
	}
	if json.Unmarshal(response, &shape) != nil || len(shape.Candidates) == 0 || len(shape.Candidates[0].Content.Parts) == 0 {
		return false
	}
	for _, c := range shape.Candidates {
		if c.Content.Parts == nil {
			return false
		}
	}
	return true
}

// geminiChosen reads the choice of tools. As in the agent, the names take effect even with an
// unknown mode.
func geminiChosen(o *grapnel.Outcome, config map[string]json.RawMessage) error {
	var err error
	mode := text(config["mode"])
	if present(config["mode"]) != nil && mode != "AUTO" && mode != "ANY" && mode != "NONE" {
		err = fmt.Errorf("its toolConfig.mode %s is not AUTO, ANY or NONE", shorten(config["mode"]))
		mode = ""
	}
	names := present(config["allowedFunctionNames"])
	var list []string
	if names != nil && json.Unmarshal(names, &list) != nil {
		err = errors.Join(err, errors.New("its toolConfig.allowedFunctionNames is not a list of names"))
	}
	if mode == "NONE" {
		names = json.RawMessage("[]")
	} else if len(list) == 0 {
		names = nil // an empty list does not restrict
	}
	if mode != "" {
		set(o, grapnel.FieldMode, rawjson.Quote(strings.ToLower(mode)))
	}
	if names != nil {
		set(o, grapnel.FieldTools, names)
	}
	return err
}

// geminiTail reads the call that the agent must run next, translated for the agent of ev.
func geminiTail(o *grapnel.Outcome, ev *grapnel.Event, next map[string]json.RawMessage) error {
	args := present(next["args"])
	if args == nil {
		args = json.RawMessage("{}")
	}
	if text(next["name"]) == "" || !rawjson.IsObject(args) {
		return errors.New("its tailToolCallRequest must be {name, args}")
	}
	t := &grapnel.Tool{Name: text(next["name"]), Input: args}
	t.Class, t.Facts = classify(geminiTools, t)
	t.Derive()
	r, err := render(&grapnel.Event{Agent: grapnel.Agent{Name: geminiName}}, t, cmp.Or(ev.Agent.Name, geminiName))
	if err != nil {
		return err
	}
	set(o, grapnel.FieldNext, members{{"name", rawjson.Quote(r.name)}, {"input", r.input.raw()}}.raw())
	return nil
}
