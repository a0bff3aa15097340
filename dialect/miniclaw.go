package dialect

import (
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

const miniclawName = "miniclaw"

// Miniclaw returns the dialect of shell hooks that were written for mini-claw.
func Miniclaw() *Dialect { return miniclaw.clone() }

// miniclaw is the dialect of shell hooks that were written for mini-claw. Only hook programs use it.
// Its input is two variables, and its answer is an exit code. Such a program cannot fail, because
// every nonzero code blocks.
//
// The variables HOOK_EVENT and HOOK_TOOL_NAME come from a variant of mini-claw, and TOOL_NAME from its
// book. Hooks that do not expect them are not affected.
var miniclaw = &Dialect{
	Name:        miniclawName,
	Events:      miniclawEvents,
	Tools:       miniclawTools,
	WriteEvent:  writeMiniclawEvent,
	ReadOutcome: readMiniclawOutcome,
	HookEnv:     miniclawHookEnv,
	OnError:     grapnel.OnErrorClosed,
}

var miniclawEvents = []EventRow{
	{Native: "AgentStart", Kind: grapnel.AgentBefore},
	{Native: "PreToolCall", Kind: grapnel.ToolBefore},
	{Native: "PostToolCall", Kind: grapnel.ToolAfter, Failed: grapnel.ToolFailed},
	{Native: "AgentEnd", Kind: grapnel.AgentAfter},
}

var miniclawTools = []ToolRow{
	{Native: "bash", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
	{Native: "read", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "write", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "edit", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_string"}}},
	{Native: "glob", Like: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "grep", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "subagent", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "ask_user", Like: "AskUserQuestion", Class: grapnel.ClassOther},
}

// MiniclawSubject returns mini-claw's name for the tool of an event of any agent, for the patterns
// of its hooks. It returns "" if the event has no tool.
func MiniclawSubject(ev *grapnel.Event) string { return toolSubject(ev, miniclawName, miniclawTools) }

func miniclawHookEnv(ev *grapnel.Event) []string {
	event := "pre_tool_call"
	if ev.Kind != grapnel.ToolBefore {
		event = "post_tool_call"
	}
	tool := MiniclawSubject(ev)
	return []string{"HOOK_EVENT=" + event, "HOOK_TOOL_NAME=" + tool, "TOOL_NAME=" + tool}
}

// writeMiniclawEvent returns no bytes, and an error for events that are not tool calls: mini-claw
// runs no shell hook when the agent starts or ends.
func writeMiniclawEvent(ev *grapnel.Event) ([]byte, error) {
	row, err := eventRow(miniclawEvents, miniclawName, ev)
	if err == nil && row.Kind != grapnel.ToolBefore && row.Kind != grapnel.ToolAfter {
		err = fmt.Errorf("%w: %s sends only tool calls to shell hooks, not %s", ErrNoSuchEvent, miniclawName, row.Native)
	}
	return nil, err
}

// readMiniclawOutcome blocks for every nonzero exit code, even if the program was not found or was
// ended by a signal. It ignores stdout.
func readMiniclawOutcome(_ *grapnel.Event, out Output) (grapnel.Outcome, error) {
	if out.Exit == 0 {
		return grapnel.Outcome{}, nil
	}
	stderr := strings.ToValidUTF8(strings.TrimSpace(string(out.Stderr)), "\ufffd")
	return grapnel.Outcome{Decision: grapnel.Block, Reason: "hook failed: " + stderr}, nil
}
