package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/process"
)

// flyto runs every hook, and its host reads the answer. The answer may have a stop, or a reply
// to a permission question, in addition to the decision.
var flyto = family{
	name:     "flyto",
	events:   eventsOf(dialect.Flyto().Events),
	unwaited: grapnel.ModelAfter, // a slow hook must not delay each answer of the model
	answer: func(f *firing, v view) {
		v["should_stop"], v["permission"] = f.verdict.Halt != "", nil
		if f.verdict.Halt != "" {
			v["reason"] = f.verdict.Halt
			if i := slices.IndexFunc(f.calls, func(c call) bool { return c.out.Halt != "" }); i >= 0 && f.calls[i].silent() {
				v["reason"] = "" // the text is a default text and not from the hook
			}
		}
		if f.event.Kind == grapnel.PermissionBefore {
			v["permission"] = map[grapnel.Decision]string{grapnel.Allow: "allow", grapnel.Block: "deny"}[f.verdict.Decision]
		}
	},
}

func eventsOf(rows []dialect.EventRow) []eventName {
	var events []eventName
	for _, row := range rows {
		events = append(events, eventName{row.Kind, row.Native})
	}
	return events
}

// builders lists Flyto's environment builders: the event of each if hook_type does not name
// one, and its accepted arguments.
var builders = map[string]struct {
	hookType string
	args     []string
}{
	"pre_tool":      {"pre_tool_use", []string{"tool_name", "input"}},
	"post_tool":     {"post_tool_use", []string{"tool_name", "input", "output", "is_error"}},
	"session":       {"session_start", []string{"session_id"}},
	"permission":    {"permission_request", []string{"tool_name", "reason"}},
	"pre_sampling":  {"pre_sampling", []string{"model", "turn", "message_count"}},
	"post_sampling": {"post_sampling", []string{"model", "turn", "input_tokens", "output_tokens", "stop_reason", "response"}},
	"notification":  {"notification", []string{"message", "level"}},
	"task":          {"task_created", []string{"task_id", "description"}},
}

// builderArgs are the arguments that every builder accepts.
var builderArgs = []string{"project_root", "plugin_dir", "parent_env", "hook_type"}

// maxEnvironment is larger than the limit of operating systems for an environment.
const maxEnvironment = 16 << 20

// flytoEnv starts a hook that prints its environment.
func flytoEnv(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Builder string                     `json:"builder"`
		Args    map[string]json.RawMessage `json:"args"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	ev, err := built(d.Builder, d.Args)
	if err != nil {
		return nil, err
	}
	parent, err := parentEnv(d.Args)
	if err != nil {
		return nil, err
	}
	defer setenv(parent)()
	b, err := (&plan{}).bench(c.Dialect)
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	ev.Session.CWD = b.dir
	if info, err := os.Stat(ev.Session.Root); err == nil && info.IsDir() && filepath.IsAbs(ev.Session.Root) {
		ev.Session.CWD = ev.Session.Root
	}
	w := &watched{bench: b, def: &hookDef{Name: "env", Kind: "command"}}
	cmd := &process.Command{Name: "env", Line: printEnv, Vars: dialect.Flyto().HookEnv, MaxOutput: maxEnvironment, Executor: process.System}
	if d.Args["plugin_dir"] != nil { // a third-party program, which must not see keys
		cmd.Inherit = process.InheritMinimal
	}
	w.runs(cmd, dialect.Flyto())
	if err := b.engine.Add(b.preset.Defaults(grapnel.Spec{Name: "env", On: []grapnel.Kind{ev.Kind}, Hook: w})); err != nil {
		return nil, err
	}
	f := b.fire(ev, func() grapnel.Verdict { return b.engine.Fire(ctx, ev) })
	if len(f.calls) != 1 || f.calls[0].output == nil {
		return nil, fmt.Errorf("the hook did not run: %+v", f.record)
	}
	return c.compare(printedEnv(string(f.calls[0].output.Stdout))), nil
}

// printEnv is the shell line of a program that prints its working directory and its variables.
const printEnv = "pwd; env -0"

// printedEnv returns the view of the output of printEnv.
func printedEnv(stdout string) view {
	cwd, printed, _ := strings.Cut(stdout, "\n")
	env := map[string]string{}
	for v := range strings.SplitSeq(printed, "\x00") {
		if name, value, ok := strings.Cut(v, "="); ok {
			env[name] = value
		}
	}
	return view{"env": env, cwdMark: cwd}
}

// parentEnv returns the variables that this process must have.
func parentEnv(args map[string]json.RawMessage) (parent map[string]string, err error) {
	if raw := args["parent_env"]; raw != nil {
		if err := strict(raw, &parent); err != nil {
			return nil, fmt.Errorf("parent_env: %w", err)
		}
	}
	return parent, nil
}

// built returns the event for which a builder makes an environment. Values without a field in
// the event are read from the payload, as for an event that a Flyto agent fires.
func built(name string, args map[string]json.RawMessage) (*grapnel.Event, error) {
	builder, ok := builders[name]
	if !ok {
		return nil, fmt.Errorf("unknown builder %q", name)
	}
	for arg, value := range args {
		if !slices.Contains(builderArgs, arg) && !slices.Contains(builder.args, arg) {
			return nil, fmt.Errorf("the builder %s has no parameter %q", name, arg)
		}
		if unobtainable(value) != nil {
			delete(args, arg) // the hook runs anyway
		}
	}
	hookType := builder.hookType
	failed := string(args["is_error"]) == "true"
	switch given := text(args["hook_type"]); {
	case given != "":
		hookType = given
	case failed:
		hookType = "post_tool_use_failure"
	}
	kind, err := flyto.kindOf(hookType)
	if err != nil {
		return nil, err
	}
	ev := &grapnel.Event{
		Kind: kind, Agent: grapnel.Agent{Name: flyto.name}, Native: rawjson.Must(args),
		Session: grapnel.Session{ID: text(args["session_id"]), Root: text(args["project_root"])},
	}
	if args["tool_name"] != nil {
		ev.Tool = &grapnel.Tool{Name: text(args["tool_name"]), Input: args["input"], Output: args["output"], Failed: failed}
	}
	return ev, nil
}

// setenv sets variables of this process, and returns a function that restores them.
func setenv(vars map[string]string) (undo func()) {
	before := os.Environ()
	for name, value := range vars {
		_ = os.Setenv(name, value) // an invalid name stays unset
	}
	return func() {
		for name := range vars {
			_ = os.Unsetenv(name)
		}
		for _, v := range before {
			name, value, _ := strings.Cut(v, "=")
			if _, changed := vars[name]; changed {
				_ = os.Setenv(name, value)
			}
		}
	}
}

// A resultDef is the result of one hook. Its hook is a program that ends this way, or a Go function
// that returns it.
type resultDef struct {
	Exit     int             `json:"exit"`
	Stdout   string          `json:"stdout"`
	Stderr   string          `json:"stderr"`
	JSON     json.RawMessage `json:"json_output"` // replaces the printed output
	Error    string          `json:"error"`       // timeout: the program takes too long; anything else: it cannot start
	Callback bool            `json:"callback"`
}

// spec returns the hook that ends with the result.
func (r *resultDef) spec(b *bench, name string, on grapnel.Kind) (grapnel.Spec, error) {
	s := grapnel.Spec{Name: name, On: []grapnel.Kind{on}}
	if r.JSON != nil {
		r.Stdout = string(r.JSON)
	}
	if r.Callback {
		out := &dialect.Output{Exit: r.Exit, Stdout: []byte(r.Stdout), Stderr: []byte(r.Stderr)}
		s.Hook = grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			answer, err := dialect.Flyto().ReadOutcome(ev, *out)
			answer.Output = out
			return answer, err
		})
		return b.preset.Defaults(s), nil
	}
	does := program{Exit: r.Exit, Stdout: r.Stdout, Stderr: r.Stderr}
	if r.Exit < 0 {
		does.Signal = "KILL"
	}
	if r.Error == "timeout" {
		does.DelayAfterMS, s.Timeout = 60_000, 100*time.Millisecond
	}
	line, err := does.line(b)
	cmd := &process.Command{Name: name, Line: line, Dialect: dialect.Flyto(), Vars: dialect.Flyto().HookEnv, Executor: process.System}
	if r.Error != "" && r.Error != "timeout" {
		cmd.Line, cmd.Args = "", []string{filepath.Join(b.scripts, "missing")}
	}
	s.Hook = cmd
	return b.preset.Defaults(s), err
}

// flytoParse runs hooks and calls one of Flyto's helpers with their results.
func flytoParse(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Function string      `json:"function"`
		Key      string      `json:"key"`
		Results  []resultDef `json:"results"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	b, err := (&plan{}).bench(c.Dialect)
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{}`)}}
	if d.Function == "post_compact" {
		ev = &grapnel.Event{Kind: grapnel.CompactAfter, Compact: &grapnel.Compact{}}
	}
	for i := range d.Results {
		spec, err := d.Results[i].spec(b, fmt.Sprint("hook ", i), ev.Kind)
		if err == nil {
			err = b.engine.Add(spec)
		}
		if err != nil {
			return nil, err
		}
	}
	f := b.fire(ev, func() grapnel.Verdict { return b.engine.Fire(ctx, ev) })
	if f.record == nil || len(f.record.Hooks) != len(d.Results) {
		return nil, fmt.Errorf("want a run of %d hooks, got the record %+v", len(d.Results), f.record)
	}
	results := dialect.NewFlytoResults(f.record.Hooks)
	success := []bool{}
	for _, r := range results {
		success = append(success, r.Success())
	}
	switch d.Function {
	case "post_compact":
		return c.compare(view{"text": results.Summary()}), nil
	case "find_json":
		value, found := results.FindJSON(d.Key)
		return c.compare(view{"found": found, "value": value}), nil
	case "first_error":
		return c.compare(view{"index": results.FirstError()}), nil
	case "success":
		return c.compare(view{"success": success}), nil
	case "has_errors":
		return c.compare(view{"has_errors": results.HasErrors()}), nil
	default:
		return nil, fmt.Errorf("unknown function %q", d.Function)
	}
}
