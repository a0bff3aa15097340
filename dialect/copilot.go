package dialect

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/rawjson"

	"github.com/grapnel-dev/grapnel"
)

// copilot is the language of GitHub Copilot CLI: one JSON object on stdin, one on stdout
// or nothing. "Seen live" below means version 1.0.102.
//
// There are two ways in which it tells of an event, by how the key in the file is
// written: preToolUse with members in camel case and without the event's name, and
// PreToolUse much like Claude Code, also through a project's .claude/settings.json. A
// flat answer counts in both; a nested one, as Claude Code's, counts for nothing in the
// first and partly in the second (seen live). In a folder with both files each action is
// told twice.
//
// preToolUse takes every exit code but 0 for a deny, and does not show why. So the exit
// code is always 0. A hook that is late is not waited for and the call runs: Grapnel's
// own deadline lies before the agent's (seen live).
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
	Twice:       func(top map[string]json.RawMessage) string { return text(top["hook_event_name"]) },
}

var copilotSetup = Setup{
	Program: "copilot", User: ".copilot/hooks/grapnel.json", Project: ".github/hooks/grapnel.json", MovedBy: "COPILOT_HOME", Moves: ".copilot",
	Shape: ShapeFlat, Own: true, Top: `"version": 1`, Unit: time.Second,
	// No matcher: none is for all, and * is an expression that is wrong, for which the
	// hook is left out without a word (seen live).
	Entry: `{"type": "command", "bash": $command, "powershell": $powershell, "timeoutSec": $timeout}`,
	Off: []Switch{
		{Path: "disableAllHooks", Is: "true", Says: "keeps Copilot CLI from running the hooks of this file"},
		{File: ".copilot/settings.json", Path: "disableAllHooks", Is: "true", Says: "keeps Copilot CLI from running hooks"},
	},
	Undone:      "a hook that runs later can change the arguments of a call after Grapnel's decision; a block by Grapnel always holds",
	Todo:        []string{"Copilot CLI runs the hooks of your own files everywhere, and those of a project only in a folder you trust"},
	TodoProject: []string{"open copilot there and trust the folder, or, with -p, add --trust-folder"},
}

// What events have in common.
const (
	copilotTool = "toolName=tool.name tool_name=tool.name toolArgs=tool.input tool_input=tool.input "
	copilotMore = "additionalContext=context "
	copilotStop = "stopReason=cause stop_reason=cause stop_hook_active=stop.active "
)

const copilotPrefix = grapnel.NativePrefix + "copilot-cli."

// copilotEvents has all events of 1.0.102, in the order of a session. Wire is the name
// in the other way of telling.
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
		Why: "tells of a prompt once more, with what Copilot CLI wraps around it, and cannot stop it",
	},
	{
		// Where nobody can be asked, as with -p, a question is a deny (seen live). The desktop
		// app is reported to take one for consent.
		Native: "preToolUse", Wire: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true,
		In: copilotTool,
		Out: "permissionDecision=block:deny permissionDecision=ask:ask permissionDecision=allow:allow permissionDecisionReason=reason modifiedArgs=tool.input " +
			copilotMore + "<hookSpecificOutput.permissionDecision=block:deny <hookSpecificOutput.permissionDecision=ask:ask " +
			"<hookSpecificOutput.permissionDecision=allow:allow <hookSpecificOutput.permissionDecisionReason=reason <hookSpecificOutput.updatedInput=tool.input",
	},
	{
		// Fires when a person would be asked: to ask is to say nothing. It has words of its
		// own for tools: create is an edit here (seen live).
		Native: "permissionRequest", Wire: "PermissionRequest", Kind: grapnel.PermissionBefore, Install: true, Closed: true,
		In: "toolName=tool.name toolInput=tool.input", Out: "behavior=block:deny behavior=allow:allow message=reason ask",
	},
	{
		Native: "preMcpToolCall", Kind: copilotPrefix + "preMcpToolCall",
		In: "toolCallId=tool.id serverName=mcp.server toolName=mcp.tool arguments=tool.input", Out: "metaToUse=native:object",
		Why: "preToolUse has told of the call, and here it cannot be stopped",
	},
	{
		// A block makes an error of the result, for the model. A command that fails is
		// told here, too (seen live).
		Native: "postToolUse", Wire: "PostToolUse", Kind: grapnel.ToolAfter, Install: true,
		In: copilotTool + "toolResult=tool.output tool_result=tool.output", Out: "decision=block:block reason=reason modifiedResult=tool.output " + copilotMore,
	},
	{
		Native: "postToolUseFailure", Wire: "PostToolUseFailure", Kind: grapnel.ToolFailed, Install: true,
		In: copilotTool + "error=tool.output", Out: "additionalContext=feedback",
	},
	{
		// Copilot CLI lets the agent stop after the eighth block in a row, too. A sub-agent's
		// stop is told by subagentStop as well, and judged there.
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

// copilotTools has the tools that take part in rules. Like is also what the tool is
// called in the other way of telling; its members stay. A permissionRequest has the
// members of its own words.
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

// copilotEvent tells an event by its members: that of a payload in camel case, and of the
// two in the other way of telling that do not name it either (seen live).
func copilotEvent(top map[string]json.RawMessage) string {
	for _, p := range each("hookName=permissionRequest transformedPrompt=userPromptTransformed prompt=userPromptSubmitted serverName=preMcpToolCall " +
		"toolResult=postToolUse errorContext=errorOccurred error=postToolUseFailure toolArgs=preToolUse response=subagentStop stopReason=agentStop " +
		"agentName=subagentStart source=sessionStart reason=sessionEnd trigger=preCompact") {
		switch {
		case top[p.member] == nil || top["sessionId"] == nil:
		case p.word == "agentStop" && top["agentName"] != nil: // a sub-agent that said nothing
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
		ev.Kind, ev.Can = copilotPrefix+"agentStop", &grapnel.Can{}
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
	// One tool has one name, and one result one shape, in whichever way they are told.
	if i := slices.IndexFunc(copilotTools, func(r ToolRow) bool { return r.Like == t.Name }); i >= 0 {
		t.Name = copilotTools[i].Native
	}
	if isObject(t.Output) {
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

func finishCopilot(row *EventRow, ev *grapnel.Event, _ *told, out *members) {
	result := out.get("modifiedResult")
	if row.Kind != grapnel.ToolAfter || result == nil {
		return
	}
	// It is void unless it has both members.
	said, ok := rawjson.Unquote(split(result)["textResultForLlm"])
	if !ok {
		if said, ok = rawjson.Unquote(result); !ok {
			said = string(result)
		}
	}
	was := map[string]json.RawMessage{}
	if ev.Tool != nil {
		was = split(ev.Tool.Output)
	}
	var m members
	m.text("resultType", cmp.Or(text(split(result)["resultType"]), text(was["resultType"]), "success"))
	m.set("textResultForLlm", rawjson.Quote(said))
	out.set("modifiedResult", m.raw())
}

// readCopilotOutcome: a failure before a call denies it (seen live).
func readCopilotOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	d, _ := FindAgent("copilot-cli")
	o, err := d.readOutcomeTable(ev, out)
	if ev.Kind == grapnel.ToolBefore && out.Exit > 0 && err != nil {
		o.Decision, o.Reason = grapnel.Block, cmp.Or(o.Reason, strings.TrimSpace(string(out.Stderr)), "the hook failed")
	}
	return o, err
}
