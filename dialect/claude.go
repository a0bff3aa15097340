package dialect

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

const (
	claudeName   = "claude-code"
	claudePrefix = grapnel.NativePrefix + claudeName + "."
)

// ClaudeCode returns the dialect of Claude Code.
func ClaudeCode() *Dialect { return claudeCode.clone() }

// claudeCode is the dialect of Claude Code: one JSON object on stdin, and one or nothing on stdout.
// "Seen live" below means version 2.1.329.
//
// The exit code is 0, because Claude Code shows a hook error for any other code. The exceptions are
// the two events that accept a block only by exit code. stdout holds only the object: one stray
// line makes Claude Code treat all of stdout as plain text, and a deny is lost (seen live).
var claudeCode = &Dialect{
	Name:         claudeName,
	Title:        "Claude Code",
	Aliases:      []string{"claude"},
	Events:       claudeEvents,
	Tools:        claudeTools,
	Speaks:       speaksClaude,
	ReadEvent:    readClaude,
	WriteVerdict: writeClaude,
	WriteEvent:   writeClaudeEvent,
	ReadOutcome:  readClaudeOutcome,
	HookEnv:      claudeHookEnv,
	transcripts:  ".claude",
	setup:        &claudeSetup,
}

var claudeSetup = Setup{
	Processes: []string{"claude", "claude/versions", "@anthropic-ai/claude-code", "@anthropic-ai/claude-agent-sdk"},
	Program:   "claude", User: ".claude/settings.json", Project: ".claude/settings.json", MovedBy: "CLAUDE_CONFIG_DIR", Moves: ".claude",
	Unattended: "CLAUDE_CODE_ENTRYPOINT=sdk-",
	Managed: [3]string{
		"/etc/claude-code/managed-settings.json", "/Library/Application Support/ClaudeCode/managed-settings.json", "C:/Program Files/ClaudeCode/managed-settings.json",
	},
	Related: []string{".claude/settings.local.json"}, Sessions: ".claude/projects",
	Shape: ShapeGroups, Entry: `{"type": "command", "command": $command, "timeout": $timeout, "onFailure": $closed("block")}`, Unit: time.Second, AskTimeout: askTimeout,
	Anonymous:   true, // Cursor also runs the hooks in this file
	ClosedSince: "2.1.295", StrictBefore: "2.1.101",
	Off: []Switch{
		{Path: "disableAllHooks", Is: "true", Effect: "keeps Claude Code from running hooks; set it to false", SparesManaged: true},
		{File: ".claude/settings.local.json", Path: "disableAllHooks", Is: "true", Effect: "keeps Claude Code from running hooks; set it to false", SparesManaged: true},
		{Path: "allowManagedHooksOnly", Is: "true", Effect: "keeps Claude Code from running the hooks of users and projects, if it takes effect; ask its administrator"},
		{File: "/etc/claude-code/managed-settings.json", Path: "allowManagedHooksOnly", Is: "true", Effect: "keeps Claude Code from running the hooks of users and projects; ask its administrator"},
		{Path: "env.LD_PRELOAD", Effect: loadsCode},
		{Path: "env.LD_AUDIT", Effect: loadsCode},
		{Path: "env.LD_LIBRARY_PATH", Effect: loadsCode},
		{Path: "env.DYLD_INSERT_LIBRARIES", Effect: loadsCode},
		{Path: "env.DYLD_LIBRARY_PATH", Effect: loadsCode},
		{Path: "env.BASH_ENV", Effect: loadsCode},
		{Path: "env.ENV", Effect: loadsCode},
		{Path: "env.GOMAXPROCS", Effect: loadsCode},
		{Path: "env.GOMEMLIMIT", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.LD_PRELOAD", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.LD_AUDIT", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.LD_LIBRARY_PATH", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.DYLD_INSERT_LIBRARIES", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.DYLD_LIBRARY_PATH", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.BASH_ENV", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.ENV", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.GOMAXPROCS", Effect: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.GOMEMLIMIT", Effect: loadsCode},
	},
	// Seen live, except the line about @, which is documented.
	Undone: "hooks run in parallel: if another hook changes the same input or output, the last one to end wins, and PermissionRequest uses the first answer; a block by Grapnel before a call always holds",
	Unseen: []string{
		"a run with --bare or --safe-mode, which starts no hooks of settings",
		"files that a prompt names with @: Claude Code reads them without a tool call",
		"a call of an unknown tool, or with invalid input: only PostToolBatch reports it",
	},
}

// loadsCode describes a variable that makes the hook program, or the shell that starts it, load
// code chosen by the variable's author. Claude Code passes the env member of its settings to hooks,
// including env from project settings.
const loadsCode = "reaches the hook of Claude Code and can change its behavior; remove it"

// claudeEvents lists all events of 2.1.329, in the order of a session.
//
// Halt is set where ending the turn was seen to work or is documented. systemMessage is part of
// every JSON answer.
//
// Since is the first version whose program text lists the event as valid (2.0.0 to 2.1.332 were
// searched), or an older version of the changelog.
var claudeEvents = []EventRow{
	{
		Native: "SessionStart", Kind: grapnel.SessionStart, Install: true, Since: "1.0.62",
		Can: grapnel.Can{Context: true, Message: true}, // continue:false has no effect here (seen live)
	},
	{
		Native: "Setup", Kind: claudePrefix + "Setup", Install: true, Since: "2.1.10",
		Can:      grapnel.Can{Context: true, Message: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "Setup", Context: true, FailOpen: true, Stdout: "context"},
	},
	{
		Native: "InstructionsLoaded", Kind: claudePrefix + "InstructionsLoaded", Since: "2.1.64",
		Can: grapnel.Can{Message: true},
		Why: "fires for every instruction file of every session and takes no answer",
	},
	{
		Native: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Since: "1.0.54", Closed: true,
		// Hooks cannot edit the prompt: a rewrite becomes a block that shows it.
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true},
	},
	{
		// Fires after UserPromptSubmit, for the same prompt, if the prompt begins with a command.
		// Cause is the kind of expansion.
		Native: "UserPromptExpansion", Kind: grapnel.PromptBefore, Install: true, Since: "2.1.116",
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true},
	},
	{
		// Only the displayed text (and the result of -p) can be changed. The event has no block, so
		// a Block shows its reason instead of the text, which has the effect of a blocked response
		// for the user. The model's history keeps the text.
		Native: "MessageDisplay", Kind: grapnel.ResponseBefore, Since: "2.1.152",
		Can: grapnel.Can{Block: true, Message: true, Change: []grapnel.Field{grapnel.FieldResponse}},
		Why: "would start a process for every message that is shown",
	},
	{
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Since: "1.0.38", Closed: true,
		Can: grapnel.Can{Block: true, Ask: true, Allow: true, Halt: true, Context: true, Message: true, Change: []grapnel.Field{grapnel.FieldInput}},
	},
	{
		// An empty answer asks, because Claude Code is about to show the prompt. interrupt ends the
		// turn. A new input requires an allow; without one it becomes a deny that suggests the
		// input.
		Native: "PermissionRequest", Kind: grapnel.PermissionBefore, Install: true, Since: "2.0.45", Closed: true,
		Can: grapnel.Can{Block: true, Ask: true, Allow: true, Halt: true, Message: true, Change: []grapnel.Field{grapnel.FieldInput}, Beside: grapnel.Allow},
	},
	{
		Native: "PermissionDenied", Kind: grapnel.PermissionDenied, Install: true, Since: "2.1.88",
		Can: grapnel.Can{Message: true},
	},
	{
		Native: "PostToolUse", Kind: grapnel.ToolAfter, Install: true, Since: "1.0.38",
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true, Change: []grapnel.Field{grapnel.FieldOutput}},
	},
	{
		// Neither decision nor exit 2 is needed. The feedback is sent as context, because exit 2
		// would show the hook's command line to the model.
		Native: "PostToolUseFailure", Kind: grapnel.ToolFailed, Install: true, Since: "2.0.56",
		Can: grapnel.Can{Block: true, Keeps: true, Halt: true, Context: true, Message: true},
	},
	{
		Native: "PostToolBatch", Kind: grapnel.ToolBatchAfter, Install: true, Since: "2.1.118",
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true}, // a block ends the turn (seen live)
	},
	{
		Native: "Notification", Kind: grapnel.NotificationSent, Install: true, Since: "1.0.38",
		Can: grapnel.Can{Message: true},
	},
	{
		// A sub-agent starts regardless of the hook's answer: exit code, decision, continue and
		// permission have no effect (seen live). The tool Agent can be blocked.
		Native: "SubagentStart", Kind: grapnel.SubagentStart, Install: true, Since: "2.0.43",
		Can: grapnel.Can{Context: true, Message: true},
	},
	{
		// Context makes a sub-agent continue exactly like a block, so Grapnel does not send it: a
		// hook that only adds context must not keep an agent from stopping.
		Native: "SubagentStop", Kind: grapnel.SubagentAfter, Install: true, Since: "1.0.41",
		Can: grapnel.Can{Block: true, Halt: true, Message: true},
	},
	{
		Native: "Stop", Kind: grapnel.AgentAfter, Install: true, Since: "1.0.38",
		Can: grapnel.Can{Block: true, Halt: true, Message: true}, // context: see SubagentStop
	},
	{
		Native: "StopFailure", Kind: grapnel.AgentFailed, Install: true, Since: "2.1.78",
		Can: grapnel.Can{Message: true},
	},
	{
		Native: "TaskCreated", Kind: grapnel.TaskBefore, Install: true, Since: "2.1.84",
		Can: grapnel.Can{Block: true, Halt: true, Message: true},
	},
	{
		// A block is exit code 2 with the reason on stderr. This event ignores a decision in JSON.
		Native: "TaskCompleted", Kind: grapnel.TaskAfter, Install: true, Since: "2.1.33",
		Can: grapnel.Can{Block: true, Halt: true, Message: true},
	},
	{
		// A block makes the teammate continue; exit code 2, as for TaskCompleted. Documented, never
		// seen live.
		Native: "TeammateIdle", Kind: claudePrefix + "TeammateIdle", Install: true, Since: "2.1.33",
		Can:      grapnel.Can{Block: true, Halt: true, Message: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "TeammateIdle", Blocks: grapnel.BlockingStop, FailOpen: true, MaxStops: grapnel.MaxStops},
	},
	{
		Native: "PreCompact", Kind: grapnel.CompactBefore, Install: true, Since: "1.0.48",
		Can: grapnel.Can{Block: true, Message: true},
	},
	{
		Native: "PostCompact", Kind: grapnel.CompactAfter, Install: true, Since: "2.1.76",
		Can: grapnel.Can{Message: true},
	},
	{
		Native: "PreModelSwitch", Kind: claudePrefix + "PreModelSwitch", Install: true, Since: "2.1.251",
		Can:      grapnel.Can{Block: true, Ask: true, Allow: true, Message: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "PreModelSwitch", Blocks: grapnel.BlockingAction, Permit: true},
	},
	{
		Native: "PostModelSwitch", Kind: claudePrefix + "PostModelSwitch", Install: true, Since: "2.1.251",
		Can:      grapnel.Can{Context: true, Message: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "PostModelSwitch", Context: true, FailOpen: true, Stdout: "context"},
	},
	{
		// A change of managed settings cannot be blocked; readClaude clears Block for it.
		Native: "ConfigChange", Kind: grapnel.ConfigBefore, Install: true, Since: "2.1.48",
		Can: grapnel.Can{Block: true, Message: true},
	},
	{
		Native: "CwdChanged", Kind: claudePrefix + "CwdChanged", Install: true, Since: "2.1.83",
		Can: grapnel.Can{Message: true},
	},
	{
		Native: "FileChanged", Kind: claudePrefix + "FileChanged", Since: "2.1.83",
		Can: grapnel.Can{Message: true},
		Why: "its matcher is the list of files to watch, and a general entry has none",
	},
	{
		Native: "DirectoryAdded", Kind: claudePrefix + "DirectoryAdded", Install: true, Since: "2.1.219",
		Can: grapnel.Can{Message: true},
	},
	{
		// A hook of this event replaces git: the last line of stdout is the path of the new
		// worktree, any nonzero exit code is a failure, and without a path the session ends (seen
		// live). A hook cannot have no opinion. Grapnel's default reply is empty, as for every
		// event; users that add this event must answer with the native member worktreePath.
		Native: "WorktreeCreate", Kind: claudePrefix + "WorktreeCreate", Never: true, Since: "2.1.50",
		Can:      grapnel.Can{Block: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "WorktreeCreate", Blocks: grapnel.BlockingAction},
		Why:      "an entry replaces the agent's own git work, and without a path from it the session ends",
	},
	{
		Native: "WorktreeRemove", Kind: claudePrefix + "WorktreeRemove", Install: true, Since: "2.1.50",
		Can: grapnel.Can{Message: true},
	},
	{
		// The answer has no member for a reason: a block declines, and the message shows the user
		// why.
		Native: "Elicitation", Kind: grapnel.ElicitationBefore, Install: true, Since: "2.1.63",
		Can: grapnel.Can{Block: true, Message: true, Change: []grapnel.Field{grapnel.FieldAnswer}},
	},
	{
		// The user has answered, but the server has not received the answer yet.
		Native: "ElicitationResult", Kind: claudePrefix + "ElicitationResult", Install: true, Since: "2.1.63",
		Can: grapnel.Can{Block: true, Message: true, Change: []grapnel.Field{grapnel.FieldAnswer}},
		Contract: &grapnel.Contract{
			Kind: claudePrefix + "ElicitationResult", Blocks: grapnel.BlockingAction, Changes: []grapnel.Change{{Field: grapnel.FieldAnswer}},
		},
	},
	{
		Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true, Since: "1.0.85",
		Wait: 3 * time.Second, Budget: 2500 * time.Millisecond, // the user waits for the shell prompt
		Can: grapnel.Can{Message: true},
	},
}

// claudeTools lists the built-in tools that matter for rules, and older names that still occur.
// Network access is fetch, including web searches; search means searching files. task is work for
// another agent or on the task list.
var claudeTools = []ToolRow{
	{Native: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "PowerShell", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "Monitor", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "BashOutput", Class: grapnel.ClassOther}, // reads output of a Bash command
	{Native: "KillShell", Class: grapnel.ClassOther},
	{Native: "KillBash", Class: grapnel.ClassOther},
	{Native: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}},
	{Native: "NotebookRead", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/notebook_path", Use: grapnel.UseRead}}},
	{Native: "LSP", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/filePath", Use: grapnel.UseRead}}},
	{Native: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_string"}}},
	{Native: "MultiEdit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/edits/*/new_string"}}},
	{Native: "NotebookEdit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/notebook_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_source"}}},
	{Native: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
	{Native: "WebSearch", Class: grapnel.ClassFetch},
	{Native: "ListMcpResourcesTool", Class: grapnel.ClassMCP},
	{Native: "ReadMcpResourceTool", Class: grapnel.ClassMCP, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/uri"}}},
	{Native: "Agent", Class: grapnel.ClassTask},
	{Native: "Task", Class: grapnel.ClassTask, Like: "Agent"},
	{Native: "SendMessage", Class: grapnel.ClassTask},
	{Native: "TaskCreate", Class: grapnel.ClassTask},
	{Native: "TaskUpdate", Class: grapnel.ClassTask},
	{Native: "TaskGet", Class: grapnel.ClassTask},
	{Native: "TaskList", Class: grapnel.ClassTask},
	{Native: "TaskOutput", Class: grapnel.ClassTask},
	{Native: "TaskStop", Class: grapnel.ClassTask},
	{Native: "TodoWrite", Class: grapnel.ClassTask},
	{Native: "TodoRead", Class: grapnel.ClassTask},
	{Native: "Skill", Class: grapnel.ClassOther},
	{Native: "SlashCommand", Class: grapnel.ClassOther}, // its command is not a shell line
	{Native: "ToolSearch", Class: grapnel.ClassOther},
	{Native: "AskUserQuestion", Class: grapnel.ClassOther},
	{Native: "EnterPlanMode", Class: grapnel.ClassOther},
	{Native: "ExitPlanMode", Class: grapnel.ClassOther},
	{Native: "EnterWorktree", Class: grapnel.ClassOther, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}}},
	{Native: "ExitWorktree", Class: grapnel.ClassOther},
	{Native: "CronCreate", Class: grapnel.ClassOther},
	{Native: "CronDelete", Class: grapnel.ClassOther},
	{Native: "CronList", Class: grapnel.ClassOther},
}

// speaksClaude distinguishes Claude Code from agents that load its hooks (Cursor, Copilot, Droid)
// or copied its payload (Codex, Qwen Code). Those agents differ by a timestamp, members of their
// own, and the directory of the transcript.
func speaksClaude(top map[string]json.RawMessage) bool {
	native := text(top["hook_event_name"])
	known := rowNamed(claudeEvents, native) != nil
	switch home := transcriptHome(top); {
	case native == "", foreign(top):
		return false
	case home == ".claude":
		return true // includes events of newer versions
	case home != "", top["timestamp"] != nil, top["turn_id"] != nil && native != "MessageDisplay":
		return false
	case rowNamed(geminiEvents, native) != nil:
		// Both agents have this event name. Claude Code names the transcript after the session,
		// wherever CLAUDE_CONFIG_DIR put it.
		id := text(top["session_id"])
		return known && id != "" && strings.HasSuffix(slashed(text(top["transcript_path"])), "/"+id+".jsonl")
	default:
		return known
	}
}

// foreign reports whether the payload has members that neither Claude Code nor Gemini CLI ever
// sends.
func foreign(top map[string]json.RawMessage) bool {
	for _, mark := range []string{"cursor_version", "generation_id", "hookName", "hookEventName", "sessionId"} {
		if top[mark] != nil {
			return true
		}
	}
	return false
}

func readClaude(row *EventRow, top map[string]json.RawMessage, _ Input) (*grapnel.Event, error) {
	ev := &grapnel.Event{Session: grapnel.Session{
		ID:         text(top["session_id"]),
		CWD:        text(top["cwd"]),
		Transcript: text(top["transcript_path"]),
		Model:      text(top["model"]),
		Mode:       text(top["permission_mode"]),
		Turn:       text(top["prompt_id"]),
	}}
	// agent_type without agent_id describes how the main agent was started (--agent), not a
	// sub-agent.
	if id := text(top["agent_id"]); id != "" {
		ev.Session.Subagent = &grapnel.Subagent{ID: id, Type: text(top["agent_type"]), Transcript: text(top["agent_transcript_path"])}
	}
	if row == nil {
		return ev, nil
	}
	var err error
	switch row.Native {
	case "SessionStart", "DirectoryAdded":
		ev.Cause = text(top["source"])
	case "Setup":
		ev.Cause = text(top["trigger"])
	case "InstructionsLoaded":
		ev.Cause = text(top["load_reason"])
	case "SessionEnd":
		ev.Cause = text(top["reason"])
	case "FileChanged":
		ev.Cause = text(top["event"])
	case "UserPromptSubmit", "UserPromptExpansion":
		ev.Cause = text(top["source"])
		if kind := text(top["expansion_type"]); kind != "" {
			ev.Cause = kind
		}
		ev.Prompt = &grapnel.Prompt{}
		ev.Prompt.Text, err = wantText(top, "prompt")
	case "MessageDisplay":
		_, err = wantText(top, "delta")
		ev.Model = &grapnel.Model{Response: present(top["delta"])}
	case "PreToolUse", "PermissionRequest":
		ev.Tool, err = readClaudeTool(top)
	case "PermissionDenied":
		ev.Cause = text(top["reason"])
		ev.Tool, err = readClaudeTool(top)
	case "PostToolUse":
		if ev.Tool, err = readClaudeTool(top); err == nil {
			ev.Tool.Output = present(top["tool_response"])
		}
	case "PostToolUseFailure":
		if flag(top["is_interrupt"]) {
			ev.Cause = "interrupt"
		}
		if ev.Tool, err = readClaudeTool(top); err == nil {
			ev.Tool.Output, ev.Tool.Failed = present(top["error"]), true
		}
	case "PostToolBatch":
		ev.Calls, err = readCalls(present(top["tool_calls"]), readClaudeTool)
	case "Notification":
		ev.Notification = &grapnel.Notification{Type: text(top["notification_type"]), Title: text(top["title"]), Message: text(top["message"])}
	case "SubagentStart":
	case "Stop", "SubagentStop":
		ev.Stop = &grapnel.Stop{Active: flag(top["stop_hook_active"]), LastMessage: text(top["last_assistant_message"])}
	case "StopFailure":
		ev.Cause = text(top["error"])
		ev.Stop = &grapnel.Stop{LastMessage: text(top["last_assistant_message"])}
	case "TaskCreated", "TaskCompleted":
		ev.Task = &grapnel.Task{ID: text(top["task_id"]), Subject: text(top["task_subject"]), Description: text(top["task_description"])}
	case "PreCompact":
		ev.Cause = text(top["trigger"])
		ev.Compact = &grapnel.Compact{Instructions: text(top["custom_instructions"])}
	case "PostCompact":
		ev.Cause = text(top["trigger"])
		ev.Compact = &grapnel.Compact{Summary: text(top["compact_summary"])}
	case "PreModelSwitch", "PostModelSwitch":
		ev.Cause = text(top["source"])
		ev.Session.Model = text(top["from_model"])
		if row.Native == "PostModelSwitch" {
			ev.Session.Model = text(top["to_model"])
		}
	case "ConfigChange":
		ev.Config = &grapnel.Config{Source: text(top["source"]), File: text(top["file_path"])}
		if ev.Config.Source == "policy_settings" {
			terms(ev).Can = &grapnel.Can{Message: true} // the agent applies these settings regardless of the hook's answer
		}
	case "Elicitation", "ElicitationResult":
		ev.Elicitation = &grapnel.Elicitation{
			Server: text(top["mcp_server_name"]), Message: text(top["message"]), Schema: present(top["requested_schema"]),
		}
		if action := text(top["action"]); action != "" {
			ev.Elicitation.Answer, err = json.Marshal(elicitationAnswer{action, present(top["content"])})
		}
	}
	if err != nil {
		return nil, err
	}
	return ev, nil
}

// elicitationAnswer is the shape of Elicitation.Answer.
type elicitationAnswer struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
}

func readClaudeTool(call map[string]json.RawMessage) (*grapnel.Tool, error) {
	return readTool(claudeTools, call, claudeMCP(text(call["tool_name"]), text(split(call["mcp_server"])["name"])))
}

// claudeMCP splits mcp__server__tool. If the payload has the server's own name, that name decides
// where the server part ends, because both parts may contain "__".
func claudeMCP(name, server string) *grapnel.MCP {
	name, ok := strings.CutPrefix(name, "mcp__")
	if !ok {
		return nil
	}
	if server != "" {
		spelled := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
				return r
			default:
				return '_'
			}
		}, server)
		if tool, ok := strings.CutPrefix(name, spelled+"__"); ok {
			return &grapnel.MCP{Server: server, Tool: tool}
		}
	}
	server, tool, _ := strings.Cut(name, "__")
	return &grapnel.MCP{Server: server, Tool: tool}
}

// claudeReply has every member that Grapnel writes. Claude Code ignores unknown members but drops
// the whole object if one member has the wrong type, so native members are pointers to the required
// types.
type claudeReply struct {
	Continue         *bool          `json:"continue,omitempty"`
	StopReason       string         `json:"stopReason,omitempty"`
	SuppressOutput   *bool          `json:"suppressOutput,omitempty"`
	TerminalSequence *string        `json:"terminalSequence,omitempty"`
	SystemMessage    string         `json:"systemMessage,omitempty"`
	Decision         string         `json:"decision,omitempty"`
	Reason           string         `json:"reason,omitempty"`
	Specific         claudeSpecific `json:"hookSpecificOutput,omitzero"`
}

type claudeSpecific struct {
	HookEventName            string            `json:"hookEventName"` // if missing or different, the whole answer is void
	PermissionDecision       string            `json:"permissionDecision,omitempty"`
	PermissionDecisionReason string            `json:"permissionDecisionReason,omitempty"`
	Decision                 *claudePermission `json:"decision,omitempty"`
	UpdatedInput             json.RawMessage   `json:"updatedInput,omitempty"`
	UpdatedToolOutput        json.RawMessage   `json:"updatedToolOutput,omitempty"`
	UpdatedMCPToolOutput     json.RawMessage   `json:"updatedMCPToolOutput,omitempty"`
	DisplayContent           *string           `json:"displayContent,omitempty"`
	Action                   string            `json:"action,omitempty"`
	Content                  json.RawMessage   `json:"content,omitempty"`
	AdditionalContext        string            `json:"additionalContext,omitempty"`

	// Native members: Outcome.Native has them as claude-code.<name>.
	InitialUserMessage     *string   `json:"initialUserMessage,omitempty"`
	SessionTitle           *string   `json:"sessionTitle,omitempty"`
	WatchPaths             *[]string `json:"watchPaths,omitempty"`
	ReloadSkills           *bool     `json:"reloadSkills,omitempty"`
	SuppressOriginalPrompt *bool     `json:"suppressOriginalPrompt,omitempty"`
	ClassifierContext      *string   `json:"classifierContext,omitempty"`
	Retry                  *bool     `json:"retry,omitempty"`
}

// claudePermission is the answer to a PermissionRequest.
type claudePermission struct {
	Behavior           string             `json:"behavior"`
	Message            string             `json:"message,omitempty"`
	Interrupt          bool               `json:"interrupt,omitempty"`
	UpdatedInput       json.RawMessage    `json:"updatedInput,omitempty"`
	UpdatedPermissions *[]json.RawMessage `json:"updatedPermissions,omitempty"` // native
}

func writeClaude(row *EventRow, ev *grapnel.Event, v *grapnel.Verdict) Reply {
	if row == nil {
		return writeClaudeBlind(ev, v)
	}
	t := supportedOf(row, ev, v)
	var out claudeReply
	s := &out.Specific
	byExit := false
	s.AdditionalContext = t.context
	if t.halt != "" {
		out.Continue, out.StopReason = no, t.halt
	}
	switch row.Native {
	case "WorktreeCreate":
		return writeClaudeWorktree(&t, v)
	case "SessionStart":
		s.InitialUserMessage = member[string](v, claudeName, "initialUserMessage")
		s.SessionTitle = member[string](v, claudeName, "sessionTitle")
		s.WatchPaths = member[[]string](v, claudeName, "watchPaths")
		s.ReloadSkills = member[bool](v, claudeName, "reloadSkills")
	case "CwdChanged", "FileChanged":
		s.WatchPaths = member[[]string](v, claudeName, "watchPaths")
	case "MessageDisplay":
		s.DisplayContent = claudeDisplay(&t)
	case "PreToolUse", "PreModelSwitch":
		writeClaudeDecision(s, row, v, &t)
		if more := member[string](v, claudeName, "additionalContext"); more != nil && s.AdditionalContext == "" && row.Native == "PreToolUse" {
			s.AdditionalContext = *more // from a Claude Code hook; other agents support no context before a call
		}
	case "PermissionRequest":
		out.Continue, out.StopReason = nil, "" // interrupt replaces it
		s.Decision = claudePermissionOf(v, &t)
	case "PermissionDenied":
		s.Retry = member[bool](v, claudeName, "retry")
	case "PostToolUse":
		if t.block {
			out.Decision, out.Reason = "block", t.reason
		}
		writeClaudeOutput(s, ev, &t)
		s.ClassifierContext = member[string](v, claudeName, "classifierContext")
	case "PostToolUseFailure":
		if t.block {
			s.AdditionalContext = strings.TrimSuffix(t.reason+"\n"+t.context, "\n")
		}
	case "TaskCompleted", "TeammateIdle":
		byExit = t.block
	case "Elicitation", "ElicitationResult":
		writeClaudeAnswer(s, &t)
	default:
		if t.block {
			out.Decision, out.Reason = "block", t.reason
		}
		if row.Kind == grapnel.PromptBefore {
			s.SuppressOriginalPrompt = member[bool](v, claudeName, "suppressOriginalPrompt")
		}
		if row.Native == "UserPromptSubmit" {
			s.SessionTitle = member[string](v, claudeName, "sessionTitle")
		}
	}
	out.SystemMessage = t.message
	out.SuppressOutput = member[bool](v, claudeName, "suppressOutput")
	out.TerminalSequence = member[string](v, claudeName, "terminalSequence")
	if !reflect.ValueOf(*s).IsZero() {
		s.HookEventName = row.Native
	}
	reply := jsonReply(out)
	if byExit {
		reply.Exit, reply.Stderr = 2, []byte(t.reason+"\n")
	}
	return reply
}

// writeClaudeDecision answers with permissionDecision. continue:false alone would let the tool run
// and end the turn afterwards (seen live), so a halt is also a deny.
func writeClaudeDecision(s *claudeSpecific, row *EventRow, v *grapnel.Verdict, t *supportedVerdict) {
	switch deferred := member[string](v, claudeName, "permissionDecision"); {
	case t.block:
		s.PermissionDecision = "deny"
	case row.Native == "PreToolUse" && deferred != nil && *deferred == "defer": // stricter than ask
		s.PermissionDecision = "defer"
	case t.ask:
		s.PermissionDecision = "ask"
	case t.allow:
		s.PermissionDecision = "allow"
	}
	if s.PermissionDecision != "" {
		s.PermissionDecisionReason = t.reason
	}
	if input := t.change(grapnel.FieldInput); input != nil && !t.block {
		s.UpdatedInput = input // replaces the whole input and needs no decision; a string would void the answer (seen live)
	}
}

func claudePermissionOf(v *grapnel.Verdict, t *supportedVerdict) *claudePermission {
	input := t.change(grapnel.FieldInput)
	switch {
	case t.block:
		return &claudePermission{Behavior: "deny", Message: t.reason, Interrupt: t.halt != ""}
	case t.allow:
		p := &claudePermission{Behavior: "allow", UpdatedPermissions: member[[]json.RawMessage](v, claudeName, "updatedPermissions")}
		if input != nil {
			p.UpdatedInput = input
		}
		return p
	case t.ask && t.reason != "":
		t.warn(t.reason) // the prompt is shown anyway, so the message gives the reason
	}
	return nil
}

// shorten cuts a suggestion to a length that is useful for a model.
func shorten(raw json.RawMessage) string {
	const limit = 2000
	if len(raw) <= limit {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:limit]), "") + "…"
}

func claudeDisplay(t *supportedVerdict) *string {
	if t.block {
		return &t.reason
	}
	response := t.change(grapnel.FieldResponse)
	if response == nil {
		return nil
	}
	shown, ok := rawjson.Unquote(response)
	if !ok {
		shown = string(response)
	}
	return &shown
}

// writeClaudeOutput replaces a tool's output. Claude Code silently ignores an output with another
// shape than the tool's own (seen live), so in that case Grapnel warns the user instead.
func writeClaudeOutput(s *claudeSpecific, ev *grapnel.Event, t *supportedVerdict) {
	output := t.change(grapnel.FieldOutput)
	if output == nil || ev.Tool == nil {
		return
	}
	if ev.Tool.MCP != nil {
		if output[0] == '"' { // the content of an MCP result is a list of parts
			output = fmt.Appendf(nil, `[{"type":"text","text":%s}]`, output)
		}
		s.UpdatedMCPToolOutput = output
		return
	}
	if !sameShape(ev.Tool.Output, output) {
		t.warn(fmt.Sprintf("grapnel: tool.output was not changed: Claude Code accepts no output of another shape from %s", ev.Tool.Name))
		return
	}
	s.UpdatedToolOutput = output
}

// sameShape reports whether b has the type of a and, if a is an object, all members of a with the
// same types.
func sameShape(a, b json.RawMessage) bool {
	if kindOf(a) != kindOf(b) {
		return false
	}
	has := split(b)
	for name, value := range split(a) {
		if kindOf(value) != kindOf(has[name]) {
			return false
		}
	}
	return true
}

func writeClaudeAnswer(s *claudeSpecific, t *supportedVerdict) {
	if t.block {
		s.Action = "decline"
		t.warn(t.reason)
		return
	}
	raw := t.change(grapnel.FieldAnswer)
	if raw == nil {
		return
	}
	answer := split(raw)
	switch action := text(answer["action"]); action {
	case "accept", "decline", "cancel":
		s.Action = action
		if content := present(answer["content"]); rawjson.IsObject(content) {
			s.Content = content
		}
	default:
		t.warn(fmt.Sprintf("grapnel: the answer %s was not sent: its action must be accept, decline or cancel", shorten(raw)))
	}
}

// writeClaudeWorktree answers WorktreeCreate, the only event with a plain text answer.
func writeClaudeWorktree(t *supportedVerdict, v *grapnel.Verdict) Reply {
	if t.block {
		return Reply{Exit: 2, Stderr: []byte(t.reason + "\n")}
	}
	if path := member[string](v, claudeName, "worktreePath"); path != nil && *path != "" {
		return Reply{Stdout: []byte(*path + "\n")}
	}
	return Reply{}
}

// writeClaudeBlind answers an event without a readable name. The answer blocks every event
// that can be blocked: decision is the old member to deny a tool and the member to block a prompt,
// and continue:false keeps Stop from treating the block as "continue". Verdicts other than a block
// get an empty reply, because their meaning for an unknown event is uncertain.
func writeClaudeBlind(ev *grapnel.Event, v *grapnel.Verdict) Reply {
	if ev.Kind != "" || v.Decision != grapnel.Block {
		return Reply{}
	}
	reason := v.Reason()
	return jsonReply(claudeReply{Continue: no, StopReason: reason, Decision: "block", Reason: reason})
}
