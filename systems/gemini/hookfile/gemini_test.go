package hookfile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	gemini "github.com/grapnel-dev/grapnel/systems/gemini/hookfile"
)

func noCommand(policyfile.Command) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })
}

// commands records the programs that a loader makes hooks of.
type commands []policyfile.Command

func (c *commands) hook(cmd policyfile.Command) grapnel.Hook {
	*c = append(*c, cmd)
	return noCommand(cmd)
}

// loaded describes a Spec as text.
func loaded(s grapnel.Spec) string {
	line := fmt.Sprintf("%s on %v key %q", s.FullName(), s.On, s.Key)
	if s.Timeout > 0 {
		line += " timeout " + s.Timeout.String()
	}
	if s.Sequential {
		line += " sequential"
	}
	return line
}

func TestLoadGemini(t *testing.T) {
	t.Parallel()
	settings := gemini.Hooks{
		Source: grapnel.Source{Name: "settings.json", File: "/home/dev/.gemini/settings.json"},
		Hooks: json.RawMessage(`{
			"enabled": true,
			"BeforeTool": [
				{"matcher": "write_file|replace", "sequential": true, "hooks": [
					{"type": "command", "command": "check.sh", "name": "check", "timeout": 2500, "env": {"B": "2", "A": "1"}},
					{"type": "command", "command": "check.sh"}
				]},
				{"sequential": "true", "hooks": [
					{"type": "command", "command": "other.sh", "name": "check"},
					{"type": "command", "command": "off.sh", "name": "off"},
					{"type": "command", "command": "bare-off.sh"},
					{"type": "command", "command": "slow.sh", "timeout": 0},
					{"type": "command", "command": "odd.sh", "timeout": "5000", "env": ["A=1"]},
					{"type": "http", "url": "https://hooks.example.com"},
					{"type": "command"},
					{"type": "plugin", "name": "p"},
					{"type": "runtime", "name": "r", "command": "x"},
					{"type": "runtime"},
					{"type": "command", "command": ["a"]},
					null
				]},
				{"hooks": "a"}, null, 5
			],
			"AfterTool": [{"hooks": [{"type": "command", "command": "after.sh"}]}],
			"SessionStart": {"hooks": []},
			"BeforeAll": []
		}`),
	}
	extension := gemini.Hooks{
		Source:    grapnel.Source{Name: "guard", Scope: grapnel.ScopePlugin, File: "guard/hooks/hooks.json"},
		Hooks:     json.RawMessage(`{"BeforeTool": [{"hooks": [{"type": "command", "command": "check.sh", "name": "check"}]}]}`),
		Extension: true,
	}
	var made commands
	req := gemini.Request{Files: []gemini.Hooks{settings, extension}, Disabled: []string{"off", "bare-off.sh", "check.sh of nobody"}, Command: made.hook}
	specs, warnings := gemini.Load(req)

	var got []string
	for _, s := range specs {
		got = append(got, loaded(s))
	}
	want := []string{
		`settings.json::check on [tool.before] key "check:check.sh" timeout 2.5s sequential`,
		`settings.json::check.sh on [tool.before] key ":check.sh" sequential`,
		`settings.json::check #2 on [tool.before] key "check:other.sh"`,
		`settings.json::slow.sh on [tool.before] key ":slow.sh"`,
		`settings.json::odd.sh on [tool.before] key ":odd.sh"`,
		`settings.json::p on [tool.before] key "p:"`,
		`settings.json::r on [tool.before] key "r:"`,
		`settings.json::after.sh on [tool.after tool.failed] key ":after.sh"`,
		`guard::check on [tool.before] key "check:check.sh"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("specs (-want +got):\n%s", diff)
	}
	var messages []string
	for _, w := range warnings {
		messages = append(messages, strings.TrimPrefix(w.Error(), "/home/dev/.gemini/settings.json: hooks."))
	}
	want = []string{
		`SessionStart: is an object, not a list of definitions`,
		`BeforeTool[1].hooks[5]: the type is "http", but only hooks of the type "command" run (keep it in Gemini CLI if that runs it, or use a command)`,
		`BeforeTool[1].hooks[6]: has no command`,
		`BeforeTool[1].hooks[7]: fails each time: it has no executable command`,
		`BeforeTool[1].hooks[8]: fails each time: it has no executable command`,
		`BeforeTool[1].hooks[9]: has no command`,
		`BeforeTool[1].hooks[10]: has no command`,
		`BeforeTool[1].hooks[11]: is null, not an object`,
		`BeforeTool[2]: has no list of hooks (write {"matcher": "...", "hooks": [...]})`,
		`BeforeTool[3]: has no list of hooks (write {"matcher": "...", "hooks": [...]})`,
		`BeforeTool[4]: has no list of hooks (write {"matcher": "...", "hooks": [...]})`,
		`BeforeAll: is not an event of Gemini CLI (did you mean "BeforeTool"?)`,
		`BeforeTool[1].hooks[3].timeout: is 0, not a valid number of milliseconds, so it is ignored`,
		`BeforeTool[1].hooks[4].timeout: is "5000", not a valid number of milliseconds, so it is ignored`,
		`BeforeTool[1].hooks[4].env: is not an object of strings, so it is ignored`,
	}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if runtime.GOOS != "windows" {
		first := policyfile.Command{Name: "check", Args: []string{"bash", "-c", "check.sh"}, Vars: []string{"A=1", "B=2"}, Speaks: "gemini-cli"}
		if diff := cmp.Diff(first, made[0]); diff != "" {
			t.Errorf("the first program (-want +got):\n%s", diff)
		}
	}
	if last := made[len(made)-1]; last.Scope != grapnel.ScopePlugin {
		t.Errorf("the program of an extension is of scope %v", last.Scope)
	}

	req.Untrusted = true
	if specs, warnings = gemini.Load(req); len(specs) != 1 || specs[0].Source.Name != "guard" || warnings != nil {
		t.Errorf("in a folder that is not trusted: %d hooks, warnings %v; want that of the extension alone", len(specs), warnings)
	}
	req.Command = nil
	if specs, _ = gemini.Load(req); specs != nil {
		t.Errorf("without programs there are %d hooks", len(specs))
	}
	req = gemini.Request{Files: []gemini.Hooks{{Hooks: json.RawMessage(`[]`)}, {}}, Command: made.hook}
	if _, warnings = gemini.Load(req); len(warnings) != 1 {
		t.Errorf("a list in place of events: %v", warnings)
	}
}

// engineOf runs one hook with a matcher, like Gemini CLI.
func engineOf(t *testing.T, native, matcher string, onError grapnel.OnError, observers ...grapnel.Observer) *grapnel.Engine {
	t.Helper()
	definition, err := json.Marshal(map[string]any{native: []any{map[string]any{"matcher": matcher, "hooks": []any{map[string]any{"type": "command", "command": "x"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	specs, _ := gemini.Load(gemini.Request{Files: []gemini.Hooks{{Hooks: definition}}, Command: noCommand})
	preset, _ := grapnel.FindPreset("gemini")
	for i := range specs {
		specs[i].OnError = onError
		if specs[i] = preset.Defaults(specs[i]); specs[i].Timeout != time.Minute {
			t.Errorf("timeout %v", specs[i].Timeout)
		}
	}
	e, err := grapnel.New(specs, &grapnel.Options{Preset: preset, Observers: observers})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A matcher has the meaning of Gemini CLI, also for events of other agents.
func TestGeminiMatcherOfOthers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		native, matcher string
		payload         string
		want            bool
	}{
		"a shell":         {"BeforeTool", "^run_shell_command$", `"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}`, true},
		"not its name":    {"BeforeTool", "Bash", `"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}`, false},
		"an edit":         {"AfterTool", "replace|write_file", `"hook_event_name":"PostToolUse","tool_name":"Edit","tool_input":{"file_path":"/a","old_string":"x","new_string":"y"},"tool_response":{}`, true},
		"a failed tool":   {"AfterTool", "shell", `"hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{"command":"ls"},"error":"no"`, true},
		"mcp":             {"BeforeTool", "^mcp_github_", `"hook_event_name":"PreToolUse","tool_name":"mcp__github__search","tool_input":{}`, true},
		"own tool":        {"BeforeTool", "^Skill$", `"hook_event_name":"PreToolUse","tool_name":"OnlyClaude","tool_input":{}`, false},
		"start":           {"SessionStart", "startup", `"hook_event_name":"SessionStart","source":"startup"`, true},
		"goes on":         {"SessionStart", "resume", `"hook_event_name":"SessionStart","source":"compact"`, true},
		"no expression":   {"SessionStart", "start.*", `"hook_event_name":"SessionStart","source":"startup"`, false},
		"end":             {"SessionEnd", "other", `"hook_event_name":"SessionEnd","reason":"bypass_permissions_disabled"`, true},
		"compaction":      {"PreCompress", "manual", `"hook_event_name":"PreCompact","trigger":"manual","custom_instructions":""`, true},
		"no subject":      {"BeforeAgent", "whatever", `"hook_event_name":"UserPromptSubmit","prompt":"hi"`, true},
		"of notification": {"Notification", "whatever", `"hook_event_name":"Notification","message":"hi"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(`{"session_id":"s","cwd":"/","transcript_path":"/t",` + tt.payload + `}`)})
			if err != nil {
				t.Fatal(err)
			}
			planned := engineOf(t, tt.native, tt.matcher, grapnel.OnErrorDefault).Plan(ev).Entries
			if got := len(planned) == 1; got != tt.want {
				t.Errorf("%q at %s of %s: planned %v, want %v", tt.matcher, tt.native, tt.payload, got, tt.want)
			}
			if tt.want && planned[0].Matched != fmt.Sprintf("matcher %q", tt.matcher) {
				t.Errorf("matched %q", planned[0].Matched)
			}
		})
	}
}

// A guard whose matcher cannot decide in time runs, and a message names the matcher. GC-09.
func TestGeminiMatcherUndecided(t *testing.T) {
	t.Parallel()
	ev := &grapnel.Event{
		Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: dialect.GeminiCLI().Name}, Session: grapnel.Session{ID: "s", CWD: "/home/dev/project"},
		Tool: &grapnel.Tool{Name: strings.Repeat("a", 60), Class: grapnel.ClassWrite, Input: []byte(`{}`)},
	}
	var rec *grapnel.Record
	e := engineOf(t, "BeforeTool", "(a+)+!", grapnel.OnErrorOpen, grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = r }))
	v := e.Fire(t.Context(), ev)
	const why = `hook "x": the hook runs anyway: the matcher "(a+)+!" cannot decide whether the hook listens: it takes longer than 1s`
	if len(v.Messages) != 1 || !strings.Contains(v.Messages[0], why) || len(rec.Hooks) != 1 || rec.Hooks[0].FailOpen {
		t.Errorf("messages %q, hooks %+v; want that the hook runs, and a message with %q", v.Messages, rec.Hooks, why)
	}
}
