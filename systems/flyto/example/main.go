// Flyto shows the Manager of Flyto's package hooks in a Go agent: registration by type and source,
// programs and callbacks, exit codes, asynchronous hooks, session hooks, and the variables of all
// types. See README.md in this directory.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/process"
)

// hookDef is Flyto's HookDef.
type hookDef struct {
	command   string
	handler   grapnel.Hook // has precedence over command
	timeout   time.Duration
	async     bool
	source    string // empty = global
	pluginDir string
}

// manager is Flyto's Manager.
type manager struct {
	*grapnel.Engine
	preset grapnel.Preset
	count  int
}

func newManager(observers ...grapnel.Observer) (*manager, error) {
	preset, _ := grapnel.FindPreset("flyto")
	engine, err := grapnel.New(nil, &grapnel.Options{Preset: preset, Observers: observers})
	return &manager{Engine: engine, preset: preset}, err
}

// register adds a hook for one of Flyto's types.
func (m *manager) register(hookType string, def hookDef) error {
	kinds := policy.Kinds(hookType)
	if kinds == nil {
		return fmt.Errorf("unknown hook type %q", hookType)
	}
	m.count++
	spec := grapnel.Spec{
		Name: fmt.Sprint("hook ", m.count), Source: grapnel.Source{Name: def.source}, On: kinds,
		Hook: def.handler, Timeout: def.timeout,
	}
	if def.async {
		spec.Phase = grapnel.PhaseObserve
	}
	if spec.Hook == nil {
		d := dialect.Flyto()
		command := &process.Command{Name: spec.Name, Line: def.command, Dialect: d, Vars: d.HookEnv, Executor: process.System}
		if def.pluginDir != "" { // a plugin sees neither the keys nor the directory of others
			command.Inherit, command.Env = process.InheritMinimal, []string{"FLYTO_PLUGIN_ROOT=" + def.pluginDir}
		}
		spec.Hook = command
	}
	return m.Add(m.preset.Defaults(spec)) // 30 s, fail open
}

func call(tool, input string) *grapnel.Event {
	return &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: tool, Input: json.RawMessage(input)}}
}

// execute runs three programs and a callback for the same tool call.
func execute(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "execute:")
	m, err := newManager(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		for _, run := range rec.Hooks {
			fmt.Fprintf(out, "  %s: %s\n", run.Name, cmp.Or(run.Error, run.Decision.String()))
		}
	}))
	if err != nil {
		return err
	}
	intranet := grapnel.Guard(func(ev *grapnel.Event) string {
		if ev.Tool.Name == "Fetch" && strings.Contains(string(ev.Tool.Input), "intranet") {
			return "not the intranet"
		}
		return ""
	})
	for _, def := range []hookDef{
		{command: "exit 1"},
		{command: "echo not on Fridays >&2; exit 2"},
		{command: "exit 0"},
		{handler: intranet, command: "exit 2"},
	} {
		if err := m.register("pre_tool_use", def); err != nil {
			return err
		}
	}
	v := m.Fire(ctx, call("Fetch", `{"url":"https://intranet/"}`))
	fmt.Fprintf(out, "  verdict: %s, %q\n", v.Decision, v.Reason())
	fmt.Fprintln(out, "  error:", m.register("pre_tool", hookDef{command: "true"}))
	return nil
}

// manage counts, switches and removes hooks.
func manage(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "manage:")
	m, err := newManager()
	if err != nil {
		return err
	}
	no := grapnel.Guard(func(*grapnel.Event) string { return "no" })
	for _, source := range []string{"", "plugin A", "plugin B"} {
		if err := cmp.Or(m.register("pre_tool_use", hookDef{handler: no, source: source}), m.register("stop", hookDef{command: "true", source: source})); err != nil {
			return err
		}
	}
	show := func(title string) {
		fmt.Fprintf(out, "  %-20spre_tool_use %d, stop %d, %s\n", title, m.Count(grapnel.ToolBefore), m.Count(grapnel.AgentAfter), m.Fire(ctx, call("Fetch", `{}`)).Decision)
	}
	show("registered")
	m.Enable(false)
	show("disabled")
	m.Enable(true)
	m.Remove("plugin A")
	m.Remove("plugin A")
	show("without plugin A")
	m.RemoveFunc(func(s *grapnel.Spec) bool { return s.On[0] == grapnel.ToolBefore && s.Source.Name == "plugin B" })
	show("B without its guard")
	m.Remove("")
	show("without global ones")
	return nil
}

// async fires a whole event in the background, and then an event with one asynchronous hook.
func async(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "async:")
	m, err := newManager()
	if err != nil {
		return err
	}
	release := make(chan struct{})
	waits := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		<-release
		return grapnel.Outcome{Message: "written"}, nil
	})
	err = cmp.Or(m.register("notification", hookDef{handler: waits}),
		m.register("post_tool_use", hookDef{handler: waits, async: true}),
		m.register("post_tool_use", hookDef{command: "exit 0"}))
	if err != nil {
		return err
	}
	caller, cancel := context.WithCancel(ctx)
	later := m.Start(caller, &grapnel.Event{Kind: grapnel.NotificationSent})
	cancel()
	v, late := m.FireAll(ctx, &grapnel.Event{Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{Name: "Fetch"}})
	fmt.Fprintln(out, "  now:", v.Decision)
	close(release)
	for run := range late {
		fmt.Fprintln(out, "  later:", run.Outcome.Message)
	}
	verdict := <-later
	fmt.Fprintln(out, "  after the caller's end:", strings.Join(verdict.Messages, ", "))
	return m.Close(ctx)
}

// answers runs one program for each branch of Flyto's parsers.
func answers(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "answers:")
	for _, row := range []struct{ hookType, command string }{
		{"pre_tool_use", `echo '{"decision":"block","reason":"from JSON"}'; echo from stderr >&2`},
		{"pre_tool_use", "echo from stderr >&2; exit 2"},
		{"pre_tool_use", "echo broken >&2; exit 3"},
		{"permission_request", `echo '{"decision":"allow"}'`},
		{"permission_request", `echo '{"decision":"deny","reason":"not this one"}'`},
		{"permission_request", `echo '{"decision":"maybe"}'`},
		{"stop", "echo enough >&2; exit 1"},
		{"stop", "exit 0"},
		{"post_compact", "echo The harbor is closed."},
		{"post_compact", "echo half; exit 1"},
		{"pre_sampling", "echo over budget >&2; exit 2"},
		{"post_sampling", "exit 2"},
	} {
		m, err := newManager()
		if err != nil {
			return err
		}
		if err := m.register(row.hookType, hookDef{command: row.command}); err != nil {
			return err
		}
		v := m.Fire(ctx, eventOf(row.hookType))
		text := cmp.Or(v.Reason(), prefixed("halt: ", v.Halt), string(v.Changes[grapnel.FieldSummary]))
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-20s%-7s%s", row.hookType, v.Decision, text), " "))
		if err := m.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// sessions runs the hooks of a session before the hooks of the engine, also for a sub-agent.
func sessions(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "sessions:")
	says := func(name string) grapnel.Hook {
		return grapnel.Watch(func(_ context.Context, ev *grapnel.Event) { fmt.Fprintf(out, "  %s sees %s\n", name, ev.Tool.Name) })
	}
	engine, err := newManager()
	if err != nil {
		return err
	}
	session, err := newManager()
	if err != nil {
		return err
	}
	if err := cmp.Or(engine.register("pre_tool_use", hookDef{handler: says("engine")}), session.register("pre_tool_use", hookDef{handler: says("session")})); err != nil {
		return err
	}
	ctx = grapnel.NewContext(ctx, session.Engine)
	engine.In(ctx).Fire(ctx, call("Read", `{}`))
	var none *grapnel.Engine // a sub-agent without hooks
	none.In(ctx).Fire(ctx, call("Write", `{}`))
	return nil
}

// types lists Flyto's types.
var types = []string{
	"pre_tool_use", "post_tool_use", "post_tool_use_failure", "session_start", "session_end", "permission_request", "permission_denied",
	"stop", "notification", "config_change", "task_created", "task_completed", "pre_sampling", "post_sampling",
}

// eventOf returns an event of a type, with all data that its variables show.
func eventOf(hookType string) *grapnel.Event {
	return &grapnel.Event{
		Kind: policy.Kinds(hookType)[0], Session: grapnel.Session{ID: "s1", Turn: "3", Model: "m1"}, Cause: "not listed",
		Tool: &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"ls"}`), Output: json.RawMessage(`"a.md"`)},
		Model: &grapnel.Model{
			Request:  json.RawMessage(`{"model":"m1","messages":[{},{}]}`),
			Response: json.RawMessage(`{"content":[{"type":"text","text":"Two files."}],"stop_reason":"end_turn","usage":{"input_tokens":11,"output_tokens":22}}`),
		},
		Compact:      &grapnel.Compact{},
		Notification: &grapnel.Notification{Message: "ready", Type: "info"},
		Task:         &grapnel.Task{ID: "t1", Description: "tidy up"},
	}
}

// variables prints the variables that a program of each type gets, except those that each has.
func variables(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "variables:")
	const names = "HOOK_TYPE TOOL_NAME TOOL_INPUT TOOL_OUTPUT TOOL_IS_ERROR SESSION_ID PERMISSION_REASON MODEL TURN MESSAGE_COUNT " +
		"INPUT_TOKENS OUTPUT_TOKENS STOP_REASON RESPONSE_PREVIEW NOTIFICATION_MESSAGE NOTIFICATION_LEVEL TASK_ID TASK_DESCRIPTION"
	for _, hookType := range types {
		var printed string
		m, err := newManager()
		if err != nil {
			return err
		}
		d := dialect.Flyto()
		show := &process.Command{
			Name: "show", Line: `for n in ` + names + `; do eval "[ -z \"\${$n+x}\" ] || printf ' %s=%s' $n \"\$$n\""; done`,
			Dialect: d, Vars: d.HookEnv,
			Executor: process.ExecutorFunc(func(ctx context.Context, p *process.Program) (*process.Ending, error) {
				end, err := process.System.Run(ctx, p)
				if end != nil {
					printed = string(end.Stdout.Head)
				}
				return end, err
			}),
		}
		if err := m.register(hookType, hookDef{handler: show}); err != nil {
			return err
		}
		m.Fire(ctx, eventOf(hookType))
		if err := m.Close(ctx); err != nil {
			return err
		}
		fmt.Fprintln(out, " "+printed)
	}
	return nil
}

func run(ctx context.Context, out io.Writer) error {
	for _, part := range []func(context.Context, io.Writer) error{execute, manage, async, answers, sessions, variables} {
		if err := part(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "flyto: error:", err)
		os.Exit(1)
	}
}
