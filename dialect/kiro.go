package dialect

import (
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// KiroCLI returns the dialect of the Kiro CLI up to version 2.
func KiroCLI() *Dialect { return kiroCLI.clone() }

// kiroCLI is the dialect of the Kiro CLI up to version 2, which keeps hooks in the file of an
// agent. The Kiro IDE since 1.0 and the CLI since 3 read .kiro/hooks and use the dialect kiro. None
// of them was run for this dialect: all facts below are from the documentation.
//
// Both read one JSON object from stdin and answer only with the exit code: 2 blocks, and stderr is
// the reason for the model; all other codes fail open. An older version ended the session when a
// hook failed (reported), so Grapnel uses only the codes 0 and 2. Ask and rewrite become a block.
var kiroCLI = &Dialect{
	Name:       "kiro-cli",
	Title:      "Kiro CLI",
	Events:     kiroCLIEvents,
	Tools:      kiroTools,
	MCP:        "@{server}/{tool}",
	In:         kiroAll,
	Blind:      kiroBlock,
	ExitBlocks: true, // see above: a failure of Grapnel must not exit with 1
	Adapt:      adaptKiro,
	Speaks: func(top map[string]json.RawMessage) bool {
		// Cursor has events with these names, and sends its version in every payload.
		return rowNamed(kiroCLIEvents, text(top["hook_event_name"])) != nil && !foreign(top) && text(top["cwd"]) != ""
	},
	setup: &kiroCLISetup,
}

var kiroCLISetup = Setup{
	// Hooks run only while their agent is active, and no file applies to all agents, so Grapnel
	// installs a separate agent. Without "tools" that agent would have no tools.
	Processes:  []string{"kiro-cli", "kiro-cli-chat"}, // kiro-cli-term holds the shell of a person
	Documented: true, Program: "kiro-cli", User: ".kiro/agents/grapnel.json", Project: ".kiro/agents/grapnel.json",
	Shape: ShapeFlat, Own: true, Top: `"name": "grapnel", "tools": ["*"]`,
	Entry: `{"command": $command, "timeout_ms": $timeout}`, Unit: time.Millisecond, Strict: true,
	Unseen: []string{"all other agents of Kiro: hooks run only for the agent whose file contains them"},
	Todo: []string{
		"$file is an agent named grapnel: start it with kiro-cli chat --agent grapnel, or make it the default with kiro-cli settings chat.defaultAgent grapnel",
		"copy the hooks of $file into the files of your other agents in .kiro/agents",
	},
}

// Kiro returns the dialect of the Kiro IDE since 1.0, and of the Kiro CLI since 3.
func Kiro() *Dialect { return kiro.clone() }

// kiro is the dialect of the Kiro IDE since 1.0, and of the Kiro CLI since 3; see kiroCLI.
var kiro = &Dialect{
	Name:       "kiro",
	Title:      "Kiro",
	Events:     kiroEvents,
	Tools:      kiroTools,
	MCP:        "@{server}/{tool}",
	In:         kiroAll,
	Blind:      kiroBlock,
	ExitBlocks: true,
	Adapt:      adaptKiro,
	setup:      &kiroSetup,
}

var kiroSetup = Setup{
	// The user-level directory is reported, not documented.
	Documented: true, Program: "kiro", User: ".kiro/hooks/grapnel.json", Project: ".kiro/hooks/grapnel.json",
	Shape: ShapeList, Own: true, Top: `"version": "v1"`, Unit: time.Second,
	Entry:  `{"name": $event, "trigger": $event, "action": {"type": "command", "command": $command}, "timeout": $timeout, "enabled": true}`,
	Unseen: []string{"Kiro IDE before 1.0: its hooks get neither the tool nor its input"},
}

const (
	kiroAll   = "session_id=session.id cwd=session.cwd "
	kiroTool  = "tool_name=tool.name tool_input=tool.input "
	kiroBlock = "exit=block:2 stderr=reason"
)

// kiroCLIEvents lists all events, in the order of a session.
var kiroCLIEvents = []EventRow{
	{Native: "agentSpawn", Kind: grapnel.SessionStart, Install: true, Out: "stdout=context"},
	{Native: "userPromptSubmit", Kind: grapnel.PromptBefore, Install: true, In: "prompt=prompt.text", Out: "stdout=context"},
	{Native: "preToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true, In: kiroTool, Out: kiroBlock},
	{Native: "postToolUse", Kind: grapnel.ToolAfter, Failed: grapnel.ToolFailed, Install: true, In: kiroTool + "tool_response=tool.output"},
	{Native: "stop", Kind: grapnel.AgentAfter, Install: true},
}

// kiroEvents lists all triggers, in the order of a session.
var kiroEvents = []EventRow{
	{Native: "SessionStart", Kind: grapnel.SessionStart, Install: true},
	{Native: "UserPromptSubmit", Kind: grapnel.PromptBefore, Install: true, Closed: true, In: "prompt=prompt.text", Out: kiroBlock},
	{Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true, In: kiroTool, Out: kiroBlock},
	{Native: "PostToolUse", Kind: grapnel.ToolAfter, Failed: grapnel.ToolFailed, Install: true, In: kiroTool + "tool_response=tool.output"},
	{Native: "PreTaskExec", Kind: grapnel.TaskBefore, Install: true, Closed: true, Out: kiroBlock},
	{Native: "PostTaskExec", Kind: grapnel.TaskAfter, Install: true},
	{Native: "PostFileCreate", Kind: grapnel.NativePrefix + "kiro.PostFileCreate", Why: kiroFiles},
	{Native: "PostFileSave", Kind: grapnel.NativePrefix + "kiro.PostFileSave", Why: kiroFiles},
	{Native: "PostFileDelete", Kind: grapnel.NativePrefix + "kiro.PostFileDelete", Why: kiroFiles},
	{Native: "Stop", Kind: grapnel.AgentAfter, Install: true},
	{Native: "SessionEnd", Kind: grapnel.SessionEnd, Why: "is not in every list of triggers, and the effect of an unknown trigger is not documented"},
}

const kiroFiles = "also fires for the user's edits; PostToolUse reports the agent's edits"

// kiroTools lists the built-in tools by their names, and by the short names in the files of agents.
var kiroTools = []ToolRow{
	{Native: "execute_bash", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "shell", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "fs_write", Class: grapnel.ClassWrite, Facts: kiroWrites, Like: "Write"},
	{Native: "write", Class: grapnel.ClassWrite, Facts: kiroWrites, Like: "Write"},
	{Native: "fs_read", Class: grapnel.ClassRead, Facts: kiroReads, Like: "Read"},
	{Native: "read", Class: grapnel.ClassRead, Facts: kiroReads, Like: "Read"},
	{Native: "use_aws", Class: grapnel.ClassOther},
	{Native: "aws", Class: grapnel.ClassOther},
}

var (
	kiroWrites = []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/file_text"}, {Field: grapnel.FieldContent, At: "/new_str"}}
	kiroReads  = []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/operations/*/path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/operations/*/image_paths/*", Use: grapnel.UseRead}}
)

// adaptKiro marks a call that failed.
func adaptKiro(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error {
	if row.Kind == grapnel.ToolAfter {
		ev.Tool.Failed = string(at(top, "tool_response.success")) == "false"
	}
	return nil
}
