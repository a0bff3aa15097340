package hooks

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/process"
)

// An Executor runs the programs of hooks, for example in a sandbox. It is called concurrently.
// Program.Inherit is process.InheritMinimal for the hooks of a plugin, so an Executor can treat
// them differently.
type Executor = process.Executor

// DefaultExecutor runs programs on this machine, with the rights of this process. At the timeout
// it interrupts the program and its children, and soon kills them.
type DefaultExecutor struct{}

// Run runs a program until it ends or ctx is done.
func (DefaultExecutor) Run(ctx context.Context, p *process.Program) (*process.Ending, error) {
	return process.System.Run(ctx, p)
}

// Grace returns the maximum time to end a program after its timeout.
func (DefaultExecutor) Grace() time.Duration { return process.ExecutorFunc(process.System.Run).Grace() }

// A HookHandler is a hook in Go. ExecuteHook gets its own copy of the event's variables. It must be
// safe for concurrent use, should return soon after ctx is done, and must not return nil.
type HookHandler interface {
	ExecuteHook(ctx context.Context, hookType HookType, env map[string]string) *HookResult
}

// HookHandlerFunc adapts a function to a HookHandler.
type HookHandlerFunc func(ctx context.Context, hookType HookType, env map[string]string) *HookResult

// ExecuteHook calls f.
func (f HookHandlerFunc) ExecuteHook(ctx context.Context, hookType HookType, env map[string]string) *HookResult {
	return f(ctx, hookType, env)
}

// A CallbackHandler calls a function.
type CallbackHandler struct {
	call    HookHandlerFunc
	timeout time.Duration // 0 = the timeout of its HookDef
}

// NewCallbackHandler returns a handler that calls fn. Its timeout is the timeout of
// its HookDef.
func NewCallbackHandler(fn func(ctx context.Context, hookType HookType, env map[string]string) *HookResult) *CallbackHandler {
	return NewCallbackHandlerWithTimeout(fn, 0)
}

// NewCallbackHandlerWithTimeout returns a handler that calls fn and does not wait longer than
// timeout. If its HookDef has a Timeout too, the shorter one holds. 0 or less = no own timeout.
func NewCallbackHandlerWithTimeout(fn func(ctx context.Context, hookType HookType, env map[string]string) *HookResult, timeout time.Duration) *CallbackHandler {
	return &CallbackHandler{call: fn, timeout: max(0, timeout)}
}

// ExecuteHook calls the function. A panic, and a call that exceeds the timeout, are results with an
// Error; the function may then still run.
func (h *CallbackHandler) ExecuteHook(ctx context.Context, hookType HookType, env map[string]string) *HookResult {
	return alone(ctx, hookType, env, HookDef{Handler: h})
}

// A ShellHandler runs a program.
type ShellHandler struct {
	def      HookDef
	executor Executor
}

// NewShellHandler returns a handler that runs def.Command. If executor is nil, every result has an
// Error, and a Manager does not register the handler. Flyto panics.
func NewShellHandler(def HookDef, executor Executor) *ShellHandler {
	def.Handler = nil
	return &ShellHandler{def: def, executor: executor}
}

// ExecuteHook runs the program, with the timeout of its HookDef.
func (h *ShellHandler) ExecuteHook(ctx context.Context, hookType HookType, env map[string]string) *HookResult {
	return alone(ctx, hookType, env, HookDef{Handler: h})
}

// alone runs one hook in a separate Manager, so that timeouts and panics are the engine's.
func alone(ctx context.Context, hookType HookType, env map[string]string, def HookDef) *HookResult {
	m := NewManager(nil, nil)
	if err := m.Register(hookType, def); err != nil {
		return failed(def.Command, err)
	}
	results, err := m.Execute(ctx, hookType, env)
	if len(results.Results) != 1 {
		return failed(def.Command, err)
	}
	return results.Results[0]
}

// A hook runs one HookDef in an engine.
type hook struct {
	name     string
	hookType HookType
	def      HookDef
	executor Executor
	timeout  time.Duration
}

var (
	errNoHook     = errors.New("the hook has neither a Command nor a Handler")
	errWebhook    = errors.New("the hook has only a WebhookURL, and Flyto itself sends nothing there: use package outbound")
	errNoFunction = errors.New("the Handler has no function")
	errNoExecutor = errors.New("the hook is a program, and no Executor is set: use hooks.DefaultExecutor{} to run it on this machine")
	errNoResult   = errors.New("the handler returned no result")
)

// newHook returns the hook of a definition. It resolves the handlers of this package, so that the
// engine applies their timeouts.
func newHook(name string, hookType HookType, def HookDef, executor Executor) (*hook, error) {
	h := &hook{name: name, hookType: hookType, def: def, executor: executor, timeout: def.EffectiveTimeout()}
	switch handler := def.Handler.(type) {
	case nil:
	case *CallbackHandler:
		if handler == nil || handler.call == nil {
			return nil, errNoFunction
		}
		h.def.Handler = handler.call
		if handler.timeout > 0 && (def.Timeout <= 0 || handler.timeout < h.timeout) {
			h.timeout = handler.timeout
		}
		return h, nil
	case *ShellHandler:
		if handler == nil {
			return nil, errNoHook
		}
		h.def, h.executor = handler.def, handler.executor
		if def.Timeout <= 0 {
			h.timeout = handler.def.EffectiveTimeout()
		}
	default:
		return h, nil
	}
	switch {
	case strings.TrimSpace(h.def.Command) == "" && h.def.WebhookURL != "":
		return nil, errWebhook
	case strings.TrimSpace(h.def.Command) == "":
		return nil, errNoHook
	case h.executor == nil:
		return nil, errNoExecutor
	}
	return h, nil
}

// Grace returns the time that the hook's program has to clean up after the timeout.
func (h *hook) Grace() time.Duration {
	if h.def.Handler != nil {
		return 0
	}
	return (&process.Command{Executor: h.executor}).Grace()
}

// Handle runs the hook for an event, and keeps its result for the caller of the Manager.
func (h *hook) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	c := callOf(ctx)
	if c == nil { // the event was fired by another program than the Manager, such as package host
		c = newCall(h.hookType, variables(flyto.HookEnv(ev)))
	}
	env := maps.Clone(c.env)
	if h.def.PluginDir != "" {
		env["FLYTO_PLUGIN_ROOT"] = h.def.PluginDir
	}
	ctx = withCall(ctx, nil)
	if h.def.Handler == nil {
		return h.program(ctx, ev, c, env)
	}
	result := failed(h.name, errNoResult)
	if returned := h.def.Handler.ExecuteHook(ctx, h.hookType, env); returned != nil {
		*result = *returned // the handler may return the same result to concurrent calls
	}
	result.JSONOutput = result.object()
	out := result.output()
	outcome, err := flyto.ReadOutcome(ev, *out)
	outcome.Output = out
	c.keep(out, result)
	if result.Error != nil {
		err = result.Error
	}
	return outcome, err
}

// program runs the hook's program.
func (h *hook) program(ctx context.Context, ev *grapnel.Event, c *call, env map[string]string) (grapnel.Outcome, error) {
	command := process.Command{
		Name: h.name, Line: h.def.Command, Dialect: flyto, Executor: h.executor,
		Vars: func(*grapnel.Event) []string {
			list := make([]string, 0, len(env))
			for name, value := range env {
				list = append(list, name+"="+value)
			}
			return list
		},
	}
	if h.def.PluginDir != "" {
		command.Inherit = process.InheritMinimal
	}
	outcome, err := command.Handle(ctx, ev)
	result := failed(h.def.Command, err)
	if outcome.Output == nil {
		outcome.Output = &grapnel.Output{Exit: -1}
	} else {
		result.ExitCode, result.Stdout, result.Stderr = outcome.Output.Exit, string(outcome.Output.Stdout), string(outcome.Output.Stderr)
		result.JSONOutput = result.object()
		if isExitCode(ctx, result.ExitCode, err) {
			result.Error = nil
		}
	}
	c.keep(outcome.Output, result)
	return outcome, err
}

// isExitCode reports whether the error of a program is only its exit code.
func isExitCode(ctx context.Context, exit int, err error) bool {
	return exit > 0 && ctx.Err() == nil && !errors.Is(err, process.ErrStart) && !errors.Is(err, process.ErrSignal) && !errors.Is(err, process.ErrOutput)
}
