package dialect

import (
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// OpenClaw returns the dialect of OpenClaw.
func OpenClaw() *Dialect { return openClaw.clone() }

// openClaw is the dialect of OpenClaw, whose hooks are functions (event, ctx) of a plugin in its
// own process. Grapnel's plugin, in cmd/internal/setup/install/shim, forwards the arguments as {hook,
// event, ctx} and returns the answer. "Seen live" below means version 2026.9.6.
//
// If Grapnel has no opinion, the reply is empty and the plugin returns undefined, because
// before_agent_run treats {} as a block (seen in the source).
var openClaw = &Dialect{
	Name:    openclawName,
	Title:   "OpenClaw",
	Events:  openclawEvents,
	Tools:   openclawTools,
	MCP:     "{server}__{tool}",
	NamedAt: "hook",
	In: "ctx.sessionId=session.id event.sessionId=session.id ctx.sessionKey=session.id event.sessionKey=session.id ctx.workspaceDir=session.cwd " +
		"ctx.runId=session.turn event.runId=session.turn ctx.modelId=session.model ctx.senderId=session.user event.senderId=session.user " +
		"ctx.messageProvider=session.channel ctx.channelId=session.channel event.threadId=session.thread ctx.jobId=session.job",
	Blind:       "exit=block:2 stderr=reason",
	Adapt:       adaptOpenClaw,
	Finish:      finishOpenClaw,
	ReadOutcome: readOpenClawOutcome,
	Speaks: func(top map[string]json.RawMessage) bool {
		return top["ctx"] != nil && top["hook_event_name"] == nil && rowNamed(openclawEvents, text(top["hook"])) != nil
	},
	setup: &openClawSetup,
}

var openClawSetup = Setup{
	Processes: []string{"openclaw", "openclaw-*", "node_modules/openclaw"},
	Program:   "openclaw", User: ".openclaw/openclaw.json", MovedBy: "OPENCLAW_CONFIG_PATH", Moves: ".openclaw/openclaw.json",
	Shape: ShapePlugin, Comments: true, JSON5: true, Deadline: openclawDeadline,
	Edits: []Edit{
		{Path: "plugins.load.paths", Value: "$dir"},
		// Without the grant, OpenClaw silently drops hooks of a conversation (seen live).
		{Path: "plugins.entries", Key: "grapnel", Value: `{"enabled": true, "hooks": {"allowConversationAccess": true}}`},
		{Path: "plugins.allow", Value: `"grapnel"`, Only: true},
	},
	Off: []Switch{
		{Path: "plugins.enabled", Is: "false", Effect: "keeps OpenClaw from loading plugins"},
		{Path: "plugins.entries.grapnel.enabled", Is: "false", Effect: "switches the plugin of Grapnel off"},
		{Path: "plugins.entries.grapnel.hooks.allowConversationAccess", Is: "false", Effect: "silently disables its hooks for prompts, answers and turns"},
		{Path: "plugins.entries.grapnel.hooks.allowPromptInjection", Is: "false", Effect: "keeps it from adding context"},
		{Path: "plugins.deny", Names: true, Effect: "keeps OpenClaw from loading the plugin of Grapnel"},
	},
	Undone: "every plugin gets the call as the model made it: if no Grapnel hook changes its parameters, changes by another plugin run without a check, " +
		"and OpenClaw drops a change by Grapnel if another plugin has already asked for approval",
	Unseen: []string{
		"openclaw agent exec: it calls no plugin hooks",
		"runs of other harnesses (Codex, Copilot, CLI backends): they skip hooks and refuse changed parameters",
	},
	Todo: []string{"OpenClaw reads its plugins when it starts: restart the gateway, or run \"openclaw plugins reload grapnel\""},
}

const openclawName = "openclaw"

// openclawDeadline is slightly below OpenClaw's 15 seconds for blocking hooks, and openclawBudget is
// shorter than the deadline.
const (
	openclawDeadline = 14 * time.Second
	openclawBudget   = 12 * time.Second
)

// Reasons why events are not installed.
const (
	openclawDuplicate = "another hook reports the same"
	openclawModel     = "runs at every model call and accepts no answer"
	openclawChore     = "is about OpenClaw's own maintenance, not about the agent's actions"
)

// openclawEvents lists all 42 hooks of 2026.9.6, in the order of its documentation.
var openclawEvents = []EventRow{
	{
		Native: "before_model_resolve", Kind: grapnel.NativePrefix + "openclaw.before_model_resolve",
		Contract: &grapnel.Contract{Kind: grapnel.NativePrefix + "openclaw.before_model_resolve", Changes: []grapnel.Change{{Field: grapnel.FieldModel}}},
		In:       "event.prompt=prompt.text", Out: "modelOverride=model",
		Why: openclawDuplicate, Budget: openclawBudget,
	},
	{
		Native: "agent_turn_prepare", Kind: grapnel.NativePrefix + "openclaw.agent_turn_prepare", In: "event.prompt=prompt.text",
		Why: openclawDuplicate,
	},
	{
		Native: "before_prompt_build", Kind: grapnel.AgentBefore, Install: true,
		In:   "ctx.trigger=cause event.prompt=prompt.text",
		Out:  "prependContext=context <appendContext=context <prependSystemContext=context <appendSystemContext=context systemPrompt=system",
		Wait: 15 * time.Second, Budget: openclawBudget,
	},
	{
		// It runs after before_prompt_build, and does not support context. It is strict: any other
		// member, even {}, blocks. The message is the text that the user reads (seen live).
		Native: "before_agent_run", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In:  "ctx.trigger=cause event.prompt=prompt.text event.systemPrompt=prompt.system",
		Out: "outcome=block:block reason=reason message=reason", Wait: 15 * time.Second, Budget: openclawBudget,
	},
	{
		Native: "before_agent_reply", Kind: grapnel.NativePrefix + "openclaw.before_agent_reply", In: "ctx.trigger=cause event.cleanedBody=prompt.text",
		Why: openclawDuplicate,
	},
	{
		Native: "llm_input", Kind: grapnel.ModelBefore, In: "event.model=session.model event.prompt=prompt.text event=model.request",
		Why: openclawModel,
	},
	{
		Native: "llm_output", Kind: grapnel.ModelAfter, In: "event.model=session.model event=model.response",
		Why: openclawModel,
	},
	{
		// OpenClaw allows at most three revisions, and drops the request after a tool that may have
		// had side effects (seen live). finalize overrides a revise of any plugin.
		Native: "before_agent_finalize", Kind: grapnel.AgentAfter, Install: true,
		In:  "event.cwd=session.cwd event.transcriptPath=session.transcript event.model=session.model event.stopHookActive=stop.active event.lastAssistantMessage=stop.last_message",
		Out: "action=halt:finalize action=block:revise reason=reason", Wait: 15 * time.Second, Budget: openclawBudget,
	},
	{
		Native: "agent_end", Kind: grapnel.NativePrefix + "openclaw.agent_end", Failed: grapnel.AgentFailed, Install: true,
		In: "event.error=cause",
	},
	{
		Native: "heartbeat_prompt_contribution", Kind: grapnel.NativePrefix + "openclaw.heartbeat_prompt_contribution",
		Why: openclawDuplicate,
	},
	{
		Native: "model_call_started", Kind: grapnel.NativePrefix + "openclaw.model_call_started", In: "event.model=session.model",
		Why: openclawModel,
	},
	{
		Native: "model_call_ended", Kind: grapnel.NativePrefix + "openclaw.model_call_ended", In: "event.model=session.model event.outcome=cause",
		Why: openclawModel,
	},
	{
		// New parameters are merged into the model's (seen live). If no user can be asked, as in a
		// run without a channel, an ask is denied at once (seen live).
		Native: "before_tool_call", Kind: grapnel.ToolBefore, Install: true, Closed: true,
		In: "event.toolName=tool.name event.params=tool.input event.toolCallId=tool.id",
		Out: "block=block:true blockReason=reason:block requireApproval.title=ask:grapnel requireApproval.description=reason:ask " +
			"params=tool.input", Can: grapnel.Can{Merges: true},
		Wait: 15 * time.Second, Budget: openclawBudget,
	},
	{
		// Also fires for a blocked call, with the cause "blocked" (seen live).
		Native: "after_tool_call", Kind: grapnel.ToolAfter, Failed: grapnel.ToolFailed, Install: true,
		In: "event.toolName=tool.name event.params=tool.input event.toolCallId=tool.id event.result=tool.output event.result.details.status=cause",
	},
	{
		Native: "resolve_exec_env", Kind: grapnel.NativePrefix + "openclaw.resolve_exec_env",
		Why: "only sets variables; before_tool_call reports the command",
	},
	{
		Native: "tool_result_persist", Kind: grapnel.NativePrefix + "openclaw.tool_result_persist",
		Why: "before_message_write reports the same message",
	},
	{
		Native: "before_message_write", Kind: grapnel.TranscriptBefore,
		In: "event.message.role=message.role event.message=message.raw", Out: "block=block:true reason=reason message=message",
		Why: "is synchronous: starting a program for each message would block the whole gateway", Budget: 5 * time.Second,
	},
	{
		// OpenClaw itself ignores the answer: the plugin keeps the context for the first
		// before_prompt_build of the session.
		Native: "session_start", Kind: grapnel.SessionStart, Install: true, In: "event.resumedFrom=cause", Out: "prependContext=context",
	},
	{
		Native: "session_end", Kind: grapnel.SessionEnd, Install: true, In: "event.reason=cause event.sessionFile=session.transcript",
		Wait: 2 * time.Second, Budget: 1500 * time.Millisecond, // for all sessions together, when the gateway stops
	},
	{Native: "before_reset", Kind: grapnel.NativePrefix + "openclaw.before_reset", In: "event.reason=cause", Why: "session_end follows"},
	{Native: "before_compaction", Kind: grapnel.CompactBefore, Install: true, In: "event.sessionFile=session.transcript"},
	{Native: "after_compaction", Kind: grapnel.CompactAfter, Install: true, In: "event.sessionFile=session.transcript"},
	{Native: "inbound_claim", Kind: grapnel.NativePrefix + "openclaw.inbound_claim", Why: "message_received reports the same message"},
	{Native: "before_dispatch", Kind: grapnel.NativePrefix + "openclaw.before_dispatch", Why: "message_received reports the same message"},
	{Native: "reply_dispatch", Kind: grapnel.NativePrefix + "openclaw.reply_dispatch", Why: openclawChore},
	{
		Native: "message_received", Kind: grapnel.MessageReceived, Install: true,
		In: "event.messageId=message.id event.content=message.content ctx.channelId=message.channel event.from=session.user " +
			"event.senderId=message.sender ctx.senderId=message.sender event.from=message.sender",
	},
	{
		Native: "message_sending", Kind: grapnel.MessageBefore, Install: true, Closed: true,
		In: "event.content=message.content ctx.channelId=message.channel", Out: "cancel=block:true cancelReason=reason content=content",
		Wait: 15 * time.Second, Budget: openclawBudget,
	},
	{
		Native: "reply_payload_sending", Kind: grapnel.ResponseBefore,
		In: "event.payload=model.response", Out: "cancel=block:true reason=reason payload=response",
		Why: "message_sending reports every outgoing message", Budget: openclawBudget,
	},
	{
		Native: "message_sent", Kind: grapnel.MessageSent, Install: true,
		In: "event.messageId=message.id event.content=message.content ctx.channelId=message.channel event.error=cause",
	},
	{
		Native: "channel_pairing_requested", Kind: grapnel.NativePrefix + "openclaw.channel_pairing_requested",
		Why: "contains an access code",
	},
	{Native: "subagent_spawned", Kind: grapnel.SubagentStart, Install: true, In: "event.childSessionKey=subagent.id event.agentId=subagent.type"},
	{Native: "subagent_progress", Kind: grapnel.NativePrefix + "openclaw.subagent_progress", Why: "subagent_spawned and subagent_ended report the same"},
	{
		Native: "subagent_ended", Kind: grapnel.SubagentAfter, Install: true,
		In: "event.targetSessionKey=subagent.id event.targetKind=subagent.type event.reason=cause",
	},
	{Native: "subagent_delivery_target", Kind: grapnel.NativePrefix + "openclaw.subagent_delivery_target", Why: openclawChore},
	{Native: "gateway_start", Kind: grapnel.GatewayStart, Install: true},
	{Native: "gateway_stop", Kind: grapnel.GatewayStop, Install: true, In: "event.reason=cause", Wait: 5 * time.Second, Budget: 4 * time.Second},
	{Native: "cron_reconciled", Kind: grapnel.NativePrefix + "openclaw.cron_reconciled", Why: openclawChore},
	{Native: "cron_changed", Kind: grapnel.NativePrefix + "openclaw.cron_changed", In: "event.action=cause", Why: openclawChore},
	{
		// This installs skills and plugins: third-party code in the gateway (documented).
		Native: "before_install", Kind: grapnel.ConfigBefore, Install: true, Closed: true,
		In: "event.targetType=config.source event.sourcePath=config.file", Out: "block=block:true blockReason=reason",
		Wait: 15 * time.Second, Budget: openclawBudget,
	},
	{Native: "skill_proposal_evaluate", Kind: grapnel.NativePrefix + "openclaw.skill_proposal_evaluate", Why: openclawChore},
	{Native: "skill_proposal_changed", Kind: grapnel.NativePrefix + "openclaw.skill_proposal_changed", Why: openclawChore},
	{Native: "skill_changed", Kind: grapnel.NativePrefix + "openclaw.skill_changed", Why: openclawChore},
}

// openclawTools lists the tools that matter for rules.
var openclawTools = []ToolRow{
	{Native: "exec", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}, {Field: grapnel.FieldPath, At: "/workdir", Use: grapnel.UseRead}}},
	{Native: "process", Class: grapnel.ClassOther},
	{Native: "read", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}},
	{Native: "write", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "edit", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/newText"}, {Field: grapnel.FieldContent, At: "/edits/*/newText"}}},
	{Native: "apply_patch", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/input", Use: grapnel.UseWrite, Form: seam.FormPatch}, {Field: grapnel.FieldContent, At: "/input"}}},
	{Native: "ls", Like: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "grep", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "find", Like: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "web_fetch", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
	{Native: "web_search", Like: "WebSearch", Class: grapnel.ClassFetch},
	{Native: "browser", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}, {Field: grapnel.FieldURL, At: "/targetUrl"}}},
	{Native: "sessions_spawn", Like: "Agent", Class: grapnel.ClassTask},
	{Native: openclawWrapper, Class: grapnel.ClassOther},
}

// openclawWrapper is the tool through which the model calls a tool from a large catalog. The
// wrapper call fires the hooks, and then the inner call fires them again with the real name and
// parameters (seen live).
const openclawWrapper = "tool_call"

func adaptOpenClaw(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error {
	event := split(top["event"])
	switch {
	case ev.Tool != nil && ev.Tool.Name == openclawWrapper:
		ev.Kind, terms(ev).Can = grapnel.NativePrefix+"openclaw."+openclawWrapper, &grapnel.Can{}
	case row.Native == "after_tool_call":
		ev.Tool.Failed = text(event["error"]) != ""
	case row.Native == "agent_end" && string(event["success"]) == "false":
		ev.Kind = row.Failed
	}
	return nil
}

// approvalLimit is the maximum length of the text of a question.
const approvalLimit = 500

func finishOpenClaw(_ *EventRow, _ *grapnel.Event, t *supportedVerdict, out *members) {
	if t.ask && len(t.reason) > approvalLimit {
		out.put("requireApproval.description", rawjson.Quote(string(clip([]byte(t.reason), approvalLimit))))
	}
}
