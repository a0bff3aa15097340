package dialect

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Crush returns the dialect of Crush.
func Crush() *Dialect { return crush.clone() }

// crush is the dialect of Crush, which has one event, and accepts answers in its own format or in
// Claude Code's. "Seen live" below means version 0.86.0.
//
// Crush allows the call for any answer that it does not understand, including ask, a decision of
// block and continue:false (seen live), so Grapnel writes none of these. Every hook failure fails
// open, except for exit codes 2 and 49. The calls of sub-agents fire no event, only the call that
// starts one does (seen in the source), and no call has an id.
var crush = &Dialect{
	Name:    "crush",
	Title:   "Crush",
	NamedAt: "event",
	Events: []EventRow{{
		// Runs before the permission prompt, which an allow skips. A new input is merged into the
		// old one, and a name with a dot is a path (seen in the source). The context is appended to
		// the result, and is lost with a deny (seen live).
		Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true, Can: grapnel.Can{Merges: true},
		In: "tool_name=tool.name tool_input=tool.input",
		Out: "decision=block:deny reason=reason:block decision=allow:allow halt=halt:true reason=halt updated_input=tool.input context=context " +
			"<decision=block:block <hookSpecificOutput.permissionDecision=block:deny <hookSpecificOutput.permissionDecision=ask:ask " +
			"<hookSpecificOutput.permissionDecision=allow:allow <hookSpecificOutput.permissionDecisionReason=reason " +
			"<hookSpecificOutput.updatedInput=tool.input <hookSpecificOutput.additionalContext=context",
	}},
	Tools:  crushTools,
	Folds:  crushMembers,
	MCP:    "mcp_{server}_{tool}",
	In:     "session_id=session.id cwd=session.cwd",
	Blind:  "decision=block:deny reason=reason",
	Exits:  "2=block 49=halt",
	Finish: finishCrush,
	Speaks: func(top map[string]json.RawMessage) bool {
		return text(top["event"]) == "PreToolUse" && text(top["tool_name"]) != "" && top["session_id"] != nil && top["hook_event_name"] == nil
	},
	ReadOutcome: readCrushOutcome,
	HookEnv:     crushHookEnv,
	setup:       &crushSetup,
}

var crushSetup = Setup{
	Processes: []string{"crush", "@charmland/crush"},
	Program:   "crush", User: ".config/crush/crush.json", Project: "crush.json", MovedBy: "XDG_CONFIG_HOME", Moves: ".config",
	// No matcher: without one the hook gets all calls, and * is an invalid expression for which
	Related: []string{".crush.json", ".local/share/crush/crush.json"},
	// Crush does not start (seen live).
	Shape: ShapeFlat, Entry: `{"name": $label, "command": $command, "timeout": $timeout}`, Label: "grapnel", Unit: time.Second, AskTimeout: askTimeout,
	Fold: true, Strict: true,
	Undone: "if several hooks change an input, the last file wins; a block by Grapnel always holds",
	Unseen: []string{
		"actions of a sub-agent: hooks see only the call of agent or agentic_fetch that starts it",
		"prompts, results, stops and sessions: Crush has only the event before a tool call",
	},
}

// crushTools lists the built-in tools.
var crushTools = []ToolRow{
	{Native: "bash", Like: "Bash", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}, {Field: grapnel.FieldPath, At: "/working_dir", Use: grapnel.UseRead}}},
	{Native: "edit", Like: "Edit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/new_string"}}},
	{Native: "multiedit", Like: "MultiEdit", Class: grapnel.ClassEdit, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/edits/*/new_string"}}},
	{Native: "write", Like: "Write", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
	{Native: "download", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}, {Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite}}},
	{Native: "view", Like: "Read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}},
	{Native: "ls", Like: "LS", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "grep", Like: "Grep", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "glob", Like: "Glob", Class: grapnel.ClassSearch, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
	{Native: "fetch", Like: "WebFetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
	{Native: "agentic_fetch", Class: grapnel.ClassFetch, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
	{Native: "agent", Like: "Agent", Class: grapnel.ClassTask},
	{Native: "todos", Like: "TodoWrite", Class: grapnel.ClassTask},
}

// crushMembers lists the input members of the built-in tools.
var crushMembers = []string{
	"/action", "/auto_background_after", "/command", "/content", "/depth", "/description", "/edits", "/edits/*/new_string", "/edits/*/old_string",
	"/edits/*/replace_all", "/file_path", "/format", "/ignore", "/include", "/limit", "/literal_text", "/new_name", "/new_string", "/offset",
	"/old_string", "/path", "/pattern", "/prompt", "/query", "/replace_all", "/replacement", "/run_in_background", "/shell_id", "/symbol", "/timeout",
	"/todos", "/url", "/wait", "/working_dir",
}

// finishCrush reduces a new input to the members that differ. The other members are already there,
// and Crush must not interpret their names as paths.
func finishCrush(_ *EventRow, ev *grapnel.Event, _ *supportedVerdict, out *members) {
	now := out.get("updated_input")
	if !rawjson.IsObject(now) {
		return // the agent sent a string and gets a string
	}
	before, changed := split(split(ev.Native)["tool_input"]), members{}
	for _, m := range membersOf(now) {
		if was := before[m.name]; was == nil || !rawjson.Equal(was, m.value) {
			changed = append(changed, m)
		}
	}
	out.set("updated_input", changed.raw())
}

// readCrushOutcome reads an answer as Crush does: with hookSpecificOutput it ignores all other
// members, and it merges a new input into the old one.
func readCrushOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	d := lookup(dialects, "crush")
	if stdout := trim(out.Stdout); rawjson.IsObject(stdout) && json.Valid(stdout) {
		m := membersOf(stdout)
		if nested := m.get("hookSpecificOutput"); rawjson.IsObject(nested) {
			m = members{{"hookSpecificOutput", nested}}
		}
		m.mergeInput(ev, d.Name, "updated_input")
		m.mergeInput(ev, d.Name, "hookSpecificOutput.updatedInput")
		out.Stdout = m.raw()
	}
	return d.readOutcomeTable(ev, out)
}

// mergeInput replaces the members of an input at a path of an answer by the whole input of the
// call with these members.
func (m *members) mergeInput(ev *grapnel.Event, agent, path string) {
	now, err := readInput(path, at(m.byName(), path))
	if err != nil || now == nil || ev.Tool == nil {
		return // the table reports the error
	}
	if r, err := render(ev, ev.Tool, agent); err == nil {
		if d := lookup(dialects, agent); d.Folds != nil {
			if same, err := rawjson.Fold(now, rawjson.Keys(r.input.raw())); err == nil {
				now = same
			}
		}
		for _, e := range membersOf(now) {
			r.input.set(e.name, e.value)
		}
		m.put(path, r.input.raw())
	}
}

func crushHookEnv(ev *grapnel.Event) []string {
	d := lookup(dialects, "crush")
	line, err := d.writeEventTable(ev)
	if err != nil {
		return nil
	}
	top := split(line)
	vars := variables(
		[2]string{"CRUSH", "1"}, [2]string{"AGENT", "crush"}, [2]string{"AI_AGENT", "crush"}, [2]string{"CRUSH_EVENT", text(top["event"])},
		[2]string{"CRUSH_TOOL_NAME", text(top["tool_name"])}, [2]string{"CRUSH_SESSION_ID", ev.Session.ID}, [2]string{"CRUSH_CWD", ev.Session.CWD},
		[2]string{"CRUSH_PROJECT_DIR", cmp.Or(ev.Session.Root, ev.Session.CWD)},
	)
	input := split(top["tool_input"])
	for _, v := range [][2]string{{"CRUSH_TOOL_INPUT_COMMAND", text(input["command"])}, {"CRUSH_TOOL_INPUT_FILE_PATH", text(input["file_path"])}} {
		if len(v[1]) <= 64<<10 && !strings.Contains(v[1], "\x00") { // a program cannot start with a variable of 128 KiB or more
			vars = append(vars, variables(v)...)
		}
	}
	return vars
}
