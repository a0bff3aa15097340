package ironclaw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

const presetName = "ironclaw"

// preset returns the options with which the engine runs hooks as IronClaw does.
func preset() grapnel.Preset {
	p, _ := grapnel.FindPreset(presetName)
	return p
}

// A HookRegistry runs hooks by priority. It is safe for concurrent use, and registering or
// unregistering hooks does not affect a Run in progress. [NewHookRegistry] creates one.
type HookRegistry struct{ engine *grapnel.Engine }

// NewHookRegistry returns a registry without hooks. opts has further options of its engine; nil =
// the defaults. The Preset is always "ironclaw".
func NewHookRegistry(opts *grapnel.Options) *HookRegistry {
	o := grapnel.Options{}
	if opts != nil {
		o = *opts
	}
	o.Preset = preset()
	engine, _ := grapnel.New(nil, &o) // fails only for an invalid hook
	engine.AddObserver(grapnel.ObserverFunc(keepRecord))
	return &HookRegistry{engine}
}

// Register adds a hook with priority 100. See [HookRegistry.RegisterWithPriority].
func (r *HookRegistry) Register(hook Hook) error {
	return r.RegisterWithPriority(hook, policyfile.DefaultPriority)
}

// RegisterWithPriority adds a hook. Lower priorities run first, and equal ones in the order of
// registration. A hook with the name of another one replaces it, with a warning to log/slog; if the
// priorities are equal, it keeps the place. A nil hook, a hook without a name or a point, an unknown
// point and a negative timeout are errors.
func (r *HookRegistry) RegisterWithPriority(hook Hook, priority uint32) error {
	spec, err := specOf(hook, priority)
	if err == nil {
		if r.has(spec.FullName()) {
			slog.Warn("hook is replaced", "hook", spec.FullName())
		}
		err = r.engine.Add(spec)
	}
	if err != nil {
		return fmt.Errorf("cannot register a hook: %w", err)
	}
	return nil
}

func specOf(hook Hook, priority uint32) (grapnel.Spec, error) {
	if v := reflect.ValueOf(hook); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return grapnel.Spec{}, errors.New("it is nil")
	}
	if hook.Name() == "" {
		return grapnel.Spec{}, errors.New("it has no name")
	}
	if f, ok := hook.(HookFunc); ok && f.Func == nil {
		return grapnel.Spec{}, fmt.Errorf("hook %q: HookFunc.Func is nil", f.HookName)
	}
	at := min(uint64(priority), math.MaxInt)
	spec := grapnel.Spec{Name: hook.Name(), Priority: int(at) - policyfile.DefaultPriority, Hook: adapter{hook}, Timeout: hook.Timeout(), OnError: grapnel.OnErrorOpen}
	if source, name, ok := strings.Cut(spec.Name, "::"); ok {
		spec.Source.Name, spec.Name = source, name
	}
	for _, point := range hook.HookPoints() {
		if point.Kind() == "" {
			return spec, fmt.Errorf("hook %q: unknown hook point %q", hook.Name(), point)
		}
		spec.On = append(spec.On, point.Kind())
	}
	if len(spec.On) == 0 { // the engine would run it at every event
		return spec, fmt.Errorf("hook %q: it has no hook points", hook.Name())
	}
	if hook.FailureMode() != FailOpen {
		spec.OnError = grapnel.OnErrorClosed
	}
	return preset().Defaults(spec), nil
}

// Unregister removes a hook and reports whether it existed.
func (r *HookRegistry) Unregister(name string) bool {
	return r.engine.Remove(func(s *grapnel.Spec) bool { return s.FullName() == name }) > 0
}

// UnregisterSource removes all hooks whose names begin with the source and "::", for example the
// hooks of the extension plugin.tool:git, and returns their number.
func (r *HookRegistry) UnregisterSource(source string) int {
	return r.engine.Remove(func(s *grapnel.Spec) bool { return strings.HasPrefix(s.FullName(), source+"::") })
}

// List returns the names of all hooks in the order in which they run.
func (r *HookRegistry) List() []string {
	names := []string{}
	for _, s := range r.engine.Specs("") {
		if !notice.Is(&s) {
			names = append(names, s.FullName())
		}
	}
	return names
}

func (r *HookRegistry) has(name string) bool {
	_, ok := r.find(name)
	return ok
}

// find returns the Spec with this full name.
func (r *HookRegistry) find(name string) (grapnel.Spec, bool) {
	for _, s := range r.engine.Specs("") {
		if s.FullName() == name {
			return s, true
		}
	}
	return grapnel.Spec{}, false
}

// Engine returns the engine that runs the hooks. An agent can use it with package host instead of
// calling Run, and add observers to it. Its Close waits for hooks in the background.
func (r *HookRegistry) Engine() *grapnel.Engine { return r.engine }

// Run runs the hooks of the event's point. It returns [Modify] if they changed the primary content
// and [OK] otherwise. The error is a [*RejectedError] if a hook rejected, a [*TimeoutError] if a
// fail_closed hook took too long, and an [*ExecutionFailedError] if it failed, or if ctx was done
// before all hooks ran. An error ends the run, and changes of earlier hooks are lost.
//
// At a session event, an agent only logs the error. IronClaw runs these hooks in a task of their
// own; in Go, call Run in a goroutine.
func (r *HookRegistry) Run(ctx context.Context, event HookEvent) (HookOutcome, error) {
	switch {
	case event == nil:
		return OK(), &ExecutionFailedError{Err: errors.New("the event is nil")}
	case r.engine == nil:
		return OK(), &ExecutionFailedError{Err: errors.New("the registry was not created with NewHookRegistry")}
	}
	var rec *grapnel.Record
	v := r.engine.Fire(context.WithValue(ctx, recordKey{}, &rec), event.engineEvent())
	err := r.failure(&v, rec)
	for i := range rec.Hooks {
		if run := &rec.Hooks[i]; run.FailOpen && (err == nil || primaryField(rec.Event) != "") {
			slog.WarnContext(ctx, "hook failed and is ignored", "hook", fullName(run), "point", event.Point(), "error", run.Error)
		}
	}
	if err != nil {
		return OK(), err
	}
	value, changed := v.Changes[primaryField(rec.Event)]
	switch text, isText := rawjson.Unquote(value); {
	case !changed:
		return OK(), nil
	case isText && rec.Event != grapnel.ToolBefore:
		return Modify(text), nil
	default:
		return Modify(string(value)), nil
	}
}

// failure returns the error of a run, or nil.
func (r *HookRegistry) failure(v *grapnel.Verdict, rec *grapnel.Record) error {
	if v.Decision >= grapnel.Ask { // an Ask of a hook that was added to the engine has no other answer here
		reason := grapnel.Reason{Cause: grapnel.CauseDecision}
		if len(v.Reasons) > 0 {
			reason = v.Reasons[0]
		}
		if reason.Cause == grapnel.CauseDecision {
			return &RejectedError{reason.Hook, reason.Text}
		}
		return r.failed(reason.Hook, reason.Cause, v.Err)
	}
	if v.Err != nil { // hooks did not run, because ctx was done
		return &ExecutionFailedError{Err: v.Err}
	}
	if primaryField(rec.Event) != "" {
		return nil
	}
	// The engine permits no Block at session events, but IronClaw reports it.
	for i := range rec.Hooks {
		run := &rec.Hooks[i]
		if run.Observed {
			continue
		}
		if run.Outcome != nil && run.Outcome.Decision == grapnel.Block {
			return &RejectedError{fullName(run), run.Outcome.Reason}
		}
		if s, _ := r.find(fullName(run)); run.FailOpen && s.OnError == grapnel.OnErrorClosed && !errors.Is(run.Err, grapnel.ErrIllegal) {
			return r.failed(fullName(run), run.Cause, run.Err)
		}
	}
	return nil
}

// failed returns the error of a run that ended because a hook failed.
func (r *HookRegistry) failed(hook string, cause grapnel.Cause, err error) error {
	if cause == grapnel.CauseTimeout {
		s, _ := r.find(hook)
		return &TimeoutError{hook, s.Timeout}
	}
	return &ExecutionFailedError{hook, err}
}

func fullName(run *grapnel.HookRun) string {
	s := grapnel.Spec{Name: run.Name, Source: grapnel.Source{Name: run.Source}}
	return s.FullName()
}

// recordKey is the key of a context with the address where Run expects the Record.
type recordKey struct{}

func keepRecord(ctx context.Context, rec *grapnel.Record) {
	if into, ok := ctx.Value(recordKey{}).(**grapnel.Record); ok {
		*into = rec
	}
}

// An ExecutionFailedError means that a fail_closed hook failed.
type ExecutionFailedError struct {
	Hook string // name of the hook; empty = hooks did not run
	Err  error  // the hook's error
}

// Error returns the hook and its error.
func (e *ExecutionFailedError) Error() string {
	if e.Hook == "" {
		return fmt.Sprintf("hooks failed: %v", e.Err)
	}
	return fmt.Sprintf("hook %q failed: %v", e.Hook, e.Err)
}

// Unwrap returns the hook's error.
func (e *ExecutionFailedError) Unwrap() error { return e.Err }

// A TimeoutError means that a fail_closed hook took longer than its timeout.
type TimeoutError struct {
	Hook     string // name of the hook
	Duration time.Duration
}

// Error returns the hook and its timeout.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("hook %q took longer than its timeout of %v", e.Hook, e.Duration)
}

// Is reports whether target is [grapnel.ErrTimeout].
func (e *TimeoutError) Is(target error) bool { return target == grapnel.ErrTimeout }

// A RejectedError means that a hook rejected the event.
type RejectedError struct {
	Hook   string // name of the hook
	Reason string
}

// Error returns the hook and its reason.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("hook %q rejected it: %s", e.Hook, e.Reason)
}
