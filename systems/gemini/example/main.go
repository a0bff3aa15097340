// Gemini shows Gemini CLI's hooks in a Go agent: how its settings become a plan, what each kind of
// output means, and how the answers of several programs are merged. See docs/systems/gemini.md.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
	gemini "github.com/grapnel-dev/grapnel/systems/gemini/hookfile"
)

//go:embed plan.json
var planned []byte

// newEngine returns an engine with the hooks of settings, as Gemini CLI would run them. Records of
// its events go to observe.
func newEngine(settings []byte, observe grapnel.ObserverFunc) (engine *grapnel.Engine, warnings []string, err error) {
	var file struct{ Hooks json.RawMessage }
	if err := json.Unmarshal(settings, &file); err != nil {
		return nil, nil, err
	}
	specs, skipped := gemini.Load(gemini.Request{
		Files: []gemini.Hooks{{Source: grapnel.Source{Name: "settings.json"}, Hooks: file.Hooks}},
		Command: func(c policyfile.Command) grapnel.Hook {
			d := dialect.GeminiCLI()
			return &process.Command{Name: c.Name, Args: c.Args, Env: c.Vars, Dialect: d, Vars: d.HookEnv, Executor: process.System}
		},
	})
	for _, s := range skipped {
		warnings = append(warnings, s.Msg)
	}
	preset, _ := grapnel.FindPreset("gemini")
	for i := range specs {
		specs[i] = preset.Defaults(specs[i]) // 60 s, fail open
	}
	opts := &grapnel.Options{Preset: preset}
	if observe != nil {
		opts.Observers = []grapnel.Observer{observe}
	}
	engine, err = grapnel.New(specs, opts)
	return engine, warnings, err
}

func call(tool string) *grapnel.Event {
	return &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: tool, Input: json.RawMessage(`{"file_path":"a"}`)}}
}

// plan prints the hooks of plan.json for three tools, before any of them runs.
func plan(_ context.Context, out io.Writer) error {
	fmt.Fprintln(out, "plan:")
	engine, warnings, err := newEngine(planned, nil)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		fmt.Fprintln(out, "  dropped:", warning)
	}
	for _, tool := range []string{"write_file", "read_file", "glob"} {
		var hooks []string
		how := "in parallel"
		for _, p := range engine.Plan(call(tool)).Entries {
			hooks = append(hooks, p.Hook)
			if p.Sequential {
				how = "one after the other"
			}
		}
		fmt.Fprintf(out, "  %-11s%s, %s\n", tool, strings.Join(hooks, " "), how)
	}
	return nil
}

// fire runs commands as the hooks of one definition and prints the result.
func fire(ctx context.Context, out io.Writer, title string, sequential bool, commands ...string) error {
	type hook struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Command string `json:"command"`
		Timeout int    `json:"timeout,omitempty"`
	}
	var hooks []hook
	for i, command := range commands {
		h := hook{Type: "command", Name: string(rune('a' + i)), Command: command}
		if strings.HasPrefix(command, "sleep") {
			h.Timeout = 100 // milliseconds
		}
		hooks = append(hooks, h)
	}
	settings, err := json.Marshal(map[string]any{"hooks": map[string]any{"BeforeTool": []any{map[string]any{"sequential": sequential, "hooks": hooks}}}})
	if err != nil {
		return err
	}
	var runs []grapnel.HookRun
	engine, _, err := newEngine(settings, func(_ context.Context, rec *grapnel.Record) { runs = rec.Hooks })
	if err != nil {
		return err
	}
	v := engine.Fire(ctx, call("write_file"))
	parts := []string{v.Decision.String()}
	for _, part := range append([]string{v.Reason()}, v.Messages...) {
		if part != "" && !strings.HasPrefix(part, "grapnel: ") { // a report of a failure
			parts = append(parts, fmt.Sprintf("%q", part))
		}
	}
	if changed := v.Changes[grapnel.FieldInput]; changed != nil {
		parts = append(parts, string(changed))
	}
	slices.SortFunc(runs, func(a, b grapnel.HookRun) int { return cmp.Compare(a.Name, b.Name) })
	var ran []string
	for _, run := range runs {
		name := run.Name
		if run.Cause != "" && run.Cause != grapnel.CauseDecision {
			name += " (" + string(run.Cause) + ")"
		}
		ran = append(ran, name)
	}
	fmt.Fprintf(out, "  %-26s%-29s ran: %s\n", title, strings.Join(parts, " "), strings.Join(ran, ", "))
	return nil
}

// outputs runs programs with each kind of output, together with a program that has no opinion.
func outputs(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "outputs:")
	for _, row := range []struct{ title, command string }{
		{"JSON: allow", `echo '{"decision":"allow","reason":"inside docs/"}'`},
		{"JSON: block", `echo '{"decision":"block","reason":"outside docs/"}'`},
		{"text, exit 0", "echo looks fine"},
		{"text, exit 1", "echo odd; exit 1"},
		{"text, exit 2", "echo no >&2; exit 2"},
		{"text, exit 3", "echo odd; exit 3"},
		{"timeout", "sleep 60"},
	} {
		if err := fire(ctx, out, row.title, false, row.command, "true"); err != nil {
			return err
		}
	}
	return nil
}

// merged lets two programs answer the same call.
func merged(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "merge:")
	const (
		block = `echo '{"decision":"block","reason":"no tests"}'`
		other = `echo '{"decision":"deny","reason":"no review"}'`
		allow = `echo '{"decision":"allow"}'`
		one   = `echo '{"hookSpecificOutput":{"tool_input":{"one":1}}}'`
		two   = `if grep -q '"one":1'; then n=2; else n=0; fi; echo '{"hookSpecificOutput":{"tool_input":{"two":'$n'}}}'`
	)
	for _, row := range []struct {
		title      string
		sequential bool
		commands   []string
	}{
		{"block and allow", false, []string{block, allow}},
		{"block and deny", false, []string{block, other}},
		{"two changes, in parallel", false, []string{one, two}},
		{"two changes, sequential", true, []string{one, two}},
	} {
		if err := fire(ctx, out, row.title, row.sequential, row.commands...); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, out io.Writer) error {
	for _, part := range []func(context.Context, io.Writer) error{plan, outputs, merged} {
		if err := part(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gemini: error:", err)
		os.Exit(1)
	}
}
