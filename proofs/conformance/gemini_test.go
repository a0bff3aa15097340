//go:build system

package conformance_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
	geminifile "github.com/grapnel-dev/grapnel/systems/gemini/hookfile"
)

// The cases in testdata/gemini.json were run through the hook classes of Gemini CLI 0.61.0 to get
// the expected values. There is one for each rule of that agent about exit codes, answers, several
// hooks, model calls and configuration.
//
// Proves: GC-10, GC-11, GC-13, GC-14, GC-15, GC-16
func TestGeminiMeasured(t *testing.T) {
	t.Parallel()
	cases, err := conformance.Load(filepath.Join("testdata", "gemini.json"))
	if err != nil {
		t.Fatal(err)
	}
	var laws []string
	for _, r := range conformance.Run(t.Context(), cases, nil) {
		if r.Status != conformance.Passed {
			t.Errorf("%s %s: %s %v", r.ID, r.Name, r.Error, r.Diffs)
		}
		if r.Law != "" {
			laws = append(laws, r.ID)
		}
	}
	if len(cases) < 200 || len(laws) == 0 {
		t.Errorf("%d cases, of them %d deliberate differences", len(cases), len(laws))
	}
}

// The whole answer is compared: an additional or a missing word is a difference, and an unknown
// word makes the case invalid.
func TestGeminiIsComplete(t *testing.T) {
	t.Parallel()
	const good = `{"id":"x","dialect":"gemini","kind":"dispatch","event":"tool.before","native_event":"BeforeTool",
		"input":{"tool_name":"write_file","tool_input":{"a":1.0}},
		"plan":{"mode":"parallel","hooks":[{"name":"h","kind":"command","behaviour":{"stdout":"{\"decision\":\"ask\"}"}}]},
		"expect":{"decision":"ask","continue":true,"tool_input":{"a":1.0},"modified":false,"hooks":[{"success":true,"error":"informs"}]}}`
	for name, tt := range map[string]struct {
		old, now string
		want     string // empty = it passes
	}{
		"as it is":          {},
		"native event only": {`"event":"tool.before",`, ``, ``},
		"other decision":    {`"decision":"ask",`, `"decision":"allow",`, `decision`},
		"other number":      {`"tool_input":{"a":1.0},"modified"`, `"tool_input":{"a":1},"modified"`, `tool_input`},
		"too little":        {`"continue":true,`, ``, `continue`},
		"too much":          {`"continue":true,`, `"continue":true,"reason":"r",`, `reason`},
		"one hook too many": {`"hooks":[{"success"`, `"hooks":[{"success":true},{"success"`, `hooks`},
		"unknown input":     {`"tool_name"`, `"tool":1,"tool_name"`, `unknown input "tool"`},
		"unknown behaviour": {`"stdout"`, `"print":"x","stdout"`, `print`},
		"unknown mode":      {`"parallel"`, `"both"`, `both`},
		"unknown event":     {`"tool.before"`, `"task.before"`, `no event`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := good
			if tt.old != "" {
				text = strings.Replace(good, tt.old, tt.now, 1)
			}
			cases, err := conformance.Parse([]byte("[" + text + "]"))
			if err != nil {
				t.Fatal(err)
			}
			r := conformance.Run(t.Context(), cases, nil)[0]
			report := r.Error
			for _, d := range r.Diffs {
				report += " " + d.Key
			}
			if (r.Status == conformance.Passed) != (tt.want == "") || !strings.Contains(report, tt.want) {
				t.Errorf("%s: %s %q, want %q", text, r.Status, report, tt.want)
			}
		})
	}
}

// The hooks of a real settings file run unchanged: in bash, with their variables and those that
// Gemini CLI sets, and sequentially if one of them requires that.
func TestGeminiSettingsRun(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the hooks are written for bash")
	}
	settings := json.RawMessage(`{"BeforeTool": [
		{"matcher": "^write", "sequential": true, "hooks": [
			{"type": "command", "name": "mark", "command": "cat >/dev/null; echo '{\"hookSpecificOutput\":{\"tool_input\":{\"by\":\"mark\"}}}'"},
			{"type": "command", "name": "guard", "env": {"WHO": "mark"}, "command": "in=$(cat); list=(a b); if [[ $in == *\"\\\"by\\\":\\\"$WHO\\\"\"* && ${#list[@]} == 2 ]]; then echo \"no: $GEMINI_SESSION_ID\" >&2; exit 2; fi"}
		]},
		{"matcher": "^read", "hooks": [{"type": "command", "command": "exit 2"}]}
	]}`)
	specs, warnings := geminifile.Load(geminifile.Request{
		Files: []geminifile.Hooks{{Source: grapnel.Source{Name: "settings.json"}, Hooks: settings}},
		Command: func(c policyfile.Command) grapnel.Hook {
			d, _ := dialect.Find(c.Speaks)
			return &process.Command{Name: c.Name, Args: c.Args, Env: c.Vars, Dialect: d, Vars: d.HookEnv, Executor: process.System}
		},
	})
	if warnings != nil {
		t.Fatal(warnings)
	}
	preset, _ := grapnel.FindPreset("gemini")
	for i := range specs {
		specs[i] = preset.Defaults(specs[i])
	}
	var ran []string
	engine, err := grapnel.New(specs, &grapnel.Options{Preset: preset, Observers: []grapnel.Observer{
		grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
			for _, run := range rec.Hooks {
				ran = append(ran, run.Name)
			}
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(map[string]any{
		"session_id": "s-1", "cwd": t.TempDir(), "hook_event_name": "BeforeTool", "tool_name": "write_file", "tool_input": map[string]any{"file_path": "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	reply := dialect.Answer(t.Context(), engine, dialect.GeminiCLI(), dialect.Input{Payload: payload})
	if want := regexp.MustCompile(`"decision":"deny","reason":"no: s-1"`); !want.Match(reply.Stdout) || reply.Exit != 0 {
		t.Errorf("reply %s, exit %d, want %s", reply.Stdout, reply.Exit, want)
	}
	if !slices.Equal(ran, []string{"mark", "guard"}) {
		t.Errorf("ran %q, want mark and guard", ran)
	}
}
