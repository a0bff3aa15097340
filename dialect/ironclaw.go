package dialect

import "github.com/grapnel-dev/grapnel"

// ironClawEvents are the events of IronClaw, by the names that its bundles and its
// webhooks have for them. Its hooks run in its own process: there is no language that
// a program would speak with them, and so no Dialect.
var ironClawEvents = []EventRow{
	{Native: "beforeInbound", Kind: grapnel.PromptBefore},
	{Native: "beforeToolCall", Kind: grapnel.ToolBefore},
	{Native: "beforeOutbound", Kind: grapnel.MessageBefore},
	{Native: "onSessionStart", Kind: grapnel.SessionStart},
	{Native: "onSessionEnd", Kind: grapnel.SessionEnd},
	{Native: "transformResponse", Kind: grapnel.ResponseBefore},
}
