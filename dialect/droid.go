package dialect

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// FactoryDroid returns the dialect of Factory's Droid.
func FactoryDroid() *Dialect { return factoryDroid.clone() }

// factoryDroid is the dialect of Factory's Droid: Claude Code's protocol with other tool names.
// "Seen live" below means droid exec of version 0.225.2; the other facts come from its program text.
//
// Every hook failure fails open, including a late hook (seen live). A new input is merged into the
// old one. JSON is read with any exit code. Before a tool, the first permissionDecision in the file
// wins, but exit code 2 blocks even after an allow of another hook (seen live), so blocks are exit
// codes. Ask has no effect: the call runs, or Droid's own prompt comes (seen live). Users see a
// systemMessage only after a tool and at Stop.
var factoryDroid = &Dialect{
	Name:    "factory-droid",
	Title:   "Factory Droid",
	Aliases: []string{"droid"},
	Events:  droidEvents,
	Tools:   droidTools,
	Speaks:  speaksDroid,
	Unnamed: func(top map[string]json.RawMessage) string { return text(top["hookEventName"]) }, // payloads of early 2026
	In: "session_id=session.id sessionId=session.id cwd=session.cwd transcript_path=session.transcript transcriptPath=session.transcript " +
		"permission_mode=session.mode permissionMode=session.mode",
	MCP:         "{server}___{tool}", // seen live
	Blind:       droidBlock,
	Exits:       "2=block 3=halt",
	HookEnv:     droidHookEnv,
	transcripts: ".factory",
	setup:       &droidSetup,
}

var droidSetup = Setup{
	Processes: []string{"droid"},
	Program:   "droid", User: ".factory/settings.json", Project: ".factory/settings.json",
	// A file with only hooks replaces the hooks of the settings, event by event. The second path is
	// an older location, which Droid reads if the first file is missing.
	Over:    []string{"hooks.json", "hooks/hooks.json"},
	Related: []string{".factory/settings.json", ".factory/hooks.json"},
	Shape:   ShapeGroups, Entry: `{"type": "command", "command": $command, "timeout": $timeout}`, Unit: time.Second, AskTimeout: askTimeout, Comments: true,
	Off: []Switch{
		{Path: "hooks.hooksDisabled", Is: "true", Effect: droidOff}, // seen live, in a project too
		{File: ".factory/hooks.json", Path: "hooksDisabled", Is: "true", Effect: droidOff},
		{Path: "allowManagedHooksOnly", Is: "true", Effect: "keeps Droid from running the hooks of users and projects, if it takes effect; ask its administrator"},
	},
	Undone: "if several hooks change an input, the first one in the file wins; a block by Grapnel always holds",
	Unseen: []string{"prompts of droid exec: UserPromptSubmit fires only in the user interface and with --input-format stream-jsonrpc"},
}

// Parts of tables that events share.
const (
	droidBlock   = "exit=block:2 stderr=reason "
	droidMessage = "systemMessage=message "
	droidMore    = "hookSpecificOutput.additionalContext=context hookSpecificOutput.hookEventName=event "
	droidHalt    = "continue=halt:false stopReason=halt "
	droidHeard   = "<decision=block:block <reason=reason "
	droidOff     = "keeps Droid from running hooks; set it to false"
	droidTool    = "tool_name=tool.name toolName=tool.name tool_input=tool.input toolInput=tool.input "
)

// droidEvents lists all events of 0.225.2, in the order of a session.
var droidEvents = []EventRow{
	{
		Native: "SessionStart", Kind: grapnel.SessionStart, Install: true,
		In: "source=cause", Out: "<" + droidMessage + droidMore,
	},
	{
		// The program reads a block from the exit code or from continue:false, which ends only the
		// turn, but not from decision, which the documentation names (seen live).
		Native: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In: "prompt=prompt.text",
		Out: droidBlock + "hookSpecificOutput.updatedInput.prompt=prompt " + droidMore +
			droidHeard + "<continue=block:false <stopReason=reason <" + droidMessage,
	},
	{
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true,
		In:  droidTool,
		Can: grapnel.Can{Merges: true},
		Out: droidBlock + "hookSpecificOutput.permissionDecision=allow:allow " +
			"hookSpecificOutput.updatedInput=tool.input hookSpecificOutput.hookEventName=event " + droidHalt +
			"<hookSpecificOutput.permissionDecision=block:deny <hookSpecificOutput.permissionDecision=ask:ask " +
			"<hookSpecificOutput.permissionDecisionReason=reason " + droidHeard + "<" + droidMessage,
	},
	{
		// A block by decision has no effect (seen live).
		Native: "PostToolUse", Kind: grapnel.ToolAfter, Install: true,
		In:  droidTool + "tool_response=tool.output toolResponse=tool.output",
		Can: grapnel.Can{Keeps: true}, Out: droidBlock + droidHalt + droidMessage + droidMore + droidHeard,
	},
	{
		Native: "Notification", Kind: grapnel.NotificationSent, Install: true,
		In:  "message=notification.message notification_type=notification.type notificationType=notification.type",
		Out: "<" + droidMessage,
	},
	{
		// Blocks only by exit code.
		Native: "PreCompact", Kind: grapnel.CompactBefore, Install: true,
		In:  "trigger=cause custom_instructions=compact.instructions customInstructions=compact.instructions",
		Out: droidBlock + "<" + droidMessage,
	},
	{
		// Droid discards all answers.
		Native: "SubagentStop", Kind: grapnel.SubagentAfter, Install: true,
		In: "task_name=subagent.type taskName=subagent.type task_result=stop.last_message taskResult=stop.last_message task_error=cause taskError=cause " +
			"stop_hook_active=stop.active stopHookActive=stop.active",
		Out: droidHeard + "<" + droidMessage,
	},
	{
		Native: "Stop", Kind: grapnel.AgentAfter, Install: true,
		In:  "stop_hook_active=stop.active stopHookActive=stop.active",
		Out: "decision=block:block reason=reason " + droidHalt + droidMessage,
	},
	{
		Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true, In: "reason=cause",
	},
}

// droidTools lists the tools that matter for rules. If the name of an input member is undocumented,
// the row lists the names that other agents use.
var droidTools = []ToolRow{
	{Native: "Execute", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}},
	{Native: "Create", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_str"}, {Field: grapnel.FieldContent, At: "/new_string"}}, Members: [][2]string{{"old_str", "old_string"}, {"change_all", "replace_all"}}},
	{Native: "ApplyPatch", Like: "apply_patch", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{
		{Field: grapnel.FieldPath, At: "/input", Use: grapnel.UseWrite, Form: seam.FormPatch}, {Field: grapnel.FieldContent, At: "/input"}, {Field: grapnel.FieldPath, At: "/patch", Use: grapnel.UseWrite, Form: seam.FormPatch}, {Field: grapnel.FieldContent, At: "/patch"}, {Field: grapnel.FieldPath, At: "/command", Use: grapnel.UseWrite, Form: seam.FormPatch}, {Field: grapnel.FieldContent, At: "/command"},
	}},
	{Native: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/directory_path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/folder", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "FetchUrl", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
	{Native: "WebSearch", Class: grapnel.ClassFetch},
	{Native: "Task", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "TodoWrite", Class: grapnel.ClassTask},
}

// speaksDroid checks the directory of the transcript. If it was moved, speaksDroid checks the names
// of modes, which no other agent uses.
func speaksDroid(top map[string]json.RawMessage) bool {
	native := cmp.Or(text(top["hook_event_name"]), text(top["hookEventName"]))
	switch home := transcriptHome(top); {
	case native == "" || home == "" && rowNamed(droidEvents, native) == nil:
		return false
	case home != "":
		return home == ".factory"
	}
	mode := cmp.Or(text(top["permission_mode"]), text(top["permissionMode"]))
	return mode == "off" || mode == "spec" || strings.HasPrefix(mode, "auto-")
}

// droidHookEnv passes a hook the directory, and the small top-level members of its event under
// their own names. Large members are omitted, because a program cannot start if one variable is too
// long.
func droidHookEnv(ev *grapnel.Event) []string {
	dir := ev.Session.CWD
	vars := variables([2]string{"FACTORY_PROJECT_DIR", dir}, [2]string{"DROID_PROJECT_DIR", dir}, [2]string{"CLAUDE_PROJECT_DIR", dir})
	d := lookup(dialects, "factory-droid")
	line, err := d.writeEventTable(ev)
	if err != nil {
		return vars
	}
	for _, m := range membersOf(line) {
		value, isText := rawjson.Unquote(m.value)
		if !isText && !rawjson.IsObject(m.value) && m.value[0] != '[' && present(m.value) != nil {
			value = string(m.value)
		}
		// Names in lower case only, so that no member can replace PATH.
		odd := m.name != "CLAUDE_ENV_FILE" && strings.Trim(m.name, "abcdefghijklmnopqrstuvwxyz_") != ""
		if value != "" && len(value) <= 4096 && !odd && m.name != "" && !strings.Contains(value, "\x00") {
			vars = append(vars, m.name+"="+value)
		}
	}
	return vars
}
