package dialect

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

const geminiName = "gemini-cli"

// GeminiCLI returns the dialect of Gemini CLI.
func GeminiCLI() *Dialect { return geminiCLI.clone() }

// geminiCLI is the dialect of Gemini CLI: one JSON object on stdin, and one or nothing on stdout.
// "Seen live" below means version 0.61.0.
//
// The exit code is 0 and decides nothing. Gemini CLI checks it only if the output is not JSON, and
// a silent exit 2 is an allow (seen live). If stdout is empty, stderr must be empty too, because
// Gemini CLI would read stderr as the answer.
var geminiCLI = &Dialect{
	Name:         geminiName,
	Title:        "Gemini CLI",
	MCP:          "mcp_{server}_{tool}",
	Aliases:      []string{"gemini"},
	Events:       geminiEvents,
	Tools:        geminiTools,
	Speaks:       speaksGemini,
	ReadEvent:    readGemini,
	WriteVerdict: writeGemini,
	WriteEvent:   writeGeminiEvent,
	ReadOutcome:  readGeminiOutcome,
	HookEnv:      geminiHookEnv,
	transcripts:  ".gemini",
	setup:        &geminiSetup,
}

var geminiSetup = Setup{
	Processes: []string{"gemini", "@google/gemini-cli"},
	Program:   "gemini", User: ".gemini/settings.json", Project: ".gemini/settings.json", MovedBy: "GEMINI_CLI_HOME",
	Managed: [3]string{"/etc/gemini-cli/settings.json", "/Library/Application Support/GeminiCli/settings.json", "C:/ProgramData/gemini-cli/settings.json"},
	Related: []string{"/etc/gemini-cli/system-defaults.json", ".gemini/trustedFolders.json"}, Sessions: ".gemini/tmp",
	Shape: ShapeGroups, Entry: `{"type": "command", "name": $label, "command": $command, "timeout": $timeout}`, Unit: time.Millisecond, AskTimeout: askTimeout,
	Comments: true, Vars: true, Matcher: "*",
	Label: "grapnel", // /hooks disable and hooksConfig.disabled use this name for entries
	Off: []Switch{ // older versions kept these settings in "hooks" and in "tools"
		{Path: "hooksConfig.enabled", Is: "false", Effect: "keeps Gemini CLI from running hooks; set it to true"},
		{Path: "hooks.enabled", Is: "false", Effect: "keeps Gemini CLI from running hooks; set it to true"},
		{Path: "tools.enableHooks", Is: "false", Effect: "keeps Gemini CLI from running hooks; set it to true"},
		{Path: "hooksConfig.disabled", Names: true, Effect: "keeps Gemini CLI from running it; take it off the list or type /hooks enable grapnel"},
		{Path: "hooks.disabled", Names: true, Effect: "keeps Gemini CLI from running it; take it off the list or type /hooks enable grapnel"},
	},
	// Seen live.
	Undone: "at BeforeModel and AfterModel, an allow of a later hook overrides a block by Grapnel; at all events, a later change of an input replaces Grapnel's; a block by Grapnel before a call always holds",
	Unseen: []string{"everything in an untrusted folder: no hooks run there"},
	Todo:   []string{"Gemini CLI reads its hooks at startup and runs none in untrusted folders: restart it, and trust the folder when it asks"},
}

// geminiEvents lists all events of 0.61.0, in the order of a turn. No event has Allow: the agent's
// own "allow" means no opinion and skips no prompt.
var geminiEvents = []EventRow{
	{
		Native: "SessionStart", Kind: grapnel.SessionStart, Install: true,
		Can: grapnel.Can{Context: true, Message: true},
	},
	{
		Native: "BeforeAgent", Kind: grapnel.PromptBefore, Install: true,
		// Hooks cannot edit the prompt: a rewrite becomes a block that shows it.
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true},
	},
	{
		Native: "PreCompress", Kind: grapnel.CompactBefore,
		Can: grapnel.Can{Message: true}, // the agent ignores stop and deny
		Why: "fires before every call of the model, whether anything is compressed or not",
	},
	{
		// A response from the hook replaces the model call. It needs a deny: the agent ignores it
		// without one (seen live).
		Native: "BeforeModel", Kind: grapnel.ModelBefore,
		Can: grapnel.Can{Block: true, Halt: true, Message: true, Change: []grapnel.Field{grapnel.FieldRequest, grapnel.FieldResponse}},
		Why: "would start a process for every call of the model",
	},
	{
		// The agent drops everything except toolConfig, and any output, even {}, rewrites the tool
		// configuration. The choice only advises the model: the agent runs any tool that the model
		// calls (seen live).
		Native: "BeforeToolSelection", Kind: grapnel.ToolsetBefore,
		Can: grapnel.Can{Change: []grapnel.Field{grapnel.FieldTools, grapnel.FieldMode}},
		Why: "any answer rewrites the tool configuration of the call",
	},
	{
		// A deny still delivers the response and runs its tool calls (seen live). So the event has
		// Halt instead of Block, because a halt does stop the calls. A new response replaces one
		// chunk, and the tool calls of that chunk are lost. The agent's history keeps the original
		// (seen live).
		Native: "AfterModel", Kind: grapnel.ModelAfter,
		Can: grapnel.Can{Halt: true, Message: true, Change: []grapnel.Field{grapnel.FieldResponse}},
		Why: "would start a process for every chunk of a response",
	},
	{
		Native: "BeforeTool", Kind: grapnel.ToolBefore, Install: true,
		Can: grapnel.Can{Block: true, Ask: true, Halt: true, Message: true, Change: []grapnel.Field{grapnel.FieldInput}},
	},
	{
		Native: "Notification", Kind: grapnel.NotificationSent, Install: true,
		Can: grapnel.Can{Message: true},
	},
	{
		// A block replaces the result by an error with the reason. The output cannot be rewritten
		// in another way, so a change of the output becomes a block that shows the new output.
		Native: "AfterTool", Kind: grapnel.ToolAfter, Failed: grapnel.ToolFailed, Install: true,
		Can: grapnel.Can{Block: true, Halt: true, Context: true, Message: true, Change: []grapnel.Field{grapnel.FieldNext}},
	},
	{
		// A block is a retry with the reason as prompt. clearContext works only with a block or a
		// halt, so it is not written without one.
		Native: "AfterAgent", Kind: grapnel.AgentAfter, Install: true,
		Can: grapnel.Can{Block: true, Halt: true, Message: true, Change: []grapnel.Field{grapnel.FieldClear}, Beside: grapnel.Block},
	},
	{
		Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true,
		Can: grapnel.Can{Message: true},
	},
}

// geminiTools lists the built-in tools, with input members of older and current versions. The
// classes are the same as in claudeTools.
var geminiTools = []ToolRow{
	{Native: "run_shell_command", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}, {Field: grapnel.FieldPath, At: "/dir_path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/directory", Use: grapnel.UseRead}}, Members: [][2]string{{"is_background", "run_in_background"}}},
	{Native: "list_background_processes", Class: grapnel.ClassOther},
	{Native: "read_background_output", Like: "BashOutput", Class: grapnel.ClassOther},
	{Native: "read_file", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/absolute_path", Use: grapnel.UseRead}}},
	{Native: "read_many_files", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/include/*", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/paths/*", Use: grapnel.UseRead}}},
	{Native: "write_file", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "replace", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_string"}}, Members: [][2]string{{"allow_multiple", "replace_all"}}},
	{Native: "glob", Like: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/dir_path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "grep_search", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/dir_path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "search_file_content", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/dir_path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "list_directory", Like: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/dir_path", Use: grapnel.UseRead}, {Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	// The addresses are usually in the text of its prompt, where no fact can point. Rules on any
	// text of the call see them; rules on addresses do not.
	{Native: "web_fetch", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
	{Native: "google_web_search", Like: "WebSearch", Class: grapnel.ClassFetch},
	{Native: "invoke_agent", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "write_todos", Like: "TodoWrite", Class: grapnel.ClassTask},
	{Native: "save_memory", Class: grapnel.ClassOther, Facts: []grapnel.Fact{{Field: grapnel.FieldContent, At: "/fact"}}},
	{Native: "activate_skill", Like: "Skill", Class: grapnel.ClassOther},
	{Native: "ask_user", Like: "AskUserQuestion", Class: grapnel.ClassOther},
	{Native: "enter_plan_mode", Like: "EnterPlanMode", Class: grapnel.ClassOther},
	{Native: "exit_plan_mode", Like: "ExitPlanMode", Class: grapnel.ClassOther},
	{Native: "update_topic", Class: grapnel.ClassOther},
}

// speaksGemini distinguishes Gemini CLI from Qwen Code, a fork with other event names, and from
// Copilot, which also sends a timestamp. Most of Gemini CLI's event names are unique.
func speaksGemini(top map[string]json.RawMessage) bool {
	native := text(top["hook_event_name"])
	home := transcriptHome(top)
	switch {
	case native == "", foreign(top), home != "" && home != ".gemini":
		return false
	case home == ".gemini":
		return true // includes events of newer versions
	case top["permission_mode"] != nil: // Qwen Code with a moved transcript
		return false
	case rowNamed(claudeEvents, native) != nil: // Gemini CLI always sends the transcript path, although it may be empty
		path, ok := rawjson.Unquote(top["transcript_path"])
		return ok && path == "" && text(top["timestamp"]) != "" && rowNamed(geminiEvents, native) != nil
	default:
		return rowNamed(geminiEvents, native) != nil
	}
}

func readGemini(row *EventRow, top map[string]json.RawMessage, _ Input) (*grapnel.Event, error) {
	ev := &grapnel.Event{Session: grapnel.Session{
		ID:         text(top["session_id"]),
		CWD:        text(top["cwd"]),
		Transcript: text(top["transcript_path"]),
	}}
	if at, err := time.Parse(time.RFC3339, text(top["timestamp"])); err == nil {
		ev.Time = at
	}
	if row == nil {
		return ev, nil
	}
	request, response := present(top["llm_request"]), present(top["llm_response"])
	ev.Session.Model = text(split(request)["model"])
	var err error
	switch row.Native {
	case "SessionStart":
		ev.Cause = text(top["source"])
	case "SessionEnd":
		ev.Cause = text(top["reason"])
	case "BeforeAgent":
		ev.Prompt = &grapnel.Prompt{}
		ev.Prompt.Text, err = wantText(top, "prompt")
	case "AfterAgent":
		ev.Prompt = &grapnel.Prompt{Text: text(top["prompt"])}
		ev.Stop = &grapnel.Stop{Active: flag(top["stop_hook_active"]), LastMessage: text(top["prompt_response"])}
	case "BeforeModel":
		ev.Model = &grapnel.Model{Request: request}
	case "BeforeToolSelection":
		ev.Model = &grapnel.Model{Request: request}
		ev.Toolset = &grapnel.Toolset{} // the payload does not list the available tools
	case "AfterModel":
		ev.Model = &grapnel.Model{Request: request, Response: response}
	case "BeforeTool":
		ev.Tool, err = readGeminiTool(top)
	case "AfterTool":
		if ev.Tool, err = readGeminiTool(top); err != nil {
			break
		}
		ev.Tool.Output = present(top["tool_response"])
		if failure := present(split(ev.Tool.Output)["error"]); failure != nil {
			ev.Kind, ev.Tool.Failed, ev.Cause = row.Failed, true, text(split(failure)["type"])
		}
	case "PreCompress":
		ev.Cause = text(top["trigger"])
		ev.Compact = &grapnel.Compact{}
	case "Notification":
		ev.Notification = &grapnel.Notification{
			Type: text(top["notification_type"]), Title: text(split(top["details"])["title"]), Message: text(top["message"]),
		}
	}
	if err != nil {
		return nil, err
	}
	return ev, nil
}

// readGeminiTool reads a call. MCP tools are named mcp_server_tool. The name alone does not show
// which underscore ends the server; mcp_context does.
func readGeminiTool(call map[string]json.RawMessage) (*grapnel.Tool, error) {
	var mcp *grapnel.MCP
	if about := split(call["mcp_context"]); text(about["server_name"]) != "" {
		mcp = &grapnel.MCP{Server: text(about["server_name"]), Tool: text(about["tool_name"])}
	}
	t, err := readTool(geminiTools, call, mcp)
	if err != nil {
		return nil, err
	}
	if t.Class == grapnel.ClassOther && strings.HasPrefix(t.Name, "mcp_") {
		t.Class = grapnel.ClassMCP
	}
	return t, nil
}

// geminiReply has every member that Grapnel writes.
type geminiReply struct {
	Continue       *bool          `json:"continue,omitempty"`
	StopReason     string         `json:"stopReason,omitempty"`
	SuppressOutput *bool          `json:"suppressOutput,omitempty"` // native: Outcome.Native has it as gemini-cli.suppressOutput
	SystemMessage  string         `json:"systemMessage,omitempty"`
	Decision       string         `json:"decision,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	Specific       geminiSpecific `json:"hookSpecificOutput,omitzero"`
}

type geminiSpecific struct {
	HookEventName       string            `json:"hookEventName"`
	ToolInput           json.RawMessage   `json:"tool_input,omitempty"` // replaces the whole input, contrary to the agent's documentation
	LLMRequest          json.RawMessage   `json:"llm_request,omitempty"`
	LLMResponse         json.RawMessage   `json:"llm_response,omitempty"`
	ToolConfig          *geminiToolConfig `json:"toolConfig,omitempty"`
	TailToolCallRequest *geminiCall       `json:"tailToolCallRequest,omitempty"`
	ClearContext        bool              `json:"clearContext,omitempty"`
	AdditionalContext   string            `json:"additionalContext,omitempty"`
}

type geminiToolConfig struct {
	Mode                 string   `json:"mode,omitempty"`
	AllowedFunctionNames []string `json:"allowedFunctionNames,omitempty"`
}

type geminiCall struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

func writeGemini(row *EventRow, ev *grapnel.Event, v *grapnel.Verdict) Reply {
	if row == nil {
		return writeGeminiBlind(ev, v)
	}
	t := supportedOf(row, ev, v)
	var out geminiReply
	s := &out.Specific
	s.AdditionalContext = t.context
	if t.halt != "" {
		out.Continue, out.StopReason = no, t.halt
	}
	if t.block {
		out.Decision, out.Reason = "deny", t.reason
	}
	switch row.Native {
	case "BeforeToolSelection":
		s.ToolConfig = geminiChoice(&t)
	case "BeforeModel":
		if t.block {
			// A hook that did not deny set this response, and another hook denied.
			if answer := v.Native[geminiName+".llm_response"]; hasParts(answer) {
				s.LLMResponse = answer
			}
			break
		}
		s.LLMRequest = t.change(grapnel.FieldRequest)
		if answer := t.change(grapnel.FieldResponse); answer != nil {
			s.LLMRequest, s.LLMResponse = nil, geminiResponse(answer)
			out.Decision, out.Reason = "deny", "answered by a hook instead of the model"
		}
	case "AfterModel":
		if response := t.change(grapnel.FieldResponse); response != nil {
			s.LLMResponse = geminiResponse(response)
		}
	case "BeforeTool":
		if input := t.change(grapnel.FieldInput); input != nil && !t.block {
			s.ToolInput = input
		}
		if t.ask {
			out.Decision, out.Reason = "ask", t.reason
			t.warn(t.reason) // the dialog shows the message, not the reason
		}
	case "AfterTool":
		s.TailToolCallRequest = geminiNext(&t)
	case "AfterAgent":
		s.ClearContext = flag(t.change(grapnel.FieldClear)) && (t.block || t.halt != "")
	}
	if t.can.Message {
		out.SystemMessage = t.message
		out.SuppressOutput = member[bool](v, geminiName, "suppressOutput")
	}
	if !reflect.ValueOf(*s).IsZero() {
		s.HookEventName = row.Native
	}
	return jsonReply(out)
}

// geminiChoice writes the tools that the model may choose from. The names take effect in every mode
// except none. In auto, the agent's default, the model may also answer without a tool.
func geminiChoice(t *supportedVerdict) *geminiToolConfig {
	tools, mode := t.change(grapnel.FieldTools), strings.ToUpper(text(t.change(grapnel.FieldMode)))
	if tools == nil && mode == "" {
		return nil
	}
	c := &geminiToolConfig{Mode: mode}
	if tools != nil && json.Unmarshal(tools, &c.AllowedFunctionNames) == nil && len(c.AllowedFunctionNames) == 0 {
		c.Mode = "NONE" // an empty list would allow every tool
	}
	switch c.Mode {
	case "AUTO", "ANY":
	case "NONE":
		c.AllowedFunctionNames = nil
	default:
		c.Mode = "AUTO"
	}
	return c
}

// geminiResponse writes a response in the agent's format. The agent would ignore a response without
// parts and show the original text.
func geminiResponse(raw json.RawMessage) json.RawMessage {
	content, plain := rawjson.Unquote(raw)
	switch {
	case plain:
	case hasParts(raw):
		return raw
	default:
		content = text(split(raw)["text"])
	}
	part := rawjson.Quote(content)
	var b []byte
	b = append(b, `{"text":`...)
	b = append(b, part...)
	b = append(b, `,"candidates":[{"content":{"role":"model","parts":[`...)
	b = append(b, part...)
	return append(b, `]},"finishReason":"STOP","index":0}]}`...)
}

// geminiNext requests another tool call. Grapnel's name for its args is input.
func geminiNext(t *supportedVerdict) *geminiCall {
	raw := t.change(grapnel.FieldNext)
	if raw == nil {
		return nil
	}
	next := split(raw)
	call := &geminiCall{Name: text(next["name"]), Args: next["input"]}
	if call.Args == nil {
		call.Args = json.RawMessage("{}")
	}
	if call.Name == "" || !rawjson.IsObject(call.Args) {
		t.warn("grapnel: the next tool was not requested: tool.next must be {name, input}, got " + shorten(raw))
		return nil
	}
	return call
}

// writeGeminiBlind answers an event without a readable name, as writeClaudeBlind does.
func writeGeminiBlind(ev *grapnel.Event, v *grapnel.Verdict) Reply {
	if ev.Kind != "" || v.Decision != grapnel.Block {
		return Reply{}
	}
	reason := v.Reason()
	return jsonReply(geminiReply{Continue: no, StopReason: reason, Decision: "deny", Reason: reason})
}
