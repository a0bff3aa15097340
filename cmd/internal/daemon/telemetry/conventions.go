package telemetry

// Names of the OpenTelemetry semantic conventions, each with the version of the
// registry that it was taken from. A new version is looked at here, and nowhere else.
//
// Those for AI agents are all marked "Development" and may be renamed. They have moved into
// a repository of their own, open-telemetry/semantic-conventions-genai, whose registry
// (docs/registry/attributes/gen-ai.md, looked at in commit 002c8a6) has them under the same
// names as version 1.41.0 of open-telemetry/semantic-conventions. What a guard decides has no
// name there: spans of guardrails are proposed (pull request 427), and not accepted. So that
// is named here, as grapnel.*.
//
// A span of Grapnel is a check of what an agent is about to do, and not the doing. It has
// no gen_ai.operation.name, or backends would count each tool call twice.
const (
	conventionsVersion = "1.41.0"
	schemaURL          = "https://opentelemetry.io/schemas/" + conventionsVersion

	// Development.
	attrAgentName    = "gen_ai.agent.name"
	attrAgentVersion = "gen_ai.agent.version"
	attrConversation = "gen_ai.conversation.id"
	attrModel        = "gen_ai.request.model" // on model.before and model.after only, as it is of a request
	attrToolName     = "gen_ai.tool.name"
	attrToolCall     = "gen_ai.tool.call.id"

	// Stable.
	attrErrorType        = "error.type"
	attrServiceName      = "service.name"
	attrServiceVersion   = "service.version"
	attrHostName         = "host.name"
	eventException       = "exception"
	attrExceptionType    = "exception.type"
	attrExceptionMessage = "exception.message"
)

// Names of ours. They mean what the members of a Record mean.
const (
	scopeName = "github.com/grapnel-dev/grapnel/daemon/telemetry"

	attrRecord      = "grapnel.record.id"
	attrEvent       = "grapnel.event"
	attrDecision    = "grapnel.decision"
	attrWould       = "grapnel.would"
	attrToolClass   = "grapnel.tool.class"
	attrMCPServer   = "grapnel.tool.mcp.server"
	attrHalt        = "grapnel.halt"
	attrChanged     = "grapnel.changed"
	attrConflicts   = "grapnel.conflicts"
	attrUnsupported = "grapnel.unsupported"
	attrFailOpen    = "grapnel.fail_open"
	attrHooks       = "grapnel.hooks"         // how many were asked
	attrHidden      = "grapnel.hooks.unshown" // how many of them have no span
	attrLate        = "grapnel.late"          // it ran after the answer

	attrHook     = "grapnel.hook.name"
	attrSource   = "grapnel.hook.source"
	attrLine     = "grapnel.hook.line"
	attrCause    = "grapnel.hook.cause"
	attrRound    = "grapnel.hook.round"
	attrObserved = "grapnel.hook.observed"
	attrExpired  = "grapnel.hook.expired"
	attrPlaced   = "grapnel.hook.start" // placedByOrder: the start is worked out, not measured
	attrReason   = "grapnel.reason"

	placedByOrder = "order"

	eventDecision = "grapnel.decision" // a hook blocked or asked, and why
	eventFailOpen = "grapnel.fail_open"
)
