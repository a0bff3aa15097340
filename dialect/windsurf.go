package dialect

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

// Windsurf returns the dialect of Windsurf's agent Cascade.
func Windsurf() *Dialect { return windsurf.clone() }

// windsurf is the dialect of Windsurf's agent Cascade. It has an event before and one after each of
// four kinds of action, reads only the exit code as answer, and shows the model the stderr of a
// hook that blocks. Cascade was not run for this dialect: all facts below are from the
// documentation.
//
// It does not support ask, rewrite or added context; such a verdict becomes a block with the
// reason. Any exit code other than 2 fails open.
var windsurf = &Dialect{
	Name:       windsurfName,
	Title:      "Windsurf Cascade",
	Aliases:    []string{"cascade"},
	NamedAt:    "agent_action_name",
	Events:     windsurfEvents,
	Tools:      windsurfTools,
	In:         "trajectory_id=session.id execution_id=session.turn timestamp=time",
	Blind:      windsurfBlock,
	Adapt:      adaptWindsurf,
	WriteEvent: writeWindsurfEvent,
	Speaks: func(top map[string]json.RawMessage) bool {
		return rowNamed(windsurfEvents, text(top["agent_action_name"])) != nil && top["hook_event_name"] == nil
	},
	setup: &windsurfSetup,
}

var windsurfSetup = Setup{
	Documented: true, Program: "windsurf", Dir: ".codeium/windsurf", User: ".codeium/windsurf/hooks.json", Project: ".windsurf/hooks.json",
	Managed: [3]string{"/etc/windsurf/hooks.json", "/Library/Application Support/Windsurf/hooks.json", "C:/ProgramData/Windsurf/hooks.json"},
	Shape:   ShapeFlat, Entry: `{"command": $command, "show_output": false}`,
	Unseen: []string{
		"searches, web pages and everything else except files, commands and MCP calls",
		"starts and ends of sessions, stops and sub-agents: Cascade has no event for them",
	},
	Todo: []string{"the plugin for JetBrains reads ~/.codeium/hooks.json instead of $file: copy the entries there"},
}

const (
	windsurfName  = "windsurf"
	windsurfBlock = "exit=block:2 stderr=reason"
	windsurfCall  = "tool_info=tool.input "
	windsurfMCP   = "tool_info.mcp_server_name=mcp.server tool_info.mcp_tool_name=mcp.tool tool_info.mcp_tool_arguments=tool.input "
)

// windsurfEvents lists all events, in the order of a turn.
var windsurfEvents = []EventRow{
	{Native: "pre_user_prompt", Kind: grapnel.PromptBefore, Install: true, Closed: true, In: "tool_info.user_prompt=prompt.text", Out: windsurfBlock},
	{Native: "pre_read_code", Kind: grapnel.ToolBefore, Install: true, Closed: true, In: windsurfCall, Out: windsurfBlock},
	{Native: "pre_write_code", Kind: grapnel.ToolBefore, Install: true, Closed: true, In: windsurfCall, Out: windsurfBlock},
	{Native: "pre_run_command", Kind: grapnel.ToolBefore, Install: true, Closed: true, In: windsurfCall + "tool_info.cwd=session.cwd", Out: windsurfBlock},
	{Native: "pre_mcp_tool_use", Kind: grapnel.ToolBefore, Install: true, Closed: true, In: windsurfMCP, Out: windsurfBlock},
	{Native: "post_read_code", Kind: grapnel.ToolAfter, Install: true, In: windsurfCall},
	{Native: "post_write_code", Kind: grapnel.ToolAfter, Install: true, In: windsurfCall},
	{Native: "post_run_command", Kind: grapnel.ToolAfter, Install: true, In: windsurfCall + "tool_info.cwd=session.cwd"},
	{Native: "post_mcp_tool_use", Kind: grapnel.ToolAfter, Install: true, In: windsurfMCP + "tool_info.mcp_result=tool.output"},
	{Native: "post_cascade_response", Kind: grapnel.AgentAfter, Install: true, In: "tool_info.response=stop.last_message"},
	{
		Native: "post_cascade_response_with_transcript", Kind: grapnel.AgentAfter, In: "tool_info.transcript_path=session.transcript",
		Why: "post_cascade_response reports the same",
	},
	{
		Native: "post_setup_worktree", Kind: grapnel.NativePrefix + "windsurf.post_setup_worktree",
		Why: "reports a directory that Windsurf created, not an action of the agent",
	},
}

// windsurfTools lists the kinds of action. Cascade names them only by their events.
var windsurfTools = []ToolRow{
	{Native: "read_code", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}},
	{Native: "write_code", Like: "MultiEdit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/edits/*/new_string"}}},
	{Native: "run_command", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command_line"}, {Field: grapnel.FieldPath, At: "/cwd", Use: grapnel.UseRead}}},
}

func adaptWindsurf(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error {
	_, action, _ := strings.Cut(row.Native, "_")
	tool := toolNamed(windsurfTools, action)
	if tool == nil {
		return nil
	}
	ev.Tool.Name = tool.Native
	member := tool.Facts[0].At[1:]
	if raw := split(top["tool_info"])[member]; len(raw) == 0 || raw[0] != '"' {
		return fmt.Errorf("tool_info.%s is %s, not a string", member, kindOf(raw)) // guards would miss it
	}
	return nil
}

// writeWindsurfEvent writes a call as the event of its kind of action.
func writeWindsurfEvent(ev *grapnel.Event) ([]byte, error) {
	d := lookup(dialects, windsurfName)
	row, err := eventRow(d.Events, d.Name, ev)
	if err != nil {
		return nil, err
	}
	if t := ev.Tool; t != nil && ev.Agent.Name != d.Name {
		action := "mcp_tool_use"
		if t.MCP == nil {
			there, _ := counterpart(t, toolsOf(ev.Agent.Name), d.Tools)
			if there == nil {
				return nil, fmt.Errorf("%w: %s has no hook event for %s", ErrNoSuchEvent, d.Name, t.Name)
			}
			action = there.Native
		}
		moment, _, _ := strings.Cut(row.Native, "_")
		row = d.Row(moment + "_" + action)
	}
	return d.writeRow(row, ev)
}
