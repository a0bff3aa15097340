package dialect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A policy blocks a command in Claude Code. The same engine answers every agent.
func ExampleAnswer() {
	noForce := grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		for _, line := range ev.Tool.Commands {
			if strings.Contains(line, "push --force") {
				return grapnel.Outcome{Decision: grapnel.Block, Reason: "Push a new branch instead."}, nil
			}
		}
		return grapnel.Outcome{}, nil
	})
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "no-force", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"}, Hook: noForce},
	}, nil)
	if err != nil {
		panic(err)
	}
	claude, _ := dialect.Find("claude")
	reply := dialect.Answer(context.Background(), engine, claude, dialect.Input{
		Payload: []byte(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git push --force"}}`),
	})
	fmt.Printf("%s", reply.Stdout)

	gemini, _ := dialect.Find("gemini")
	reply = dialect.Answer(context.Background(), engine, gemini, dialect.Input{
		Payload: []byte(`{"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"git push --force"}}`),
	})
	fmt.Printf("%s", reply.Stdout)
	// Output:
	// {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Push a new branch instead."}}
	// {"decision":"deny","reason":"Push a new branch instead."}
}

// named returns the name of a dialect, or "" for nil.
func named(d *dialect.Dialect) string {
	if d == nil {
		return ""
	}
	return d.Name
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]*dialect.Dialect{
		"claude-code": dialect.ClaudeCode(), "claude": dialect.ClaudeCode(), "gemini-cli": dialect.GeminiCLI(), "gemini": dialect.GeminiCLI(),
		"codex": dialect.Codex(), "qwen-code": dialect.QwenCode(), "qwen": dialect.QwenCode(), "factory-droid": dialect.FactoryDroid(), "droid": dialect.FactoryDroid(),
		"copilot-cli": dialect.Copilot(), "copilot": dialect.Copilot(), "cursor": dialect.Cursor(),
		"crush": dialect.Crush(), "cline": dialect.Cline(), "windsurf": dialect.Windsurf(), "cascade": dialect.Windsurf(),
		"antigravity": dialect.Antigravity(), "agy": dialect.Antigravity(), "kiro-cli": dialect.KiroCLI(), "kiro": dialect.Kiro(),
		"plain": dialect.Plain(), "": nil, "Claude": nil, "Codex": nil,
	} {
		if got, ok := dialect.Find(name); named(got) != named(want) || ok != (want != nil) {
			t.Errorf("Find(%q) = %v, %v", name, got, ok)
		}
		if got, ok := dialect.FindAgent(name); named(got) != named(want) || ok != (want != nil) {
			t.Errorf("FindAgent(%q) = %v, %v", name, got, ok)
		}
		if got, ok := dialect.FullName(name); got != named(want) || ok != (want != nil) {
			t.Errorf("FullName(%q) = %q, %v", name, got, ok)
		}
	}
	taken := map[string]bool{}
	for i, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
		if i < len(dialect.All()) && (dialect.Names()[i] != d.Name || d.Title == "" && d.Name != dialect.Plain().Name) {
			t.Errorf("%s is %q in Names, and has the title %q", d.Name, dialect.Names()[i], d.Title)
		}
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			if got, ok := dialect.Find(name); named(got) != d.Name || !ok || taken[name] {
				t.Errorf("Find(%q) = %v, %v, want %s alone", name, got, ok, d.Name)
			}
			taken[name] = true
		}
	}
	for _, d := range dialect.HookOnly() { // these are not agents
		if got, ok := dialect.Find(d.Name); named(got) != d.Name || !ok {
			t.Errorf("Find(%q) = %v, %v", d.Name, got, ok)
		}
		if got, ok := dialect.FullName(d.Name); got != d.Name || !ok {
			t.Errorf("FullName(%q) = %q, %v", d.Name, got, ok)
		}
		if got, ok := dialect.FindAgent(d.Name); ok || slices.Contains(dialect.Names(), d.Name) {
			t.Errorf("FindAgent(%q) = %v, %v; names %v", d.Name, got, ok, dialect.Names())
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]grapnel.Kind{
		"tool.before":                   {grapnel.ToolBefore},
		"PreToolUse":                    {grapnel.ToolBefore},
		"BeforeTool":                    {grapnel.ToolBefore},
		"AfterTool":                     {grapnel.ToolAfter, grapnel.ToolFailed},
		"SessionStart":                  {grapnel.SessionStart},   // all agents
		"MessageDisplay":                {grapnel.ResponseBefore}, // of Claude Code, which comes first; Qwen Code only reports it
		"InstructionsLoaded":            {"native.claude-code.InstructionsLoaded", "native.qwen-code.InstructionsLoaded"},
		"preToolUse":                    {grapnel.ToolBefore}, // Copilot CLI, Cursor
		"before_tool_call":              {grapnel.ToolBefore}, // OpenClaw
		"tool.execute.before":           {grapnel.ToolBefore}, // OpenCode
		"TodoCreated":                   {grapnel.TaskBefore},
		"Interrupt":                     {"native.codex.Interrupt"},
		"Setup":                         {"native.claude-code.Setup"},
		"native.codex.Interrupt":        {"native.codex.Interrupt"},
		"tool.sideways":                 nil,
		"pretooluse":                    nil,
		"":                              nil,
		"native.claude-code.CwdChanged": {"native.claude-code.CwdChanged"},
	} {
		if got := dialect.Kinds(name); !slices.Equal(got, want) {
			t.Errorf("Kinds(%q) = %v, want %v", name, got, want)
		}
	}
}

// An event name that two agents share has the same meaning in both, or the difference is
// listed.
func TestNamesAreShared(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		"qwen-code MessageDisplay": true, // a notice while text appears; in Claude Code the text can be changed
	}
	for _, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
		for _, row := range d.Events {
			name := d.Name + " " + row.Native
			if means := slices.Contains(dialect.Kinds(row.Native), row.Kind); means == known[name] {
				t.Errorf("%s is %s, and %s in policies is %v", name, row.Kind, row.Native, dialect.Kinds(row.Native))
			}
			delete(known, name)
		}
	}
	for name := range known {
		t.Errorf("there is no %s", name)
	}
}

// Every event of the agents is in the tables. TestDialects checks that the tables match the
// Contracts and are consistent.
func TestTables(t *testing.T) {
	t.Parallel()
	for d, events := range map[*dialect.Dialect]int{dialect.ClaudeCode(): 33, dialect.GeminiCLI(): 11, dialect.Codex(): 14, dialect.QwenCode(): 22, dialect.FactoryDroid(): 9, dialect.Copilot(): 15, dialect.Cursor(): 21, dialect.Crush(): 1, dialect.Cline(): 10, dialect.Windsurf(): 12, dialect.Antigravity(): 6} {
		if len(d.Events) != events {
			t.Errorf("%s has %d events, want %d", d.Name, len(d.Events), events)
		}
	}
}

// A payload is detected as one agent's for certain, or not at all.
func TestDetect(t *testing.T) {
	t.Parallel()
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		files, err := filepath.Glob(filepath.Join("testdata", d.Name, "recorded-*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no recordings: %v", err)
		}
		for _, file := range files {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			payload := ar.Files[0].Data
			moved := bytes.ReplaceAll(payload, []byte("/.claude/"), []byte("/moved/"))
			windows := bytes.ReplaceAll(payload, []byte("/"), []byte(`\\`))
			cutOff := append(bytes.TrimSuffix(bytes.Clone(payload), []byte("}\n")), `,"more":"and th`...)
			for _, p := range [][]byte{payload, moved, windows, cutOff} {
				if got := dialect.Detect(p); named(got) != d.Name {
					t.Errorf("%s: Detect(%s) = %v, want %s", file, p, got, d.Name)
				}
			}
		}
	}

	// Agents that copied names and payloads of others have distinguishing members.
	for _, d := range []*dialect.Dialect{dialect.Codex(), dialect.QwenCode(), dialect.FactoryDroid(), dialect.Copilot(), dialect.Cursor(), dialect.Crush(), dialect.Cline()} {
		for _, r := range recordings(t, d) {
			moved := bytes.ReplaceAll(r.in.Payload, []byte("/."+d.Setup().Moves[min(1, len(d.Setup().Moves)):]+"/"), []byte("/moved/"))
			windows := bytes.ReplaceAll(r.in.Payload, []byte("/"), []byte(`\\`))
			for _, p := range [][]byte{r.in.Payload, moved, windows} {
				if got := dialect.Detect(p); named(got) != d.Name {
					t.Errorf("%s: Detect(%s) = %v, want %s", r.name, p, got, d.Name)
				}
			}
		}
	}

	// Agents that copied the names, the payloads or both.
	others, err := filepath.Glob("testdata/others/*.jsonl")
	if err != nil || len(others) == 0 {
		t.Fatalf("no payloads of other agents: %v", err)
	}
	for _, file := range others {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			agent := strings.TrimSuffix(filepath.Base(file), ".jsonl")
			own, _ := dialect.FindAgent(agent)
			for _, p := range [][]byte{line, bytes.ReplaceAll(line, []byte("/."+agent+"/"), []byte("/moved/"))} {
				if got := dialect.Detect(p); got != nil && named(got) != named(own) {
					t.Errorf("%s: Detect(%s) = %s, want none", file, p, got.Name)
				}
			}
		}
	}

	for payload, want := range map[string]*dialect.Dialect{
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}`:                                                                      dialect.ClaudeCode(),
		`{"hook_event_name":"BeforeTool","tool_name":"x"}`:                                                                                         dialect.GeminiCLI(),
		`{"hook_event_name":"SessionStart","source":"startup"}`:                                                                                    nil,
		`{"hook_event_name":"SessionStart","session_id":"a","transcript_path":"/x/a.jsonl"}`:                                                       dialect.ClaudeCode(),
		`{"hook_event_name":"SessionStart","session_id":"","transcript_path":"/x/.jsonl"}`:                                                         nil,
		`{"hook_event_name":"SessionStart","session_id":"a","transcript_path":"","timestamp":"2026-11-20T19:43:28Z"}`:                              dialect.GeminiCLI(),
		`{"hook_event_name":"Notification","session_id":"a","transcript_path":"/home/dev/.gemini/tmp/x.jsonl","timestamp":"2026-11-20T19:43:28Z"}`: dialect.GeminiCLI(),
		`{"hook_event_name":"NewEvent","transcript_path":"/home/dev/.claude/projects/p/s.jsonl"}`:                                                  dialect.ClaudeCode(),
		`{"hook_event_name":"NewEvent","transcript_path":"/home/dev/.gemini/tmp/p/s.jsonl"}`:                                                       dialect.GeminiCLI(),
		`{"hook_event_name":"NewEvent"}`: nil,
		`{"session_id":"s","transcript_path":"/home/dev/.factory/sessions/s.jsonl","cwd":"/p","permission_mode":"auto-low","hook_event_name":"PreToolUse","tool_name":"Execute","tool_input":{}}`: dialect.FactoryDroid(),
		`{"sessionId":"s","permissionMode":"off","hookEventName":"PreToolUse","toolName":"Execute","toolInput":{}}`:                                                                               dialect.FactoryDroid(),
		`{"session_id":"s","permission_mode":"default","hook_event_name":"PreToolUse","turn_id":"t","tool_name":"Bash","tool_input":{}}`:                                                          dialect.Codex(),
		`{"session_id":"s","permission_mode":"yolo","hook_event_name":"PreToolUse","timestamp":"2026-11-20T20:08:34.711Z","tool_name":"edit","tool_input":{}}`:                                    dialect.QwenCode(),
		`{"hook_event_name":"PreToolUse","cursor_version":"3.9.16","transcript_path":"/home/dev/.claude/projects/p/s.jsonl"}`:                                                                     dialect.Cursor(),
		`{"agent_action_name":"pre_read_code","trajectory_id":"t","tool_info":{"file_path":"a"}}`:                                                                                                 dialect.Windsurf(),
		`{"agent_action_name":"pre_think","trajectory_id":"t"}`:                                                                                                                                   nil,
		`{"event":"PreToolUse","hook_event_name":"PreToolUse","session_id":"s","tool_name":"x"}`:                                                                                                  dialect.ClaudeCode(),
		`{"hookName":"tool_call"}`:                      nil, // of the Cline extension, or of no agent
		`{"kind":"tool.before","tool":{"name":"bash"}}`: dialect.Plain(),
		`{"kind":"x","hook_event_name":"PreToolUse"}`:   dialect.ClaudeCode(),
		``:         nil,
		`null`:     nil,
		`["kind"]`: nil,
		`{"hook_event_name":"BeforeTool","permission_mode":"default","transcript_path":"/moved/s.jsonl"}`: nil, // a fork
		`{"kind"`:      nil,
		`{"a":[1,2},}`: nil,
	} {
		if got := dialect.Detect([]byte(payload)); named(got) != named(want) {
			t.Errorf("Detect(%s) = %v, want %v", payload, got, want)
		}
		if got := dialect.DetectName([]byte(payload)); got != named(want) {
			t.Errorf("DetectName(%s) = %q, want %q", payload, got, named(want))
		}
	}
}

// The command line can name the event, for agents with payloads that do not.
func TestEventOnCommandLine(t *testing.T) {
	t.Parallel()
	in := dialect.Input{Payload: []byte(`{"tool_name":"Bash","tool_input":{"command":"ls"}}`), Event: "PreToolUse"}
	reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorOpen), dialect.ClaudeCode(), in)
	if e := claudeHeeds("PreToolUse", reply); !e.Blocked {
		t.Errorf("Answer(%s, PreToolUse) = %s, want a block", in.Payload, reply.Stdout)
	}
	in.Event = "BeforeDawn"
	ev, err := dialect.GeminiCLI().Read(in)
	if err != nil || ev.Kind != "native.gemini-cli.BeforeDawn" {
		t.Errorf("Read(%s, BeforeDawn) = %+v, %v; want an observed event", in.Payload, ev, err)
	}
}

// An event that was stored and read back finds its row: two events of Claude Code have the same
// kind, and a failed tool of Gemini CLI has another kind than its row.
func TestWriteWithoutName(t *testing.T) {
	t.Parallel()
	v := grapnel.Verdict{Decision: grapnel.Block, Reasons: []grapnel.Reason{{Text: "no"}}}
	for _, tt := range []struct {
		d    *dialect.Dialect
		ev   grapnel.Event
		want string
	}{
		{dialect.ClaudeCode(), grapnel.Event{Kind: grapnel.ToolBefore}, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}`},
		{dialect.ClaudeCode(), grapnel.Event{Kind: "native.claude-code.PreModelSwitch"}, `{"hookSpecificOutput":{"hookEventName":"PreModelSwitch","permissionDecision":"deny","permissionDecisionReason":"no"}}`},
		{dialect.ClaudeCode(), grapnel.Event{Kind: grapnel.ModelBefore}, ``}, // it has no such event
		{dialect.GeminiCLI(), grapnel.Event{Kind: grapnel.ToolFailed}, `{"decision":"deny","reason":"no"}`},
		{dialect.GeminiCLI(), grapnel.Event{Kind: grapnel.ToolBefore, Native: []byte(`{"hook_event_name":"BeforeTool"}`)}, `{"decision":"deny","reason":"no"}`},
	} {
		if got := strings.TrimSpace(string(tt.d.Write(&tt.ev, &v, "").Stdout)); got != tt.want {
			t.Errorf("%s: Write(%s) = %s, want %s", tt.d.Name, tt.ev.Kind, got, tt.want)
		}
	}
}

// For a Verdict that did not come from an engine, the reply contains only parts that the event
// permits.
func TestWriteUnmerged(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		ev, err := d.Read(dialect.Input{Payload: sample(d, row.Native)})
		if err != nil {
			t.Fatal(err)
		}
		for decision := grapnel.None; decision <= grapnel.Block; decision++ {
			v := grapnel.Verdict{
				Decision: decision, Halt: "enough", Context: []string{"c"}, Messages: []string{"m"},
				Changes: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"command":"true"}`)},
			}
			reply := d.Write(ev, &v, "")
			e := heeds(d, row.Native, reply)
			if !emptyOrObject(reply) || e.Allowed || e.Asked && row.Can.Halt || row.Can.Halt != e.Ended {
				t.Errorf("%v and a halt are written as %s %q exit %d, and the agent does %+v", decision, reply.Stdout, reply.Stderr, reply.Exit, e)
			}
			if action := ev.Contract().Blocks == grapnel.BlockingAction; action && row.Can.Halt && row.Can.Block && !e.Blocked {
				t.Errorf("%v and a halt are written as %s, and the action happens: %+v", decision, reply.Stdout, e)
			}
		}
	})
}

// The texts in the tables are part of messages and documentation.
func TestWhysReadWell(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, _ *dialect.Dialect, row *dialect.EventRow) {
		if row.Why != "" && (strings.HasSuffix(row.Why, ".") || unicode.IsUpper(rune(row.Why[0]))) {
			t.Errorf("Why of %s is %q, want the end of a sentence", row.Native, row.Why)
		}
	})
}

func benchmarkAnswer(b *testing.B, engine *grapnel.Engine, d *dialect.Dialect, payload []byte, want string) {
	b.Helper()
	in := dialect.Input{Payload: payload}
	if reply := dialect.Answer(b.Context(), engine, d, in); !strings.Contains(string(reply.Stdout), want) {
		b.Fatalf("Answer(%s) = %s", cut(string(payload)), reply.Stdout)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		dialect.Answer(b.Context(), engine, d, in)
	}
}

// BenchmarkAnswerSmall answers a small event with a block. The budget is 20 µs.
func BenchmarkAnswerSmall(b *testing.B) {
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		session, err := os.ReadFile(filepath.Join("testdata", d.Name, "session.jsonl"))
		if err != nil {
			b.Fatal(err)
		}
		for line := range bytes.Lines(session) {
			if bytes.Contains(line, []byte(`"PreToolUse"`)) || bytes.Contains(line, []byte(`"BeforeTool"`)) {
				b.Run(d.Name, func(b *testing.B) { benchmarkAnswer(b, guard(b, grapnel.OnErrorClosed), d, line, "deny") })
				break
			}
		}
	}
}

func BenchmarkAnswerNoListener(b *testing.B) {
	benchmarkAnswer(b, engineWithout(b), dialect.ClaudeCode(), sample(dialect.ClaudeCode(), "PreToolUse"), "")
}

// BenchmarkAnswerLarge answers an event that writes a file of 1 MB.
func BenchmarkAnswerLarge(b *testing.B) {
	content, err := json.Marshal(strings.Repeat("func main() {\n\tfmt.Println(\"hello\")\n}\n", 1<<20/38))
	if err != nil {
		b.Fatal(err)
	}
	payload := fmt.Appendf(nil, `{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"/p/a.go","content":%s}}`, content)
	benchmarkAnswer(b, guard(b, grapnel.OnErrorClosed), dialect.ClaudeCode(), payload, "deny")
}

// The reply to a 1 MB event is as small as to any other.
func TestLargeEventSmallReply(t *testing.T) {
	t.Parallel()
	in := fmt.Appendf(nil, `{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"a","content":%q}}`, strings.Repeat("x", 1<<20))
	reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorClosed), dialect.ClaudeCode(), dialect.Input{Payload: in})
	want := dialect.Reply{Stdout: []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"guarded"}}` + "\n")}
	if diff := cmp.Diff(want, reply); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
