package telemetry

// Names of the OpenTelemetry semantic conventions. conventionsVersion is the version of the
// registry that they were taken from. To move to a newer version, change only this file.
//
// All names for AI agents are marked "Development" and may be renamed. They have moved to a
// separate repository, open-telemetry/semantic-conventions-genai. Its registry
// (docs/registry/attributes/gen-ai.md, checked at commit 002c8a6) has the same names as version
// 1.41.0 of open-telemetry/semantic-conventions. The registry has no name for the decision of a
// guard: spans of guardrails are proposed (pull request 427), but not accepted. So Grapnel uses its
// own names, grapnel.*.
//
// A span of Grapnel is the check of an action, not the action. It has no gen_ai.operation.name,
// because backends would then count each tool call twice.
const (
	conventionsVersion = "1.41.0"
	schemaURL          = "https://opentelemetry.io/schemas/" + conventionsVersion

	// Attributes whose definition is still in development.
	attrAgentName    = "gen_ai.agent.name"
	attrAgentVersion = "gen_ai.agent.version"
	attrConversation = "gen_ai.conversation.id"
	attrModel        = "gen_ai.request.model" // only on model.before and model.after, because it is an attribute of a request
	attrToolName     = "gen_ai.tool.name"
	attrToolCall     = "gen_ai.tool.call.id"
	attrHostID       = "host.id"
	attrInstance     = "service.instance.id"
	attrUserName     = "user.name"

	// Attributes whose definition is stable.
	attrErrorType        = "error.type"
	attrServiceName      = "service.name"
	attrServiceVersion   = "service.version"
	attrHostName         = "host.name"
	eventException       = "exception"
	attrExceptionType    = "exception.type"
	attrExceptionMessage = "exception.message"
)

// Grapnel's own names. They mean the same as the members of a Record.
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
	attrHooks       = "grapnel.hooks"         // number of hooks that were called
	attrHidden      = "grapnel.hooks.unshown" // number of called hooks without a span
	attrLate        = "grapnel.late"          // the hook ran after the reply
	attrPolicy      = "grapnel.policy.digest"
	attrRevision    = "grapnel.policy.revision"

	attrHook     = "grapnel.hook.name"
	attrSource   = "grapnel.hook.source"
	attrLine     = "grapnel.hook.line"
	attrCause    = "grapnel.hook.cause"
	attrRound    = "grapnel.hook.round"
	attrObserved = "grapnel.hook.observed"
	attrExpired  = "grapnel.hook.expired"
	attrPlaced   = "grapnel.hook.start" // placedByOrder: the start is estimated, not measured
	attrReason   = "grapnel.reason"

	placedByOrder = "order"

	eventDecision = "grapnel.decision" // a hook blocked or asked, with its reason
	eventFailOpen = "grapnel.fail_open"
)
