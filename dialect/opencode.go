package dialect

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// OpenCode returns the dialect of OpenCode.
func OpenCode() *Dialect { return openCode.clone() }

// openCode is the dialect of OpenCode, whose hooks are functions (input, output) of a plugin in its
// own process. Grapnel's plugin, in cmd/internal/setup/install/shim, forwards the arguments as {hook,
// directory, input, output} and applies the answer to output. For bus events, hook is the type of
// the event. "Seen live" below means version 1.18.33. No version 2 was run: the plugin follows its
// source and translates its events into these.
//
// OpenCode never calls its hook permission.ask (seen live). It asks for permission while a tool
// runs, so an ask becomes a block in tool.execute.before.
var openCode = &Dialect{
	Name:    "opencode",
	Title:   "OpenCode",
	Events:  opencodeEvents,
	Tools:   opencodeTools,
	MCP:     "{server}_{tool}",
	NamedAt: "hook",
	In: "directory=session.cwd input.sessionID=session.id input.event.properties.sessionID=session.id " +
		"input.event.properties.info.id=session.id input.event.properties.part.sessionID=session.id",
	Blind: "exit=block:2 stderr=reason",
	Adapt: adaptOpenCode,
	Speaks: func(top map[string]json.RawMessage) bool {
		_, takes := top["input"]
		return takes && top["hook_event_name"] == nil && top["ctx"] == nil && rowNamed(opencodeEvents, text(top["hook"])) != nil
	},
	setup: &openCodeSetup,
}

var openCodeSetup = Setup{
	Processes: []string{"opencode", ".opencode", "node_modules/opencode-ai"},
	Program:   "opencode", User: ".config/opencode/plugins/grapnel.js", Project: ".opencode/plugins/grapnel.js",
	MovedBy: "XDG_CONFIG_HOME", Moves: ".config",
	Related: []string{".config/opencode/opencode.json", ".config/opencode/opencode.jsonc", "opencode.json", "opencode.jsonc"},
	Shape:   ShapePlugin, Own: true, Deadline: 58 * time.Second,
	Unseen: []string{"opencode --pure and OPENCODE_PURE: OpenCode loads no plugins"},
	Todo: []string{
		"OpenCode loads plugins when it starts: restart it",
		"at its next start, OpenCode 1 installs the package @opencode-ai/plugin next to $file and waits until that is done: this needs a network connection once",
	},
}

// Reasons why events are not installed.
const (
	opencodeModel = "runs at every model call"
	opencodeChore = "is about OpenCode's own maintenance, not about the agent's actions"
)

// opencodeEvents lists the hooks of 1.18.33 and the bus events that are more than notifications for
// its own user interface, in the order of a session.
var opencodeEvents = []EventRow{
	{Native: "config", Kind: grapnel.NativePrefix + "opencode.config", Never: true, Why: "contains the keys of the model providers"},
	{
		// OpenCode does not wait for bus events: the plugin keeps the context for the first prompt
		// of the session.
		Native: "session.created", Kind: grapnel.SessionStart, Install: true,
		In: "input.event.properties.info.directory=session.cwd", Out: "context=context message=message",
	},
	{
		// An exception makes the prompt fail, and also ends the program if no user is present (seen
		// live).
		Native: "chat.message", Kind: grapnel.PromptBefore, Install: true, Closed: true,
		In:  "output.message.id=session.turn output.message.model.modelID=session.model output.message.agent=session.mode",
		Out: "block=block:true reason=reason prompt=prompt context=context message=message",
	},
	{Native: "chat.params", Kind: grapnel.NativePrefix + "opencode.chat.params", Why: opencodeModel},
	{Native: "chat.headers", Kind: grapnel.NativePrefix + "opencode.chat.headers", Why: opencodeModel},
	{
		Native: "experimental.chat.system.transform", Kind: grapnel.AgentBefore, Out: "context=context message=message",
		In: "input.model.id=session.model", Why: opencodeModel,
	},
	{Native: "experimental.chat.messages.transform", Kind: grapnel.NativePrefix + "opencode.experimental.chat.messages.transform", Why: opencodeModel},
	{Native: "experimental.provider.small_model", Kind: grapnel.NativePrefix + "opencode.experimental.provider.small_model", Why: opencodeChore},
	{Native: "tool.definition", Kind: grapnel.NativePrefix + "opencode.tool.definition", Why: opencodeModel},
	{
		Native: "command.execute.before", Kind: grapnel.NativePrefix + "opencode.command.execute.before",
		Why: "fires for slash commands, which the user types",
	},
	{
		Native: "tool.execute.before", Kind: grapnel.ToolBefore, Install: true, Closed: true,
		In:  "input.tool=tool.name input.callID=tool.id output.args=tool.input",
		Out: "block=block:true reason=reason args=tool.input message=message",
	},
	{
		// Only in OpenCode 2 (from its source): fires after the rules of the agent and before its
		// prompt, for each permission of a call, but not if a rule denies. The plugin makes the
		// input from the resources, which are only parts of the call.
		Native: "permission.evaluate", Kind: grapnel.PermissionBefore, Closed: true,
		In:  "input.action=tool.name input.callID=tool.id input.args=tool.input",
		Out: "block=block:true ask=ask:true allow=allow:true reason=reason message=message",
		Why: "exists only in OpenCode 2, where tool.execute.before reports the whole call",
	},
	{Native: "shell.env", Kind: grapnel.NativePrefix + "opencode.shell.env", In: "input.cwd=session.cwd", Why: "only sets variables; tool.execute.before reports the command"},
	{
		Native: "permission.asked", Kind: grapnel.NotificationSent, Install: true,
		In: "input.event.type=notification.type input.event.properties.permission=notification.title",
	},
	{
		Native: "question.asked", Kind: grapnel.NotificationSent, Install: true,
		In: "input.event.type=notification.type",
	},
	{
		// For MCP tools, output is the server's result. The result can be replaced (seen live), and
		// text for the model is appended to it.
		Native: "tool.execute.after", Kind: grapnel.ToolAfter, Install: true,
		In:  "input.tool=tool.name input.callID=tool.id input.args=tool.input output.output=tool.output output=tool.output",
		Out: "block reason=reason output=tool.output context=context message=message",
	},
	{
		// A tool that throws has no tool.execute.after (seen live): the plugin forwards the message
		// part that reports the failure.
		Native: "message.part.updated", Kind: grapnel.ToolFailed, Install: true,
		In: "input.event.properties.part.tool=tool.name input.event.properties.part.callID=tool.id " +
			"input.event.properties.part.state.input=tool.input input.event.properties.part.state.error=tool.output",
		Out: "message=message",
	},
	{Native: "file.edited", Kind: grapnel.NativePrefix + "opencode.file.edited", Why: "tool.execute.after reports the edit"},
	{Native: "file.watcher.updated", Kind: grapnel.NativePrefix + "opencode.file.watcher.updated", Why: "fires for every file that changes"},
	{
		// Replaces the stored answer (seen live). The user may already have read the original while
		// it was streamed. A blocked text is replaced by the reason.
		Native: "experimental.text.complete", Kind: grapnel.ResponseBefore,
		In: "output.text=model.response", Out: "block text=response text=reason:block message=message",
		Why: "fires for every text of the model",
	},
	{
		Native: "session.idle", Kind: grapnel.AgentAfter, Install: true, Out: "message=message", // the turn is over regardless of the answer
	},
	{Native: "session.error", Kind: grapnel.AgentFailed, Install: true, In: "input.event.properties.error.name=cause", Out: "message=message"},
	{
		Native: "experimental.session.compacting", Kind: grapnel.CompactBefore, Install: true, Out: "context=context message=message",
	},
	{Native: "experimental.compaction.autocontinue", Kind: grapnel.NativePrefix + "opencode.experimental.compaction.autocontinue", Why: opencodeChore},
	{Native: "session.compacted", Kind: grapnel.CompactAfter, Install: true, Out: "message=message"},
	{Native: "session.deleted", Kind: grapnel.SessionEnd, Install: true, In: "input.event.properties.info.directory=session.cwd"},
	{Native: "dispose", Kind: grapnel.NativePrefix + "opencode.dispose", Why: opencodeChore},
}

// opencodeTools lists the built-in tools. The tools shell, execute, patch and subagent, and the member
// path, are in OpenCode 2, and are from its source.
var opencodeTools = []ToolRow{
	{Native: "bash", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}, {Field: grapnel.FieldPath, At: "/workdir", Use: grapnel.UseRead}}},
	{Native: "shell", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}, {Field: grapnel.FieldPath, At: "/workdir", Use: grapnel.UseRead}}},
	{Native: "execute", Class: grapnel.ClassShell}, // runs JavaScript; the tools that it calls have events of their own
	{Native: "read", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/filePath", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "write", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/filePath", Use: grapnel.UseWrite}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{
		Native: "edit", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/filePath", Use: grapnel.UseWrite}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/newString"}},
		Members: [][2]string{{"oldString", "old_string"}, {"replaceAll", "replace_all"}},
	},
	{Native: "multiedit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/filePath", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/edits/*/newString"}}},
	{Native: "apply_patch", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/patchText", Use: grapnel.UseWrite, Form: seam.FormPatch}, {Field: grapnel.FieldContent, At: "/patchText"}}},
	{Native: "patch", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/patchText", Use: grapnel.UseWrite, Form: seam.FormPatch}, {Field: grapnel.FieldContent, At: "/patchText"}}},
	{Native: "glob", Like: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "grep", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "list", Like: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "lsp", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/filePath", Use: grapnel.UseRead}}},
	{Native: "webfetch", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
	{Native: "websearch", Like: "WebSearch", Class: grapnel.ClassFetch},
	{Native: "task", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "subagent", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "external_directory", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}}, // a permission
	{Native: "todowrite", Like: "TodoWrite", Class: grapnel.ClassTask},
	{Native: "skill", Like: "Skill", Class: grapnel.ClassOther},
	{Native: "question", Like: "AskUserQuestion", Class: grapnel.ClassOther},
	{Native: "invalid", Class: grapnel.ClassOther}, // a call by the model of a tool that does not exist
	{Native: "plan_exit", Class: grapnel.ClassOther},
}

func adaptOpenCode(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error {
	find := finder{"": top}
	switch row.Native {
	case "chat.message":
		var parts []json.RawMessage
		_ = json.Unmarshal(find.at("output.parts"), &parts) // without parts there is no prompt
		var texts []string
		for _, part := range parts {
			if p := split(part); text(p["type"]) == "text" && string(p["synthetic"]) != "true" {
				texts = append(texts, text(p["text"]))
			}
		}
		ev.Prompt = &grapnel.Prompt{Text: strings.Join(texts, "\n")}
	case "session.created":
		if text(find.at("input.event.properties.info.parentID")) != "" {
			ev.Cause = "subagent"
		}
	case "message.part.updated":
		if text(find.at("input.event.properties.part.state.status")) != "error" {
			ev.Kind = grapnel.NativePrefix + "opencode.message.part.updated"
			if ev.Tool.Name == "" {
				ev.Tool = nil
			}
		}
	}
	return nil
}
