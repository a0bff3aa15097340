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

// claudeCode is the language of Claude Code: one JSON object on stdin, one on
// stdout or nothing. "Seen live" below means version 2.1.329.
//
// The exit code is 0, because on any other one Claude Code shows an error of the
// hook; the two events that take a block from the exit code alone are exceptions.
// stdout holds nothing but the object: a single stray line turns all of it into
// plain text, and a deny with it into nothing (seen live).
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
}

var claudeSetup = Setup{
	Program: "claude", User: ".claude/settings.json", Project: ".claude/settings.json", MovedBy: "CLAUDE_CONFIG_DIR", Moves: ".claude",
	Managed: [3]string{
		"/etc/claude-code/managed-settings.json", "/Library/Application Support/ClaudeCode/managed-settings.json", "C:/Program Files/ClaudeCode/managed-settings.json",
	},
	Shape: ShapeGroups, Entry: `{"type": "command", "command": $command, "timeout": $timeout, "onFailure": $closed("block")}`, Unit: time.Second,
	Anonymous:   true, // Cursor runs the hooks it finds here, too
	ClosedSince: "2.1.295", StrictBefore: "2.1.101",
	Off: []Switch{
		{Path: "disableAllHooks", Is: "true", Says: "keeps Claude Code from running hooks; set it to false"},
		{File: ".claude/settings.local.json", Path: "disableAllHooks", Is: "true", Says: "keeps Claude Code from running hooks; set it to false"},
		{Path: "allowManagedHooksOnly", Is: "true", Says: "keeps Claude Code from running the hooks of users and projects, if it takes effect; ask whoever manages it"},
		{File: "/etc/claude-code/managed-settings.json", Path: "allowManagedHooksOnly", Is: "true", Says: "keeps Claude Code from running the hooks of users and projects; ask whoever manages it"},
		{Path: "env.LD_PRELOAD", Says: loadsCode},
		{Path: "env.LD_AUDIT", Says: loadsCode},
		{Path: "env.LD_LIBRARY_PATH", Says: loadsCode},
		{Path: "env.DYLD_INSERT_LIBRARIES", Says: loadsCode},
		{Path: "env.DYLD_LIBRARY_PATH", Says: loadsCode},
		{Path: "env.BASH_ENV", Says: loadsCode},
		{Path: "env.ENV", Says: loadsCode},
		{Path: "env.GOMAXPROCS", Says: loadsCode},
		{Path: "env.GOMEMLIMIT", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.LD_PRELOAD", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.LD_AUDIT", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.LD_LIBRARY_PATH", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.DYLD_INSERT_LIBRARIES", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.DYLD_LIBRARY_PATH", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.BASH_ENV", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.ENV", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.GOMAXPROCS", Says: loadsCode},
		{File: ".claude/settings.local.json", Path: "env.GOMEMLIMIT", Says: loadsCode},
	},
	// Seen live, but for what @ names, which is documented.
	Undone: "hooks run in parallel: if another hook changes the same input or output, the last one to end wins, and PermissionRequest uses the first answer; a block by Grapnel before a call always holds",
	Unseen: []string{
		"a run with --bare or --safe-mode, which starts no hooks of settings",
		"files that a prompt names with @: Claude Code reads them without a tool call",
		"a call of an unknown tool, or with invalid input: only PostToolBatch reports it",
	},
}

// loadsCode is what is wrong with a variable that makes the hook program, or a shell that
// starts it, load code of whoever sets it: Claude Code gives a hook what the member env of
// its settings sets, those of a project included.
const loadsCode = "reaches the hook of Claude Code and can change its behavior; remove it"

// claudeEvents has all events of 2.1.329, in the order of a session.
//
// Halt stands where ending the turn was seen or documented to work. systemMessage
// is part of every answer that is JSON.
var claudeEvents = []EventRow{
	{
		Native: "SessionStart", Kind: grapnel.SessionStart, Install: true, Since: "1.0.62",
		Can: grapnel.Can{Context: true, Message: true}, // continue:false does nothing here (seen live)
	},
	{
		Native: "Setup", Kind: claudePrefix + "Setup", Install: true, Since: "2.1.10",
		Can:      grapnel.Can{Context: true, Message: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "Setup", Context: true, FailOpen: true, Stdout: grapnel.StdoutContext},
	},
	{
		Native: "InstructionsLoaded", Kind: claudePrefix + "InstructionsLoaded", Since: "2.1.69",
		Can: grapnel.Can{Message: true},
		Why: "fires for every instruction file of every session and takes no answer",
	},
	{
		Native: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Since: "1.0.54", Closed: true,
		// Nothing can edit the prompt: a rewrite becomes a block that shows it.
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true},
	},
	{
		// Fires after UserPromptSubmit, for the same prompt, when it begins with a
		// command. Cause says what expands.
		Native: "UserPromptExpansion", Kind: grapnel.PromptBefore, Install: true,
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true},
	},
	{
		// Only the text on the screen (and the result of -p) can be changed. There is
		// no block, so a Block shows its reason instead of the text, which is what a
		// block of a response is for the person. The model's history keeps the text.
		Native: "MessageDisplay", Kind: grapnel.ResponseBefore,
		Can: grapnel.Can{Block: true, Message: true, Change: []grapnel.Field{grapnel.FieldResponse}},
		Why: "would start a process for every message that is shown",
	},
	{
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Since: "1.0.38", Closed: true,
		Can: grapnel.Can{Block: true, Ask: true, Allow: true, Halt: true, Context: true, Message: true, Change: []grapnel.Field{grapnel.FieldInput}},
	},
	{
		// To ask is to say nothing: the prompt is about to be shown. The turn is ended
		// by interrupt. A new input can only be told beside an allow; without one it
		// becomes a deny that suggests the input.
		Native: "PermissionRequest", Kind: grapnel.PermissionBefore, Install: true, Since: "2.0.45", Closed: true,
		Can: grapnel.Can{Block: true, Ask: true, Allow: true, Halt: true, Message: true, Change: []grapnel.Field{grapnel.FieldInput}, Beside: grapnel.Allow},
	},
	{
		Native: "PermissionDenied", Kind: grapnel.PermissionDenied, Install: true, Since: "2.1.89",
		Can: grapnel.Can{Message: true},
	},
	{
		Native: "PostToolUse", Kind: grapnel.ToolAfter, Install: true, Since: "1.0.38",
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true, Change: []grapnel.Field{grapnel.FieldOutput}},
	},
	{
		// Neither decision nor exit 2 are needed: the feedback is context, which does
		// not show the hook's command line to the model as exit 2 does.
		Native: "PostToolUseFailure", Kind: grapnel.ToolFailed, Install: true,
		Can: grapnel.Can{Block: true, Keeps: true, Halt: true, Context: true, Message: true},
	},
	{
		Native: "PostToolBatch", Kind: grapnel.ToolBatchAfter, Install: true,
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true}, // a block ends the turn (seen live)
	},
	{
		Native: "Notification", Kind: grapnel.NotificationSent, Install: true, Since: "1.0.38",
		Can: grapnel.Can{Message: true},
	},
	{
		// It starts whatever a hook says: by exit code, decision, continue or as a
		// permission (seen live). The tool Agent can be blocked.
		Native: "SubagentStart", Kind: grapnel.SubagentStart, Install: true, Since: "2.0.43",
		Can: grapnel.Can{Context: true, Message: true},
	},
	{
		// Context sends a sub-agent on exactly like a block, so it is not told: a hook
		// that has something to add must not keep an agent from stopping.
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
		// A block is exit code 2 with the reason on stderr: this event does not heed a
		// decision in JSON.
		Native: "TaskCompleted", Kind: grapnel.TaskAfter, Install: true, Since: "2.1.33",
		Can: grapnel.Can{Block: true, Halt: true, Message: true},
	},
	{
		// A block sends the teammate on; exit code 2, as for TaskCompleted. Documented,
		// never seen live.
		Native: "TeammateIdle", Kind: claudePrefix + "TeammateIdle", Install: true, Since: "2.1.33",
		Can:      grapnel.Can{Block: true, Halt: true, Message: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "TeammateIdle", Blocks: grapnel.BlockStop, FailOpen: true, MaxStops: grapnel.MaxStops},
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
		Native: "PreModelSwitch", Kind: claudePrefix + "PreModelSwitch", Install: true,
		Can:      grapnel.Can{Block: true, Ask: true, Allow: true, Message: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "PreModelSwitch", Blocks: grapnel.BlockAction, Permit: true},
	},
	{
		Native: "PostModelSwitch", Kind: claudePrefix + "PostModelSwitch", Install: true,
		Can:      grapnel.Can{Context: true, Message: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "PostModelSwitch", Context: true, FailOpen: true, Stdout: grapnel.StdoutContext},
	},
	{
		// A change of managed settings cannot be blocked; readClaude says so.
		Native: "ConfigChange", Kind: grapnel.ConfigBefore, Install: true, Since: "2.1.49",
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
		Native: "DirectoryAdded", Kind: claudePrefix + "DirectoryAdded", Install: true,
		Can: grapnel.Can{Message: true},
	},
	{
		// A hook here replaces git: the last line of stdout is the new worktree's path,
		// any exit code but 0 is a failure, and without a path the session ends (seen
		// live). "No opinion" does not exist. What is written for it is what every
		// other event gets, nothing; whoever installs the event answers with the native
		// member worktreePath.
		Native: "WorktreeCreate", Kind: claudePrefix + "WorktreeCreate", Never: true,
		Can:      grapnel.Can{Block: true},
		Contract: &grapnel.Contract{Kind: claudePrefix + "WorktreeCreate", Blocks: grapnel.BlockAction},
		Why:      "an entry replaces the agent's own git work, and without a path from it the session ends",
	},
	{
		Native: "WorktreeRemove", Kind: claudePrefix + "WorktreeRemove", Install: true, Since: "2.1.50",
		Can: grapnel.Can{Message: true},
	},
	{
		// There is no room for a reason: a block declines, and the person reads why.
		Native: "Elicitation", Kind: grapnel.ElicitationBefore, Install: true, Since: "2.1.76",
		Can: grapnel.Can{Block: true, Message: true, Change: []grapnel.Field{grapnel.FieldAnswer}},
	},
	{
		// The person has answered, the server has not been told yet.
		Native: "ElicitationResult", Kind: claudePrefix + "ElicitationResult", Install: true, Since: "2.1.76",
		Can: grapnel.Can{Block: true, Message: true, Change: []grapnel.Field{grapnel.FieldAnswer}},
		Contract: &grapnel.Contract{
			Kind: claudePrefix + "ElicitationResult", Blocks: grapnel.BlockAction, Changes: []grapnel.Change{{Field: grapnel.FieldAnswer}},
		},
	},
	{
		Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true, Since: "1.0.85",
		Wait: 3 * time.Second, Budget: 2500 * time.Millisecond, // the person waits for the shell prompt
		Can: grapnel.Can{Message: true},
	},
}

// claudeTools has the built-in tools that take part in rules, and older names that
// are still met. What goes to the network is fetch, searches of the web included;
// search looks through files. task is work for another agent or on the task list.
var claudeTools = []ToolRow{
	{Native: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "PowerShell", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "Monitor", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "BashOutput", Class: grapnel.ClassOther}, // reads from and ends what Bash started
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
	{Native: "SlashCommand", Class: grapnel.ClassOther}, // its command is no shell line
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

// speaksClaude tells Claude Code from the agents that load its hooks (Cursor,
// Copilot, Droid) or copied its payload (Codex, Qwen Code). Their marks are a time
// stamp, members of their own, and where they keep the transcript.
func speaksClaude(top map[string]json.RawMessage) bool {
	native := text(top["hook_event_name"])
	known := rowNamed(claudeEvents, native) != nil
	switch home := transcriptHome(top); {
	case native == "", foreign(top):
		return false
	case home == ".claude":
		return true // also an event that a newer version has
	case home != "", top["timestamp"] != nil, top["turn_id"] != nil && native != "MessageDisplay":
		return false
	case rowNamed(geminiEvents, native) != nil:
		// A name that both have. Claude Code calls the transcript after the session,
		// wherever CLAUDE_CONFIG_DIR put it.
		id := text(top["session_id"])
		return known && id != "" && strings.HasSuffix(slashed(text(top["transcript_path"])), "/"+id+".jsonl")
	default:
		return known
	}
}

// foreign reports marks that neither Claude Code nor Gemini CLI ever leaves.
func foreign(top map[string]json.RawMessage) bool {
	for _, mark := range []string{"cursor_version", "generation_id", "hookName", "hookEventName", "sessionId"} {
		if top[mark] != nil {
			return true
		}
	}
	return false
}

// transcriptHome returns the directory of an agent's state in which the transcript
// lies, or "" where the path does not tell.
func transcriptHome(top map[string]json.RawMessage) string {
	path := slashed(text(top["transcript_path"]))
	for _, home := range []string{".claude", ".gemini", ".codex", ".copilot", ".cursor", ".factory", ".qwen"} {
		if strings.Contains(path, "/"+home+"/") {
			return home
		}
	}
	if name := path[strings.LastIndexByte(path, '/')+1:]; strings.HasPrefix(name, "rollout-") {
		return ".codex" // moved by CODEX_HOME
	}
	return ""
}

func slashed(path string) string { return strings.ReplaceAll(path, `\`, "/") }

func readClaude(row *EventRow, top map[string]json.RawMessage, _ Input) (*grapnel.Event, error) {
	ev := &grapnel.Event{Session: grapnel.Session{
		ID:         text(top["session_id"]),
		CWD:        text(top["cwd"]),
		Transcript: text(top["transcript_path"]),
		Model:      text(top["model"]),
		Mode:       text(top["permission_mode"]),
		Turn:       text(top["prompt_id"]),
	}}
	// agent_type alone is how the main agent was started (--agent), not a sub-agent.
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
			ev.Can = &grapnel.Can{Message: true} // the agent applies them whatever a hook says
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

// claudeMCP reads mcp__server__tool. The server's own name, where the payload has
// it, decides where the name of the server ends, for both may hold "__".
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

// claudeReply is everything that is ever written. Claude Code ignores members that
// it does not know and drops the whole object for one of the wrong type, so native
// members are pointers to what they must be.
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
	HookEventName            string            `json:"hookEventName"` // without it, or with another one, all is void
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
	t := tell(row, ev, v)
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
			s.AdditionalContext = *more // of a hook in this language; other agents add nothing before a call
		}
	case "PermissionRequest":
		out.Continue, out.StopReason = nil, "" // interrupt says it
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
	reply := say(out)
	if byExit {
		reply.Exit, reply.Stderr = 2, []byte(t.reason+"\n")
	}
	return reply
}

// writeClaudeDecision answers with permissionDecision. continue:false alone would
// let the tool run and end the turn afterwards (seen live), so a halt is also a deny.
func writeClaudeDecision(s *claudeSpecific, row *EventRow, v *grapnel.Verdict, t *told) {
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
		s.UpdatedInput = input // replaces all of it, and needs no decision; as a string it would void the answer (seen live)
	}
}

func claudePermissionOf(v *grapnel.Verdict, t *told) *claudePermission {
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
		t.warn(t.reason) // the prompt is shown anyway; this is why somebody wants it read
	}
	return nil
}

// shorten cuts a suggestion to what a model will read.
func shorten(raw json.RawMessage) string {
	const limit = 2000
	if len(raw) <= limit {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:limit]), "") + "…"
}

func claudeDisplay(t *told) *string {
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

// writeClaudeOutput replaces a tool's output. An output of another shape than the
// tool's own is ignored without a word (seen live), so the person is told instead.
func writeClaudeOutput(s *claudeSpecific, ev *grapnel.Event, t *told) {
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
		t.warn(fmt.Sprintf("grapnel: Claude Code accepts no output of another shape from %s, so a change of tool.output was not made", ev.Tool.Name))
		return
	}
	s.UpdatedToolOutput = output
}

// sameShape reports whether b is of a's type and has, if that is an object, all of
// its members with their types.
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

func writeClaudeAnswer(s *claudeSpecific, t *told) {
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
		if content := present(answer["content"]); isObject(content) {
			s.Content = content
		}
	default:
		t.warn(fmt.Sprintf("grapnel: the answer %s was not given: its action must be accept, decline or cancel", shorten(raw)))
	}
}

// writeClaudeWorktree answers the one event that takes plain text.
func writeClaudeWorktree(t *told, v *grapnel.Verdict) Reply {
	if t.block {
		return Reply{Exit: 2, Stderr: []byte(t.reason + "\n")}
	}
	if path := member[string](v, claudeName, "worktreePath"); path != nil && *path != "" {
		return Reply{Stdout: []byte(*path + "\n")}
	}
	return Reply{}
}

// writeClaudeBlind answers an event whose name could not be read, with what blocks
// wherever a block exists: decision is the old way to deny a tool and the way to
// block a prompt, and continue:false keeps a stop from being taken for "go on".
// Anything but a block says nothing, because nobody knows what it would mean.
func writeClaudeBlind(ev *grapnel.Event, v *grapnel.Verdict) Reply {
	if ev.Kind != "" || v.Decision != grapnel.Block {
		return Reply{}
	}
	reason := v.Reason()
	return say(claudeReply{Continue: no, StopReason: reason, Decision: "block", Reason: reason})
}
