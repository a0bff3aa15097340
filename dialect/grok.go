package dialect

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Grok returns the dialect of Grok Build.
func Grok() *Dialect { return grok.clone() }

// grok is the dialect of Grok Build, which runs the hooks in the settings of Claude Code: an
// installation for Claude Code also serves Grok, and Grapnel recognizes its payloads. "Seen live"
// below means version 1.0.41; the other facts come from its handbook.
//
// A payload has each member twice: in camelCase with event names in snake_case, and as Claude Code
// writes it. Some versions write only the first (reported). Every hook failure fails open, but a
// deny holds with any exit code (seen live). Allow never skips Grok's own prompt, and a prompt of
// a run without a person is answered with yes, so Grapnel never sends ask (seen live).
var grok = &Dialect{
	Name:    "grok",
	Title:   "Grok Build",
	Events:  grokEvents,
	Tools:   grokTools,
	Unnamed: grokEvent,
	In: "session_id=session.id sessionId=session.id cwd=session.cwd transcript_path=session.transcript transcriptPath=session.transcript " +
		"permission_mode=session.mode permissionMode=session.mode promptId=session.turn subagentType=subagent.type subagentId=subagent.id",
	MCP:         "{server}__{tool}", // seen live
	Blind:       "exit=block:2 stderr=reason",
	Adapt:       adaptGrok,
	Finish:      finishGrok,
	WriteEvent:  writeGrokEvent,
	ReadOutcome: readGrokOutcome,
	setup:       &Setup{Processes: []string{"grok", "grok-*", "@xai-official/grok"}},
	Speaks:      func(top map[string]json.RawMessage) bool { return rowNamed(grokEvents, grokEvent(top)) != nil },
}

// Parts of tables that events share.
const (
	grokTool  = "tool_name=tool.name toolName=tool.name tool_input=tool.input toolInput=tool.input tool_use_id=tool.id toolUseId=tool.id "
	grokBlock = "decision=block:block reason=reason "
	grokMore  = "hookSpecificOutput.additionalContext=context hookSpecificOutput.hookEventName=event "
	grokStop  = "stopHookActive=stop.active lastAssistantMessage=stop.last_message "
)

// grokEvents lists all events of 1.0.41, in the order of a session.
var grokEvents = []EventRow{
	{Native: "SessionStart", Kind: grapnel.SessionStart, Install: true, In: "source=cause"}, // context is dropped (seen live)
	{Native: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Closed: true, In: "prompt=prompt.text", Out: grokBlock},
	{
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true, In: grokTool,
		Out: "hookSpecificOutput.permissionDecision=block:deny hookSpecificOutput.permissionDecisionReason=reason " +
			"hookSpecificOutput.updatedInput=tool.input " + grokMore + "<decision=block:deny <decision=block:block <reason=reason",
	},
	{Native: "PermissionDenied", Kind: grapnel.PermissionDenied, Install: true, In: grokTool},
	{
		// A block is a reminder after the result, which the model still reads (seen live).
		Native: "PostToolUse", Kind: grapnel.ToolAfter, Install: true, Can: grapnel.Can{Keeps: true},
		In: grokTool + "tool_response=tool.output toolResult=tool.output", Out: grokBlock + "hookSpecificOutput.updatedToolOutput=tool.output " + grokMore,
	},
	{Native: "PostToolUseFailure", Kind: grapnel.ToolFailed, Install: true, In: grokTool + "error=tool.output", Out: grokMore},
	{Native: "Notification", Kind: grapnel.NotificationSent, Install: true, In: "message=notification.message notificationType=notification.type"},
	{Native: "PreCompact", Kind: grapnel.CompactBefore, Install: true},
	{Native: "PostCompact", Kind: grapnel.CompactAfter, Install: true},
	{Native: "SubagentStart", Kind: grapnel.SubagentStart, Install: true},
	{Native: "SubagentStop", Kind: grapnel.SubagentAfter, Install: true, In: grokStop, Out: grokBlock + "continue=halt:false stopReason=halt " + grokMore},
	{Native: "Stop", Kind: grapnel.AgentAfter, Install: true, In: grokStop + "reason=cause", Out: grokBlock + "continue=halt:false stopReason=halt " + grokMore},
	{Native: "StopFailure", Kind: grapnel.AgentFailed, Install: true},
	{Native: "StopCancelled", Kind: grapnel.NativePrefix + "grok.StopCancelled", Install: true, In: "reason=cause"},
	{Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true, In: "reason=cause"},
}

var grokTools = []ToolRow{
	{Native: "run_terminal_command", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "monitor", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "read_file", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/target_file", Use: grapnel.UseRead}}},
	{Native: "write", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "search_replace", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_string"}}},
	{Native: "list_dir", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/target_directory", Use: grapnel.UseRead}}},
	{Native: "grep", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "web_search", Like: "WebSearch", Class: grapnel.ClassFetch},
	{Native: "spawn_subagent", Like: "Agent", Class: grapnel.ClassTask},
}

// grokEvent returns the name of the event in hookEventName, which is in snake_case.
func grokEvent(top map[string]json.RawMessage) string {
	name := text(top["hookEventName"])
	if name == "" || strings.ToLower(name) != name {
		return "" // another agent writes it with capital letters
	}
	for i := range grokEvents {
		if strings.EqualFold(grokEvents[i].Native, strings.ReplaceAll(name, "_", "")) {
			return grokEvents[i].Native
		}
	}
	return ""
}

// adaptGrok unwraps the arguments of an MCP tool, which is called through the tool use_tool.
func adaptGrok(_ *EventRow, _ map[string]json.RawMessage, ev *grapnel.Event) error {
	if t := ev.Tool; t != nil && splitMCP("grok", t.Name) != nil {
		if arguments := split(t.Input)["tool_input"]; rawjson.IsObject(arguments) {
			t.Input = arguments
		}
	}
	return nil
}

// wrapped returns the input of use_tool for a call of an MCP tool.
func wrapped(name string, input json.RawMessage) json.RawMessage {
	var m members
	m.text("tool_name", name)
	m.set("tool_input", input)
	return m.raw()
}

// finishGrok wraps the input of an MCP tool, and writes a new output in the form of the old one:
// Grok ignores any other form of the output of its own tools (seen live).
func finishGrok(_ *EventRow, ev *grapnel.Event, _ *supportedVerdict, out *members) {
	more := membersOf(out.get("hookSpecificOutput"))
	if ev.Tool == nil || more == nil {
		return
	}
	if input := more.get("updatedInput"); input != nil && ev.Tool.MCP != nil {
		more.set("updatedInput", wrapped(ev.Tool.Name, input))
	}
	if output := more.get("updatedToolOutput"); output != nil && ev.Tool.MCP == nil && !rawjson.IsObject(output) {
		said := output
		if _, ok := rawjson.Unquote(output); !ok {
			said = rawjson.Quote(string(output))
		}
		result := membersOf(ev.Tool.Output)
		at := "output_for_prompt"
		if result.get(at) == nil {
			at = "text"
		}
		if result.get(at) != nil {
			result.set(at, said)
			more.set("updatedToolOutput", result.raw())
		} else { // an unknown form: the model reads the new text behind the old one
			more = slices.DeleteFunc(more, func(e entry) bool { return e.name == "updatedToolOutput" })
			out.set("decision", json.RawMessage(`"block"`))
			out.set("reason", said)
		}
	}
	out.set("hookSpecificOutput", more.raw())
}

func writeGrokEvent(ev *grapnel.Event) ([]byte, error) {
	if t := ev.Tool; t != nil && t.MCP != nil {
		own, call := *ev, *t
		call.Input = wrapped(call.Name, call.Input)
		own.Tool = &call
		ev = &own
	}
	return lookup(dialects, "grok").writeEventTable(ev)
}

func readGrokOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	o, err := lookup(dialects, "grok").readOutcomeTable(ev, out)
	if arguments := split(o.Set[grapnel.FieldInput])["tool_input"]; ev.Tool != nil && ev.Tool.MCP != nil && rawjson.IsObject(arguments) {
		o.Set[grapnel.FieldInput] = arguments
	}
	return o, err
}
