// Openclaw shows OpenClaw's plugin hooks in a Go agent: registration by name and priority, the 13
// names, isolated handlers, and changes beside a block. See docs/systems/openclaw.md.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// names lists the names of the hooks, by life cycle.
var names = []string{
	"gateway-start", "gateway-stop",
	"session-start", "session-end",
	"before-agent-start",
	"message-received", "message-sending", "message-sent",
	"before-tool-call", "after-tool-call",
	"before-compaction", "after-compaction", "tool-result-persist",
}

// api is the interface that OpenClaw gives to a plugin.
type api struct {
	engine *grapnel.Engine
	count  int
}

func newAPI(observers ...grapnel.Observer) (*api, error) {
	preset, _ := grapnel.FindPreset("openclaw")
	engine, err := grapnel.New(nil, &grapnel.Options{Preset: preset, Observers: observers})
	return &api{engine: engine}, err
}

// registerHook adds a handler while the agent runs. Lower priorities run first.
func (a *api) registerHook(event string, priority int, handler grapnel.Func) error {
	kinds := policy.Kinds(event)
	if kinds == nil {
		return fmt.Errorf("unknown event %q", event)
	}
	a.count++
	return a.engine.Add(grapnel.Spec{Name: fmt.Sprint("handler ", a.count), On: kinds, Priority: priority, Hook: handler})
}

// does returns a handler that only acts.
func does(act func(ev *grapnel.Event)) grapnel.Func {
	return func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		act(ev)
		return grapnel.Outcome{}, nil
	}
}

// events prints the event of each name, after its handler has run for it.
func events(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "events:")
	a, err := newAPI()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := a.registerHook(name, 100, does(func(ev *grapnel.Event) { fmt.Fprintf(out, "  %-21s%s\n", name, ev.Kind) })); err != nil {
			return err
		}
		a.engine.Fire(ctx, &grapnel.Event{Kind: policy.Kinds(name)[0]})
	}
	return nil
}

// order registers three handlers, of which the second fails, and then one more.
func order(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "order:")
	a, err := newAPI(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		for _, run := range rec.Hooks {
			if run.Error != "" {
				fmt.Fprintf(out, "  failed: %s: %s\n", run.Name, run.Error)
			}
		}
	}))
	if err != nil {
		return err
	}
	tally := map[string]int{}
	note := func(priority int) grapnel.Func {
		return does(func(ev *grapnel.Event) {
			tally[ev.Session.Channel]++
			fmt.Fprintln(out, "  priority", priority)
		})
	}
	for _, priority := range []int{90, 10} {
		if err := a.registerHook("message-received", priority, note(priority)); err != nil {
			return err
		}
	}
	if err := a.registerHook("message-received", 40, does(func(*grapnel.Event) { panic("no such sender") })); err != nil {
		return err
	}
	message := &grapnel.Event{Kind: grapnel.MessageReceived, Session: grapnel.Session{Channel: "chat"}, Message: &grapnel.Message{Content: "hi"}}
	a.engine.Fire(ctx, message)
	if err := a.registerHook("message-received", 1, note(1)); err != nil {
		return err
	}
	a.engine.Fire(ctx, message)
	fmt.Fprintln(out, "  tally:", tally)
	return nil
}

// decisions lets three handlers answer the same tool call.
func decisions(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "decisions:")
	a, err := newAPI()
	if err != nil {
		return err
	}
	set := func(value string) grapnel.Func {
		return func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			fmt.Fprintf(out, "  %s saw %s\n", value, ev.Tool.Input)
			return grapnel.Replace(grapnel.FieldInput, map[string]string{"by": value})
		}
	}
	fire := func() {
		v := a.engine.Fire(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "exec", Input: json.RawMessage(`{"by":"model"}`)}})
		fmt.Fprintln(out, "  verdict:", v.Decision, cmp.Or(v.Reason(), string(v.Event.Tool.Input)))
	}
	if err := cmp.Or(a.registerHook("before-tool-call", 10, set("first")), a.registerHook("before-tool-call", 30, set("last"))); err != nil {
		return err
	}
	fire()
	err = a.registerHook("before-tool-call", 20, func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "not on Fridays"}, nil
	})
	if err != nil {
		return err
	}
	fire()
	return nil
}

func run(ctx context.Context, out io.Writer) error {
	for _, part := range []func(context.Context, io.Writer) error{events, order, decisions} {
		if err := part(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "openclaw: error:", err)
		os.Exit(1)
	}
}
