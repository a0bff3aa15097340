package dialect

import (
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// Codex returns the dialect of the Codex CLI.
func Codex() *Dialect { return codex.clone() }

// codex is the dialect of the Codex CLI: one JSON object on stdin, and one or nothing on stdout.
// "Seen live" below means version 0.169.0.
//
// Every hook failure fails open: Codex ignores a hook that crashes, is late, or answers with a
// member that Codex does not know (seen live). So Grapnel writes only the members that the tables
// name. A deny always has a reason, because it would be void without one.
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
	Blind:       "exit=block:2 stderr=reason",
	transcripts: codexHome,
	setup:       &codexSetup,
}

var codexSetup = Setup{
	Processes: []string{"codex", "codex-*", "@openai/codex"},
	Program:   "codex", User: ".codex/hooks.json", Project: ".codex/hooks.json", MovedBy: "CODEX_HOME", Moves: ".codex",
	Managed: [3]string{"/etc/codex/hooks.json", "/etc/codex/hooks.json", ""},
	Related: []string{".codex/config.toml"}, Sessions: ".codex/sessions",
	// Codex lists an entry under its statusMessage, and as "Unnamed hook" without one (seen live).
	Shape: ShapeGroups, Entry: `{"type": "command", "command": $command, "timeout": $timeout, "statusMessage": "Grapnel"}`, Unit: time.Second, AskTimeout: askTimeout, Keep: true,
	Tops: []string{"description", "hooks"}, // seen live
	Off: []Switch{
		{File: ".codex/config.toml", Path: "features.hooks", Is: "false", Effect: "switches all hooks off"},
		{File: ".codex/config.toml", Path: "features.codex_hooks", Is: "false", Effect: "switches all hooks off"},
		{File: "/etc/codex/requirements.toml", Path: "allow_managed_hooks_only", Is: "true", Effect: "keeps Codex from running the hooks of users and projects; ask its administrator"},
	},
	Until:       "start codex, and trust the entries named Grapnel when it asks, or in /hooks. Until then, Codex runs every tool without them",
	TodoProject: []string{"Codex reads the hooks of a project only after you have trusted the project"},
	Undone:      "if another hook changes the input of the same call, the last one to end wins",
	Unseen: []string{
		"input to a program that already runs (write_stdin)",
		"code that a model writes around its calls in code mode; hooks see the calls",
	},
}

// Parts of tables that events share.
const (
	codexHome = ".codex"

	codexMessage = "systemMessage=message "
	codexMore    = "hookSpecificOutput.additionalContext=context hookSpecificOutput.hookEventName=event "
	codexTool    = "tool_name=tool.name tool_input=tool.input tool_use_id=tool.id"
	codexStop    = "continue=halt:false stopReason=halt "
)

// codexEvents lists all events of 0.169.0, in the order of a session.
var codexEvents = []EventRow{
	{
		Native: "SessionStart", Kind: grapnel.SessionStart, Install: true,
		In: "source=cause", Out: codexStop + codexMessage + codexMore,
	},
	{
		Native: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In: "prompt=prompt.text", Out: "decision=block:block reason=reason " + codexStop + codexMessage + codexMore,
	},
	{
		Native: "PreModelRequest", Kind: grapnel.ModelBefore, // the payload lacks the request, and the answer has no effect (seen live)
		Why: "would start a process for every call of the model, and takes no answer",
	},
	{
		Native: "PostModelRequest", Kind: grapnel.ModelAfter, In: "status=cause",
		Why: "would start a process for every call of the model, and takes no answer",
	},
	{
		// A new input requires an allow, and an allow requires a new input: alone it is an error.
		// continue:false is also an error, so a halt is written as a deny. Context needs no decision,
		// and the model gets it even with a deny (seen live).
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true,
		In: codexTool,
		Out: "hookSpecificOutput.permissionDecision=block:deny hookSpecificOutput.permissionDecisionReason=reason " +
			"hookSpecificOutput.permissionDecision=change:allow hookSpecificOutput.updatedInput=tool.input " +
			codexMore + codexMessage + "<decision=block:block <reason=reason",
	},
	{
		// Fires before the agent asks the user, so an empty answer asks. A new input voids the
		// answer, and Codex shows the prompt (seen live).
		Native: "PermissionRequest", Kind: grapnel.PermissionBefore, Install: true, Closed: true,
		In: codexTool,
		Out: "hookSpecificOutput.decision.behavior=block:deny hookSpecificOutput.decision.behavior=allow:allow " +
			"hookSpecificOutput.decision.message=reason hookSpecificOutput.hookEventName=event ask " + codexMessage,
	},
	{
		// A block replaces the result for the model. The turn continues even after continue:false
		// (seen live), so halt is not written.
		Native: "PostToolUse", Kind: grapnel.ToolAfter, Install: true,
		In: codexTool + " tool_response=tool.output", Out: "decision=block:block reason=reason " + codexMessage + codexMore,
	},
	{
		// Only continue:false prevents the compaction; exit code 2 does not (seen live).
		Native: "PreCompact", Kind: grapnel.CompactBefore, Install: true,
		In: "trigger=cause", Out: "continue=block:false stopReason=reason " + codexMessage,
	},
	{
		Native: "PostCompact", Kind: grapnel.CompactAfter, Install: true,
		In: "trigger=cause", Out: codexMessage,
	},
	{
		Native: "SubagentStart", Kind: grapnel.SubagentStart, Install: true, // starts regardless of the hook's answer (seen live)
		Out: codexMessage + codexMore,
	},
	{
		Native: "SubagentStop", Kind: grapnel.SubagentAfter, Install: true,
		In:  "stop_hook_active=stop.active last_assistant_message=stop.last_message agent_transcript_path=subagent.transcript",
		Out: "decision=block:block reason=reason " + codexStop + codexMessage,
	},
	{
		// Codex itself has no limit: a hook that always blocks would never end.
		Native: "Stop", Kind: grapnel.AgentAfter, Install: true,
		In: "stop_hook_active=stop.active last_assistant_message=stop.last_message", Out: "decision=block:block reason=reason " + codexStop + codexMessage,
	},
	{
		Native: "Interrupt", Kind: grapnel.NativePrefix + "codex.Interrupt", Install: true, Wait: 3 * time.Second, Budget: 2500 * time.Millisecond,
		Out: codexMessage,
	},
	{
		Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true, Wait: 3 * time.Second, Budget: 2500 * time.Millisecond,
		In: "reason=cause",
	},
}

// codexTools lists the tools that matter for rules. Input typed into a running shell fires no event
// (seen live).
var codexTools = []ToolRow{
	{Native: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "apply_patch", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/command", Use: grapnel.UseWrite, Form: seam.FormPatch}, {Field: grapnel.FieldContent, At: "/command"}}},
	{Native: "spawn_agent", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "update_plan", Like: "TodoWrite", Class: grapnel.ClassTask},
	{Native: "view_image", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
}

// speaksCodex checks the directory of the transcript, and the turn id, which no other agent with
// these event names sends.
func speaksCodex(top map[string]json.RawMessage) bool {
	if text(top["hook_event_name"]) == "" || foreign(top) {
		return false
	}
	home := transcriptHome(top)
	return home == codexHome || home == "" && top["turn_id"] != nil && rowNamed(codexEvents, text(top["hook_event_name"])) != nil
}

// adaptCodex limits which members of a new input Codex uses. For tools that are reported as one
// command line, it is only that line, which must be present or the call fails (seen live).
func adaptCodex(row *EventRow, _ map[string]json.RawMessage, ev *grapnel.Event) error {
	if row.Kind == grapnel.ToolBefore && (ev.Tool.Name == "Bash" || ev.Tool.Name == "apply_patch") {
		can := row.can()
		can.Members = []string{"command"}
		terms(ev).Can = can
	}
	return nil
}
