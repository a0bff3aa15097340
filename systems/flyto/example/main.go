// Flyto shows package systems/flyto, which has the names of Flyto's package hooks, in a Go agent:
// registration by type and source, programs and callbacks, exit codes, asynchronous hooks, session
// hooks, and the variables of all types. See docs/systems/flyto.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel"
	hooks "github.com/grapnel-dev/grapnel/systems/flyto"
)

// postCompact is a type without a constant.
const postCompact hooks.HookType = "post_compact"

// callback is a hook in Go.
func callback(fn func(env map[string]string) *hooks.HookResult) hooks.HookDef {
	return hooks.HookDef{Handler: hooks.NewCallbackHandler(func(_ context.Context, _ hooks.HookType, env map[string]string) *hooks.HookResult {
		return fn(env)
	})}
}

// decision returns whether hooks blocked, and the reason.
func decision(results *hooks.ExecuteResults) (decided, reason string) {
	blocked, reason := hooks.ParseToolHookResponse(results)
	if blocked {
		return "block", reason
	}
	return "none", ""
}

// execute runs three programs and a callback for the same tool call.
func execute(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "execute:")
	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
	m.SetObserver(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		for _, run := range rec.Hooks {
			fmt.Fprintf(out, "  %s: %s\n", run.Name, cmp.Or(run.Error, run.Decision.String()))
		}
	}))
	intranet := callback(func(env map[string]string) *hooks.HookResult {
		if env["TOOL_NAME"] == "Fetch" && strings.Contains(env["TOOL_INPUT"], "intranet") {
			return &hooks.HookResult{ExitCode: hooks.ExitCodeBlock, Stderr: "not the intranet"}
		}
		return &hooks.HookResult{}
	})
	intranet.Command = "exit 1" // the handler has precedence
	for _, def := range []hooks.HookDef{{Command: "exit 1"}, {Command: "echo not on Fridays >&2; exit 2"}, {Command: "exit 0"}, intranet} {
		if err := m.Register(hooks.HookPreToolUse, def); err != nil {
			return err
		}
	}
	results, err := m.Execute(ctx, hooks.HookPreToolUse, hooks.BuildPreToolEnv("Fetch", map[string]string{"url": "https://intranet/"}, ""))
	if err != nil {
		return err
	}
	decided, reason := decision(results)
	fmt.Fprintf(out, "  verdict: %s, %q\n", decided, reason)
	fmt.Fprintln(out, "  error:", m.Register("pre_tool", hooks.HookDef{Command: "true"}))
	return nil
}

// manage counts, switches and removes hooks.
func manage(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "manage:")
	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
	for _, source := range []string{"", "plugin A", "plugin B"} {
		no := callback(func(map[string]string) *hooks.HookResult { return &hooks.HookResult{ExitCode: hooks.ExitCodeBlock} })
		no.Source = source
		if err := cmp.Or(m.Register(hooks.HookPreToolUse, no), m.Register(hooks.HookStop, hooks.HookDef{Command: "true", Source: source})); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		title string
		do    func()
	}{
		{"registered", func() {}},
		{"disabled", m.Disable},
		{"without plugin A", func() { m.Enable(); m.UnregisterAllBySource("plugin A") }},
		{"B without its guard", func() { m.UnregisterBySource(hooks.HookPreToolUse, "plugin B") }},
		{"without global ones", func() { m.UnregisterAllBySource("") }},
	} {
		step.do()
		results, err := m.Execute(ctx, hooks.HookPreToolUse, hooks.BuildPreToolEnv("Fetch", nil, ""))
		if err != nil {
			return err
		}
		decided, _ := decision(results)
		fmt.Fprintf(out, "  %-20spre_tool_use %d, stop %d, %s\n", step.title, m.Count(hooks.HookPreToolUse), m.Count(hooks.HookStop), decided)
	}
	return nil
}

// async runs the hooks of an event in the background, and then one asynchronous hook of another.
func async(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "async:")
	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
	release := make(chan struct{})
	waits := callback(func(map[string]string) *hooks.HookResult {
		<-release
		return &hooks.HookResult{Stdout: "written"}
	})
	late := waits
	late.Async = true
	err := cmp.Or(m.Register(hooks.HookNotification, waits),
		m.Register(hooks.HookPostToolUse, late), m.Register(hooks.HookPostToolUse, hooks.HookDef{Command: "exit 0"}))
	if err != nil {
		return err
	}
	notified := m.ExecuteAsync(hooks.HookNotification, hooks.BuildNotificationEnv("ready", "info", ""))
	now, later := m.ExecuteAll(ctx, hooks.HookPostToolUse, hooks.BuildPostToolEnv("Fetch", nil, "", false, ""))
	decided, _ := decision(now)
	fmt.Fprintln(out, "  now:", decided)
	close(release)
	fmt.Fprintln(out, "  later:", (<-later).Results[0].Stdout)
	fmt.Fprintln(out, "  notification:", (<-notified).Results[0].Stdout)
	return nil
}

// answer returns the answer of the hooks of a type.
func answer(results *hooks.ExecuteResults) (decided, text string) {
	switch results.HookType {
	case hooks.HookPermission:
		decided, text = hooks.ParsePermissionResponse(results)
		return cmp.Or(decided, "ask"), text
	case hooks.HookStop:
		stop, reason := hooks.ParseStopHookResponse(results)
		return map[bool]string{true: "stop", false: "none"}[stop], reason
	case postCompact:
		if summary := hooks.ParsePostCompactHookResponse(results); summary != "" {
			return "none", fmt.Sprintf("%q", summary)
		}
		return "none", ""
	case hooks.HookPostSampling: // has no influence
		return "none", ""
	default:
		return decision(results)
	}
}

// answers runs one program for each branch of the parsers.
func answers(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "answers:")
	for _, row := range []struct {
		hookType hooks.HookType
		command  string
	}{
		{hooks.HookPreToolUse, `echo '{"decision":"block","reason":"from JSON"}'; echo from stderr >&2`},
		{hooks.HookPreToolUse, "echo from stderr >&2; exit 2"},
		{hooks.HookPreToolUse, "echo broken >&2; exit 3"},
		{hooks.HookPermission, `echo '{"decision":"allow"}'`},
		{hooks.HookPermission, `echo '{"decision":"deny","reason":"not this one"}'`},
		{hooks.HookPermission, `echo '{"decision":"maybe"}'`},
		{hooks.HookStop, "echo enough >&2; exit 1"},
		{hooks.HookStop, "exit 0"},
		{postCompact, "echo The harbor is closed."},
		{postCompact, "echo half; exit 1"},
		{hooks.HookPreSampling, "echo over budget >&2; exit 2"},
		{hooks.HookPostSampling, "exit 2"},
	} {
		results, err := one(ctx, row.hookType, row.command, nil)
		if err != nil {
			return err
		}
		decided, text := answer(results)
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-20s%-7s%s", row.hookType, decided, text), " "))
	}
	return nil
}

// one runs one program.
func one(ctx context.Context, hookType hooks.HookType, command string, env map[string]string) (*hooks.ExecuteResults, error) {
	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
	if err := m.Register(hookType, hooks.HookDef{Command: command}); err != nil {
		return nil, err
	}
	return m.Execute(ctx, hookType, env)
}

// sessions runs the hooks of a session before the hooks of the engine, also for a sub-agent.
func sessions(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "sessions:")
	session, engine := hooks.NewManager(nil, nil), hooks.NewManager(nil, nil)
	for name, m := range map[string]*hooks.Manager{"session": session, "engine": engine} {
		err := m.Register(hooks.HookPreToolUse, callback(func(env map[string]string) *hooks.HookResult {
			fmt.Fprintf(out, "  %s sees %s\n", name, env["TOOL_NAME"])
			return &hooks.HookResult{}
		}))
		if err != nil {
			return err
		}
	}
	ctx = hooks.WithSessionHooksCtx(ctx, session)
	for _, agent := range []struct {
		tool   string
		engine *hooks.Manager
	}{{"Read", engine}, {"Write", nil}} { // the second is a sub-agent without hooks of its own
		m := hooks.ResolveHooksMgr(hooks.SessionHooksFromCtx(ctx), agent.engine)
		if _, err := m.Execute(ctx, hooks.HookPreToolUse, hooks.BuildPreToolEnv(agent.tool, nil, "")); err != nil {
			return err
		}
	}
	return nil
}

// variables prints the variables that a program of each type gets, except those that each has.
func variables(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "variables:")
	const show = `for n in HOOK_TYPE TOOL_NAME TOOL_INPUT TOOL_OUTPUT TOOL_IS_ERROR SESSION_ID PERMISSION_REASON MODEL TURN MESSAGE_COUNT ` +
		`INPUT_TOKENS OUTPUT_TOKENS STOP_REASON RESPONSE_PREVIEW NOTIFICATION_MESSAGE NOTIFICATION_LEVEL TASK_ID TASK_DESCRIPTION; ` +
		`do eval "[ -z \"\${$n+x}\" ] || printf ' %s=%s' $n \"\$$n\""; done`
	input := map[string]string{"command": "ls"}
	for _, row := range []struct {
		hookType hooks.HookType
		env      map[string]string
	}{
		{hooks.HookPreToolUse, hooks.BuildPreToolEnv("Bash", input, "")},
		{hooks.HookPostToolUse, hooks.BuildPostToolEnv("Bash", input, "a.md", false, "")},
		{hooks.HookPostToolUseFailure, hooks.BuildPostToolEnv("Bash", input, "a.md", true, "")},
		{hooks.HookSessionStart, hooks.BuildSessionEnv("s1", "", hooks.HookSessionStart)},
		{hooks.HookSessionEnd, hooks.BuildSessionEnv("s1", "", hooks.HookSessionEnd)},
		{hooks.HookPermission, hooks.BuildPermissionEnv("Bash", "not listed", "", hooks.HookPermission)},
		{hooks.HookPermissionDenied, hooks.BuildPermissionEnv("Bash", "not listed", "", hooks.HookPermissionDenied)},
		{hooks.HookStop, nil},
		{hooks.HookNotification, hooks.BuildNotificationEnv("ready", "info", "")},
		{hooks.HookConfigChange, nil},
		{hooks.HookTaskCreated, hooks.BuildTaskEnv("t1", "tidy up", "", hooks.HookTaskCreated)},
		{hooks.HookTaskCompleted, hooks.BuildTaskEnv("t1", "tidy up", "", hooks.HookTaskCompleted)},
		{hooks.HookPreSampling, hooks.BuildPreSamplingEnv("m1", 3, 2, "")},
		{hooks.HookPostSampling, hooks.BuildPostSamplingEnv("m1", 3, 11, 22, "end_turn", "Two files.", "")},
	} {
		results, err := one(ctx, row.hookType, show, row.env)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, " "+results.Results[0].Stdout)
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
