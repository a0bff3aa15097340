package dialect

import (
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

const miniclawName = "miniclaw"

// Miniclaw is the language of shell hooks that were written for mini-claw. Only
// hooks speak it: it has no input at all, and its answer is an exit code. Such a
// program cannot fail, since whatever is not 0 blocks.
var Miniclaw = &Dialect{
	Name:        miniclawName,
	Events:      miniclawEvents,
	WriteEvent:  writeMiniclawEvent,
	ReadOutcome: readMiniclawOutcome,
	OnError:     grapnel.OnErrorClosed,
}

var miniclawEvents = []EventRow{
	{Native: "AgentStart", Kind: grapnel.AgentBefore},
	{Native: "PreToolCall", Kind: grapnel.ToolBefore},
	{Native: "PostToolCall", Kind: grapnel.ToolAfter, Failed: grapnel.ToolFailed},
	{Native: "AgentEnd", Kind: grapnel.AgentAfter},
}

// writeMiniclawEvent writes nothing, and only for calls of tools: mini-claw runs no
// shell hook when the agent starts and ends.
func writeMiniclawEvent(ev *grapnel.Event) ([]byte, error) {
	row, err := eventRow(miniclawEvents, miniclawName, ev)
	if err == nil && row.Kind != grapnel.ToolBefore && row.Kind != grapnel.ToolAfter {
		err = fmt.Errorf("%w: %s tells its shell hooks of calls of tools only, not of %s", ErrNoSuchEvent, miniclawName, row.Native)
	}
	return nil, err
}

// readMiniclawOutcome blocks for every exit code but 0, also when the program was
// not found or was ended by a signal. What stands on stdout means nothing.
func readMiniclawOutcome(_ *grapnel.Event, out Output) (grapnel.Outcome, error) {
	if out.Exit == 0 {
		return grapnel.Outcome{}, nil
	}
	said := strings.ToValidUTF8(strings.TrimSpace(string(out.Stderr)), "\ufffd")
	return grapnel.Outcome{Decision: grapnel.Block, Reason: "hook failed: " + said}, nil
}
