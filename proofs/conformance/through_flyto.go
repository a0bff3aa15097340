package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/process"
	hooks "github.com/grapnel-dev/grapnel/systems/flyto"
)

// A flytoProgram runs the hooks of a case through package systems/flyto. Its answers come from the
// results that the package returns.
type flytoProgram struct {
	*bench

	manager, session *flytoManager // the session's is nil unless the case composes managers
	sessionOnly      bool          // the case composes a session without an engine
	defs             []*hookDef    // all hooks of the case; see marker
	observer         hearer
	started          atomic.Int64 // number of programs that were started
	pending          []<-chan *hooks.ExecuteResults
}

// A flytoManager is a Manager with the hooks that it registered.
type flytoManager struct {
	*hooks.Manager

	defs map[string]int // index of the definition, by the name of the hook in Records
}

// newFlytoProgram returns a program without hooks. The caller must close it.
func newFlytoProgram(c *Case) (*flytoProgram, error) {
	b, err := (&plan{}).bench(c.Dialect)
	if err != nil {
		return nil, err
	}
	p := &flytoProgram{bench: b}
	p.manager = p.newManager()
	return p, nil
}

func (p *flytoProgram) newManager() *flytoManager {
	return &flytoManager{Manager: hooks.NewManager(nil, p), defs: map[string]int{}}
}

// Run runs the program of a hook: flytoProgram is the Executor of its managers.
func (p *flytoProgram) Run(ctx context.Context, program *process.Program) (*process.Ending, error) {
	p.started.Add(1)
	return hooks.DefaultExecutor{}.Run(ctx, program)
}

// Grace returns the grace period of the default executor.
func (p *flytoProgram) Grace() time.Duration { return hooks.DefaultExecutor{}.Grace() }

// finish waits until no hook runs in the background. Later events start no asynchronous hooks.
func (p *flytoProgram) finish(ctx context.Context) {
	for _, results := range p.pending {
		for range results { // until all have ended
		}
	}
	p.pending = nil
	for _, m := range []*flytoManager{p.manager, p.session} {
		if m != nil {
			_ = m.Engine().Close(ctx)
		}
	}
}

// end waits for all hooks and removes the files of the case.
func (p *flytoProgram) end(ctx context.Context) {
	p.finish(ctx)
	p.close(ctx)
}

// marker names the definition in a hook's Command: a comment after the shell line of a program, and
// the whole Command of a callback.
func marker(i int) string { return fmt.Sprintf("# %d", i) }

// nameOf returns the name of the hook that returned a result.
func (p *flytoProgram) nameOf(r *hooks.HookResult) string {
	if at := strings.LastIndex(r.Command, "# "); at >= 0 {
		if i, err := strconv.Atoi(r.Command[at+2:]); err == nil && i < len(p.defs) {
			return p.defs[i].Name
		}
	}
	if i, ok := p.manager.defs[r.Command]; ok && p.session == nil { // a callback that did not return
		return p.defs[i].Name
	}
	return "unknown hook " + r.Command
}

func (p *flytoProgram) names(results []*hooks.HookResult) []string {
	names := []string{}
	for _, r := range results {
		names = append(names, p.nameOf(r))
	}
	return names
}

// add registers a hook for each of its types, or for the types in on if it names none.
func (p *flytoProgram) add(m *flytoManager, def *hookDef, on []grapnel.Kind) error {
	h, err := p.hook(m, def)
	if err != nil {
		return err
	}
	if len(def.Points) > 0 {
		on = def.Points
	}
	types := slices.Clone(def.NativePoints)
	if len(types) == 0 {
		for _, kind := range on {
			types = append(types, flytoType(kind))
		}
	}
	for _, hookType := range types {
		known := m.names()
		if err := m.Register(hooks.HookType(hookType), h); err != nil {
			return err
		}
		for name := range m.names() {
			if !known[name] {
				m.defs[name] = len(p.defs) - 1
			}
		}
	}
	return nil
}

// names returns the names that the hooks of a manager have in Records.
func (m *flytoManager) names() map[string]bool {
	names := map[string]bool{}
	if m != nil {
		for _, s := range m.Engine().Specs("") {
			names[s.Name] = true
		}
	}
	return names
}

// flytoType returns Flyto's name of an event, or the event's own name, which is not a type.
func flytoType(kind grapnel.Kind) string {
	for _, e := range flyto.events {
		if e.kind == kind {
			return e.native
		}
	}
	return string(kind)
}

// hook returns the HookDef of a definition.
func (p *flytoProgram) hook(m *flytoManager, def *hookDef) (hooks.HookDef, error) {
	h := hooks.HookDef{Command: def.Command, Timeout: def.Timeout, Async: def.Async, Source: def.Source}
	w := watched{bench: p.bench, def: def}
	i := len(p.defs)
	switch {
	case def.FailureMode != "":
		return h, errNotExpressible
	case def.Kind == "command":
		var does program
		if err := w.decode(&does); err != nil {
			return h, err
		}
		line, err := does.line(p.bench)
		h.Command = line + " " + marker(i)
		h.Timeout += (def.TimeoutMS + 999) / 1000 // Flyto's timeouts are whole seconds
		p.defs = append(p.defs, def)
		return h, err
	case def.Kind == "func":
		var does behaviour
		if err := w.decode(&does); err != nil {
			return h, err
		}
		if !does.expressible() {
			return h, errNotExpressible
		}
		h.Handler = hooks.NewCallbackHandlerWithTimeout(func(_ context.Context, hookType hooks.HookType, _ map[string]string) *hooks.HookResult {
			r := does.result(p, m, hookType)
			r.Command = marker(i)
			return r
		}, time.Duration(def.TimeoutMS)*time.Millisecond)
		p.defs = append(p.defs, def)
		return h, nil
	default:
		return h, errNotExpressible
	}
}

// expressible reports whether a callback can behave in this way: it cannot change an event, and
// the package removes no hook by its name.
func (does *behaviour) expressible() bool {
	return does == nil || !slices.Contains([]string{"append", "set", "set_text", "merge", "unregister_other"}, does.Op) && does.Then.expressible()
}

// result returns the result of a callback with this behavior.
func (does *behaviour) result(p *flytoProgram, m *flytoManager, hookType hooks.HookType) *hooks.HookResult {
	if does == nil {
		return &hooks.HookResult{}
	}
	switch does.Op {
	case "block":
		return &hooks.HookResult{ExitCode: hooks.ExitCodeBlock, Stderr: does.Reason}
	case "result":
		return &hooks.HookResult{ExitCode: does.Exit, Stderr: does.Stderr}
	case "error":
		return &hooks.HookResult{ExitCode: 1, Error: errors.New(does.Message)}
	case "panic":
		panic(does.Message)
	case "sleep":
		time.Sleep(time.Duration(does.MS) * time.Millisecond)
	case "register_other":
		h, err := p.hook(m, does.Hook)
		if err == nil {
			err = m.Register(hookType, h)
		}
		if err != nil {
			return &hooks.HookResult{ExitCode: 1, Error: err}
		}
	}
	return does.Then.result(p, m, hookType)
}

// variables returns the variables of an event, from the builder of its type. Its programs run in
// the directory of the bench.
func (p *flytoProgram) variables(def *eventDef) (hooks.HookType, map[string]string, error) {
	if err := def.resolve(p.family); err != nil {
		return "", nil, err
	}
	if unobtainable(def.Input) != nil {
		return "", nil, errNotExpressible
	}
	var in input
	if len(def.Input) > 0 {
		if err := strict(def.Input, &in); err != nil {
			return "", nil, fmt.Errorf("input: %w", err)
		}
	}
	number := func(n json.Number) int { i, _ := strconv.Atoi(n.String()); return i }
	hookType := hooks.HookType(flytoType(def.Event))
	var env map[string]string
	switch hookType {
	case hooks.HookPreToolUse:
		env = hooks.BuildPreToolEnv(in.ToolName, in.ToolInput, p.dir)
	case hooks.HookPostToolUse, hooks.HookPostToolUseFailure:
		env = hooks.BuildPostToolEnv(in.ToolName, in.ToolInput, text(in.ToolOutput), hookType == hooks.HookPostToolUseFailure, p.dir)
	case hooks.HookPermission, hooks.HookPermissionDenied:
		env = hooks.BuildPermissionEnv(in.ToolName, in.Reason, p.dir, hookType)
	case hooks.HookPreSampling:
		env = hooks.BuildPreSamplingEnv(in.Model, number(in.Turn), number(in.MessageCount), p.dir)
	case hooks.HookPostSampling:
		env = hooks.BuildPostSamplingEnv(in.Model, number(in.Turn), number(in.InputTokens), number(in.OutputTokens), in.StopReason, text(in.Response), p.dir)
	default:
		env = hooks.BuildSessionEnv(in.SessionID, p.dir, hookType)
	}
	env["CWD"] = p.dir
	return hookType, env, nil
}

// hooksManager returns the hooks that the agent must run.
func (p *flytoProgram) hooksManager() hooks.HooksManager {
	var session, engine *hooks.Manager
	if p.session != nil {
		session = p.session.Manager
	}
	if !p.sessionOnly {
		engine = p.manager.Manager
	}
	return hooks.ResolveHooksMgr(session, engine)
}

// run fires an event and returns the view of its results.
func (p *flytoProgram) run(ctx context.Context, m hooks.HooksManager, def *eventDef) (view, error) {
	hookType, env, err := p.variables(def)
	if err != nil {
		return nil, err
	}
	began, started := time.Now(), p.started.Load()
	results := &hooks.ExecuteResults{}
	if def.Event == p.family.unwaited {
		p.pending = append(p.pending, m.ExecuteAsync(hookType, env))
	} else if results, err = m.Execute(ctx, hookType, env); err != nil {
		return nil, err
	}
	v := p.answer(def.Event, results)
	v["ms"] = time.Since(began).Milliseconds()
	v["process_started"] = probe(func(any) any {
		p.finish(ctx)
		return p.started.Load() > started
	})
	v["no_file_after_ms"] = probe((&firing{bench: p.bench, began: began}).missing)
	return v, nil
}

// answer returns the view of results, as the Parse functions of the package see them.
func (p *flytoProgram) answer(kind grapnel.Kind, results *hooks.ExecuteResults) view {
	v := view{
		"decision": "continue", "cause": nil, "reason": "", "modified": nil, "effective": "continue", "should_stop": false, "permission": nil,
		"ran": p.names(results.Results), "results": len(results.Results), "warnings": p.warningsOf(kind, results), "config_error": nil,
	}
	blocked, reason := hooks.ParseToolHookResponse(results)
	switch kind {
	case grapnel.AgentAfter:
		v["should_stop"], v["reason"] = hooks.ParseStopHookResponse(results)
		return v
	case grapnel.PermissionBefore:
		var decision string
		decision, reason = hooks.ParsePermissionResponse(results)
		v["permission"], blocked = decision, decision == "deny"
	default: // only these two have an answer of their own
	}
	if blocked {
		v["decision"], v["cause"], v["reason"] = "block", grapnel.CauseDecision, reason
		if contract, _ := grapnel.ContractOf(kind); contract.Blocks == grapnel.BlockingAction {
			v["effective"] = "block"
		}
	}
	return v
}

// warningsOf lists the hooks that could not answer.
func (p *flytoProgram) warningsOf(kind grapnel.Kind, results *hooks.ExecuteResults) []warning {
	list := []warning{}
	for _, r := range results.Results {
		answered := r.ExitCode == 0 || r.ExitCode == hooks.ExitCodeBlock || kind == grapnel.AgentAfter
		class := "hook_error"
		switch {
		case answered && r.Error == nil:
			continue
		case errors.Is(r.Error, grapnel.ErrTimeout):
			class = "hook_timeout"
		case answered:
			class = "bad_output"
		}
		list = append(list, warning{p.nameOf(r), class})
	}
	return list
}

// completed lists the hooks that ended without an error, in the expected order.
func (p *flytoProgram) completed(results *hooks.ExecuteResults) probe {
	var ended []*hooks.HookResult
	for _, r := range results.Results {
		if r.Error == nil && (r.ExitCode == 0 || r.ExitCode == hooks.ExitCodeBlock) {
			ended = append(ended, r)
		}
	}
	return inExpectedOrder(p.names(ended))
}

// flytoDispatchPackage runs a case of dispatch.
func flytoDispatchPackage(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Input json.RawMessage `json:"input"`
		Plan  plan            `json:"plan"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	p, err := newFlytoProgram(c)
	if err != nil {
		return nil, err
	}
	defer p.end(ctx)
	def := eventDef{Event: grapnel.Kind(c.Event), Native: c.Native, Input: d.Input}
	if err := def.resolve(p.family); err != nil {
		return nil, err
	}
	for i := range d.Plan.Hooks {
		if err := p.add(p.manager, &d.Plan.Hooks[i], []grapnel.Kind{def.Event}); err != nil {
			return nil, err
		}
	}
	v, err := c.measured(func() (view, error) { return p.run(ctx, p.manager, &def) })
	if err != nil {
		return nil, err
	}
	return c.compare(v), nil
}
