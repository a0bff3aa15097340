package dialect

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Antigravity returns the dialect of the Antigravity CLI.
func Antigravity() *Dialect { return antigravity.clone() }

// antigravity is the dialect of the Antigravity CLI, agy. The program was not run for this dialect:
// "documented" below means the vendor's documentation, and "reported" means public reports by users
// who ran the named version.
//
// A payload does not name its event, so the installed command does. Every answer is a JSON object
// with exit code 0: at PreToolUse an empty object denies the call (reported, 1.0.3 to 1.2.7), an
// empty output allows or denies it, depending on the version, and any other exit code denies it
// (reported, 1.1.18).
//
// No answer at PreToolUse means "no opinion". Grapnel writes ask for it: the agent then asks the
// user, unless the user has already answered with "always allow" (documented). An allow would be
// wrong: it is documented to skip the prompt of the agent, although 1.1.2 to 1.2.7 still prompt
// (reported). A question of a hook is force_ask, which asks in every case (documented).
var antigravity = &Dialect{
	Name:        antigravityName,
	Title:       "Antigravity CLI",
	Aliases:     []string{"agy"},
	Events:      antigravityEvents,
	Tools:       antigravityTools,
	In:          "conversationId=session.id workspacePaths=session.cwd:list transcriptPath=session.transcript modelName=session.model",
	Void:        antigravityNeutral,
	Blind:       "decision=block:deny reason=reason",
	ExitBlocks:  true,
	Adapt:       adaptAntigravity,
	ReadOutcome: readAntigravityOutcome,
	setup:       &antigravitySetup,
}

var antigravitySetup = Setup{
	// Gemini CLI uses ~/.gemini, too.
	Processes:  []string{"agy"},
	Documented: true, Program: "agy", Dir: ".gemini/antigravity-cli", User: ".gemini/config/hooks.json", Project: ".agents/hooks.json",
	// An entry with any other member, or with a timeout that is not a whole number, makes the agent
	// ignore the file or the member without a message (reported, 1.1.25).
	Shape: ShapeNamed, Label: "grapnel", Matcher: "*", Unit: time.Second, Fold: true, Strict: true,
	Entry:  `{"type": "command", "command": $command, "timeout": $timeout}`,
	Off:    []Switch{{Path: "grapnel.enabled", Is: "false", Effect: "keeps Antigravity CLI from running Grapnel's hooks"}},
	Late:   "blocks the call if grapnel-hook fails, and its documentation does not say what it does after its timeout",
	Undone: "another hook can replace the arguments of a call after Grapnel's decision (overwrite); a block by Grapnel always holds",
	Unseen: []string{
		"prompts: Antigravity CLI has no event for them",
		"results of tools: PostToolUse does not contain them",
		"calls with invalid arguments: Antigravity CLI refuses them before it runs hooks",
		"sub-agents, compaction and ends of sessions: Antigravity CLI has no event for them",
	},
	Todo: []string{
		"check with agy -p /hooks --output-format json that agy lists the hook grapnel",
		"agy now asks before each call that no rule allows, unless you have answered with \"always allow\"",
	},
}

const (
	antigravityName    = "antigravity"
	antigravityNeutral = `{"decision":"ask"}`
	antigravityCall    = "toolCall.name=tool.name toolCall.args=tool.input "
)

// antigravityEvents lists all events, in the order of a run.
var antigravityEvents = []EventRow{
	// Not documented. It was reported to run in 1.1.25 to 1.5.0; a version without it ignores its
	// entry.
	{Native: "SessionStart", Kind: grapnel.SessionStart, Install: true, Void: "{}"},
	{
		// The model can be sent more text here, but Contracts have no context for this event.
		Native: "PreInvocation", Kind: grapnel.ModelBefore, Out: "injectSteps=native:list", Void: "{}",
		Why: "fires at every call of the model, does not contain the text, and cannot stop it",
	},
	{
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true, In: antigravityCall,
		Out: "decision=block:deny decision=ask:force_ask decision=allow:allow reason=reason <decision=ask:ask " +
			"<decision=block:deny_unless_prior_grant <overwrite=tool.input",
	},
	// The error is part of the documentation. In 1.1.18 it was always empty, and a call that failed
	// or was denied had no PostToolUse (reported).
	{Native: "PostToolUse", Kind: grapnel.ToolAfter, Failed: grapnel.ToolFailed, Install: true, In: antigravityCall, Void: "{}"},
	{
		Native: "PostInvocation", Kind: grapnel.ModelAfter, Out: "terminationBehavior=halt:terminate injectSteps=native:list", Void: "{}",
		Why: "fires at every call of the model, and does not contain the text",
	},
	{
		// 1.1.18 continues at most 10 times (reported), Grapnel at most 8 times.
		Native: "Stop", Kind: grapnel.AgentAfter, Install: true, In: "terminationReason=cause", Void: "{}",
		Out: "decision=block:continue reason=reason <decision=block:block",
	},
}

// antigravityTools lists the documented tools, and the reported ones that reach files, programs or
// servers. Text that manage_task sends to a running command is a command.
var antigravityTools = []ToolRow{
	{Native: "run_command", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/CommandLine"}, {Field: grapnel.FieldPath, At: "/Cwd", Use: grapnel.UseRead}}},
	{Native: "manage_task", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/Input"}}},
	{Native: "send_command_input", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/Input"}}},
	{Native: "command_status", Class: grapnel.ClassOther},
	{Native: "view_file", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/AbsolutePath", Use: grapnel.UseRead}}},
	{Native: "write_to_file", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/TargetFile", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/CodeContent"}}},
	{
		Native: "replace_file_content", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/TargetFile", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/ReplacementContent"}},
		Members: [][2]string{{"TargetContent", "old_string"}, {"AllowMultiple", "replace_all"}},
	},
	{Native: "multi_replace_file_content", Like: "MultiEdit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/TargetFile", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/ReplacementChunks/*/ReplacementContent"}}},
	{Native: "sed_file", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/TargetFile", Use: grapnel.UseWrite}, {Field: grapnel.FieldPath, At: "/AbsolutePath", Use: grapnel.UseWrite}}},
	{Native: "notebook_edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/TargetFile", Use: grapnel.UseWrite}, {Field: grapnel.FieldPath, At: "/AbsolutePath", Use: grapnel.UseWrite}}},
	{Native: "list_dir", Like: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/DirectoryPath", Use: grapnel.UseRead}}},
	{Native: "find_by_name", Like: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/SearchDirectory", Use: grapnel.UseRead}}},
	{Native: "grep_search", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/SearchPath", Use: grapnel.UseRead}}},
	{Native: "search_web", Like: "WebSearch", Class: grapnel.ClassFetch},
	{Native: "read_url_content", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/Url"}}},
	{Native: "open_browser_url", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/Url"}}},
	{Native: "invoke_subagent", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "define_subagent", Class: grapnel.ClassTask},
	{Native: "manage_subagents", Class: grapnel.ClassTask},
	{Native: "send_message", Class: grapnel.ClassTask},
	{Native: "schedule", Class: grapnel.ClassTask},
	{Native: "ask_question", Like: "AskUserQuestion", Class: grapnel.ClassOther},
	{Native: "ask_permission", Class: grapnel.ClassOther},
	{Native: "list_permissions", Class: grapnel.ClassOther},
	{Native: "generate_image", Class: grapnel.ClassOther},
}

// adaptAntigravity takes the directory of a command and the call of an MCP server from the
// arguments of the tool.
func adaptAntigravity(_ *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error {
	t := ev.Tool
	if t == nil {
		return nil
	}
	t.Failed = text(top["error"]) != ""
	switch t.Name {
	case "run_command":
		// The model chooses this directory, so it must not choose the project.
		if dir := text(split(t.Input)["Cwd"]); strings.HasPrefix(dir, "/") || strings.Contains(dir, `:\`) {
			ev.Session.Root, ev.Session.CWD = ev.Session.CWD, dir
		}
	case "call_mcp_tool": // with these members in 1.1.18 (reported)
		args := split(t.Input)
		server, ok1 := rawjson.Unquote(args["ServerName"])
		tool, ok2 := rawjson.Unquote(args["ToolName"])
		if !ok1 || !ok2 || server == "" || tool == "" {
			return fmt.Errorf("toolCall.args names no server and no tool (ServerName, ToolName)") // guards would miss the call
		}
		input, err := readInput("toolCall.args.Arguments", args["Arguments"])
		if err != nil {
			return err
		}
		t.MCP, t.Name, t.Input = &grapnel.MCP{Server: server, Tool: tool}, "", input
	}
	return nil
}

// readAntigravityOutcome reads the answer of a hook program. The answer that Grapnel writes for no
// opinion is not an opinion, either. A new input is merged into the old one (reported, 1.1.18).
func readAntigravityOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	d := lookup(dialects, antigravityName)
	if stdout := trim(out.Stdout); rawjson.IsObject(stdout) && json.Valid(stdout) {
		m := membersOf(stdout)
		if out.Exit == 0 && string(m.raw()) == antigravityNeutral {
			return grapnel.Outcome{}, nil
		}
		m.mergeInput(ev, d.Name, "overwrite")
		out.Stdout = m.raw()
	}
	return d.readOutcomeTable(ev, out)
}
