package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/grapnel-dev/grapnel/dialect"
	hooks "github.com/grapnel-dev/grapnel/systems/flyto"
)

// flytoEnvPackage runs a program that prints the variables that a builder returns.
func flytoEnvPackage(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Builder string                     `json:"builder"`
		Args    map[string]json.RawMessage `json:"args"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	hookType, env, err := flytoBuilt(d.Builder, d.Args)
	if err != nil {
		return nil, err
	}
	parent, err := parentEnv(d.Args)
	if err != nil {
		return nil, err
	}
	defer setenv(parent)()
	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
	err = m.Register(hookType, hooks.HookDef{Command: printEnv, PluginDir: text(d.Args["plugin_dir"])})
	if err != nil {
		return nil, err
	}
	results, err := m.Execute(ctx, hookType, env)
	if err != nil {
		return nil, err
	}
	if len(results.Results) != 1 {
		return nil, fmt.Errorf("%d results, want 1", len(results.Results))
	}
	return c.compare(printedEnv(results.Results[0].Stdout)), nil
}

// flytoBuilt calls a builder of the package.
func flytoBuilt(builder string, args map[string]json.RawMessage) (hooks.HookType, map[string]string, error) {
	missing := false
	raw := func(name string) json.RawMessage {
		missing = missing || args[name] == nil || unobtainable(args[name]) != nil
		return args[name]
	}
	word := func(name string) (s string) {
		missing = strict(raw(name), &s) != nil || missing
		return s
	}
	number := func(name string) (n int) {
		missing = strict(raw(name), &n) != nil || missing
		return n
	}
	root, hookType := word("project_root"), hooks.HookType(text(args["hook_type"]))
	if hookType == "" {
		hookType = hooks.HookType(builders[builder].hookType)
	}
	var env map[string]string
	switch builder {
	case "pre_tool":
		env = hooks.BuildPreToolEnv(word("tool_name"), raw("input"), root)
	case "post_tool":
		env = hooks.BuildPostToolEnv(word("tool_name"), raw("input"), word("output"), string(raw("is_error")) == "true", root)
	case "session":
		env = hooks.BuildSessionEnv(word("session_id"), root, hookType)
	case "permission":
		env = hooks.BuildPermissionEnv(word("tool_name"), word("reason"), root, hookType)
	case "pre_sampling":
		env = hooks.BuildPreSamplingEnv(word("model"), number("turn"), number("message_count"), root)
	case "post_sampling":
		env = hooks.BuildPostSamplingEnv(word("model"), number("turn"), number("input_tokens"), number("output_tokens"), word("stop_reason"), word("response"), root)
	case "notification":
		env = hooks.BuildNotificationEnv(word("message"), word("level"), root)
	case "task":
		env = hooks.BuildTaskEnv(word("task_id"), word("description"), root, hookType)
	}
	if missing || env == nil {
		return "", nil, errNotExpressible
	}
	return hooks.HookType(env["HOOK_TYPE"]), env, nil
}

// flytoParsePackage runs hooks and calls the package's helpers with their results.
func flytoParsePackage(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Function string      `json:"function"`
		Key      string      `json:"key"`
		Results  []resultDef `json:"results"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	p, err := newFlytoProgram(c)
	if err != nil {
		return nil, err
	}
	defer p.end(ctx)
	hookType := hooks.HookPreToolUse
	if d.Function == "post_compact" {
		hookType = "post_compact"
	}
	for i := range d.Results {
		h, err := d.Results[i].hook(p.bench)
		if err == nil {
			err = p.manager.Register(hookType, h)
		}
		if err != nil {
			return nil, err
		}
	}
	results, err := p.manager.Execute(ctx, hookType, nil)
	if err != nil {
		return nil, err
	}
	switch d.Function {
	case "post_compact":
		return c.compare(view{"text": hooks.ParsePostCompactHookResponse(results)}), nil
	case "find_json":
		value, found := results.FindJSONOutput(d.Key)
		return c.compare(view{"found": found, "value": spelled(value, d.Key, d.Results)}), nil
	case "first_error":
		return c.compare(view{"index": slices.Index(results.Results, results.FirstError())}), nil
	case "has_errors":
		return c.compare(view{"has_errors": results.HasErrors()}), nil
	case "success":
		success := []bool{}
		for _, r := range results.Results {
			success = append(success, r.Success())
		}
		return c.compare(view{"success": success}), nil
	default:
		return nil, errNotExpressible
	}
}

// hook returns the HookDef of a hook that ends with the result.
func (r *resultDef) hook(b *bench) (hooks.HookDef, error) {
	out := *r
	if r.JSON != nil {
		out.Stdout = string(r.JSON)
	}
	if r.Callback {
		return hooks.HookDef{Handler: hooks.NewCallbackHandler(func(context.Context, hooks.HookType, map[string]string) *hooks.HookResult {
			return &hooks.HookResult{ExitCode: out.Exit, Stdout: out.Stdout, Stderr: out.Stderr}
		})}, nil
	}
	does, h := program{Exit: r.Exit, Stdout: out.Stdout, Stderr: r.Stderr}, hooks.HookDef{}
	switch {
	case r.Exit < 0:
		does.Signal = "KILL"
	case r.Error == "timeout":
		does.DelayAfterMS, h.Timeout = 60_000, 1
	case r.Error != "":
		h.Command = quoted(filepath.Join(b.scripts, "missing"))
		return h, nil
	}
	var err error
	h.Command, err = does.line(b)
	return h, err
}

// spelled returns a value of JSONOutput with the numbers as the hooks wrote them, because a float64
// does not keep their text. A value that no hook wrote is returned unchanged.
func spelled(value any, key string, results []resultDef) any {
	for i := range results {
		stdout := results[i].Stdout
		if results[i].JSON != nil {
			stdout = string(results[i].JSON)
		}
		written, ok := dialect.NewFlytoResult(dialect.Output{Stdout: []byte(stdout)}, nil).JSON[key]
		var decoded any
		if ok && json.Unmarshal(written, &decoded) == nil && reflect.DeepEqual(decoded, value) {
			return written
		}
	}
	return value
}
