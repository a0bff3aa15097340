package dialect

import "github.com/grapnel-dev/grapnel"

// IronClawEvents returns the events of IronClaw, with the names that its bundles and webhooks use.
// IronClaw runs hooks in its own process, so it has no protocol for hook programs and no Dialect.
func IronClawEvents() []EventRow { return cloneRows(ironClawEvents) }

var ironClawEvents = []EventRow{
	{Native: "beforeInbound", Kind: grapnel.PromptBefore},
	{Native: "beforeToolCall", Kind: grapnel.ToolBefore},
	{Native: "beforeOutbound", Kind: grapnel.MessageBefore},
	{Native: "onSessionStart", Kind: grapnel.SessionStart},
	{Native: "onSessionEnd", Kind: grapnel.SessionEnd},
	{Native: "transformResponse", Kind: grapnel.ResponseBefore},
}
