package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// Cline returns the dialect of the Cline CLI.
func Cline() *Dialect { return cline.clone() }

// cline is the dialect of the Cline CLI. Its hooks are files named after events, but payloads use
// other names for the events. "Seen live" below means version 3.0.65. The Cline extension of VS
// Code uses another protocol.
//
// Cline ignores the exit code (seen live), and stdout is one JSON object or void. The answer has no
// member that denies one call: cancel ends the whole run. So Grapnel gives a blocked call an input
// that makes its tool do nothing (see clineInert), and adds the reason in a member that the tool
// ignores. A tool of an MCP server and spawn_agent run with any input: such a call can only be
// stopped by ending the run.
var cline = &Dialect{
	Name:    clineName,
	Title:   "Cline CLI",
	NamedAt: "hookName",
	Events:  clineEvents,
	Tools:   clineTools,
	MCP:     "{server}__{tool}",
	Void:    "{}",
	In: "clineVersion=agent.version timestamp=time sessionContext.rootSessionId=session.id taskId=session.id workspaceRoots=session.cwd:list " +
		"workspaceInfo.rootPath=session.root userId=session.user agent_id=subagent.id",
	Blind:       "cancel=block:true errorMessage=reason",
	ReadEvent:   readCline,
	Finish:      finishCline,
	WriteEvent:  writeClineEvent,
	ReadOutcome: readClineOutcome,
	Speaks: func(top map[string]json.RawMessage) bool {
		row := rowNamed(clineEvents, text(top["hookName"]))
		return row != nil && row.Native != text(top["hookName"]) && top["clineVersion"] != nil
	},
	setup: &clineSetup,
}

var clineSetup = Setup{
	Processes: []string{"cline", "cline-core", "cline-host", "node_modules/cline"},
	Program:   "cline", User: ".cline/hooks", Project: ".cline/hooks",
	// All files for one event run, in the order of their paths (seen live).
	Shape: ShapeFiles, Files: []string{"$event.sh", "$event", "$event.bash"}, Entry: "#!/bin/sh\n# $marker\nexec $command\n",
	Undone: "a hook file whose path sorts after Grapnel's can replace the input of a blocked or changed call; the call then runs with that input",
	Unseen: []string{
		"a call whose hooks took more than 120 seconds: Cline stops the hooks and runs the call",
		"with cline --json: prompts, and the end of a session",
	},
}

const clineName = "cline"

// Parts of tables that events share.
const (
	clineCall   = "tool_call.id=tool.id tool_call.name=tool.name tool_call.input=tool.input "
	clineResult = "tool_result.id=tool.id tool_result.name=tool.name tool_result.input=tool.input tool_result.output=tool.output "
	clineEnds   = "cancel=halt:true errorMessage=halt "
)

// clineEvents lists all events of 3.0.65, in the order of a run. Except for two of them, Cline
// starts a hook and does not wait for it.
var clineEvents = []EventRow{
	{Native: "TaskStart", Wire: "agent_start", Kind: grapnel.AgentBefore, Install: true},   // also of a sub-agent
	{Native: "TaskResume", Wire: "agent_resume", Kind: grapnel.AgentBefore, Install: true}, // instead of TaskStart, if a variable requests it
	{
		Native: "UserPromptSubmit", Wire: "prompt_submit", Kind: grapnel.PromptBefore, Install: true,
		In: "userPromptSubmit.prompt=prompt.text",
	},
	{
		// Cline truncates a context of more than 50,000 characters and reports the truncation (seen
		// in the source). With cancel the context is lost.
		Native: "PreToolUse", Wire: "tool_call", Kind: grapnel.ToolBefore, Install: true, Closed: true, Wait: 120 * time.Second,
		In: clineCall, Out: "block overrideInput=tool.input contextModification=context " + clineEnds,
	},
	{
		// The tool has already run: a block is sent to the model as feedback.
		Native: "PostToolUse", Wire: "tool_result", Kind: grapnel.ToolAfter, Failed: grapnel.ToolFailed, Install: true, Wait: 120 * time.Second,
		In: clineResult, Out: "contextModification=feedback " + clineEnds,
	},
	{
		Native: "TaskComplete", Wire: "agent_end", Kind: grapnel.AgentAfter, Install: true,
		In: "turn.outputText=stop.last_message turn.status=cause",
	},
	{Native: "TaskError", Wire: "agent_error", Kind: grapnel.AgentFailed, Install: true, In: "error.message=cause"},
	{Native: "TaskCancel", Wire: "agent_abort", Kind: grapnel.NativePrefix + "cline.TaskCancel", Install: true, In: "reason=cause"},
	{Native: "SessionShutdown", Wire: "session_shutdown", Kind: grapnel.SessionEnd, Install: true, In: "reason=cause"},
	{
		Native: "PreCompact", Kind: grapnel.CompactBefore, Never: true,
		Why: "is a file name that Cline accepts but never runs",
	},
}

// clineTools lists the built-in tools.
var clineTools = []ToolRow{
	{Native: "run_commands", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/commands/*"}}},
	{
		Native: "editor", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_text"}},
		Members: [][2]string{{"old_text", "old_string"}},
	},
	{Native: "apply_patch", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/input", Use: grapnel.UseWrite, Form: seam.FormPatch}, {Field: grapnel.FieldContent, At: "/input"}}},
	{Native: "read_files", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/files/*/path", Use: grapnel.UseRead}}},
	{Native: "search_codebase", Like: "Grep", Class: grapnel.ClassSearch},
	{Native: "fetch_web_content", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/requests/*/url"}}},
	{Native: "skills", Like: "Skill", Class: grapnel.ClassOther},
	{Native: "ask_question", Like: "AskUserQuestion", Class: grapnel.ClassOther},
	{Native: "submit_and_exit", Class: grapnel.ClassOther},
	{Native: "spawn_agent", Like: "Agent", Class: grapnel.ClassTask, Members: [][2]string{{"task", "prompt"}}},
}

// clineInert returns an input with which a tool does nothing and starts no shell: an empty list, a
// path that no system call accepts, or an incomplete patch (seen live, except for the patch). For a
// tool that can only refuse its input, it is an object without the tool's members; after a few
// refusals in a row Cline ends the run (seen live). Empty = no such input is known.
func clineInert(tool string) string {
	switch tool {
	case "run_commands":
		return `{"commands":[]}`
	case "read_files":
		return `{"files":[]}`
	case "search_codebase":
		return `{"queries":[]}`
	case "fetch_web_content":
		return `{"requests":[]}`
	case "editor":
		return `{"path":"/\u0000","new_text":""}`
	case "apply_patch":
		return `{"input":"*** Begin Patch"}`
	case "skills", "ask_question", "submit_and_exit":
		return "{}"
	}
	return ""
}

// clineBlocked returns the input of a blocked call. Tools ignore unknown members (seen live); the
// member blocked marks the call as blocked by Grapnel.
func clineBlocked(tool, reason string) json.RawMessage {
	m := membersOf(json.RawMessage(clineInert(tool)))
	m.set("blocked", rawjson.Quote(reason))
	return m.raw()
}

// clineReason returns why a call with this input was blocked; empty = it was not blocked.
func clineReason(tool string, input json.RawMessage) string {
	reason := text(split(input)["blocked"])
	if reason == "" || !rawjson.Equal(input, clineBlocked(tool, reason)) {
		return ""
	}
	return reason
}

// clineSpells lists the alternative forms of input that tools accept, and the one form that they
// offer to the model: a list in a named member. The tools also accept the list alone, or one
// element of it (seen in the source). Rules check only the offered form.
var clineSpells = []clineSpelling{
	{tool: "run_commands", list: "commands", also: []string{"command", "cmd"}},
	{tool: "read_files", list: "files", also: []string{"file_paths", "paths"}, inner: []string{"path", "file_path", "filePath"}},
	{tool: "search_codebase", list: "queries"},
}

type clineSpelling struct {
	tool  string
	list  string   // the member in the offered form
	also  []string // other accepted names of that member
	inner []string // names of the text in an element that is an object, the offered one first
}

// elements returns the member of an input that contains the list, the input itself if it is the
// only element, or nil if the tool does not accept it.
func (s *clineSpelling) elements(input json.RawMessage) (json.RawMessage, error) {
	if !rawjson.IsObject(input) {
		return input, nil
	}
	m := membersOf(input)
	names := slices.DeleteFunc(slices.Concat([]string{s.list}, s.also, s.inner), func(name string) bool { return present(m.get(name)) == nil })
	switch {
	case len(names) == 0:
		return nil, nil
	case len(names) > 1 || s.tool == "run_commands" && present(m.get("args")) != nil:
		return nil, fmt.Errorf("the input of %s can be read in more than one way (%s)", s.tool, strings.Join(names, ", "))
	case slices.Contains(s.inner, names[0]):
		return input, nil
	}
	return m.get(names[0]), nil
}

// readCline reads an event by the tables, after converting the input of a call to the form that the
// tables describe.
func readCline(row *EventRow, top map[string]json.RawMessage, in Input) (*grapnel.Event, error) {
	d := lookup(dialects, clineName)
	if row != nil && (row.Wire == "tool_call" || row.Wire == "tool_result") {
		call := membersOf(top[row.Wire])
		was := present(call.get("input"))
		input, err := clineInput(text(call.get("name")), was)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(input, was) {
			call.set("input", input)
			put := map[string]json.RawMessage{row.Wire: call.raw()}
			for name, value := range top {
				if name != row.Wire {
					put[name] = value
				}
			}
			top = put
		}
	}
	ev, err := d.readTable(row, top, in)
	if err != nil {
		return nil, err
	}
	if s := ev.Session.Subagent; s != nil && present(top["parent_agent_id"]) == nil {
		ev.Session.Subagent = nil // every agent has an id
	}
	if row != nil && row.Failed != "" && clineReason(ev.Tool.Name, ev.Tool.Input) != "" {
		ev.Kind, terms(ev).Can = grapnel.NativePrefix+"cline.PostToolUse", &grapnel.Can{} // no tool has run
	} else if row != nil && row.Failed != "" && (present(at(top, "tool_result.error")) != nil || string(at(top, "postToolUse.success")) == "false") {
		ev.Tool.Failed, ev.Kind = true, row.Failed
	}
	return ev, nil
}

// clineInput converts the input of a call to the offered form of clineSpells.
func clineInput(tool string, input json.RawMessage) (json.RawMessage, error) {
	if tool == "apply_patch" && len(input) > 0 && input[0] == '"' {
		return members{{"input", input}}.raw(), nil
	}
	i := slices.IndexFunc(clineSpells, func(s clineSpelling) bool { return s.tool == tool })
	if text, isText := rawjson.Unquote(input); i < 0 || input == nil || isText && rawjson.IsObject(trim([]byte(text))) {
		return input, nil // Cline also accepts the JSON text of an object as the object
	}
	spells := &clineSpells[i]
	elements, err := spells.elements(input)
	if elements == nil || err != nil {
		return input, err
	}
	var list []json.RawMessage
	if elements[0] != '[' {
		list = []json.RawMessage{elements}
	} else if err := json.Unmarshal(elements, &list); err != nil {
		return nil, err
	}
	same := rawjson.IsObject(input) && split(input)[spells.list] != nil && elements[0] == '['
	for i, e := range list {
		switch {
		case rawjson.IsObject(e) && tool == "run_commands":
			return nil, errors.New("run_commands contains a program with arguments instead of a shell line") // rules would see only the program
		case rawjson.IsObject(e) && spells.inner != nil:
			file := membersOf(e)
			for _, name := range spells.inner[1:] {
				if at := file.find(name); at >= 0 && file.find(spells.inner[0]) < 0 {
					file[at].name, list[i], same = spells.inner[0], nil, false
				}
			}
			if list[i] == nil {
				list[i] = file.raw()
			}
		case spells.inner != nil && len(e) > 0 && e[0] == '"':
			list[i], same = members{{spells.inner[0], e}}.raw(), false
		}
	}
	if same {
		return input, nil
	}
	whole, err := rawjson.Line(list)
	return members{{spells.list, trim(whole)}}.raw(), err
}

// finishCline writes a block; see cline.
func finishCline(row *EventRow, ev *grapnel.Event, t *supportedVerdict, out *members) {
	switch {
	case row.Kind != grapnel.ToolBefore || t.halt != "":
	case t.block:
		*out = nil
		name := ""
		if ev.Tool != nil {
			name = ev.Tool.Name
		}
		if clineInert(name) == "" {
			out.set("cancel", json.RawMessage("true"))
			out.set("errorMessage", rawjson.Quote(t.reason))
		} else {
			out.set("contextModification", rawjson.Quote(t.reason))
		}
		out.set("overrideInput", clineBlocked(name, t.reason))
	case out.get("overrideInput") != nil:
		out.set("overrideInput", t.change(grapnel.FieldInput)) // always an object: Cline would treat a string as a command
	}
}

// writeClineEvent converts the input of a call to the form that Cline offers, and adds the members
// that Cline sends twice.
func writeClineEvent(ev *grapnel.Event) ([]byte, error) {
	d := lookup(dialects, clineName)
	line, err := d.writeEventTable(ev)
	if err != nil {
		return nil, err
	}
	m := membersOf(line)
	own := ev.Agent.Name == d.Name
	if ev.Session.Subagent != nil && !own {
		m.text("parent_agent_id", ev.Session.ID)
	}
	for wire, again := range map[string]string{"tool_call": "preToolUse", "tool_result": "postToolUse"} {
		call := split(m.get(wire))
		if call == nil || own && rawjson.Equal(call["input"], at(split(ev.Native), wire+".input")) {
			continue
		}
		if !own {
			if call["input"], err = clineInput(text(call["name"]), call["input"]); err != nil {
				return nil, fmt.Errorf("cannot write %s for a hook of %s: %w", ev.Kind, d.Name, err)
			}
			m.put(wire+".input", call["input"])
		}
		parameters := members{}
		for _, p := range membersOf(call["input"]) {
			if p.value[0] != '"' {
				p.value = rawjson.Quote(string(p.value))
			}
			parameters = append(parameters, p)
		}
		duplicate := membersOf(m.get(again))
		duplicate.set("toolName", call["name"])
		duplicate.set("parameters", parameters.raw())
		if wire == "tool_result" && !own {
			if output := call["output"]; len(output) > 0 && output[0] == '"' {
				duplicate.set("result", output)
			} else if output != nil {
				duplicate.set("result", rawjson.Quote(string(output)))
			}
			duplicate.flag("success", !ev.Tool.Failed)
		}
		m.set(again, duplicate.raw())
	}
	return m.line()
}

// readClineOutcome reads the last HOOK_CONTROL line of an answer, if there is one. The input of a
// blocked call is a block, and a cancel next to it is part of that block.
func readClineOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	d := lookup(dialects, clineName)
	for line := range bytes.Lines(out.Stdout) {
		if control, ok := bytes.CutPrefix(line, []byte("HOOK_CONTROL\t")); ok {
			out.Stdout = control
		}
	}
	if stdout := trim(out.Stdout); rawjson.IsObject(stdout) && json.Valid(stdout) {
		if reason := clineReason(toolSubject(ev, d.Name, d.Tools), split(stdout)["overrideInput"]); reason != "" {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: reason}, nil
		}
	}
	if ev.Agent.Name != d.Name {
		out.Stdout = clineOneCommand(ev, out.Stdout)
	}
	o, err := d.readOutcomeTable(ev, out)
	if c := contractFor(ev); o.Halt != "" && c != nil && c.Blocks == grapnel.BlockingAction {
		o.Decision, o.Set, o.Patch = grapnel.Block, nil, nil // a run that ends makes no more calls
	}
	return o, err
}

// clineOneCommand replaces a list with one command in an answer by the member command, if the event
// as Cline sees it has that member.
func clineOneCommand(ev *grapnel.Event, stdout []byte) []byte {
	answer := membersOf(stdout)
	list := split(answer.get("overrideInput"))["commands"]
	one := first(list)
	if one == nil || ev.Tool == nil || !rawjson.Equal(list, slices.Concat(json.RawMessage("["), one, json.RawMessage("]"))) || !json.Valid(trim(stdout)) {
		return stdout
	}
	r, err := render(ev, ev.Tool, clineName)
	if err != nil || r.input.get("command") == nil {
		return stdout
	}
	r.input.set("command", one)
	answer.set("overrideInput", r.input.raw())
	return answer.raw()
}
