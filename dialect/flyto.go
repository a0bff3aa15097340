package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

const flytoName = "flyto"

// Flyto returns the dialect of hook programs that were written for a Flyto agent; see [FlytoEnv].
func Flyto() *Dialect { return flyto.clone() }

// flyto is the dialect of hook programs that were written for a Flyto agent. Only hook programs use
// it.
//
// Such a program finds the event in environment variables; see [FlytoEnv]. The caller truncates
// values that are too long for a variable: a program does not start with a variable of 128 KiB, and
// the model controls the content. A program that needs all of a large input finds the whole event
// on standard input, in the plain dialect.
//
// Tools have Claude Code's names.
var flyto = &Dialect{
	Name:        flytoName,
	Events:      flytoEvents,
	WriteEvent:  writeFlytoEvent,
	ReadOutcome: readFlytoOutcome,
	HookEnv:     flytoHookEnv,
}

var flytoEvents = []EventRow{
	{Native: "session_start", Kind: grapnel.SessionStart},
	{Native: "session_end", Kind: grapnel.SessionEnd},
	{Native: "pre_sampling", Kind: grapnel.ModelBefore},
	{Native: "post_sampling", Kind: grapnel.ModelAfter},
	{Native: "pre_tool_use", Kind: grapnel.ToolBefore},
	{Native: "permission_request", Kind: grapnel.PermissionBefore},
	{Native: "permission_denied", Kind: grapnel.PermissionDenied},
	{Native: "post_tool_use", Kind: grapnel.ToolAfter},
	{Native: "post_tool_use_failure", Kind: grapnel.ToolFailed},
	{Native: "stop", Kind: grapnel.AgentAfter},
	{Native: "post_compact", Kind: grapnel.CompactAfter},
	{Native: "task_created", Kind: grapnel.TaskBefore},
	{Native: "task_completed", Kind: grapnel.TaskAfter},
	{Native: "config_change", Kind: grapnel.ConfigBefore},
	{Native: "notification", Kind: grapnel.NotificationSent},
}

// flytoVars lists the event's variables in addition to the common ones, each with its argument.
// Flyto does not document the names for notifications and tasks, so Grapnel defines them.
func flytoVars(hookType string) string {
	switch hookType {
	case "session_start", "session_end":
		return "SESSION_ID=session_id"
	case "pre_sampling":
		return "MODEL=model TURN=turn MESSAGE_COUNT=message_count"
	case "post_sampling":
		return "MODEL=model TURN=turn INPUT_TOKENS=input_tokens OUTPUT_TOKENS=output_tokens STOP_REASON=stop_reason RESPONSE_PREVIEW=response"
	case "pre_tool_use":
		return "TOOL_NAME=tool_name TOOL_INPUT=input"
	case "permission_request", "permission_denied":
		return "TOOL_NAME=tool_name PERMISSION_REASON=reason"
	case "post_tool_use", "post_tool_use_failure":
		return "TOOL_NAME=tool_name TOOL_INPUT=input TOOL_OUTPUT=output TOOL_IS_ERROR=is_error"
	case "task_created", "task_completed":
		return "TASK_ID=task_id TASK_DESCRIPTION=description"
	case "notification":
		return "NOTIFICATION_MESSAGE=message NOTIFICATION_LEVEL=level"
	}
	return ""
}

// maxFlytoPreview is the maximum number of bytes of the model's answer in RESPONSE_PREVIEW.
const maxFlytoPreview = 500

// FlytoEnv returns the variables, NAME=value, of one Flyto event. hookType is Flyto's name of the
// event, such as pre_tool_use.
//
// Every event has HOOK_TYPE, PROJECT_ROOT (from the argument project_root), PLATFORM, ARCH, CWD
// (cwd) and, if there is a plugin_dir, FLYTO_PLUGIN_ROOT. The others come from tool_name, input,
// output, is_error, session_id, reason, model, turn, message_count, input_tokens, output_tokens,
// stop_reason, response, message, level, task_id and description. A string becomes its value; other
// values and input become compact JSON. If an argument of the event is missing, its variable is
// empty, for scripts that run with "set -u". FlytoEnv truncates only the response.
func FlytoEnv(hookType string, args map[string]json.RawMessage) []string {
	env := []string{
		"HOOK_TYPE=" + hookType,
		"PROJECT_ROOT=" + flytoText(args["project_root"]),
		"PLATFORM=" + runtime.GOOS,
		"ARCH=" + runtime.GOARCH,
		"CWD=" + flytoText(args["cwd"]),
	}
	env = append(env, variables([2]string{"FLYTO_PLUGIN_ROOT", flytoText(args["plugin_dir"])})...)
	for _, v := range each(flytoVars(hookType)) {
		value := flytoText(args[v.word])
		switch v.member {
		case "TOOL_INPUT":
			value = compactText(args[v.word])
		case "RESPONSE_PREVIEW":
			value = rawjson.Cut(value, maxFlytoPreview)
		}
		env = append(env, v.member+"="+value)
	}
	return env
}

func flytoText(raw json.RawMessage) string {
	if s, ok := rawjson.Unquote(raw); ok {
		return s
	}
	return compactText(raw)
}

func compactText(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// writeFlytoEvent writes the standard input of such a program: the plain event, with the complete
// values of its variables.
func writeFlytoEvent(ev *grapnel.Event) ([]byte, error) {
	if _, err := eventRow(flytoEvents, flytoName, ev); err != nil {
		return nil, err
	}
	if _, _, err := flytoCall(ev); err != nil {
		return nil, err
	}
	return writePlainEvent(ev)
}

// flytoCall returns the tool's name and input as Flyto's hooks expect them.
func flytoCall(ev *grapnel.Event) (name string, input json.RawMessage, err error) {
	switch {
	case ev.Tool == nil:
		return "", nil, nil
	case ev.Agent.Name == flytoName:
		return ev.Tool.Name, ev.Tool.Input, nil
	}
	r, err := render(ev, ev.Tool, claudeName)
	switch {
	case err != nil:
		return "", nil, err
	case r.same:
		return r.name, ev.Tool.Input, nil
	}
	return r.name, r.input.raw(), nil
}

// flytoHookEnv returns the variables of an event. Values that have no field in the event come from
// the payload of a Flyto agent, which uses the argument names of FlytoEnv.
func flytoHookEnv(ev *grapnel.Event) []string {
	row, err := eventRow(flytoEvents, flytoName, ev)
	if err != nil {
		return nil
	}
	args := map[string]json.RawMessage{}
	if own := split(ev.Native); ev.Agent.Name == flytoName && own != nil {
		args = own
	}
	set := func(name, value string) {
		if value != "" {
			args[name] = rawjson.Quote(value)
		}
	}
	if args["project_root"] == nil {
		set("project_root", cmp.Or(ev.Session.Root, ev.Session.CWD))
	}
	set("cwd", ev.Session.CWD)
	set("session_id", ev.Session.ID)
	set("reason", ev.Cause)
	set("message", deref(ev.Notification).Message)
	set("level", deref(ev.Notification).Type)
	set("task_id", deref(ev.Task).ID)
	set("description", cmp.Or(deref(ev.Task).Description, deref(ev.Task).Subject))
	if strings.Trim(ev.Session.Turn, "0123456789") == "" { // other agents use an identifier for a turn
		set("turn", ev.Session.Turn)
	}
	if t := ev.Tool; t != nil {
		name, input, _ := flytoCall(ev) // with an error here, writeFlytoEvent has already kept the program from starting
		set("tool_name", name)
		args["input"] = input
		args["output"] = t.Output
		if ev.Agent.Name != flytoName { // other agents have their own output formats
			set("output", outputText(t.Output))
		}
		args["is_error"] = json.RawMessage("false")
		if t.Failed || ev.Kind == grapnel.ToolFailed {
			args["is_error"] = json.RawMessage("true")
		}
	}
	flytoModel(ev, set, args)
	return FlytoEnv(row.Native, args)
}

// flytoModel adds the details of a model call. It reads the formats of Anthropic's Messages, of
// OpenAI's chat completions and Responses, of Gemini, and of package host.
func flytoModel(ev *grapnel.Event, set func(name, value string), args map[string]json.RawMessage) {
	m := deref(ev.Model)
	request, response := split(m.Request), split(m.Response)
	set("model", cmp.Or(ev.Session.Model, text(request["model"])))
	for _, name := range []string{"messages", "contents", "input"} {
		if list := listOf(request[name]); list != nil {
			args["message_count"] = fmt.Append(nil, len(list))
		}
	}
	first := func(name string, values ...json.RawMessage) {
		if i := slices.IndexFunc(values, func(v json.RawMessage) bool { return present(v) != nil }); i >= 0 {
			args[name] = values[i]
		}
	}
	usage, metadata := split(response["usage"]), split(response["usageMetadata"])
	choice, candidate := firstObject(response["choices"]), firstObject(response["candidates"])
	first("input_tokens", usage["input_tokens"], usage["prompt_tokens"], metadata["promptTokenCount"])
	first("output_tokens", usage["output_tokens"], usage["completion_tokens"], metadata["candidatesTokenCount"])
	first("stop_reason", response["stop_reason"], response["finish_reason"], choice["finish_reason"], candidate["finishReason"],
		split(response["incomplete_details"])["reason"], response["status"]) // Responses has no reason if it is complete
	set("response", answerText(m.Response))
}

// answerText returns the text of a model's response in the formats of flytoModel, or "".
func answerText(raw json.RawMessage) string {
	response := split(raw)
	var texts []string
	switch choice, candidate := firstObject(response["choices"]), firstObject(response["candidates"]); {
	case choice != nil:
		message := split(choice["message"])
		return cmp.Or(outputText(message["content"]), text(message["refusal"]))
	case candidate != nil:
		for _, part := range listOf(split(candidate["content"])["parts"]) {
			if about := split(part); string(about["thought"]) != "true" { // a thought is not a part of the answer
				texts = append(texts, cmp.Or(text(part), text(about["text"])))
			}
		}
		return strings.Join(texts, "")
	}
	for _, item := range listOf(response["output"]) { // of Responses, between reasoning and calls
		for _, part := range listOf(split(item)["content"]) {
			about := split(part)
			if kind := text(about["type"]); kind == "output_text" || kind == "refusal" {
				texts = append(texts, cmp.Or(text(about["text"]), text(about["refusal"])))
			}
		}
	}
	return cmp.Or(strings.Join(texts, ""), outputText(raw))
}

// firstObject returns the members of the first element of an array, or nil.
func firstObject(raw json.RawMessage) map[string]json.RawMessage {
	if all := listOf(raw); len(all) > 0 {
		return split(all[0])
	}
	return nil
}

// listOf returns the elements of an array, or nil for anything else.
func listOf(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// readFlytoOutcome reads the answer of a hook program of Flyto. Exit code 0 means no opinion, 2 is
// a block, and any other code is an error. JSON on stdout is used with any exit code, and the
// stricter of both wins; an unknown decision is ignored. Text on stdout has no meaning, but text
// next to an object is an error, because half an answer must not decide.
//
// Some events differ. An allow works only for permission_request. At stop, every nonzero exit code
// ends the turn, and a decision has no meaning. The answer to post_sampling changes nothing. Text
// of post_compact becomes part of the summary.
func readFlytoOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	var o grapnel.Outcome
	row, err := eventRow(flytoEvents, flytoName, ev)
	if err != nil {
		return o, err
	}
	if row.Native == "post_compact" {
		if out.Exit != 0 {
			return o, failure(out)
		}
		if summary := (FlytoResults{{Output: out}}).Summary(); summary != "" {
			set(&o, grapnel.FieldSummary, rawjson.Quote(summary))
		}
		return o, nil
	}
	answer, err := flytoAnswer(out.Stdout)
	reason := strings.ToValidUTF8(cmp.Or(text(answer["reason"]), strings.TrimSpace(string(out.Stderr))), "\ufffd")
	switch {
	case row.Native == "stop" && out.Exit > 0:
		o.Halt = cmp.Or(reason, "stopped by a hook")
		if out.Exit == 126 || out.Exit == 127 { // the shell's exit codes for a program that is missing or not executable
			err = errors.Join(failure(out), err)
		}
		return o, err
	case out.Exit == 2 && row.Native != "post_sampling":
		o.Decision = grapnel.Block
	case out.Exit != 0:
		err = errors.Join(failure(out), err)
	}
	switch decision := text(answer["decision"]); {
	case row.Native == "stop" || row.Native == "post_sampling":
	case decision == "block" || decision == "deny":
		o.Decision = grapnel.Block
	case (decision == "allow" || decision == "approve") && row.Native == "permission_request" && err == nil:
		o.Decision = max(o.Decision, grapnel.Allow)
	}
	if o.Decision == grapnel.Block {
		o.Reason = reason
	} else if o.Decision == grapnel.Allow {
		o.Reason = text(answer["reason"])
	}
	return o, err
}

// flytoAnswer reads the object on stdout, if there is one.
func flytoAnswer(stdout []byte) (map[string]json.RawMessage, error) {
	stdout = trim(stdout)
	switch {
	case json.Valid(stdout) && rawjson.IsObject(stdout):
		answer := split(stdout)
		for _, name := range []string{"decision", "reason"} {
			if value := present(answer[name]); value != nil && value[0] != '"' {
				return answer, fmt.Errorf("cannot use its answer: %s is %s, want text", name, value)
			}
		}
		return answer, nil
	case rawjson.IsObject(stdout):
		return nil, errCutAnswer
	}
	if _, rest, ok := bytes.Cut(stdout, []byte("\n{")); ok && json.Valid(append([]byte{'{'}, rest...)) {
		return nil, errHiddenAnswer
	}
	return nil, hiddenAnswer(stdout)
}

// A FlytoResult is the result of one hook, in the form that Flyto's own helpers use.
type FlytoResult struct {
	Hook string // name of the hook
	Output
	JSON map[string]json.RawMessage // the members of the object on stdout; nil = no object
	Err  error                      // why the hook failed, for example because it could not be started or timed out
	Took time.Duration
}

// NewFlytoResult parses the JSON on the stdout of out. err is the error of the run, or nil.
func NewFlytoResult(out Output, err error) FlytoResult {
	return FlytoResult{Output: out, JSON: out.Object(), Err: err}
}

// NewFlytoResults returns the results of hooks that an engine ran: the Hooks of a Record, or the
// runs of [grapnel.Terms.Late]. It leaves out hooks that have not run yet. If a Go
// hook has no Output, its result has exit code 2 if it blocked or halted, and the reason as stderr.
func NewFlytoResults(runs []grapnel.HookRun) FlytoResults {
	results := make(FlytoResults, 0, len(runs))
	for i := range runs {
		run := &runs[i]
		if run.Superseded || run.Async && run.Saw == nil && run.Err == nil {
			continue
		}
		out := deref(run.Output)
		if answer := deref(run.Outcome); run.Output == nil && (answer.Decision == grapnel.Block || answer.Halt != "") {
			out.Exit, out.Stderr = 2, []byte(cmp.Or(answer.Reason, answer.Halt))
		}
		result := NewFlytoResult(out, run.Err)
		result.Hook, result.Took = run.Name, time.Duration(run.MS*float64(time.Millisecond))
		results = append(results, result)
	}
	return results
}

// Success reports whether the hook ended with exit code 0 and without an error. A block is not a
// success.
func (r FlytoResult) Success() bool { return r.Exit == 0 && r.Err == nil }

// FlytoResults are the results of all hooks of one event, in the order in which they ran; see
// [NewFlytoResults].
type FlytoResults []FlytoResult

// FindJSON returns a member of the first answer that has it. It returns false if none has.
func (rs FlytoResults) FindJSON(name string) (json.RawMessage, bool) {
	for _, r := range rs {
		if value, ok := r.JSON[name]; ok {
			return value, true
		}
	}
	return nil, false
}

// FirstError returns the index of the first result that is not a success, or -1.
func (rs FlytoResults) FirstError() int {
	return slices.IndexFunc(rs, func(r FlytoResult) bool { return !r.Success() })
}

// HasErrors reports whether any result is not a success.
func (rs FlytoResults) HasErrors() bool { return rs.FirstError() >= 0 }

// flytoSummaryMark marks the parts of a summary that hooks added.
const flytoSummaryMark = "[hook: post_compact]"

// Summary joins the texts that hooks of post_compact add to a summary, each with a mark of its
// origin. A hook that failed or wrote nothing adds nothing.
func (rs FlytoResults) Summary() string {
	var parts []string
	for _, r := range rs {
		if stdout := strings.ToValidUTF8(string(trim(r.Stdout)), "\ufffd"); r.Success() && stdout != "" {
			parts = append(parts, flytoSummaryMark+"\n"+stdout)
		}
	}
	return strings.Join(parts, "\n")
}
