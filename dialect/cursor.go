package dialect

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Cursor returns the dialect of Cursor.
func Cursor() *Dialect { return cursor.clone() }

// cursor is the dialect of Cursor: one JSON object on stdin, and always exactly one on stdout, with
// exit code 0. "Seen" below means seen with the hook engine of @cursor/sdk 1.0.32 alone, never in
// the editor.
//
// An empty answer is a failed hook, and one member of a wrong type denies (seen). Cursor also runs
// the hooks of Claude Code's settings, but with its own payloads, and it ignores answers in Claude
// Code's format (seen). So in every file Grapnel answers in Cursor's format.
//
// A call of the shell or of an MCP server fires two events that can stop it. Only
// beforeShellExecution can ask, and only beforeMCPExecution names the server. preToolUse comes
// first and does not leave an ask to the second event: it cannot know whether the second event will
// fire or will ask, and a command that no hook stops runs.
var cursor = &Dialect{
	Name:   "cursor",
	Title:  "Cursor",
	Events: cursorEvents,
	Tools:  cursorTools,
	MCP:    "MCP:{tool}",
	Void:   "{}",
	In: "conversation_id=session.id session_id=session.id workspace_roots=session.root:list cwd=session.cwd transcript_path=session.transcript " +
		"model=session.model generation_id=session.turn cursor_version=agent.version",
	Blind:  "permission=block:deny continue=block:false user_message=reason agent_message=reason",
	Adapt:  adaptCursor,
	Finish: finishCursor,
	Speaks: func(top map[string]json.RawMessage) bool { // of a payload that is too long or truncated only the start is known
		return text(top["cursor_version"]) != "" && text(top["hook_event_name"]) != "" ||
			text(top["conversation_id"]) != "" && text(top["generation_id"]) != ""
	},
	ReportedVia: func(top map[string]json.RawMessage) string { return text(top["hook_event_name"]) },
	transcripts: ".cursor",
	setup:       &cursorSetup,
}

var cursorSetup = Setup{
	Processes: []string{"cursor-agent", "cursor-agent/versions"},
	Program:   "cursor", User: ".cursor/hooks.json", Project: ".cursor/hooks.json",
	Managed: [3]string{"/etc/cursor/hooks.json", "/Library/Application Support/Cursor/hooks.json", "C:/ProgramData/Cursor/hooks.json"},
	Shape:   ShapeFlat, Top: `"version": 1`, Unit: time.Second, AskTimeout: askTimeout,
	// No matcher, so that the hook gets all events. Without loop_limit Cursor makes an agent
	// continue at most five times, and Grapnel eight times.
	Entry: `{"command": $command, "timeout": $timeout, "failClosed": $closed}`,
	Cuts:  true, Strict: true, NoLink: true, Anonymous: true,
	Undone: "if several hooks change an input, the file with the lowest rank wins; a block by Grapnel always holds",
	Unseen: []string{
		"input to a shell that already runs: hooks get its length, not its text",
		"calls with more than 128 KiB of input, if Cursor passes the payload on the command line: they run, unless installed with --fail-closed",
		"completions in the editor (Tab), unless a policy listens to beforeTabFileRead or afterTabFileEdit",
		"with cursor-agent -p: prompts, replies of the agent and stops",
	},
	TodoProject: []string{"Cursor runs the hooks of a project only in a workspace you trust"},
}

// Parts of tables that events share.
const (
	cursorTool = "tool_name=tool.name tool_input=tool.input tool_use_id=tool.id "
	cursorDeny = "permission=block:deny user_message=reason agent_message=reason " // the agent sees user_message only (seen)
	cursorMore = "additional_context=context "
	cursorMCP  = "mcp_server_name=mcp.server tool_name=mcp.tool tool_input=tool.input "
	cursorGoOn = "followup_message=reason block <decision=block:block <reason=reason"
)

const cursorPrefix = grapnel.NativePrefix + "cursor."

// cursorEvents lists all 21 events of 1.0.32, in the order of a session. An allow is never written,
// because it has no effect.
var cursorEvents = []EventRow{
	{
		Native: "workspaceOpen", Kind: cursorPrefix + "workspaceOpen", Out: "pluginPaths=native:list",
		Why: "fires when a window opens, outside of any session",
	},
	{
		Native: "sessionStart", Kind: grapnel.SessionStart, Install: true,
		In: "composer_mode=session.mode", Out: cursorMore + "env=native:object", // continue:false is not enforced everywhere (documented)
	},
	{
		Native: "beforeSubmitPrompt", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In: "prompt=prompt.text composer_mode=session.mode", Out: "continue=block:false user_message=reason " + cursorMore,
	},
	{
		// ask is ignored, and the call runs (seen). Only some members of a new input are used.
		Native: "preToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true, Can: grapnel.Can{Members: []string{}},
		In: cursorTool, Out: cursorDeny + "updated_input=tool.input " + cursorMore + "<permission=ask:ask",
	},
	{
		Native: "beforeShellExecution", Kind: grapnel.ToolBefore, Install: true, Closed: true, // sees the input after the changes of preToolUse
		Out: cursorDeny + "permission=ask:ask",
	},
	{
		Native: "beforeMCPExecution", Kind: grapnel.ToolBefore, Install: true, Closed: true, // ask is ignored (seen)
		In: cursorMCP, Out: cursorDeny + "<permission=ask:ask",
	},
	{
		// The file is already read; a deny keeps its content from the model.
		Native: "beforeReadFile", Kind: grapnel.ToolBefore, Closed: true, Out: cursorDeny,
		Why: "would send the content of each file read; preToolUse has reported the call",
	},
	{
		Native: "beforeTabFileRead", Kind: grapnel.ToolBefore, Closed: true, Out: cursorDeny,
		Why: "fires while the person types",
	},
	{
		// Cannot be blocked: the reason is written as context. Only the result of an MCP tool can
		// be replaced.
		Native: "postToolUse", Kind: grapnel.ToolAfter, Install: true,
		In: cursorTool + "tool_output=tool.output:text", Out: "additional_context=feedback updated_mcp_tool_output=tool.output",
	},
	{
		Native: "postToolUseFailure", Kind: grapnel.ToolFailed, Install: true,
		In: cursorTool + "error_message=tool.output failure_type=cause", Out: "additional_context=feedback",
	},
	{
		Native: "afterShellExecution", Kind: grapnel.ToolAfter, In: "output=tool.output",
		Why: "postToolUse reports the same call",
	},
	{
		Native: "afterMCPExecution", Kind: grapnel.ToolAfter, In: cursorMCP + "result_json=tool.output:text",
		Why: "postToolUse reports the same call",
	},
	{
		// The agent rereads the file only if a hook of this event has answered (seen in the
		// source). Hooks that format files need this event.
		Native: "afterFileEdit", Kind: grapnel.ToolAfter,
		Why: "postToolUse reports the same call",
	},
	{
		Native: "afterTabFileEdit", Kind: grapnel.ToolAfter,
		Why: "fires while the person types",
	},
	{
		Native: "subagentStart", Kind: grapnel.SubagentStart, Install: true, Closed: true,
		In: "subagent_id=subagent.id subagent_type=subagent.type task=task.description", Out: cursorDeny + cursorMore,
	},
	{
		Native: "subagentStop", Kind: grapnel.SubagentAfter, Install: true,
		In: "subagent_id=subagent.id subagent_type=subagent.type agent_transcript_path=subagent.transcript status=cause summary=stop.last_message " +
			"task=task.description",
		Out: cursorGoOn,
	},
	{
		Native: "preCompact", Kind: grapnel.CompactBefore, Install: true,
		In: "trigger=cause", Out: "user_message=message",
	},
	{
		Native: "afterAgentResponse", Kind: grapnel.MessageSent, In: "text=message.content",
		Why: "would start a process for every message of the agent",
	},
	{
		Native: "afterAgentThought", Kind: cursorPrefix + "afterAgentThought", In: "text=message.content",
		Why: "would start a process for every thought of the agent",
	},
	{
		// Only an agent with status completed can be made to continue.
		Native: "stop", Kind: grapnel.AgentAfter, Failed: grapnel.AgentFailed, Install: true,
		In: "status=cause", Out: cursorGoOn,
	},
	{
		Native: "sessionEnd", Kind: grapnel.SessionEnd, Install: true,
		In: "reason=cause",
	},
}

// cursorTools lists the tools that matter for rules, and the input members that a hook can change.
// Cursor silently drops the other members of a new input (seen). It reports each pending edit as a
// Write (seen); the two edit tools occur only in its notifications.
var cursorTools = []ToolRow{
	{Native: "Shell", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}, Takes: []string{"command", "cwd", "timeout"}},
	{Native: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}, Takes: []string{"file_path"}},
	{Native: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}, {Field: grapnel.FieldContent, At: "/content"}}, Takes: []string{"file_path"}},
	{Native: "TabRead", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "TabWrite", As: "Write", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/edits/*/new_string"}}},
	{Native: "FileEdit", Like: "MultiEdit", As: "Write", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/edits/*/new_string"}}},
	{Native: "Delete", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}}, Takes: []string{"file_path"}},
	{Native: "ReadLints", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}, Takes: []string{"file_path"}},
	{Native: "List", Like: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}, Takes: []string{"file_path"}},
	{
		Native: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}, Takes: []string{"pattern", "file_path"},
	},
	{Native: "Fetch", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}, Takes: []string{"url"}},
	{Native: "Task", Like: "Agent", Class: grapnel.ClassTask},
}

// cursorCalls lists the events that identify a tool only by the event name, and the members that
// are the tool's input.
var cursorCalls = []struct {
	event string
	tool  string
	input []string
}{
	{"beforeShellExecution", "Shell", []string{"command", "cwd"}},
	{"afterShellExecution", "Shell", []string{"command"}},
	{"beforeReadFile", "Read", []string{"file_path", "content"}},
	{"beforeTabFileRead", "TabRead", []string{"file_path", "content"}},
	{"afterFileEdit", "FileEdit", []string{"file_path", "edits"}},
	{"afterTabFileEdit", "TabWrite", []string{"file_path", "edits"}},
}

func adaptCursor(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error {
	if ev.Session.CWD == "" {
		ev.Session.CWD = ev.Session.Root
	}
	for i := range cursorCalls {
		call := &cursorCalls[i]
		if call.event != row.Native {
			continue
		}
		var input members
		for _, name := range call.input {
			raw := present(top[name])
			if _, isText := rawjson.Unquote(raw); name != "edits" && !isText && (raw != nil || name == call.input[0]) {
				return fmt.Errorf("%s is %s, not a string", name, kindOf(raw))
			}
			if raw != nil && !(name == "cwd" && string(raw) == `""`) {
				input.set(name, raw)
			}
		}
		t := need(&ev.Tool)
		t.Name, t.Input = call.tool, input.raw()
	}
	can := *row.can()
	switch t := ev.Tool; {
	case ev.Kind == grapnel.ToolBefore && row.Native == "preToolUse" && strings.HasPrefix(t.Name, "MCP:"):
		can.Merges, can.Members = true, nil // merged into the arguments (seen)
	case ev.Kind == grapnel.ToolAfter && !strings.HasPrefix(t.Name, "MCP:") && row.Native == "postToolUse":
		can.Change = nil
	case row.Kind == grapnel.AgentAfter || row.Kind == grapnel.SubagentAfter:
		loops, _ := strconv.Atoi(string(top["loop_count"]))
		need(&ev.Stop).Active = loops > 0
		if ev.Cause != "completed" {
			can = grapnel.Can{}
		}
		if ev.Cause == "error" && row.Kind == grapnel.AgentAfter {
			ev.Kind = grapnel.AgentFailed
		}
	default:
		return nil
	}
	terms(ev).Can = &can
	return nil
}

// cursorContext is the maximum number of characters of context that Grapnel writes. If the context
// of all hooks together exceeds 10,000 characters, Cursor drops all of it, and if a hook of the
// event fails closed, Cursor denies the call (seen).
const cursorContext = 5000

func finishCursor(row *EventRow, _ *grapnel.Event, _ *supportedVerdict, out *members) {
	if more, ok := rawjson.Unquote(out.get("additional_context")); ok && utf8.RuneCountInString(more) > cursorContext {
		const mark = "\n… [grapnel: the rest was cut]"
		runes := []rune(more)
		out.set("additional_context", rawjson.Quote(string(runes[:cursorContext-utf8.RuneCountInString(mark)])+mark))
	}
	output := out.get("updated_mcp_tool_output")
	if row.Native != "postToolUse" || output == nil || output[0] == '"' {
		return
	}
	if content := present(split(output)["content"]); content == nil || content[0] != '[' {
		out.set("updated_mcp_tool_output", rawjson.Quote(string(output))) // a string, or a list of parts
	}
}
