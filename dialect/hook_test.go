package dialect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

var agents = []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()}

// TestHookConversations plays testdata/hooks/<dialect>/*.txtar. A file has
//
//	stdin.json    the agent's payload
//	hook.json     stdin of a hook program of that dialect
//	environ       and its environment
//	stdout        its answer, with
//	stderr        this stderr, and
//	exit          this exit code; absent = 0
//	outcome.json  the resulting Outcome
//	error         and its error, if any
//	reply         the reply to the agent
//
// -update writes hook.json, environ, outcome.json, error and reply.
func TestHookConversations(t *testing.T) {
	t.Parallel()
	for _, d := range slices.Concat(agents, dialect.HookOnly()) {
		files, err := filepath.Glob(filepath.Join("testdata", "hooks", d.Name, "*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no conversations with hooks of %s: %v", d.Name, err)
		}
		for _, file := range files {
			t.Run(d.Name+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				playHook(t, d, file)
			})
		}
	}
}

func playHook(t *testing.T, d *dialect.Dialect, file string) {
	t.Helper()
	want, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(want.Comment)) == 0 {
		t.Errorf("%s has no comment", file)
	}
	part := func(name string) []byte {
		for _, f := range want.Files {
			if f.Name == name {
				return f.Data
			}
		}
		return nil
	}
	got := &txtar.Archive{Comment: want.Comment}
	add := func(name string, data []byte) {
		if len(data) > 0 {
			got.Files = append(got.Files, txtar.File{Name: name, Data: data})
		}
	}
	agent := dialect.Detect(part("stdin.json"))
	if agent == nil {
		t.Fatalf("%s: stdin.json is of no agent for sure", file)
	}
	ev, err := agent.Read(dialect.Input{Payload: part("stdin.json")})
	if err != nil {
		t.Fatal(err)
	}
	written, err := d.WriteEvent(ev)
	if err != nil {
		t.Fatalf("WriteEvent: %v", err)
	}
	out := dialect.Output{Stdout: part("stdout"), Stderr: part("stderr")}
	if code := part("exit"); code != nil {
		if _, err := fmt.Sscan(string(code), &out.Exit); err != nil {
			t.Fatal(err)
		}
	}
	outcome, failed := d.ReadOutcome(ev, out)
	v := engineOf(t, outcome).Fire(t.Context(), ev)
	reply := agent.Write(ev, &v, "")

	add("stdin.json", part("stdin.json"))
	add("hook.json", written)
	if d.HookEnv != nil {
		environ := strings.Join(d.HookEnv(ev), "\n") + "\n"
		machine := strings.NewReplacer("PLATFORM="+runtime.GOOS+"\n", "PLATFORM=(this)\n", "ARCH="+runtime.GOARCH+"\n", "ARCH=(this)\n")
		add("environ", []byte(machine.Replace(environ)))
	}
	add("stdout", part("stdout"))
	add("stderr", part("stderr"))
	add("exit", part("exit"))
	add("outcome.json", readable(t, outcome))
	if failed != nil {
		add("error", []byte(failed.Error()+"\n"))
	}
	add("reply", reply.Stdout)
	if *update {
		if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(want)), string(txtar.Format(got))); diff != "" {
		t.Errorf("%s (-want +got, -update rewrites):\n%s", file, diff)
	}
}

// recorded returns the events of all conversations of an agent.
func recorded(t testing.TB, d *dialect.Dialect) map[string]*grapnel.Event {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", d.Name, "recorded-*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings of %s: %v", d.Name, err)
	}
	events := make(map[string]*grapnel.Event, len(files))
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := d.Read(dialect.Input{Payload: ar.Files[0].Data})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		events[filepath.Base(file)] = ev
	}
	return events
}

// A hook of the agent's own dialect gets the agent's original payload.
func TestWriteEventOwn(t *testing.T) {
	t.Parallel()
	for _, d := range agents {
		for name, ev := range recorded(t, d) {
			got, err := d.WriteEvent(ev)
			var want bytes.Buffer
			if err := json.Compact(&want, ev.Native); err != nil {
				t.Fatal(err)
			}
			want.WriteByte('\n')
			if err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s: WriteEvent = %s, %v; want %s", name, got, err, want.Bytes())
			}
		}
	}
}

// The parts of an event survive without its payload: they are the same after being written for
// a hook and read again.
func TestWriteEventFromParts(t *testing.T) {
	t.Parallel()
	for _, d := range agents {
		for name, ev := range recorded(t, d) {
			if ev.Kind.Native() && ev.Kind != "native.claude-code.Setup" {
				continue // these have no neutral parts
			}
			stripped := *ev
			stripped.Native = nil
			line, err := d.WriteEvent(&stripped)
			if err != nil {
				t.Errorf("%s: WriteEvent: %v", name, err)
				continue
			}
			again, err := d.Read(dialect.Input{Payload: line})
			if err != nil {
				t.Errorf("%s: Read(%s): %v", name, line, err)
				continue
			}
			want, got := bare(ev), bare(again)
			for _, e := range []*grapnel.Event{want, got} {
				e.Session.Model = ""
				if e.Kind == grapnel.SessionEnd {
					e.Cause = ""
				}
			}
			if strings.Contains(name, "UserPromptExpansion") {
				continue // has the same kind as UserPromptSubmit, and is written as that
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, line, diff)
			}
		}
	}
}

// The parts that rules check are the same for a hook of the other agent's dialect.
func TestWriteEventForOthers(t *testing.T) {
	t.Parallel()
	for _, from := range agents {
		for _, to := range agents {
			if from == to {
				continue
			}
			written := 0
			for name, ev := range recorded(t, from) {
				line, err := to.WriteEvent(ev)
				has := slices.ContainsFunc(to.Events, func(r dialect.EventRow) bool { return r.Kind == ev.Kind || r.Failed == ev.Kind })
				if !has {
					if !errors.Is(err, dialect.ErrNoSuchEvent) {
						t.Errorf("%s: WriteEvent = %s, %v; want ErrNoSuchEvent", name, line, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: WriteEvent: %v", name, err)
					continue
				}
				written++
				again, err := to.Read(dialect.Input{Payload: line})
				if err != nil || again.Kind != ev.Kind || again.Session.ID != ev.Session.ID || again.Session.CWD != ev.Session.CWD {
					t.Errorf("%s: Read(%s) = %+v, %v; want %+v", name, line, again, err, ev)
					continue
				}
				if !cmp.Equal(again.Prompt, ev.Prompt) && to.Name == dialect.GeminiCLI().Name && ev.Kind == grapnel.PromptBefore {
					t.Errorf("%s: prompt %+v, want %+v", name, again.Prompt, ev.Prompt)
				}
				if ev.Tool != nil {
					sameCall(t, name, ev.Tool, again.Tool)
				}
			}
			if written < 5 {
				t.Errorf("only %d events of %s for hooks of %s", written, from.Name, to.Name)
			}
		}
	}
}

// Hooks of agents with table dialects get another agent's call in the format of their own
// agent: an object, and the name of the corresponding tool.
func TestWriteCallForTables(t *testing.T) {
	t.Parallel()
	const (
		claude = `{"hook_event_name":"PreToolUse","tool_name":%s}`
		cursor = `{"hook_event_name":"beforeMCPExecution","cursor_version":"1","tool_name":%s}`
	)
	for _, tt := range []struct {
		from    *dialect.Dialect
		payload string
		to      *dialect.Dialect
		want    string // part of the hook's input
	}{
		{dialect.Cursor(), fmt.Sprintf(cursor, `"greet","tool_input":"{\"who\":\"bob\"}","mcp_server_name":"demo"`), dialect.Codex(), `"tool_name":"mcp__demo__greet","tool_input":{"who":"bob"}`},
		{dialect.Cursor(), fmt.Sprintf(cursor, `"greet","tool_input":"{\"who\":\"bob\"}","mcp_server_name":"demo"`), dialect.QwenCode(), `"tool_name":"mcp__demo__greet","tool_input":{"who":"bob"}`},
		{dialect.Cursor(), fmt.Sprintf(cursor, `"greet","tool_input":"{\"who\":\"bob\"}","mcp_server_name":"demo"`), dialect.Cursor(), `"tool_input":"{\"who\":\"bob\"}"`},
		{dialect.ClaudeCode(), fmt.Sprintf(claude, `"Edit","tool_input":{"file_path":"a","old_string":"x","new_string":"y"}`), dialect.Cursor(), `"tool_name":"Write","tool_input":{"file_path":"a","old_string":"x","content":"y"}`},
		{dialect.ClaudeCode(), fmt.Sprintf(claude, `"MultiEdit","tool_input":{"file_path":"a","edits":[{"old_string":"x","new_string":"y"}]}`), dialect.Cursor(), `"tool_name":"Write"`},
		{dialect.ClaudeCode(), fmt.Sprintf(claude, `"Write","tool_input":{"file_path":"a","content":"y"}`), dialect.Copilot(), `"toolName":"create","toolArgs":{"path":"a","file_text":"y"}`},
		{dialect.ClaudeCode(), fmt.Sprintf(claude, `"Bash","tool_input":{"command":"ls"}`), dialect.FactoryDroid(), `"tool_name":"Execute","tool_input":{"command":"ls"}`},
		{dialect.Copilot(), `{"sessionId":"s","toolName":"bash","toolArgs":{"command":"ls"},"toolResult":{"resultType":"success","textResultForLlm":"a.go"}}`, dialect.ClaudeCode(), `"tool_response":{"stdout":"a.go",`},
		{dialect.Cursor(), `{"hook_event_name":"postToolUse","cursor_version":"1","tool_name":"Shell","tool_input":{"command":"ls"},"tool_output":"{\"output\":\"a.go\",\"exitCode\":0}"}`, dialect.ClaudeCode(), `"tool_response":{"stdout":"a.go",`},
	} {
		ev, err := tt.from.Read(dialect.Input{Payload: []byte(tt.payload)})
		if err != nil {
			t.Fatal(err)
		}
		if line, err := tt.to.WriteEvent(ev); err != nil || !strings.Contains(string(line), tt.want) {
			t.Errorf("%s for a hook of %s: %s, %v; want %s in it", tt.payload, tt.to.Name, line, err, tt.want)
		}
	}
}

func sameCall(t *testing.T, name string, want, got *grapnel.Tool) {
	t.Helper()
	type call struct {
		Class    grapnel.Class
		MCP      *grapnel.MCP
		Commands []string
		Paths    []grapnel.Path
		URLs     []string
		Content  string
	}
	if got.Name == want.Name && want.MCP == nil { // the agent has no such tool, so its class is unknown
		unknown := *want
		unknown.Class = grapnel.ClassOther
		want = &unknown
	}
	of := func(t *grapnel.Tool) call { return call{t.Class, t.MCP, t.Commands, t.Paths, t.URLs, t.Content} }
	if diff := cmp.Diff(of(want), of(got)); diff != "" {
		t.Errorf("%s: %s as %s %s (-want +got):\n%s", name, want.Name, got.Name, got.Input, diff)
	}
}

// pairsOfTools has the names of the same tool in both agents, with an input of each.
var pairsOfTools = [][2]string{
	{`Bash {"command":"ls -l","description":"list","run_in_background":true}`, `run_shell_command {"command":"ls -l","description":"list","is_background":true}`},
	{`Read {"file_path":"/p/a.go","offset":1.50}`, `read_file {"file_path":"/p/a.go","offset":1.50}`},
	{`Write {"file_path":"/p/a.go","content":"package <a>"}`, `write_file {"file_path":"/p/a.go","content":"package <a>"}`},
	{`Edit {"file_path":"a","old_string":"x","new_string":"y","replace_all":false}`, `replace {"file_path":"a","old_string":"x","new_string":"y","allow_multiple":false}`},
	{`Glob {"pattern":"*.go","path":"src"}`, `glob {"pattern":"*.go","dir_path":"src"}`},
	{`Grep {"pattern":"TODO","path":"src"}`, `grep_search {"pattern":"TODO","dir_path":"src"}`},
	{`LS {"path":"src"}`, `list_directory {"dir_path":"src"}`},
	{`WebFetch {"url":"https://example.com/","prompt":"sum up"}`, `web_fetch {"url":"https://example.com/","prompt":"sum up"}`},
	{`WebSearch {"query":"grapnel"}`, `google_web_search {"query":"grapnel"}`},
	{`Agent {"prompt":"look"}`, `invoke_agent {"prompt":"look"}`},
	{`TodoWrite {"todos":[]}`, `write_todos {"todos":[]}`},
	{`mcp__lab__echo {"text":"hi","path":"x"}`, `mcp_lab_echo {"text":"hi","path":"x"}`},
	{`NewTool {"path":"x"}`, `NewTool {"path":"x"}`},
}

// toolEvent returns a tool.before event. MCP tools are tools of the server lab.
func toolEvent(t testing.TB, d *dialect.Dialect, call string) *grapnel.Event {
	t.Helper()
	name, input, _ := strings.Cut(call, " ")
	event, mcp := "PreToolUse", ""
	if d.Name == dialect.GeminiCLI().Name {
		event = "BeforeTool"
		if tool, ok := strings.CutPrefix(name, "mcp_lab_"); ok {
			mcp = fmt.Sprintf(`,"mcp_context":{"server_name":"lab","tool_name":%q}`, tool)
		}
	}
	payload := fmt.Sprintf(`{"session_id":"s","transcript_path":"","cwd":"/p","hook_event_name":%q,"tool_name":%q,"tool_input":%s%s}`, event, name, input, mcp)
	ev, err := d.Read(dialect.Input{Payload: []byte(payload)})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestToolsOfBoth(t *testing.T) {
	t.Parallel()
	for _, row := range pairsOfTools {
		for from, to := range map[int]int{0: 1, 1: 0} {
			ev := toolEvent(t, agents[from], row[from])
			line, err := agents[to].WriteEvent(ev)
			if err != nil {
				t.Errorf("%s: %v", row[from], err)
				continue
			}
			again, err := agents[to].Read(dialect.Input{Payload: line})
			if err != nil {
				t.Errorf("Read(%s): %v", line, err)
				continue
			}
			if got := again.Tool.Name + " " + string(again.Tool.Input); got != row[to] {
				t.Errorf("%s is written as %s, want %s", row[from], got, row[to])
			}
			sameCall(t, row[from], ev.Tool, again.Tool)

			// An unchanged input is not a change, in any order of its members.
			answer := answerWith(agents[to], string(again.Tool.Input))
			out, err := agents[to].ReadOutcome(ev, answer)
			if err != nil {
				t.Errorf("ReadOutcome(%s): %v", answer.Stdout, err)
			}
			if v := engineOf(t, out).Fire(t.Context(), ev); len(v.Changes) > 0 {
				t.Errorf("the same input is a change: %s", v.Changes)
			}
		}
	}
}

// answerWith returns the output of a hook of this dialect that changes a tool's input.
func answerWith(d *dialect.Dialect, input string) dialect.Output {
	if d.Name == dialect.ClaudeCode().Name {
		return dialect.Output{Stdout: []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":` + input + `}}`)}
	}
	return dialect.Output{Stdout: []byte(`{"hookSpecificOutput":{"tool_input":` + input + `}}`)}
}

func TestChangesComeBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		agent, language *dialect.Dialect
		call, input     string
		want            string // the expected input; "" = the same
		err             string
	}{
		"command":         {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `run_shell_command {"command":"rm x","dir_path":"/p"}`, input: `{"command":"true"}`, want: `{"command":"true","dir_path":"/p"}`},
		"own name":        {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `run_shell_command {"command":"ls","is_background":true}`, input: `{"command":"ls","run_in_background":false}`, want: `{"command":"ls","is_background":false}`},
		"added":           {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `run_shell_command {"command":"ls"}`, input: `{"command":"ls","run_in_background":true}`, want: `{"command":"ls","is_background":true}`},
		"path and text":   {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `write_file {"file_path":"a","content":"x"}`, input: `{"content":"y","file_path":"b"}`, want: `{"file_path":"b","content":"y"}`},
		"removed":         {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `glob {"pattern":"*","dir_path":"a"}`, input: `{"pattern":"*"}`, want: `{"pattern":"*"}`},
		"added path":      {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `glob {"pattern":"*"}`, input: `{"pattern":"*","path":"a"}`, want: `{"pattern":"*","dir_path":"a"}`},
		"older name":      {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `read_file {"absolute_path":"/a"}`, input: `{"file_path":"/b"}`, want: `{"absolute_path":"/b"}`},
		"single path":     {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `read_many_files {"include":["a"]}`, input: `{"include":["a"],"file_path":"a"}`},
		"to gemini":       {agent: dialect.ClaudeCode(), language: dialect.GeminiCLI(), call: `Edit {"file_path":"a","old_string":"x","new_string":"y"}`, input: `{"file_path":"a","old_string":"x","new_string":"z","allow_multiple":true}`, want: `{"file_path":"a","old_string":"x","new_string":"z","replace_all":true}`},
		"same agent":      {agent: dialect.ClaudeCode(), language: dialect.ClaudeCode(), call: `Bash {"command":"ls","timeout":5}`, input: `{"command":"true"}`, want: `{"command":"true"}`},
		"mcp":             {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `mcp_lab_echo {"text":"a","n":1}`, input: `{"text":"b"}`, want: `{"text":"b"}`},
		"null of nothing": {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `run_shell_command {"command":"ls"}`, input: `{"command":"ls","timeout":null}`},
		"no such member":  {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `run_shell_command {"command":"ls"}`, input: `{"command":"true","timeout":5}`, err: "it sets timeout of Bash"},
		"view of deeper":  {agent: dialect.ClaudeCode(), language: dialect.GeminiCLI(), call: `MultiEdit {"file_path":"a","edits":[{"old_string":"x","new_string":"y"},{"old_string":"v","new_string":"w"}]}`, input: `{"file_path":"a","new_string":"z"}`, err: "it sets new_string of replace"},
		"object":          {agent: dialect.GeminiCLI(), language: dialect.ClaudeCode(), call: `run_shell_command {"command":"ls"}`, input: `{"command":{"a":1}}`, err: "to an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := toolEvent(t, tt.agent, tt.call)
			answer := answerWith(tt.language, tt.input)
			out, err := tt.language.ReadOutcome(ev, answer)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || out.Decision != grapnel.None || len(out.Set)+len(out.Patch) > 0 {
					t.Fatalf("ReadOutcome(%s) = %+v, %v; want no opinion and the error %q", answer.Stdout, out, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			v := engineOf(t, out).Fire(t.Context(), ev)
			want := tt.want
			if want == "" {
				want = string(ev.Tool.Input)
			}
			if got := string(v.Event.Tool.Input); got != want {
				t.Errorf("%s, answered with %s, becomes %s, want %s (%+v)", tt.call, tt.input, got, want, out)
			}
		})
	}
}

// A hook must not get a part of a call as if it were the whole.
func TestWriteEventRefuses(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		`read_many_files {"include":["a","b"]}`:             "2 values",
		`glob {"dir_path":"a","path":"/etc"}`:               "more than one member",
		`read_many_files {"include":["a"],"file_path":"b"}`: "more than one member",
	} {
		if line, err := dialect.ClaudeCode().WriteEvent(toolEvent(t, dialect.GeminiCLI(), call)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("WriteEvent(%s) = %s, %v; want an error with %q", call, line, err, want)
		}
	}
	for _, d := range agents {
		for _, kind := range []grapnel.Kind{grapnel.GatewayStart, "native.codex.Interrupt", ""} {
			if line, err := d.WriteEvent(&grapnel.Event{Kind: kind}); !errors.Is(err, dialect.ErrNoSuchEvent) {
				t.Errorf("%s: WriteEvent(%s) = %s, %v; want ErrNoSuchEvent", d.Name, kind, line, err)
			}
			if out, err := d.ReadOutcome(&grapnel.Event{Kind: kind}, dialect.Output{Exit: 2}); !errors.Is(err, dialect.ErrNoSuchEvent) {
				t.Errorf("%s: ReadOutcome(%s) = %+v, %v; want ErrNoSuchEvent", d.Name, kind, out, err)
			}
		}
	}
}

// Hooks get the changes of earlier hooks, and everything else unchanged.
func TestWriteEventChanged(t *testing.T) {
	t.Parallel()
	for _, d := range agents {
		ev, err := d.Read(dialect.Input{Payload: []byte(`{"hook_event_name":"` + d.Events[eventIndex(d, grapnel.ToolBefore)].Native +
			`","future":{"b":1.0,"a":2},"tool_name":"x","tool_input":"{\"command\":\"rm\"}"}`)})
		if err != nil {
			t.Fatal(err)
		}
		ev, err = ev.Set(grapnel.FieldInput, json.RawMessage(`{"command":"true"}`))
		if err != nil {
			t.Fatal(err)
		}
		line, err := d.WriteEvent(ev)
		if err != nil || !bytes.Contains(line, []byte(`"future":{"b":1.0,"a":2},"tool_name":"x","tool_input":"{\"command\":\"true\"}"}`)) {
			t.Errorf("%s: WriteEvent = %s, %v", d.Name, line, err)
		}

		ev, err = d.Read(dialect.Input{Payload: sample(d, d.Events[eventIndex(d, grapnel.PromptBefore)].Native)})
		if err != nil {
			t.Fatal(err)
		}
		ev, err = ev.Set(grapnel.FieldPrompt, json.RawMessage(`"other <words>"`))
		if err != nil {
			t.Fatal(err)
		}
		if line, err := d.WriteEvent(ev); err != nil || !bytes.Contains(line, []byte(`"prompt":"other <words>"`)) {
			t.Errorf("%s: WriteEvent = %s, %v", d.Name, line, err)
		}
	}
}

func eventIndex(d *dialect.Dialect, kind grapnel.Kind) int {
	return slices.IndexFunc(d.Events, func(r dialect.EventRow) bool { return r.Kind == kind })
}

// A decision survives being written for an agent and read as a hook's answer, if the dialect
// supports it.
func TestDecisionsSurvive(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		for decision := grapnel.None; decision <= grapnel.Block; decision++ {
			for _, halt := range []string{"", "enough"} {
				ev, v, reply, _ := answered(t, d, row.Native, grapnel.Outcome{Decision: decision, Reason: "because", Halt: halt, Message: "m"})
				out, err := d.ReadOutcome(ev, dialect.Output{Exit: reply.Exit, Stdout: reply.Stdout, Stderr: reply.Stderr})
				if err != nil {
					t.Errorf("ReadOutcome(%s %s exit %d): %v", reply.Stdout, reply.Stderr, reply.Exit, err)
				}
				want := v.Decision
				switch {
				case !row.Can.Block: // the agent does not support it, or supports only a halt
					want = grapnel.None
				case row.Native == "MessageDisplay", row.Native == "PostToolUseFailure": // a block is another text there
					want = grapnel.None
				case row.Native == "PermissionRequest" && want == grapnel.Ask: // an ask is an empty reply
					want = grapnel.None
				}
				if out.Decision != want {
					t.Errorf("%v and halt %q become %v (%q), want %v: %s", decision, halt, out.Decision, out.Reason, want, reply.Stdout)
				}
				if want > grapnel.Allow && !strings.Contains(out.Reason, v.Reason()) {
					t.Errorf("%v: reason %q, want %q", decision, out.Reason, v.Reason())
				}
				if (out.Halt != "") != (v.Halt != "") {
					t.Errorf("%v and halt %q: halt %q comes back, want %q: %s", decision, halt, out.Halt, v.Halt, reply.Stdout)
				}
			}
		}
	})
}

func TestHookEnv(t *testing.T) {
	t.Parallel()
	ev := &grapnel.Event{Session: grapnel.Session{ID: "s", CWD: "/p/sub", Root: "/p"}}
	for d, want := range map[*dialect.Dialect][]string{
		dialect.ClaudeCode(): {"CLAUDE_PROJECT_DIR=/p", "CLAUDE_CODE_SESSION_ID=s"},
		dialect.GeminiCLI():  {"GEMINI_PROJECT_DIR=/p", "GEMINI_CWD=/p/sub", "GEMINI_SESSION_ID=s", "CLAUDE_PROJECT_DIR=/p"},
	} {
		if got := d.HookEnv(ev); !slices.Equal(got, want) {
			t.Errorf("%s: HookEnv = %q, want %q", d.Name, got, want)
		}
		if got := d.HookEnv(&grapnel.Event{}); len(got) > 0 {
			t.Errorf("%s: HookEnv of nothing = %q", d.Name, got)
		}
	}
}
