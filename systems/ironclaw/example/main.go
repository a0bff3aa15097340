// Ironclaw shows IronClaw's hooks in a Go agent: its six points, the rules of hooks/hooks.json,
// failure modes, the counts of a start, and the audit. See README.md in this directory.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

//go:embed hooks/hooks.json
var bundle []byte

// events has one event for each of IronClaw's points.
var events = []struct {
	point string
	event grapnel.Event
}{
	{"onSessionStart", grapnel.Event{Kind: grapnel.SessionStart}},
	{"beforeInbound", grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "Pay the printer."}}},
	{"beforeToolCall", grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "pay", Input: json.RawMessage(`{"amount":40}`)}}},
	{"transformResponse", grapnel.Event{Kind: grapnel.ResponseBefore, Model: &grapnel.Model{Response: json.RawMessage(`"Paid."`)}}},
	{"beforeOutbound", grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Channel: "mail", Content: "Paid."}}},
	{"onSessionEnd", grapnel.Event{Kind: grapnel.SessionEnd}},
}

// newEngine returns IronClaw's registry: an engine with its preset.
func newEngine(specs ...grapnel.Spec) (*grapnel.Engine, error) {
	preset, _ := grapnel.FindPreset("ironclaw")
	for i := range specs {
		specs[i] = preset.Defaults(specs[i]) // 5 s, fail open
	}
	return grapnel.New(specs, &grapnel.Options{Preset: preset})
}

// points fires each event and prints what a hook of that point gets.
func points(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "points:")
	session := grapnel.Session{ID: "s1", User: "ada", Channel: "web"}
	for _, e := range events {
		show := grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
			content := ev.Session.ID
			switch {
			case ev.Prompt != nil:
				content = ev.Prompt.Text
			case ev.Tool != nil:
				content = ev.Tool.Name + " " + string(ev.Tool.Input)
			case ev.Model != nil:
				content = string(ev.Model.Response)
			case ev.Message != nil:
				content = ev.Message.Channel + ": " + ev.Message.Content
			}
			fmt.Fprintf(out, "  %-18s%-17s%s | %s\n", e.point, ev.Kind, ev.Session.User, content)
		})
		engine, err := newEngine(grapnel.Spec{Name: "show", On: []grapnel.Kind{e.event.Kind}, Hook: show})
		if err != nil {
			return err
		}
		ev := e.event
		ev.Session = session
		engine.Fire(ctx, &ev)
	}
	return nil
}

// rules runs the rules of the bundle, with a function before and one between them.
func rules(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "rules:")
	set := load(func(line []byte) error { return nil })
	at := func(n int) *int { return &n }
	saw := grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		fmt.Fprintln(out, "  saw:", ev.Message.Content)
		return grapnel.Replace(grapnel.FieldText, ev.Message.Content+".")
	})
	on := []grapnel.Kind{grapnel.MessageBefore}
	engine, err := newEngine(append(set.Specs,
		grapnel.Spec{Name: "first", On: on, Priority: at(10), Hook: saw},
		grapnel.Spec{Name: "between", On: on, Priority: at(55), Hook: saw},
		grapnel.Spec{Name: "last", On: on, Hook: saw})...)
	if err != nil {
		return err
	}
	for _, ev := range []grapnel.Event{
		{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Content: "To DE12345678901234567890"}},
		{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "Lift the Embargo"}},
		{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "Lift the box"}},
	} {
		v := engine.Fire(ctx, &ev)
		fmt.Fprintf(out, "  %s: %s%s%s\n", ev.Kind, v.Decision, prefixed(" because ", v.Reason()), prefixed(", now ", string(v.Changes[grapnel.FieldText])))
	}
	return nil
}

// failures runs five hooks in both failure modes. Each runs after a hook that adds "+".
func failures(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "failure modes:")
	replace := func(text string) grapnel.Func {
		return func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldPrompt, text)
		}
	}
	late := grapnel.Func(func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
		<-ctx.Done()
		return grapnel.Outcome{}, ctx.Err()
	})
	for _, row := range []struct {
		name string
		hook grapnel.Hook
	}{
		{"continue", grapnel.Noop{}},
		{"modify", replace("x+!")},
		{"reject", grapnel.Guard(func(*grapnel.Event) string { return "no" })},
		{"error", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{}, errors.New("disk full")
		})},
		{"timeout", late},
	} {
		for _, mode := range []grapnel.OnError{grapnel.OnErrorOpen, grapnel.OnErrorClosed} {
			engine, err := newEngine(grapnel.Spec{Name: "plus", Hook: replace("x+")},
				grapnel.Spec{Name: row.name, Hook: row.hook, OnError: mode, Timeout: 20 * time.Millisecond})
			if err != nil {
				return err
			}
			v := engine.Fire(ctx, &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "x"}})
			cause := ""
			if len(v.Reasons) > 0 {
				cause = string(v.Reasons[0].Cause)
			}
			fmt.Fprintf(out, "  %-10s%-8s%s%s%s\n", row.name, mode, v.Decision, prefixed(" by ", cause), prefixed(", now ", string(v.Changes[grapnel.FieldPrompt])))
		}
	}
	return nil
}

// load reads the hooks of a small installation: the bundle of its workspace, a plugin, and a
// broken file.
func load(audit func(line []byte) error) ironclaw.Set {
	return ironclaw.Load(ironclaw.Request{
		Audit: audit,
		Files: []ironclaw.File{
			{Source: "workspace:hooks/hooks.json", Path: "hooks/hooks.json", Data: bundle},
			{Source: "workspace:hooks/cut.hook.json", Path: "hooks/cut.hook.json", Data: []byte(`{"rules": [`)},
			{Source: "plugin.tool:bank", Path: "bank.capabilities.json", Data: []byte(
				`{"hooks": {"rules": [{"name": "limit", "points": ["beforeToolCall"], "when_regex": "\"amount\":\\d{4}", "reject_reason": "too much"}]}}`)},
		},
	})
}

// start prints the hooks after a start, in their order, and one line of the audit for each event.
func start(ctx context.Context, out io.Writer) error {
	var lines []string
	set := load(func(line []byte) error { lines = append(lines, string(line)); return nil })
	engine, err := newEngine(set.Specs...)
	if err != nil {
		return err
	}
	n := set.Summary
	fmt.Fprintf(out, "start: %d bundled, %d of plugins, %d of the workspace, %d errors\n", n.BundledHooks, n.PluginHooks, n.WorkspaceHooks, n.Errors)
	for _, s := range engine.List("") {
		fmt.Fprintln(out, " ", s.FullName())
	}
	for _, e := range events {
		ev := e.event
		ev.Session = grapnel.Session{ID: "s1", User: "ada"}
		engine.Fire(ctx, &ev)
	}
	fmt.Fprintln(out, "audit:", len(lines), "lines")
	return nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func run(ctx context.Context, out io.Writer) error {
	for _, part := range []func(context.Context, io.Writer) error{points, rules, failures, start} {
		if err := part(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ironclaw: error:", err)
		os.Exit(1)
	}
}
