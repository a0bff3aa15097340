package dialect

import (
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// codex is the language of the Codex CLI: one JSON object on stdin, one on stdout or
// nothing. "Seen live" below means version 0.169.0.
//
// Every failure opens: a hook that crashes, is late, or answers with one member that
// Codex does not know has not spoken (seen live). So nothing is written but what the
// tables name, and a deny always has its reason, without which it would be void.
var codex = &Dialect{
	Name:    "codex",
	Title:   "Codex CLI",
	Aliases: []string{"codex-cli"},
	Events:  codexEvents,
	Tools:   codexTools,
	Speaks:  speaksCodex,
	Adapt:   adaptCodex,
	In: "session_id=session.id cwd=session.cwd transcript_path=session.transcript model=session.model permission_mode=session.mode " +
		"turn_id=session.turn agent_id=subagent.id agent_type=subagent.type",
	Blind: "exit=block:2 stderr=reason",
}

var codexSetup = Setup{
	Program: "codex", User: ".codex/hooks.json", Project: ".codex/hooks.json", MovedBy: "CODEX_HOME", Moves: ".codex",
	Managed: [3]string{"/etc/codex/hooks.json", "/etc/codex/hooks.json", ""},
	Shape:   ShapeGroups, Entry: `{"type": "command", "command": $command, "timeout": $timeout}`, Unit: time.Second, Keep: true,
	Tops: []string{"description", "hooks"}, // seen live
	Off: []Switch{
		{File: ".codex/config.toml", Path: "features.hooks", Is: "false", Says: "switches all hooks off"},
		{File: ".codex/config.toml", Path: "features.codex_hooks", Is: "false", Says: "switches all hooks off"},
		{File: "/etc/codex/requirements.toml", Path: "allow_managed_hooks_only", Is: "true", Says: "keeps Codex from running the hooks of users and projects; ask whoever manages it"},
	},
	Todo:        []string{"Codex runs a hook only after you have trusted it: open codex, enter /hooks, and trust the entries of grapnel"},
	TodoProject: []string{"Codex reads the hooks of a project only after you have trusted the project"},
	Undone:      "if another hook changes the input of the same call, the last one to end wins",
	Unseen: []string{
		"input to a program that already runs (write_stdin)",
		"code that a model writes around its calls in code mode; hooks see the calls",
	},
}

// What events have in common.
const (
	codexSays = "systemMessage=message "
	codexMore = "hookSpecificOutput.additionalContext=context hookSpecificOutput.hookEventName=event "
	codexTool = "tool_name=tool.name tool_input=tool.input tool_use_id=tool.id"
	codexStop = "continue=halt:false stopReason=halt "
)

// codexEvents has all events of 0.169.0, in the order of a session.
var codexEvents = []EventRow{
	{
		Native: "SessionStart", Kind: grapnel.SessionStart, Install: true,
		In: "source=cause", Out: codexStop + codexSays + codexMore,
	},
	{
		Native: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In: "prompt=prompt.text", Out: "decision=block:block reason=reason " + codexStop + codexSays + codexMore,
	},
	{
		Native: "PreModelRequest", Kind: grapnel.ModelBefore, // neither the request nor a say in it (seen live)
		Why: "would start a process for every call of the model, and takes no answer",
	},
	{
		Native: "PostModelRequest", Kind: grapnel.ModelAfter, In: "status=cause",
		Why: "would start a process for every call of the model, and takes no answer",
	},
	{
		// An input can only be told beside an allow, and an allow only beside an input:
		// alone it is an error. continue:false is one too, so a halt is told as a deny.
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true,
		In: codexTool,
		Out: "hookSpecificOutput.permissionDecision=block:deny hookSpecificOutput.permissionDecisionReason=reason " +
			"hookSpecificOutput.permissionDecision=change:allow hookSpecificOutput.updatedInput=tool.input " +
			"hookSpecificOutput.hookEventName=event " + codexSays + "<decision=block:block <reason=reason",
	},
	{
		// Fires when a person would be asked: to ask is to say nothing. A new input makes
		// the answer void, and the prompt is shown (seen live).
		Native: "PermissionRequest", Kind: grapnel.PermissionBefore, Install: true, Closed: true,
		In: codexTool,
		Out: "hookSpecificOutput.decision.behavior=block:deny hookSpecificOutput.decision.behavior=allow:allow " +
			"hookSpecificOutput.decision.message=reason hookSpecificOutput.hookEventName=event ask " + codexSays,
	},
	{
		// A block takes the place of the result, for the model; the turn goes on, after
		// continue:false too (seen live), so that is not told.
		Native: "PostToolUse", Kind: grapnel.ToolAfter, Install: true,
		In: codexTool + " tool_response=tool.output", Out: "decision=block:block reason=reason " + codexSays + codexMore,
	},
	{
		// Only continue:false keeps it from happening; exit code 2 does not (seen live).
		Native: "PreCompact", Kind: grapnel.CompactBefore, Install: true,
		In: "trigger=cause", Out: "continue=block:false stopReason=reason " + codexSays,
	},
	{
		Native: "PostCompact", Kind: grapnel.CompactAfter, Install: true,
		In: "trigger=cause", Out: codexSays,
	},
	{
		Native: "SubagentStart", Kind: grapnel.SubagentStart, Install: true, // starts whatever a hook says (seen live)
		Out: codexSays + codexMore,
	},
	{
		Native: "SubagentStop", Kind: grapnel.SubagentAfter, Install: true,
		In:  "stop_hook_active=stop.active last_assistant_message=stop.last_message agent_transcript_path=subagent.transcript",
		Out: "decision=block:block reason=reason " + codexStop + codexSays,
	},
	{
		// Codex has no cap of its own: a hook that always blocks would never end.
		Native: "Stop", Kind: grapnel.AgentAfter, Install: true,
		In: "stop_hook_active=stop.active last_assistant_message=stop.last_message", Out: "decision=block:block reason=reason " + codexStop + codexSays,
	},
	{
		Native: "Interrupt", Kind: grapnel.NativePrefix + "codex.Interrupt", Install: true, Wait: 3 * time.Second, Budget: 2500 * time.Millisecond,
		Out: codexSays,
	},
	{
		Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true, Wait: 3 * time.Second, Budget: 2500 * time.Millisecond,
		In: "reason=cause",
	},
}

// codexTools has the tools that take part in rules. What is typed into a shell that
// runs already fires no event (seen live).
var codexTools = []ToolRow{
	{Native: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "apply_patch", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/command", Use: grapnel.UseWrite, Form: grapnel.FormPatch}, {Field: grapnel.FieldContent, At: "/command"}}},
	{Native: "spawn_agent", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "update_plan", Like: "TodoWrite", Class: grapnel.ClassTask},
	{Native: "view_image", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
}

// speaksCodex goes by where the transcript lies and by the turn, which no other agent
// with these names of events gives.
func speaksCodex(top map[string]json.RawMessage) bool {
	if text(top["hook_event_name"]) == "" || foreign(top) {
		return false
	}
	home := transcriptHome(top)
	return home == ".codex" || home == "" && top["turn_id"] != nil && rowNamed(codexEvents, text(top["hook_event_name"])) != nil
}

// adaptCodex says what of a new input is taken over: of the tools that are told as one
// line that line alone, which has to be there, or the call fails (seen live).
func adaptCodex(row *EventRow, _ map[string]json.RawMessage, ev *grapnel.Event) error {
	if row.Kind == grapnel.ToolBefore && (ev.Tool.Name == "Bash" || ev.Tool.Name == "apply_patch") {
		ev.Can = row.can()
		ev.Can.Members = []string{"command"}
	}
	return nil
}
