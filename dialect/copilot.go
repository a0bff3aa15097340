package dialect

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Copilot returns the dialect of GitHub Copilot CLI.
func Copilot() *Dialect { return copilot.clone() }

// copilot is the dialect of GitHub Copilot CLI: one JSON object on stdin, and one or nothing on
// stdout. "Seen live" below means version 1.0.102.
//
// Copilot CLI reports events in two formats, depending on the spelling of the key in the file.
// preToolUse gets members in camel case without the event name. PreToolUse gets payloads much like
// Claude Code's, also from a project's .claude/settings.json. A flat answer works in both formats.
// A nested answer like Claude Code's has no effect in the first format and a partial effect in the
// second (seen live). In a folder with both files, Copilot CLI reports each action twice.
//
// preToolUse treats every nonzero exit code as a deny, and does not show the reason, so the exit
// code is always 0. Copilot CLI does not wait for a late hook and runs the call, so Grapnel's own
// deadline is before the agent's (seen live).
var copilot = &Dialect{
	Name:    "copilot-cli",
	Title:   "GitHub Copilot CLI",
	Aliases: []string{"copilot"},
	Events:  copilotEvents,
	Tools:   copilotTools,
	MCP:     "{server}-{tool}",
	In: "sessionId=session.id session_id=session.id timestamp=time:ms cwd=session.cwd transcriptPath=session.transcript transcript_path=session.transcript " +
		"agentId=subagent.id agent_id=subagent.id agentType=subagent.type agent_type=subagent.type",
	Blind:       "permissionDecision=block:deny permissionDecisionReason=reason behavior=block:deny message=reason",
	ExitBlocks:  true,
	Adapt:       adaptCopilot,
	Finish:      finishCopilot,
	Unnamed:     copilotEvent,
	Speaks:      speaksCopilot,
	ReadOutcome: readCopilotOutcome,
	ReportedVia: func(top map[string]json.RawMessage) string { return text(top["hook_event_name"]) },
	transcripts: ".copilot",
	setup:       &copilotSetup,
}

var copilotSetup = Setup{
	Processes: []string{"copilot", "@github/copilot"},
	Program:   "copilot", User: ".copilot/hooks/grapnel.json", Project: ".github/hooks/grapnel.json", MovedBy: "COPILOT_HOME", Moves: ".copilot",
	Related: []string{".copilot/settings.json", ".github/copilot/settings.json", ".github/copilot/settings.local.json"}, Sessions: ".copilot/session-state",
	Shape: ShapeFlat, Own: true, Top: `"version": 1`, Unit: time.Second, AskTimeout: askTimeout,
	// No matcher: without one the hook gets all events, and * is an invalid expression for which
	// Copilot CLI silently skips the hook (seen live).
	Entry: `{"type": "command", "bash": $command, "powershell": $powershell, "timeoutSec": $timeout}`,
	Off: []Switch{
		{Path: "disableAllHooks", Is: "true", Effect: "keeps Copilot CLI from running the hooks of this file"},
		{File: ".copilot/settings.json", Path: "disableAllHooks", Is: "true", Effect: "keeps Copilot CLI from running hooks"},
	},
	Undone:      "a hook that runs later can change the arguments of a call after Grapnel's decision; a block by Grapnel always holds",
	Todo:        []string{"Copilot CLI runs the hooks in your own files everywhere, but hooks of a project only in a folder you trust"},
	TodoProject: []string{"open copilot there and trust the folder, or, with -p, add --trust-folder"},
}

// Parts of tables that events share.
const (
	copilotTool = "toolName=tool.name tool_name=tool.name toolArgs=tool.input tool_input=tool.input "
	copilotMore = "additionalContext=context "
	copilotStop = "stopReason=cause stop_reason=cause stop_hook_active=stop.active "
)

const copilotPrefix = grapnel.NativePrefix + "copilot-cli."

// copilotEvents lists all events of 1.0.102, in the order of a session. Wire is the name in the
// second format.
var copilotEvents = []EventRow{
	{
		Native: "sessionStart", Wire: "SessionStart", Kind: grapnel.SessionStart, Install: true,
		In: "source=cause", Out: copilotMore,
	},
	{
		Native: "userPromptSubmitted", Wire: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In: "prompt=prompt.text", Out: "decision=block:block reason=reason modifiedPrompt=prompt handled=native:bool responseContent=native:string " + copilotMore,
	},
	{
		Native: "userPromptTransformed", Kind: grapnel.PromptBefore, In: "transformedPrompt=prompt.text", Out: "modifiedTransformedPrompt=prompt",
		Why: "reports the prompt again, with the text that Copilot CLI adds around it, and cannot stop it",
	},
	{
		// If no user can be asked, as with -p, an ask is a deny (seen live). The desktop app is
		// reported to treat an ask as consent.
		Native: "preToolUse", Wire: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true,
		In: copilotTool,
		Out: "permissionDecision=block:deny permissionDecision=ask:ask permissionDecision=allow:allow permissionDecisionReason=reason modifiedArgs=tool.input " +
			copilotMore + "<hookSpecificOutput.permissionDecision=block:deny <hookSpecificOutput.permissionDecision=ask:ask " +
			"<hookSpecificOutput.permissionDecision=allow:allow <hookSpecificOutput.permissionDecisionReason=reason <hookSpecificOutput.updatedInput=tool.input",
	},
	{
		// Fires before the agent asks the user, so an empty answer asks. Its payload uses other
		// tool names: create is an edit here (seen live).
		Native: "permissionRequest", Wire: "PermissionRequest", Kind: grapnel.PermissionBefore, Install: true, Closed: true,
		In: "toolName=tool.name toolInput=tool.input", Out: "behavior=block:deny behavior=allow:allow message=reason ask",
	},
	{
		Native: "preMcpToolCall", Kind: copilotPrefix + "preMcpToolCall",
		In: "toolCallId=tool.id serverName=mcp.server toolName=mcp.tool arguments=tool.input", Out: "metaToUse=native:object",
		Why: "preToolUse has reported the call, and this event cannot stop it",
	},
	{
		// For the model, a block turns the result into an error. Commands that fail are also
		// reported here (seen live).
		Native: "postToolUse", Wire: "PostToolUse", Kind: grapnel.ToolAfter, Install: true,
		In: copilotTool + "toolResult=tool.output tool_result=tool.output", Out: "decision=block:block reason=reason modifiedResult=tool.output " + copilotMore,
	},
	{
		Native: "postToolUseFailure", Wire: "PostToolUseFailure", Kind: grapnel.ToolFailed, Install: true,
		In: copilotTool + "error=tool.output", Out: "additionalContext=feedback",
	},
	{
		// Copilot CLI also lets the agent stop after the eighth block in a row. It reports the stop
		// of a sub-agent also as subagentStop, and Grapnel judges it there.
		Native: "agentStop", Wire: "Stop", Kind: grapnel.AgentAfter, Install: true,
		In: copilotStop, Out: "decision=block:block reason=reason",
	},
	{
		Native: "subagentStart", Wire: "SubagentStart", Kind: grapnel.SubagentStart, Install: true,
		In: "agentName=subagent.type", Out: copilotMore,
	},
	{
		Native: "subagentStop", Wire: "SubagentStop", Kind: grapnel.SubagentAfter, Install: true,
		In:  copilotStop + "response=stop.last_message last_assistant_message=stop.last_message",
		Out: "decision=block:block reason=reason modifiedResponse=native:string",
	},
	{
		Native: "errorOccurred", Wire: "ErrorOccurred", Kind: grapnel.AgentFailed, Install: true,
		In: "errorContext=cause error_context=cause error.message=stop.last_message",
	},
	{
		Native: "notification", Wire: "Notification", Kind: grapnel.NotificationSent, Install: true,
		In: "notification_type=notification.type title=notification.title message=notification.message",
	},
	{
		Native: "preCompact", Wire: "PreCompact", Kind: grapnel.CompactBefore, Install: true, // never seen
		In: "trigger=cause",
	},
	{
		Native: "sessionEnd", Wire: "SessionEnd", Kind: grapnel.SessionEnd, Install: true,
		In: "reason=cause",
	},
}

// copilotTools lists the tools that matter for rules. Like is also the tool's name in the second
// format; its input members stay the same. The input of a permissionRequest has other members.
var copilotTools = []ToolRow{
	{Native: "bash", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "create", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/file_text"}}},
	{
		Native: "edit", Like: "Edit", Class: grapnel.ClassEdit,
		Facts:   []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_str"}, {Field: grapnel.FieldContent, At: "/diff"}},
		Members: [][2]string{{"old_str", "old_string"}},
	},
	{Native: "view", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "grep", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "glob", Like: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "task", Like: "Agent", Class: grapnel.ClassTask},
}

// copilotEvent identifies an event by its members: for payloads in camel case, and for the two
// payloads of the second format that also lack the event name (seen live).
func copilotEvent(top map[string]json.RawMessage) string {
	for _, p := range each("hookName=permissionRequest transformedPrompt=userPromptTransformed prompt=userPromptSubmitted serverName=preMcpToolCall " +
		"toolResult=postToolUse errorContext=errorOccurred error=postToolUseFailure toolArgs=preToolUse response=subagentStop stopReason=agentStop " +
		"agentName=subagentStart source=sessionStart reason=sessionEnd trigger=preCompact") {
		switch {
		case top[p.member] == nil || top["sessionId"] == nil:
		case p.word == "agentStop" && top["agentName"] != nil: // a sub-agent without a message
			return "subagentStop"
		default:
			return p.word
		}
	}
	return ""
}

func speaksCopilot(top map[string]json.RawMessage) bool {
	for _, at := range []string{"transcriptPath", "transcript_path"} {
		if path := slashed(text(top[at])); path != "" {
			return strings.Contains(path, "/.copilot/") || strings.HasSuffix(path, "/events.jsonl") && strings.Contains(path, "/session-state/")
		}
	}
	if top["permission_mode"] != nil || top["transcript_path"] != nil || top["timestamp"] == nil || top["cwd"] == nil {
		return false
	}
	if top["sessionId"] != nil {
		_, isText := rawjson.Unquote(top["timestamp"])
		return !isText && (copilotEvent(top) != "" || text(top["hook_event_name"]) == "Notification")
	}
	name := text(top["hook_event_name"])
	if text(top["session_id"]) == "" || name == "" {
		return false
	}
	for i := range copilotEvents {
		if copilotEvents[i].Wire == name {
			return true
		}
	}
	return false
}

func adaptCopilot(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error {
	if row.Native == "agentStop" && ev.Session.Subagent != nil {
		ev.Kind, terms(ev).Can = copilotPrefix+"agentStop", &grapnel.Can{}
	}
	t := ev.Tool
	if t == nil {
		return nil
	}
	if row.Kind == grapnel.PermissionBefore {
		if server, tool, ok := strings.Cut(t.Name, "/"); ok && server != "" && tool != "" {
			t.MCP = &grapnel.MCP{Server: server, Tool: tool}
		}
		return nil
	}
	if top["tool_name"] == nil {
		return nil
	}
	// Use one name per tool and one format per result, in both formats of payloads.
	if i := slices.IndexFunc(copilotTools, func(r ToolRow) bool { return r.Like == t.Name }); i >= 0 {
		t.Name = copilotTools[i].Native
	}
	if rawjson.IsObject(t.Output) {
		result := membersOf(t.Output)
		for i := range result {
			switch result[i].name {
			case "result_type":
				result[i].name = "resultType"
			case "text_result_for_llm":
				result[i].name = "textResultForLlm"
			}
		}
		t.Output = result.raw()
	}
	return nil
}

func finishCopilot(row *EventRow, ev *grapnel.Event, _ *supportedVerdict, out *members) {
	result := out.get("modifiedResult")
	if row.Kind != grapnel.ToolAfter || result == nil {
		return
	}
	// Copilot CLI ignores the result unless it has both members.
	content, ok := rawjson.Unquote(split(result)["textResultForLlm"])
	if !ok {
		if content, ok = rawjson.Unquote(result); !ok {
			content = string(result)
		}
	}
	was := map[string]json.RawMessage{}
	if ev.Tool != nil {
		was = split(ev.Tool.Output)
	}
	var m members
	m.text("resultType", cmp.Or(text(split(result)["resultType"]), text(was["resultType"]), "success"))
	m.set("textResultForLlm", rawjson.Quote(content))
	out.set("modifiedResult", m.raw())
}

// readCopilotOutcome reads the answer of a hook program. A failure before a call denies the call
// (seen live).
func readCopilotOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	d := lookup(dialects, "copilot-cli")
	o, err := d.readOutcomeTable(ev, out)
	if ev.Kind == grapnel.ToolBefore && out.Exit > 0 && err != nil {
		o.Decision, o.Reason = grapnel.Block, cmp.Or(o.Reason, strings.TrimSpace(string(out.Stderr)), "the hook failed")
	}
	return o, err
}
