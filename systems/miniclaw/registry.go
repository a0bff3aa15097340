package miniclaw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

// A HookRegistry runs hooks in the order in which they were registered. It is safe for concurrent
// use: a hook that is registered during a Dispatch gets only later events. [NewHookRegistry] creates
// one.
type HookRegistry struct{ engine *grapnel.Engine }

// NewHookRegistry returns a registry without hooks.
func NewHookRegistry() *HookRegistry {
	preset, _ := grapnel.FindPreset("miniclaw")
	engine, _ := grapnel.New(nil, &grapnel.Options{Preset: preset}) // fails only for an invalid hook
	r := &HookRegistry{engine}
	r.engine.AddObserver(grapnel.ObserverFunc(keepRecord))
	return r
}

// Register adds a hook behind the others. It returns an error for a nil hook and for a [ShellHook]
// with an invalid glob or without a command.
func (r *HookRegistry) Register(hook Hook) error {
	if v := reflect.ValueOf(hook); !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil() {
		return errors.New("cannot register a hook: it is nil")
	}
	spec := grapnel.Spec{
		Name: strings.TrimPrefix(fmt.Sprintf("%T", hook), "*"), On: kinds, Hook: adapter{hook}, OnError: grapnel.OnErrorOpen,
	}
	if named, ok := hook.(interface{ Name() string }); ok {
		spec.Name = named.Name()
	}
	if shell, ok := hook.(*ShellHook); ok {
		var err error
		if spec, err = shell.spec(); err != nil {
			return fmt.Errorf("cannot register a hook: %w", err)
		}
	}
	if err := r.engine.Add(spec); err != nil {
		return fmt.Errorf("cannot register a hook: %w", err)
	}
	return nil
}

// With registers a hook and returns the registry, so that calls can be chained. If Register returns
// an error, With registers a hook that blocks every tool call with this error as the reason.
func (r *HookRegistry) With(hook Hook) *HookRegistry {
	if err := r.Register(hook); err != nil {
		blocked := HookFunc(func(_ context.Context, event Event) Action {
			if _, ok := event.(PreToolCall); ok {
				return Block("hook error: " + err.Error())
			}
			return Continue()
		})
		_ = r.Register(blocked) // a function is valid
	}
	return r
}

// IsEmpty reports whether the registry has no hooks.
func (r *HookRegistry) IsEmpty() bool { return len(r.engine.Specs("")) == 0 }

// Engine returns the engine that runs the hooks. An agent can use it with package host instead of
// calling Dispatch, and add observers to it. Its Close waits for hooks in the background.
func (r *HookRegistry) Engine() *grapnel.Engine { return r.engine }

// Dispatch runs the hooks for an event and returns the merged Action. The caller must not change
// the event's arguments during the call. If ctx is done before all hooks ran, Dispatch returns a
// Block. So does a nil event, and a HookRegistry that NewHookRegistry did not create.
func (r *HookRegistry) Dispatch(ctx context.Context, event Event) Action {
	switch {
	case event == nil:
		return Block("hook error: the event is nil")
	case r.engine == nil:
		return Block("hook error: the registry was not created with NewHookRegistry")
	}
	var rec *grapnel.Record
	v := r.engine.Fire(context.WithValue(ctx, recordKey{}, &rec), event.engineEvent())
	for i := range rec.Hooks {
		// An answer that has no effect at this event is returned, so it is not ignored.
		if run := &rec.Hooks[i]; run.FailOpen && (rec.Event == grapnel.ToolBefore || !errors.Is(run.Err, grapnel.ErrIllegal)) {
			slog.WarnContext(ctx, "hook failed and is ignored", "hook", run.Name, "event", rec.Event, "error", run.Error)
		}
	}
	switch changed, is := v.Changes[grapnel.FieldInput]; {
	case v.Decision >= grapnel.Ask && len(v.Reasons) > 0 && v.Reasons[0].Cause != grapnel.CauseDecision:
		return Block("hook error: " + v.Reason())
	case v.Decision >= grapnel.Ask: // an Ask of a hook that was added to the engine has no other answer here
		return Block(v.Reason())
	case v.Err != nil: // hooks did not run, because ctx was done
		return Block("hook error: " + v.Err.Error())
	case is:
		return ModifyArgs(changed)
	default:
		return withoutEffect(rec)
	}
}

// withoutEffect returns the Action of hooks that changed nothing in the engine: they replaced the
// arguments by equal ones, or their event permits neither a Block nor a change.
func withoutEffect(rec *grapnel.Record) Action {
	action := Continue()
	for i := range rec.Hooks {
		run := &rec.Hooks[i]
		out := run.Outcome
		if out == nil || run.Observed || run.Approved > grapnel.None {
			continue
		}
		if out.Decision == grapnel.Block {
			return Block(out.Reason)
		}
		if args, ok := out.Set[grapnel.FieldInput]; ok && json.Valid(args) {
			action = ModifyArgs(args)
		}
	}
	return action
}

// recordKey is the key of a context with the address where Dispatch expects the Record.
type recordKey struct{}

func keepRecord(ctx context.Context, rec *grapnel.Record) {
	if into, ok := ctx.Value(recordKey{}).(**grapnel.Record); ok {
		*into = rec
	}
}

// adapter makes a Hook a hook of the engine.
type adapter struct{ Hook }

// Handle asks the Hook.
func (a adapter) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	event := eventOf(ev)
	if event == nil {
		return grapnel.Outcome{}, nil
	}
	ctx = context.WithValue(ctx, recordKey{}, nil) // the Records of what the hook does are not the Record of this Dispatch
	return a.OnEvent(ctx, event).outcome(), nil
}
