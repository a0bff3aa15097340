package dialect

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// QwenCode returns the dialect of Qwen Code.
func QwenCode() *Dialect { return qwenCode.clone() }

// qwenCode is the dialect of Qwen Code, a fork of Gemini CLI whose hooks have the names and
// payloads of Claude Code. "Seen live" below means version 0.24.4.
//
// If two hooks answer one call, the last permissionDecision wins, so an allow of a later hook
// cancels a deny (seen live). Grapnel therefore writes a permissionDecision only for a real
// decision: an allow from a hook without an opinion would cancel the deny of another. Exit code 2
// without text on stderr allows (seen live), so blocks are written as JSON.
var qwenCode = &Dialect{
	Name:    qwenName,
	Title:   "Qwen Code",
	Aliases: []string{"qwen"},
	Events:  qwenEvents,
	Tools:   qwenTools,
	Speaks:  speaksQwen,
	In: "session_id=session.id cwd=session.cwd transcript_path=session.transcript permission_mode=session.mode prompt_id=session.turn " +
		"timestamp=time agent_id=subagent.id agent_type=subagent.type",
	Blind:       "continue=block:false stopReason=reason decision=block:block reason=reason",
	Adapt:       adaptQwen,
	ReadOutcome: readQwenOutcome,
	HookEnv:     qwenHookEnv,
	transcripts: ".qwen",
	setup:       &qwenSetup,
}

var qwenSetup = Setup{
	Processes: []string{"qwen", "@qwen-code/qwen-code"},
	Program:   "qwen", User: ".qwen/settings.json", Project: ".qwen/settings.json", MovedBy: "QWEN_HOME", Moves: ".qwen",
	Managed: [3]string{"/etc/qwen-code/settings.json", "", ""},
	Related: []string{"/etc/qwen-code/system-defaults.json", ".qwen/trustedFolders.json"}, Sessions: ".qwen/projects",
	Shape: ShapeGroups, Entry: `{"type": "command", "name": $label, "command": $command, "timeout": $timeout}`, Label: "grapnel",
	// Whole numbers below 1000 are seconds in newer versions and milliseconds in older ones.
	// Numbers from 1000 on are milliseconds in all versions (seen live, and documented).
	Unit: time.Millisecond, AskTimeout: askTimeout, Comments: true, Vars: true,
	Off:    []Switch{{Path: "disableAllHooks", Is: "true", Effect: "switches all hooks off"}},
	Undone: "a later hook, of an extension or below Grapnel's in the file, overrides a block by Grapnel if it answers allow",
	Unseen: []string{"a run with --safe-mode or --bare, which starts no hooks"},
}

const (
	qwenName   = "qwen-code"
	qwenPrefix = grapnel.NativePrefix + qwenName + "."

	qwenMessage = "systemMessage=message "
	qwenMore    = "hookSpecificOutput.additionalContext=context hookSpecificOutput.hookEventName=event "
	qwenBlock   = "decision=block:block reason=reason "
	qwenTool    = "tool_name=tool.name tool_input=tool.input tool_use_id=tool.id "
	qwenStop    = "stop_hook_active=stop.active last_assistant_message=stop.last_message "
)

// qwenEvents lists all events of 0.24.4, in the order of a session.
var qwenEvents = []EventRow{
	{
		Native: "InstructionsLoaded", Kind: qwenPrefix + "InstructionsLoaded", In: "load_reason=cause",
		Why: "fires for every instruction file of every session and takes no answer",
	},
	{
		Native: "SessionStart", Kind: grapnel.SessionStart, Install: true,
		In: "source=cause model=session.model", Out: qwenMessage + qwenMore,
	},
	{
		// Also fires for tool results: see adaptQwen.
		Native: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In: "prompt=prompt.text", Out: qwenBlock + "continue=halt:false stopReason=halt " + qwenMessage + qwenMore,
	},
	{
		// A prompt command written by the user. Blocking it is documented.
		Native: "UserPromptExpansion", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In: "prompt=prompt.text command_name=cause", Out: qwenBlock + "continue=halt:false stopReason=halt " + qwenMessage + qwenMore,
	},
	{
		// Fires after the user was asked, so an allow has no effect except to cancel decisions of
		// other hooks. A new input is documented but ignored, context does not reach the model, and
		// continue:false blocks only this call (all seen live).
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true,
		In: qwenTool,
		Out: "hookSpecificOutput.permissionDecision=block:deny hookSpecificOutput.permissionDecision=ask:ask " +
			"hookSpecificOutput.permissionDecisionReason=reason hookSpecificOutput.hookEventName=event " + qwenMessage +
			"<decision=block:block <decision=block:deny <continue=block:false <reason=reason <stopReason=reason",
	},
	{
		// Fires before the agent asks the user, so an empty answer asks. A new input works with an
		// allow (seen live).
		Native: "PermissionRequest", Kind: grapnel.PermissionBefore, Install: true, Closed: true,
		In:  qwenTool,
		Can: grapnel.Can{Beside: grapnel.Allow},
		Out: "hookSpecificOutput.decision.behavior=block:deny hookSpecificOutput.decision.behavior=allow:allow " +
			"hookSpecificOutput.decision.message=reason hookSpecificOutput.decision.updatedInput=tool.input " +
			"hookSpecificOutput.hookEventName=event ask " + qwenMessage,
	},
	{
		Native: "PermissionDenied", Kind: grapnel.PermissionDenied, Install: true,
		In: qwenTool + "reason=cause",
	},
	{
		// A block is ignored. continue:false replaces the result by an error, and the run continues
		// (seen live).
		Native: "PostToolUse", Kind: grapnel.ToolAfter, Install: true,
		In: qwenTool + "tool_response=tool.output", Out: "continue=block:false stopReason=reason " + qwenMessage + qwenMore,
	},
	{
		// The event has no block: feedback is written as context.
		Native: "PostToolUseFailure", Kind: grapnel.ToolFailed, Install: true,
		In: qwenTool + "error=tool.output", Out: "hookSpecificOutput.additionalContext=feedback hookSpecificOutput.hookEventName=event " + qwenMessage,
	},
	{
		// A block replaces the last result, and so does continue:false. The run continues (seen
		// live).
		Native: "PostToolBatch", Kind: grapnel.ToolBatchAfter, Install: true,
		Out: qwenBlock + qwenMessage + qwenMore,
	},
	{
		Native: "MessageDisplay", Kind: qwenPrefix + "MessageDisplay", In: "displayed_text=model.response",
		Why: "would start a process five times a second while text appears, and takes no answer",
	},
	{
		Native: "Notification", Kind: grapnel.NotificationSent, Install: true,
		In: "notification_type=notification.type title=notification.title message=notification.message",
	},
	{
		// Context is documented, but takes effect only if the prompt of the sub-agent has a place
		// for it (seen in the source). The general-purpose sub-agent has no such place (seen live).
		Native: "SubagentStart", Kind: grapnel.SubagentStart, Install: true, Out: qwenMessage,
	},
	{
		Native: "SubagentStop", Kind: grapnel.SubagentAfter, Install: true,
		In: qwenStop + "agent_transcript_path=subagent.transcript", Out: qwenBlock + qwenMessage,
	},
	{
		// continue:false makes the agent continue like a block (seen live), so a halt writes
		// nothing.
		Native: "Stop", Kind: grapnel.AgentAfter, Install: true,
		In: qwenStop, Out: qwenBlock + qwenMessage + "<continue=block:false <stopReason=reason",
	},
	{
		Native: "StopFailure", Kind: grapnel.AgentFailed, Install: true,
		In: "error=cause last_assistant_message=stop.last_message",
	},
	{
		Native: "PreCompact", Kind: grapnel.CompactBefore, Install: true,
		In: "trigger=cause custom_instructions=compact.instructions", Out: qwenMessage + qwenMore, // documented
	},
	{
		Native: "PostCompact", Kind: grapnel.CompactAfter, Install: true,
		In: "trigger=cause compact_summary=compact.summary",
	},
	{
		// Fires twice. It can be blocked only before the list is written.
		Native: "TodoCreated", Kind: grapnel.TaskBefore, Install: true,
		In: "todo_id=task.id todo_content=task.subject", Out: qwenBlock + qwenMessage,
	},
	{
		Native: "TodoCompleted", Kind: grapnel.TaskAfter, Install: true,
		In: "todo_id=task.id todo_content=task.subject", Out: qwenBlock + qwenMessage,
	},
	{
		Native: "SessionDelete", Kind: qwenPrefix + "SessionDelete", Install: true,
	},
	{
		Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true, In: "reason=cause", // never without a terminal (seen live)
	},
}

// qwenTools lists the tools that matter for rules.
var qwenTools = []ToolRow{
	{Native: "run_shell_command", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}, {Field: grapnel.FieldPath, At: "/directory", Use: grapnel.UseRead}}, Members: [][2]string{{"is_background", "run_in_background"}}},
	{Native: "read_file", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/absolute_path", Use: grapnel.UseRead}}},
	{Native: "write_file", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "edit", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_string"}}},
	{Native: "notebook_edit", Like: "NotebookEdit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/notebook_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_source"}}},
	{Native: "glob", Like: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "grep_search", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "list_directory", Like: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "web_fetch", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
	{Native: "agent", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "todo_write", Like: "TodoWrite", Class: grapnel.ClassTask},
	{Native: "skill", Like: "Skill", Class: grapnel.ClassOther},
	{Native: "tool_search", Like: "ToolSearch", Class: grapnel.ClassOther},
}

// speaksQwen checks the directory of the transcript. If it was moved, speaksQwen requires the
// timestamp, which Claude Code does not send, and the mode, which Gemini CLI does not send.
func speaksQwen(top map[string]json.RawMessage) bool {
	native := text(top["hook_event_name"])
	if native == "" || foreign(top) {
		return false
	}
	home := transcriptHome(top)
	return home == ".qwen" || home == "" && top["timestamp"] != nil && top["permission_mode"] != nil && rowNamed(qwenEvents, native) != nil
}

func adaptQwen(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) (err error) {
	switch row.Native {
	case "UserPromptSubmit":
		// Tool results on their way to the model arrive as an empty prompt. It does not come from
		// the user: a block would end the run in the middle, and hooks that count or judge prompts
		// must not see it.
		if ev.Prompt.Text == "" && top["submitted_prompt"] == nil {
			ev.Kind, ev.Prompt, terms(ev).Can = qwenPrefix+"ToolResults", nil, &grapnel.Can{}
		}
	case "TodoCreated", "TodoCompleted":
		if phase := text(top["phase"]); phase != "" && phase != "validation" {
			terms(ev).Can = &grapnel.Can{Message: true} // the list is already written
		}
	case "PostToolBatch":
		ev.Calls, err = readCalls(present(top["tool_calls"]), func(call map[string]json.RawMessage) (*grapnel.Tool, error) {
			t, err := readTool(qwenTools, call, splitMCP(qwenName, text(call["tool_name"])))
			if err == nil {
				t.Failed = text(call["status"]) == "error"
			}
			return t, err
		})
	}
	return err
}

// readQwenOutcome also reads JSON from stderr if stdout is empty, as Qwen Code does after exit code
// 0 (seen live).
func readQwenOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	if out.Exit == 0 && len(trim(out.Stdout)) == 0 && rawjson.IsObject(trim(out.Stderr)) {
		out.Stdout = out.Stderr
	}
	d := lookup(dialects, qwenName)
	return d.readOutcomeTable(ev, out)
}

func qwenHookEnv(ev *grapnel.Event) []string {
	dir := cmp.Or(ev.Session.Root, ev.Session.CWD)
	agent := ""
	if ev.Session.Subagent != nil {
		agent = ev.Session.Subagent.ID
	}
	return variables(
		[2]string{"QWEN_PROJECT_DIR", dir}, [2]string{"CLAUDE_PROJECT_DIR", dir}, [2]string{"GEMINI_PROJECT_DIR", dir}, [2]string{"QWEN_CODE_PROJECT_DIR", dir},
		[2]string{"QWEN_CODE_SESSION_ID", ev.Session.ID}, [2]string{"QWEN_CODE_PROMPT_ID", ev.Session.Turn},
		[2]string{"QWEN_CODE_AGENT_ID", agent}, [2]string{"QWEN_CODE_MODEL", ev.Session.Model},
	)
}
