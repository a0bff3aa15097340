package hooks

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// BuildPreToolEnv returns the variables of [HookPreToolUse]: TOOL_NAME and TOOL_INPUT, the input as
// compact JSON. Like every builder, it adds HOOK_TYPE, PROJECT_ROOT, PLATFORM, ARCH and CWD, the
// working directory of this process.
func BuildPreToolEnv(toolName string, input any, projectRoot string) map[string]string {
	return build(HookPreToolUse, HookPreToolUse, projectRoot, arguments{"tool_name": toolName, "input": input})
}

// BuildPostToolEnv returns the variables of [HookPostToolUse], or of [HookPostToolUseFailure] if
// isError is true: TOOL_NAME, TOOL_INPUT, TOOL_OUTPUT and TOOL_IS_ERROR (true or false).
func BuildPostToolEnv(toolName string, input any, output string, isError bool, projectRoot string) map[string]string {
	hookType := HookPostToolUse
	if isError {
		hookType = HookPostToolUseFailure
	}
	return build(hookType, hookType, projectRoot, arguments{"tool_name": toolName, "input": input, "output": output, "is_error": isError})
}

// BuildSessionEnv returns the variables of [HookSessionStart], [HookSessionEnd] and other types
// without a builder: SESSION_ID.
func BuildSessionEnv(sessionID, projectRoot string, hookType HookType) map[string]string {
	return build(HookSessionStart, hookType, projectRoot, arguments{"session_id": sessionID})
}

// BuildTaskEnv returns the variables of [HookTaskCreated] and [HookTaskCompleted]: TASK_ID and
// TASK_DESCRIPTION. Flyto does not document their names, so they are Grapnel's.
func BuildTaskEnv(taskID, taskDescription, projectRoot string, hookType HookType) map[string]string {
	return build(HookTaskCreated, hookType, projectRoot, arguments{"task_id": taskID, "description": taskDescription})
}

// BuildPermissionEnv returns the variables of [HookPermission] and [HookPermissionDenied]:
// TOOL_NAME and PERMISSION_REASON.
func BuildPermissionEnv(toolName, reason, projectRoot string, hookType HookType) map[string]string {
	return build(HookPermission, hookType, projectRoot, arguments{"tool_name": toolName, "reason": reason})
}

// BuildNotificationEnv returns the variables of [HookNotification]: NOTIFICATION_MESSAGE and
// NOTIFICATION_LEVEL. Flyto does not document their names, so they are Grapnel's.
func BuildNotificationEnv(message, level, projectRoot string) map[string]string {
	return build(HookNotification, HookNotification, projectRoot, arguments{"message": message, "level": level})
}

// BuildPreSamplingEnv returns the variables of [HookPreSampling]: MODEL, TURN, counted from 1, and
// MESSAGE_COUNT. The messages themselves are not among them.
func BuildPreSamplingEnv(model string, turnCount, messageCount int, projectRoot string) map[string]string {
	return build(HookPreSampling, HookPreSampling, projectRoot, arguments{"model": model, "turn": turnCount, "message_count": messageCount})
}

// BuildPostSamplingEnv returns the variables of [HookPostSampling]: MODEL, TURN, INPUT_TOKENS,
// OUTPUT_TOKENS, STOP_REASON, and RESPONSE_PREVIEW, at most the first 500 bytes of the response.
func BuildPostSamplingEnv(model string, turnCount, inputTokens, outputTokens int, stopReason, responsePreview, projectRoot string) map[string]string {
	return build(HookPostSampling, HookPostSampling, projectRoot, arguments{
		"model": model, "turn": turnCount, "input_tokens": inputTokens, "output_tokens": outputTokens, "stop_reason": stopReason, "response": responsePreview,
	})
}

// arguments are the values of an event's variables, by the names of [dialect.FlytoEnv].
type arguments map[string]any

// build returns the variables that package dialect makes for programs of the type like, with
// hookType as HOOK_TYPE.
func build(like, hookType HookType, projectRoot string, args arguments) map[string]string {
	raw := map[string]json.RawMessage{"project_root": rawjson.Quote(projectRoot), "cwd": rawjson.Quote(workingDirectory())}
	for name, value := range args {
		encoded, err := rawjson.Marshal(value)
		if err != nil { // an input that is no JSON still has a text that a hook can judge
			encoded = rawjson.Quote(fmt.Sprint(value))
		}
		raw[name] = encoded
	}
	env := variables(dialect.FlytoEnv(string(like), raw))
	env["HOOK_TYPE"] = string(hookType)
	return env
}

// workingDirectory returns the working directory of this process, or "" if it does not exist.
func workingDirectory() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

// variables returns a list of NAME=value as a map.
func variables(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, v := range list {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

// event returns the event that a map of variables describes. Its Native part has all of them,
// except the input and the output of a tool, so that a program finds on standard input the parts that are cut
// in its variables.
func event(kind grapnel.Kind, env map[string]string) *grapnel.Event {
	ev := &grapnel.Event{
		Kind: kind, Agent: grapnel.Agent{Name: flyto.Name}, Cause: env["PERMISSION_REASON"],
		Session: grapnel.Session{
			ID: env["SESSION_ID"], CWD: env["CWD"], Root: env["PROJECT_ROOT"], Model: env["MODEL"], Turn: env["TURN"],
		},
	}
	if ev.Session.CWD == "" {
		ev.Session.CWD = workingDirectory()
	}
	native := maps.Clone(env)
	if name, ok := env["TOOL_NAME"]; ok {
		ev.Tool = &grapnel.Tool{Name: name, Failed: env["TOOL_IS_ERROR"] == "true" || kind == grapnel.ToolFailed}
		if input := env["TOOL_INPUT"]; json.Valid([]byte(input)) {
			ev.Tool.Input = json.RawMessage(input)
		} else if input != "" {
			ev.Tool.Input = rawjson.Quote(input)
		}
		if output, ok := env["TOOL_OUTPUT"]; ok {
			ev.Tool.Output = rawjson.Quote(output)
		}
		delete(native, "TOOL_INPUT")
		delete(native, "TOOL_OUTPUT")
	}
	switch kind {
	case grapnel.CompactAfter:
		ev.Compact = &grapnel.Compact{}
	case grapnel.NotificationSent:
		ev.Notification = &grapnel.Notification{Message: env["NOTIFICATION_MESSAGE"], Type: env["NOTIFICATION_LEVEL"]}
	case grapnel.TaskBefore, grapnel.TaskAfter:
		ev.Task = &grapnel.Task{ID: env["TASK_ID"], Description: env["TASK_DESCRIPTION"]}
	default: // their values are in Session, Tool and Native
	}
	if raw, err := rawjson.Marshal(native); err == nil && len(native) > 0 {
		ev.Native = raw
	}
	return ev
}
