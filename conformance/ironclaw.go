package conformance

import "github.com/grapnel-dev/grapnel"

// ironclaw runs its hooks in its own process, and has no command hooks.
var ironclaw = family{
	name: "ironclaw",
	events: []eventName{
		{grapnel.PromptBefore, "beforeInbound"},
		{grapnel.ToolBefore, "beforeToolCall"},
		{grapnel.MessageBefore, "beforeOutbound"},
		{grapnel.SessionStart, "onSessionStart"},
		{grapnel.SessionEnd, "onSessionEnd"},
		{grapnel.ResponseBefore, "transformResponse"},
	},
}
