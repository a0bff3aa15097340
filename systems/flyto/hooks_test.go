package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
	hooks "github.com/grapnel-dev/grapnel/systems/flyto"
)

func TestMain(m *testing.M) { await.Main(m) }

// A pretender is an Executor that starts nothing. Its programs are the three words of their shell
// line: exit code, stdout and stderr. It keeps the last program.
type pretender struct {
	mu   sync.Mutex
	last *process.Program
}

func (x *pretender) Run(ctx context.Context, p *process.Program) (*process.Ending, error) {
	x.mu.Lock()
	x.last = p
	x.mu.Unlock()
	words := strings.Split(p.Args[len(p.Args)-1], "|")
	switch words[0] {
	case "missing":
		return nil, os.ErrNotExist
	case "hangs":
		<-ctx.Done()
		return &process.Ending{Exit: -1, Stopped: context.Cause(ctx)}, nil
	}
	end := &process.Ending{}
	if _, err := fmt.Sscan(words[0], &end.Exit); err != nil {
		return nil, err
	}
	end.Stdout.Head, end.Stderr.Head = []byte(words[1]), []byte(words[2])
	return end, nil
}

func (x *pretender) program() *process.Program {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last
}

// returns is a handler with a fixed result.
func returns(r hooks.HookResult) hooks.HookDef {
	return hooks.HookDef{Handler: hooks.HookHandlerFunc(func(context.Context, hooks.HookType, map[string]string) *hooks.HookResult { return &r })}
}

// calls is a handler that calls a function.
func calls(do func(ctx context.Context)) hooks.HookDef {
	return hooks.HookDef{Handler: hooks.NewCallbackHandler(func(ctx context.Context, _ hooks.HookType, _ map[string]string) *hooks.HookResult {
		do(ctx)
		return &hooks.HookResult{}
	})}
}

// manager returns a Manager with hooks of one type.
func manager(t *testing.T, hookType hooks.HookType, defs ...hooks.HookDef) *hooks.Manager {
	t.Helper()
	m := hooks.NewManager(nil, &pretender{})
	for _, def := range defs {
		if err := m.Register(hookType, def); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// execute runs the hooks of one type.
func execute(t *testing.T, m hooks.HooksManager, hookType hooks.HookType) *hooks.ExecuteResults {
	t.Helper()
	results, err := m.Execute(t.Context(), hookType, hooks.BuildPreToolEnv("Bash", nil, "/p"))
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// One hook has one result, whatever it does, and the next hook runs.
//
// Proves: FL-03, FL-14, FL-16, FL-19, FL-20, FL-21, FL-22
func TestResults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		def     hooks.HookDef
		want    hooks.HookResult // without its Error
		err     error            // errors.Is
		message string           // or a part of the Error's text
	}{
		"program":            {def: hooks.HookDef{Command: "0|text|"}, want: hooks.HookResult{Command: "0|text|", Stdout: "text"}},
		"JSON":               {def: hooks.HookDef{Command: `0|{"a":1}|e`}, want: hooks.HookResult{Command: `0|{"a":1}|e`, Stdout: `{"a":1}`, Stderr: "e", JSONOutput: map[string]any{"a": 1.0}}},
		"a list":             {def: hooks.HookDef{Command: `0|[1]|`}, want: hooks.HookResult{Command: `0|[1]|`, Stdout: `[1]`}},
		"block":              {def: hooks.HookDef{Command: "2||no"}, want: hooks.HookResult{Command: "2||no", ExitCode: 2, Stderr: "no"}},
		"broken":             {def: hooks.HookDef{Command: "1||no"}, want: hooks.HookResult{Command: "1||no", ExitCode: 1, Stderr: "no"}},
		"cut JSON":           {def: hooks.HookDef{Command: `0|{"a":|`}, want: hooks.HookResult{Command: `0|{"a":|`, Stdout: `{"a":`}, message: "cannot use its answer"},
		"not found by shell": {def: hooks.HookDef{Command: "127||"}, want: hooks.HookResult{Command: "127||", ExitCode: 127}, err: process.ErrStart},
		"missing":            {def: hooks.HookDef{Command: "missing"}, want: hooks.HookResult{Command: "missing", ExitCode: -1}, err: process.ErrStart},
		"callback":           {def: returns(hooks.HookResult{ExitCode: 2, Stderr: "no", Stdout: `{"a":"b"}`}), want: hooks.HookResult{ExitCode: 2, Stderr: "no", Stdout: `{"a":"b"}`, JSONOutput: map[string]any{"a": "b"}}},
		"callback, object":   {def: returns(hooks.HookResult{JSONOutput: map[string]any{"a": "b"}}), want: hooks.HookResult{JSONOutput: map[string]any{"a": "b"}}},
		"callback, error":    {def: returns(hooks.HookResult{Error: os.ErrClosed}), err: os.ErrClosed},
		"callback, command":  {def: hooks.HookDef{Handler: returns(hooks.HookResult{}).Handler, Command: "2||no"}},
		"callback, nil":      {def: hooks.HookDef{Handler: hooks.HookHandlerFunc(func(context.Context, hooks.HookType, map[string]string) *hooks.HookResult { return nil })}, want: hooks.HookResult{Command: "hook 1", ExitCode: -1}, message: "no result"},
		"panic":              {def: calls(func(context.Context) { panic("boom") }), want: hooks.HookResult{Command: "hook 1", ExitCode: -1}, err: grapnel.ErrPanic},
		"shell handler":      {def: hooks.HookDef{Handler: hooks.NewShellHandler(hooks.HookDef{Command: "2||no"}, &pretender{})}, want: hooks.HookResult{Command: "2||no", ExitCode: 2, Stderr: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := manager(t, hooks.HookPreToolUse, tt.def, returns(hooks.HookResult{ExitCode: 7}))
			results := execute(t, m, hooks.HookPreToolUse)
			if len(results.Results) != 2 || results.Results[1].ExitCode != 7 || results.HookType != hooks.HookPreToolUse {
				t.Fatalf("results %+v, want two of pre_tool_use", results)
			}
			got := *results.Results[0]
			err := got.Error
			got.Error, got.Duration = nil, 0
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("result %+v, want %+v", got, tt.want)
			}
			switch {
			case tt.err != nil && !errors.Is(err, tt.err),
				tt.message != "" && (err == nil || !strings.Contains(err.Error(), tt.message)),
				tt.err == nil && tt.message == "" && err != nil:
				t.Errorf("Error %v, want %v%s", err, tt.err, tt.message)
			}
		})
	}
}

// A hook has the timeout of its definition, of its callback, or 30 s. A handler that ignores the
// timeout is left behind.
//
// Proves: FL-13, FL-19
func TestTimeouts(t *testing.T) {
	t.Parallel()
	ignores := func(wait time.Duration) hooks.HookHandlerFunc {
		return func(context.Context, hooks.HookType, map[string]string) *hooks.HookResult {
			time.Sleep(wait)
			return &hooks.HookResult{ExitCode: 2}
		}
	}
	for name, tt := range map[string]struct {
		def  hooks.HookDef
		want time.Duration
	}{
		"default":        {hooks.HookDef{Handler: ignores(time.Hour)}, 30 * time.Second},
		"definition":     {hooks.HookDef{Handler: ignores(time.Hour), Timeout: 5}, 5 * time.Second},
		"callback":       {hooks.HookDef{Handler: hooks.NewCallbackHandlerWithTimeout(ignores(time.Hour), time.Minute)}, time.Minute},
		"shorter":        {hooks.HookDef{Handler: hooks.NewCallbackHandlerWithTimeout(ignores(time.Hour), time.Minute), Timeout: 5}, 5 * time.Second},
		"shorter, other": {hooks.HookDef{Handler: hooks.NewCallbackHandlerWithTimeout(ignores(time.Hour), time.Second), Timeout: 5}, time.Second},
		"program":        {hooks.HookDef{Command: "hangs", Timeout: 3}, 3 * time.Second},
		"shell handler":  {hooks.HookDef{Handler: hooks.NewShellHandler(hooks.HookDef{Command: "hangs", Timeout: 4}, &pretender{})}, 4 * time.Second},
		"in time":        {hooks.HookDef{Handler: ignores(time.Second)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := manager(t, hooks.HookPreToolUse, tt.def)
				began := time.Now()
				r := execute(t, m, hooks.HookPreToolUse).Results[0]
				took := time.Since(began)
				late := errors.Is(r.Error, grapnel.ErrTimeout)
				if want := tt.want > 0; late != want || want && (took != tt.want || r.Duration != tt.want) {
					t.Errorf("%+v after %s, want a timeout after %s", r, took, tt.want)
				}
				time.Sleep(2 * time.Hour) // until the handler that was left behind has ended
			})
		})
	}
	for seconds, want := range map[int]time.Duration{0: 30 * time.Second, -1: 30 * time.Second, 5: 5 * time.Second, 1 << 62: 9223372036 * time.Second} {
		if got := (hooks.HookDef{Timeout: seconds}).EffectiveTimeout(); got != want {
			t.Errorf("EffectiveTimeout of %d s = %s, want %s", seconds, got, want)
		}
	}
}

// Proves: FL-01, FL-06, FL-15, FL-17
func TestRegister(t *testing.T) {
	t.Parallel()
	ok := returns(hooks.HookResult{})
	for _, hookType := range append(allTypes(), "post_compact") {
		m := manager(t, hookType, ok)
		if !m.HasHooks(hookType) || len(execute(t, m, hookType).Results) != 1 {
			t.Errorf("no hook of %s", hookType)
		}
	}
	for name, tt := range map[string]struct {
		hookType hooks.HookType
		def      hooks.HookDef
		executor hooks.Executor
		want     string
	}{
		"type":            {"pre_tool", ok, nil, `unknown hook type "pre_tool"`},
		"other system":    {"UserPromptSubmit", ok, nil, "unknown hook type"},
		"nothing":         {hooks.HookStop, hooks.HookDef{Command: " "}, &pretender{}, "neither"},
		"webhook":         {hooks.HookStop, hooks.HookDef{WebhookURL: "https://example.com"}, &pretender{}, "only a WebhookURL"},
		"executor":        {hooks.HookStop, hooks.HookDef{Command: "true"}, nil, "no Executor"},
		"executor, shell": {hooks.HookStop, hooks.HookDef{Handler: hooks.NewShellHandler(hooks.HookDef{Command: "true"}, nil)}, &pretender{}, "no Executor"},
		"function":        {hooks.HookStop, hooks.HookDef{Handler: hooks.NewCallbackHandler(nil)}, nil, "no function"},
		"shell nil":       {hooks.HookStop, hooks.HookDef{Handler: (*hooks.ShellHandler)(nil)}, nil, "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := hooks.NewManager(nil, tt.executor)
			err := m.Register(tt.hookType, tt.def)
			if err == nil || !strings.Contains(err.Error(), tt.want) || m.Count(tt.hookType) != 0 {
				t.Errorf("Register(%s) = %v, want %q; %d hooks", tt.hookType, err, tt.want, m.Count(tt.hookType))
			}
		})
	}
}

// allTypes returns all constants.
func allTypes() []hooks.HookType {
	return []hooks.HookType{
		hooks.HookPreToolUse, hooks.HookPostToolUse, hooks.HookPostToolUseFailure, hooks.HookSessionStart, hooks.HookSessionEnd,
		hooks.HookPermission, hooks.HookPermissionDenied, hooks.HookStop, hooks.HookNotification, hooks.HookConfigChange,
		hooks.HookTaskCreated, hooks.HookTaskCompleted, hooks.HookPreSampling, hooks.HookPostSampling,
	}
}

// Proves: FL-05, FL-08, FL-09, FL-10, FL-11
func TestRemove(t *testing.T) {
	t.Parallel()
	m := hooks.NewManager(nil, nil)
	for _, source := range []string{"", "a", "a:b"} {
		for _, hookType := range []hooks.HookType{hooks.HookPreToolUse, hooks.HookStop} {
			def := returns(hooks.HookResult{})
			def.Source = source
			if err := m.Register(hookType, def); err != nil {
				t.Fatal(err)
			}
		}
	}
	own := grapnel.Spec{Name: "own", On: []grapnel.Kind{grapnel.SessionEnd}, Hook: grapnel.Guard(func(*grapnel.Event) string { return "" })}
	if err := m.Engine().Add(own); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		title       string
		do          func()
		tools, stop int
		ran         int // hooks of pre_tool_use
	}{
		{"registered", func() {}, 3, 3, 3},
		{"disabled", m.Disable, 3, 3, 0},
		{"enabled", m.Enable, 3, 3, 3},
		{"source of one type", func() { m.UnregisterBySource(hooks.HookPreToolUse, "a") }, 2, 3, 2},
		{"source", func() { m.UnregisterAllBySource("a") }, 2, 2, 2},
		{"the same again", func() { m.UnregisterAllBySource("a") }, 2, 2, 2},
		{"global", func() { m.UnregisterAllBySource("") }, 1, 1, 1},
		{"type", func() { m.Unregister(hooks.HookPreToolUse) }, 0, 1, 0},
		{"unknown type", func() { m.Unregister("pre_tool") }, 0, 1, 0},
	} {
		tt.do()
		tools, stop, ran := m.Count(hooks.HookPreToolUse), m.Count(hooks.HookStop), len(execute(t, m, hooks.HookPreToolUse).Results)
		if tools != tt.tools || stop != tt.stop || ran != tt.ran || m.HasHooks(hooks.HookPreToolUse) != (tools > 0) {
			t.Errorf("%s: %d of pre_tool_use, %d of stop, %d ran, want %d, %d, %d", tt.title, tools, stop, ran, tt.tools, tt.stop, tt.ran)
		}
	}
	if len(m.Engine().Specs(grapnel.SessionEnd)) != 1 {
		t.Error("a hook of the engine was removed")
	}
}

// The caller gets errors for types and contexts, and no error for the failure of a hook.
//
// Proves: FL-21
func TestExecuteErrors(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	invalid := hooks.NewManager(&hooks.Config{Hooks: map[hooks.HookType][]hooks.HookDef{
		hooks.HookStop: {{Command: "true"}, returns(hooks.HookResult{})},
	}}, nil)
	for name, tt := range map[string]struct {
		m        *hooks.Manager
		ctx      context.Context
		hookType hooks.HookType
		results  int
		want     string
	}{
		"no hooks":     {hooks.NewManager(nil, nil), t.Context(), hooks.HookStop, 0, ""},
		"nil":          {nil, t.Context(), hooks.HookStop, 0, ""},
		"unknown type": {hooks.NewManager(nil, nil), t.Context(), "pre_tool", 0, "unknown hook type"},
		"a failure":    {manager(t, hooks.HookStop, hooks.HookDef{Command: "missing"}), t.Context(), hooks.HookStop, 1, ""},
		"canceled":     {manager(t, hooks.HookStop, returns(hooks.HookResult{})), canceled, hooks.HookStop, 1, "canceled"},
		"config":       {invalid, t.Context(), hooks.HookStop, 1, "no Executor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := tt.m.Execute(tt.ctx, tt.hookType, nil)
			if len(results.Results) != tt.results || results.Results == nil || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Execute: %d results, %v, want %d and %q", len(results.Results), err, tt.results, tt.want)
			}
			if tt.want == "" || name == "canceled" {
				return
			}
			now, late := tt.m.ExecuteAll(tt.ctx, tt.hookType, nil)
			for which, rs := range map[string]*hooks.ExecuteResults{"ExecuteAll": now, "ExecuteAsync": <-tt.m.ExecuteAsync(tt.hookType, nil)} {
				if r := rs.FirstError(); r == nil || !strings.Contains(r.Error.Error(), tt.want) {
					t.Errorf("%s: the first error is %+v, want %q", which, r, tt.want)
				}
			}
			if more := <-late; more.HasErrors() {
				t.Errorf("late results %+v", more)
			}
		})
	}
	if r := execute(t, manager(t, hooks.HookStop, returns(hooks.HookResult{ExitCode: 3})), hooks.HookStop).FirstError(); r == nil || r.Error != nil {
		t.Errorf("an exit code alone: %+v", r)
	}
}

// Proves: FL-24, FL-25, FL-28
func TestAsync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := calls(func(ctx context.Context) {
			select {
			case <-ctx.Done():
				panic("the context of the hook ended")
			case <-time.After(time.Second):
			}
		})
		async := slow
		async.Async = true
		m := manager(t, hooks.HookSessionEnd, returns(hooks.HookResult{ExitCode: 3}), async, hooks.HookDef{Command: "2||no", Async: true})

		ctx, cancel := context.WithCancel(t.Context())
		now, late := m.ExecuteAll(ctx, hooks.HookSessionEnd, nil)
		cancel()
		if len(now.Results) != 1 || now.Results[0].ExitCode != 3 {
			t.Errorf("now %+v, want one result", now.Results)
		}
		later, more := <-late, <-late
		if len(later.Results) != 2 || later.Results[0].ExitCode != 2 || !later.Results[1].Success() || later.Results[1].Duration != time.Second || more != nil {
			t.Errorf("later %+v and %+v, want both asynchronous hooks once", later, more)
		}

		m = manager(t, hooks.HookSessionEnd, slow, async)
		env := map[string]string{"A": "b"}
		results := m.ExecuteAsync(hooks.HookSessionEnd, env)
		env["A"] = "c" // the hooks have a copy
		if got := <-results; len(got.Results) != 2 || got.HasErrors() {
			t.Errorf("async %+v, want two successes", got)
		}
		m.ExecuteAsync(hooks.HookSessionEnd, nil) // its channel may be ignored
		time.Sleep(time.Minute)
	})
}

// Hooks can be added and removed while others run, also by a hook.
//
// Proves: FL-18
func TestConcurrent(t *testing.T) {
	t.Parallel()
	m := hooks.NewManager(nil, &pretender{})
	shared := &hooks.HookResult{Stdout: `{"a":1}`}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			source := fmt.Sprint(i)
			for range 20 {
				def := hooks.HookDef{Source: source, Async: i%2 == 0, Handler: hooks.HookHandlerFunc(func(_ context.Context, _ hooks.HookType, env map[string]string) *hooks.HookResult {
					env["OWN"] = source // each hook has its own copy
					return shared
				})}
				if err := errors.Join(m.Register(hooks.HookPreToolUse, def), m.Register(hooks.HookPreToolUse, hooks.HookDef{Command: "2||no", Source: source})); err != nil {
					t.Error(err)
				}
				m.SetObserver(grapnel.ObserverFunc(func(context.Context, *grapnel.Record) {}))
				env := hooks.BuildPreToolEnv("Bash", nil, "")
				if results, err := m.Execute(t.Context(), hooks.HookPreToolUse, env); err != nil || len(results.Results) == 0 || env["OWN"] != "" {
					t.Errorf("%+v, %v", results, err)
				}
				<-m.ExecuteAsync(hooks.HookPreToolUse, env)
				m.UnregisterBySource(hooks.HookPreToolUse, source)
			}
		})
	}
	wg.Wait()
	if err := m.Engine().Close(t.Context()); err != nil || m.HasHooks(hooks.HookPreToolUse) {
		t.Errorf("%v, %d hooks are left", err, m.Count(hooks.HookPreToolUse))
	}

	m = hooks.NewManager(nil, nil)
	err := m.Register(hooks.HookStop, calls(func(context.Context) {
		if err := m.Register(hooks.HookStop, returns(hooks.HookResult{})); err != nil {
			t.Error(err)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if first, second := execute(t, m, hooks.HookStop), execute(t, m, hooks.HookStop); len(first.Results) != 1 || len(second.Results) != 2 {
		t.Errorf("%d, then %d results, want 1 and 2", len(first.Results), len(second.Results))
	}
}

// Each builder returns what a program of its type gets.
//
// Proves: FL-12, FL-40, FL-41, FL-42, FL-43, FL-44, FL-45, FL-46, FL-47
func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	input := map[string]any{"command": "a < b"}
	for name, tt := range map[string]struct {
		hookType hooks.HookType
		env      map[string]string
		want     map[string]string // besides the common ones
	}{
		"pre tool":      {hooks.HookPreToolUse, hooks.BuildPreToolEnv("Bash", input, "/p"), map[string]string{"TOOL_NAME": "Bash", "TOOL_INPUT": `{"command":"a < b"}`}},
		"no input":      {hooks.HookPreToolUse, hooks.BuildPreToolEnv("Bash", nil, "/p"), map[string]string{"TOOL_NAME": "Bash", "TOOL_INPUT": "null"}},
		"raw input":     {hooks.HookPreToolUse, hooks.BuildPreToolEnv("Bash", json.RawMessage(`{ "b": 1, "a": 10000000000000001 }`), "/p"), map[string]string{"TOOL_NAME": "Bash", "TOOL_INPUT": `{"b":1,"a":10000000000000001}`}},
		"no JSON":       {hooks.HookPreToolUse, hooks.BuildPreToolEnv("Bash", map[string]any{"rm -rf": func() {}}, "/p"), nil},
		"post tool":     {hooks.HookPostToolUse, hooks.BuildPostToolEnv("Bash", input, "out", false, "/p"), map[string]string{"TOOL_NAME": "Bash", "TOOL_INPUT": `{"command":"a < b"}`, "TOOL_OUTPUT": "out", "TOOL_IS_ERROR": "false"}},
		"failure":       {hooks.HookPostToolUseFailure, hooks.BuildPostToolEnv("Bash", input, "out", true, "/p"), map[string]string{"TOOL_NAME": "Bash", "TOOL_INPUT": `{"command":"a < b"}`, "TOOL_OUTPUT": "out", "TOOL_IS_ERROR": "true"}},
		"session":       {hooks.HookSessionStart, hooks.BuildSessionEnv("s1", "/p", hooks.HookSessionStart), map[string]string{"SESSION_ID": "s1"}},
		"stop":          {hooks.HookStop, hooks.BuildSessionEnv("s1", "/p", hooks.HookStop), map[string]string{"SESSION_ID": "s1"}},
		"permission":    {hooks.HookPermission, hooks.BuildPermissionEnv("Bash", "why", "/p", hooks.HookPermission), map[string]string{"TOOL_NAME": "Bash", "PERMISSION_REASON": "why"}},
		"denied":        {hooks.HookPermissionDenied, hooks.BuildPermissionEnv("Bash", "why", "/p", hooks.HookPermissionDenied), map[string]string{"TOOL_NAME": "Bash", "PERMISSION_REASON": "why"}},
		"pre sampling":  {hooks.HookPreSampling, hooks.BuildPreSamplingEnv("m1", 1, 12, "/p"), map[string]string{"MODEL": "m1", "TURN": "1", "MESSAGE_COUNT": "12"}},
		"post sampling": {hooks.HookPostSampling, hooks.BuildPostSamplingEnv("m1", 3, 100, 20, "end_turn", strings.Repeat("€", 200), "/p"), map[string]string{"MODEL": "m1", "TURN": "3", "INPUT_TOKENS": "100", "OUTPUT_TOKENS": "20", "STOP_REASON": "end_turn", "RESPONSE_PREVIEW": strings.Repeat("€", 166)}},
		"notification":  {hooks.HookNotification, hooks.BuildNotificationEnv("ready", "info", "/p"), map[string]string{"NOTIFICATION_MESSAGE": "ready", "NOTIFICATION_LEVEL": "info"}},
		"task":          {hooks.HookTaskCompleted, hooks.BuildTaskEnv("t1", "tidy up", "/p", hooks.HookTaskCompleted), map[string]string{"TASK_ID": "t1", "TASK_DESCRIPTION": "tidy up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{"HOOK_TYPE": string(tt.hookType), "PROJECT_ROOT": "/p", "PLATFORM": runtime.GOOS, "ARCH": runtime.GOARCH, "CWD": dir}
			maps.Copy(want, tt.want)
			if tt.want == nil { // a value that is no JSON
				want["TOOL_NAME"], want["TOOL_INPUT"] = "Bash", tt.env["TOOL_INPUT"]
				if !strings.Contains(tt.env["TOOL_INPUT"], "rm -rf") {
					t.Errorf("the input is lost: %q", tt.env["TOOL_INPUT"])
				}
			}
			if !maps.Equal(tt.env, want) {
				t.Errorf("built %v, want %v", tt.env, want)
			}
			x := &pretender{}
			m := hooks.NewManager(nil, x)
			var seen map[string]string
			err := errors.Join(
				m.Register(tt.hookType, hooks.HookDef{Command: "0||", PluginDir: "/plugin"}),
				m.Register(tt.hookType, hooks.HookDef{Handler: hooks.HookHandlerFunc(func(_ context.Context, _ hooks.HookType, env map[string]string) *hooks.HookResult {
					seen = env
					return &hooks.HookResult{}
				})}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Execute(t.Context(), tt.hookType, tt.env); err != nil {
				t.Fatal(err)
			}
			for name, value := range want {
				if seen[name] != value || !slices.Contains(x.program().Env, name+"="+value) {
					t.Errorf("%s: the callback has %q, want %q; the program has %q", name, seen[name], value, x.program().Env)
				}
			}
			if _, ok := seen["FLYTO_PLUGIN_ROOT"]; ok || !slices.Contains(x.program().Env, "FLYTO_PLUGIN_ROOT=/plugin") || x.program().Inherit != process.InheritMinimal {
				t.Errorf("FLYTO_PLUGIN_ROOT of the plugin's program: %q; of the other hook: %v", x.program().Env, ok)
			}
		})
	}
}

// A program starts whatever the size of its input, and standard input has all of it.
//
// Proves: FL-48
func TestLargeInput(t *testing.T) {
	t.Parallel()
	x := &pretender{}
	m := hooks.NewManager(nil, x)
	if err := m.Register(hooks.HookPostToolUse, hooks.HookDef{Command: "2||no"}); err != nil {
		t.Fatal(err)
	}
	env := hooks.BuildPostToolEnv("Write", map[string]string{"content": strings.Repeat("in", 100_000)}, strings.Repeat("out", 100_000), false, "/p")
	env["OWN"] = "mine"
	results, err := m.Execute(t.Context(), hooks.HookPostToolUse, env)
	if blocked, _ := hooks.ParseToolHookResponse(results); err != nil || !blocked {
		t.Fatalf("%+v, %v", results, err)
	}
	for _, v := range x.program().Env {
		if len(v) >= 128<<10 {
			t.Errorf("a variable of %d bytes: %.30s", len(v), v)
		}
	}
	var event struct {
		Tool struct {
			Input  struct{ Content string }
			Output string
		}
		Native map[string]string
	}
	if err := json.Unmarshal(x.program().Stdin, &event); err != nil {
		t.Fatal(err)
	}
	if len(event.Tool.Input.Content) != 200_000 || event.Tool.Output != env["TOOL_OUTPUT"] || event.Native["OWN"] != "mine" {
		t.Errorf("stdin has %d bytes: %.200s", len(x.program().Stdin), x.program().Stdin)
	}
}

// Without a map, hooks have the variables of their type.
func TestNoEnvironment(t *testing.T) {
	t.Parallel()
	var seen map[string]string
	m := manager(t, hooks.HookPreToolUse, hooks.HookDef{PluginDir: "/plugin", Handler: hooks.HookHandlerFunc(func(_ context.Context, _ hooks.HookType, env map[string]string) *hooks.HookResult {
		seen = env
		return &hooks.HookResult{}
	})})
	if _, err := m.Execute(t.Context(), hooks.HookPreToolUse, nil); err != nil {
		t.Fatal(err)
	}
	name, ok := seen["TOOL_NAME"]
	if seen["HOOK_TYPE"] != "pre_tool_use" || !filepath.IsAbs(seen["CWD"]) || seen["FLYTO_PLUGIN_ROOT"] != "/plugin" || name != "" || !ok {
		t.Errorf("variables %v", seen)
	}
}

// Proves: FL-26, FL-31, FL-32, FL-33, FL-34
func TestParse(t *testing.T) {
	t.Parallel()
	object := func(name, value string) map[string]any { return map[string]any{name: value} }
	type verdict struct {
		blocked    bool
		reason     string
		stop       bool
		stopReason string
		permission string
		denial     string
		summary    string
	}
	const mark = "[hook: post_compact]\n"
	for name, tt := range map[string]struct {
		results []*hooks.HookResult
		want    verdict
	}{
		"none":          {nil, verdict{}},
		"nil result":    {[]*hooks.HookResult{nil}, verdict{}},
		"success":       {[]*hooks.HookResult{{}}, verdict{}},
		"exit 2":        {[]*hooks.HookResult{{ExitCode: 2, Stderr: "no\n"}}, verdict{true, "no", true, "no", "deny", "no", ""}},
		"silent exit 2": {[]*hooks.HookResult{{ExitCode: 2}}, verdict{true, "", true, "", "deny", "", ""}},
		"exit 1":        {[]*hooks.HookResult{{ExitCode: 1, Stderr: "no"}}, verdict{stop: true, stopReason: "no"}},
		"JSON block":    {[]*hooks.HookResult{{JSONOutput: map[string]any{"decision": "block", "reason": "why"}, Stderr: "no"}}, verdict{true, "why", false, "", "deny", "why", ""}},
		"JSON deny":     {[]*hooks.HookResult{{JSONOutput: object("decision", "deny")}}, verdict{true, "", false, "", "deny", "", ""}},
		"JSON allow":    {[]*hooks.HookResult{{JSONOutput: object("decision", "allow")}}, verdict{permission: "allow"}},
		"JSON maybe":    {[]*hooks.HookResult{{JSONOutput: object("decision", "maybe")}}, verdict{}},
		"in Stdout":     {[]*hooks.HookResult{{Stdout: `{"decision":"block","reason":"why"}`}}, verdict{true, "why", false, "", "deny", "why", mark + `{"decision":"block","reason":"why"}`}},
		"no text":       {[]*hooks.HookResult{{JSONOutput: map[string]any{"decision": "block", "reason": 1}}}, verdict{blocked: true, permission: "deny"}},
		"first reason":  {[]*hooks.HookResult{{ExitCode: 2, Stderr: "a"}, {ExitCode: 2, Stderr: "b"}}, verdict{true, "a", true, "a", "deny", "a", ""}},
		"block wins":    {[]*hooks.HookResult{{JSONOutput: object("decision", "allow")}, {ExitCode: 2, Stderr: "b"}}, verdict{true, "b", true, "b", "deny", "b", ""}},
		"allow, broken": {[]*hooks.HookResult{{JSONOutput: object("decision", "allow")}, {ExitCode: 1}}, verdict{stop: true}},
		"timeout":       {[]*hooks.HookResult{{ExitCode: -1, Error: grapnel.ErrTimeout}}, verdict{}},
		"allow, error":  {[]*hooks.HookResult{{JSONOutput: object("decision", "allow"), Error: os.ErrClosed}}, verdict{}},
		"text":          {[]*hooks.HookResult{{Stdout: " one\n"}, {Stdout: "\n"}, {Stdout: "bad", ExitCode: 1}, {Stdout: "two"}}, verdict{stop: true, summary: mark + "one\n" + mark + "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := &hooks.ExecuteResults{Results: tt.results}
			if name == "none" {
				results = nil
			}
			var got verdict
			got.blocked, got.reason = hooks.ParseToolHookResponse(results)
			got.stop, got.stopReason = hooks.ParseStopHookResponse(results)
			got.permission, got.denial = hooks.ParsePermissionResponse(results)
			got.summary = hooks.ParsePostCompactHookResponse(results)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Proves: FL-04, FL-23
func TestSearch(t *testing.T) {
	t.Parallel()
	rs := &hooks.ExecuteResults{Results: []*hooks.HookResult{{}, nil, {JSONOutput: map[string]any{"a": nil}, ExitCode: 2}, {JSONOutput: map[string]any{"a": 1, "b": 2}, Error: os.ErrClosed}}}
	if value, found := rs.FindJSONOutput("a"); value != nil || !found {
		t.Errorf("a is %v, %v", value, found)
	}
	if value, found := rs.FindJSONOutput("b"); value != 2 || !found {
		t.Errorf("b is %v, %v", value, found)
	}
	if value, found := rs.FindJSONOutput("c"); value != nil || found {
		t.Errorf("c is %v, %v", value, found)
	}
	if rs.FirstError() != rs.Results[2] || !rs.HasErrors() {
		t.Errorf("the first error is %+v", rs.FirstError())
	}
	var none *hooks.ExecuteResults
	if _, found := none.FindJSONOutput("a"); found || none.HasErrors() || none.FirstError() != nil || (*hooks.HookResult)(nil).Success() {
		t.Error("nil has results")
	}
}

// Proves: FL-02, FL-03, FL-04
func TestJSON(t *testing.T) {
	t.Parallel()
	const config = `{"hooks":{"pre_tool_use":[{"command":"./ledger.sh","timeout":5,"async":true,"source":"ledger","plugin_dir":"plugins/ledger"},{"command":"true","webhook_url":"https://example.com"}]}}`
	var cfg hooks.Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(cfg); err != nil || string(got) != config {
		t.Errorf("%s, %v, want %s", got, err, config)
	}
	m := hooks.NewManager(&cfg, &pretender{})
	if m.Count(hooks.HookPreToolUse) != 2 || len(execute(t, m, hooks.HookPreToolUse).Results) != 1 {
		t.Errorf("%d hooks, want 2, one of them asynchronous", m.Count(hooks.HookPreToolUse))
	}
	if err := m.Engine().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := hooks.NewManager(&hooks.Config{Hooks: cfg.Hooks, Disabled: true}, &pretender{}); len(execute(t, m, hooks.HookPreToolUse).Results) != 0 {
		t.Error("disabled hooks ran")
	}

	const results = `{"hook_type":"stop","results":[{"command":"a < b","stdout":"{\"x\":1}","stderr":"e","exit_code":2,"json_output":{"x":1},"duration":1500,"error":"too slow"},{"command":"","stdout":"","stderr":"","exit_code":0,"duration":0}]}`
	var rs hooks.ExecuteResults
	if err := json.Unmarshal([]byte(results), &rs); err != nil {
		t.Fatal(err)
	}
	first := rs.Results[0]
	if first.Error == nil || first.Error.Error() != "too slow" || first.Duration != 1500 || first.JSONOutput["x"] != 1.0 || rs.Results[1].Error != nil {
		t.Errorf("result %+v", first)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(rs); err != nil || strings.TrimSpace(b.String()) != results {
		t.Errorf("%s, %v, want %s", b.String(), err, results)
	}
}

// Proves: FL-36, FL-37
func TestSessions(t *testing.T) {
	t.Parallel()
	session := manager(t, hooks.HookPreToolUse, returns(hooks.HookResult{Command: "session", ExitCode: 2}))
	engine := manager(t, hooks.HookPreToolUse, returns(hooks.HookResult{Command: "engine"}))
	for name, tt := range map[string]struct {
		m    hooks.HooksManager
		want string
	}{
		"both":              {hooks.ResolveHooksMgr(session, engine), "session engine"},
		"composite":         {hooks.NewCompositeManager(session, engine), "session engine"},
		"the same":          {hooks.NewCompositeManager(engine, engine), "engine"},
		"no session":        {hooks.ResolveHooksMgr(nil, engine), "engine"},
		"no engine":         {hooks.ResolveHooksMgr(session, nil), "session"},
		"composite, one":    {hooks.NewCompositeManager(nil, engine), "engine"},
		"composite, other":  {hooks.NewCompositeManager(session, nil), "session"},
		"neither":           {hooks.ResolveHooksMgr(nil, nil), ""},
		"composite of none": {hooks.NewCompositeManager(nil, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rs := range []*hooks.ExecuteResults{execute(t, tt.m, hooks.HookPreToolUse), <-tt.m.ExecuteAsync(hooks.HookPreToolUse, nil)} {
				var ran []string
				for _, r := range rs.Results {
					ran = append(ran, r.Command)
				}
				if got := strings.Join(ran, " "); got != tt.want || tt.m.HasHooks(hooks.HookPreToolUse) != (tt.want != "") || tt.m.HasHooks(hooks.HookStop) {
					t.Errorf("ran %q, want %q", got, tt.want)
				}
			}
		})
	}
	if hooks.ResolveHooksMgr(nil, engine) != hooks.HooksManager(engine) || hooks.ResolveHooksMgr(session, nil) != hooks.HooksManager(session) {
		t.Error("one Manager is not the Manager itself")
	}
	ctx := hooks.WithSessionHooksCtx(t.Context(), session)
	if hooks.SessionHooksFromCtx(ctx) != session || hooks.SessionHooksFromCtx(hooks.WithSessionHooksCtx(ctx, nil)) != session || hooks.SessionHooksFromCtx(t.Context()) != nil {
		t.Error("the context does not carry the session")
	}

	later := hooks.NewManager(nil, nil)
	both := hooks.NewCompositeManager(later, engine)
	if err := later.Register(hooks.HookStop, returns(hooks.HookResult{})); err != nil || !both.HasHooks(hooks.HookStop) {
		t.Errorf("a later hook is not there: %v", err)
	}
}

// The observer gets each Record, also of asynchronous and composed hooks. The last observer holds.
//
// Proves: FL-18, FL-26
func TestObserver(t *testing.T) {
	t.Parallel()
	var first, second []*grapnel.Record
	keep := func(records *[]*grapnel.Record) grapnel.Observer {
		return grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { *records = append(*records, rec) })
	}
	async := returns(hooks.HookResult{})
	async.Async = true
	m := manager(t, hooks.HookPreSampling, returns(hooks.HookResult{ExitCode: 2, Stderr: "over budget"}), async)
	m.SetObserver(keep(&first))
	execute(t, m, hooks.HookPreSampling)
	m.SetObserver(keep(&second))
	execute(t, hooks.NewCompositeManager(manager(t, hooks.HookPreSampling, returns(hooks.HookResult{})), m), hooks.HookPreSampling)
	m.SetObserver(nil)
	execute(t, m, hooks.HookPreSampling)
	if err := m.Engine().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(first) != 1 || first[0].Decision != grapnel.Block || first[0].Reasons[0].Text != "over budget" || len(first[0].Hooks) != 2 {
		t.Errorf("the first observer got %+v", first)
	}
	if len(second) != 1 || len(second[0].Hooks) != 3 {
		t.Errorf("the second observer got %+v", second)
	}
}

// Hooks also run for events of a host, with the variables of the dialect. A handler can fire events.
func TestEngine(t *testing.T) {
	t.Parallel()
	var seen []string
	m := hooks.NewManager(nil, nil)
	err := m.Register(hooks.HookPreToolUse, hooks.HookDef{Handler: hooks.HookHandlerFunc(func(ctx context.Context, hookType hooks.HookType, env map[string]string) *hooks.HookResult {
		seen = append(seen, string(hookType)+" "+env["TOOL_NAME"]+" "+env["TOOL_INPUT"])
		if env["TOOL_NAME"] == "Outer" {
			m.Engine().Fire(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Inner", Input: json.RawMessage(`{"a": 1}`)}})
		}
		return &hooks.HookResult{ExitCode: 2, Stderr: "no"}
	})})
	if err != nil {
		t.Fatal(err)
	}
	results, err := m.Execute(t.Context(), hooks.HookPreToolUse, hooks.BuildPreToolEnv("Outer", 1, ""))
	if err != nil || len(results.Results) != 1 {
		t.Errorf("%+v, %v", results, err)
	}
	v := m.Engine().Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{}`)}})
	if v.Decision != grapnel.Block || v.Reason() != "no" {
		t.Errorf("verdict %+v", v)
	}
	err = m.Engine().Add(
		grapnel.Spec{Name: "guard", On: []grapnel.Kind{grapnel.ToolAfter}, Hook: grapnel.Guard(func(*grapnel.Event) string { return "no" })},
		grapnel.Spec{Name: "silent", On: []grapnel.Kind{grapnel.ToolAfter}, Hook: grapnel.Guard(func(*grapnel.Event) string { return "" })})
	if err != nil {
		t.Fatal(err)
	}
	results = execute(t, m, hooks.HookPostToolUse)
	if rs := results.Results; len(rs) != 2 || rs[0].ExitCode != 2 || rs[0].Stderr != "no" || rs[0].Command != "guard" || !rs[1].Success() {
		t.Errorf("hooks of the engine: %+v", rs)
	}
	if want := []string{"pre_tool_use Outer 1", `pre_tool_use Inner {"a":1}`, "pre_tool_use Bash {}"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

// A handler can be called without a Manager, with the same results.
//
// Proves: FL-16
func TestHandlersAlone(t *testing.T) {
	t.Parallel()
	boom := hooks.NewCallbackHandler(func(context.Context, hooks.HookType, map[string]string) *hooks.HookResult { panic("boom") })
	for name, tt := range map[string]struct {
		handler hooks.HookHandler
		exit    int
		err     string
	}{
		"shell":       {hooks.NewShellHandler(hooks.HookDef{Command: "2||no"}, &pretender{}), 2, ""},
		"no executor": {hooks.NewShellHandler(hooks.HookDef{Command: "2||no"}, nil), -1, "no Executor"},
		"callback":    {hooks.NewCallbackHandler(returns(hooks.HookResult{ExitCode: 3}).Handler.ExecuteHook), 3, ""},
		"panic":       {boom, -1, "boom"},
		"function":    {hooks.HookHandlerFunc(returns(hooks.HookResult{ExitCode: 4}).Handler.ExecuteHook), 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tt.handler.ExecuteHook(t.Context(), hooks.HookStop, nil)
			if r.ExitCode != tt.exit || (r.Error == nil) != (tt.err == "") || r.Error != nil && !strings.Contains(r.Error.Error(), tt.err) {
				t.Errorf("%+v, want exit code %d and %q", r, tt.exit, tt.err)
			}
		})
	}
	if r := boom.ExecuteHook(t.Context(), "pre_tool", nil); r.Error == nil || !strings.Contains(r.Error.Error(), "unknown hook type") {
		t.Errorf("an unknown type: %+v", r)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if r := boom.ExecuteHook(canceled, hooks.HookStop, nil); r.Error == nil || !strings.Contains(r.Error.Error(), "canceled") {
		t.Errorf("a canceled context: %+v", r)
	}
}

// A nil Manager has no hooks, and takes none.
func TestNil(t *testing.T) {
	t.Parallel()
	var m *hooks.Manager
	m.Unregister(hooks.HookStop)
	m.UnregisterBySource(hooks.HookStop, "")
	m.UnregisterAllBySource("")
	m.Enable()
	m.Disable()
	m.SetObserver(nil)
	if m.HasHooks(hooks.HookStop) || m.Count(hooks.HookStop) != 0 || m.Register(hooks.HookStop, returns(hooks.HookResult{})) == nil {
		t.Error("a nil Manager has hooks")
	}
	if rs := <-m.ExecuteAsync(hooks.HookStop, nil); len(rs.Results) != 0 {
		t.Errorf("%+v", rs)
	}
}
