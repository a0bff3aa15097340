// Ironclaw shows IronClaw's hooks in a Go agent: its six points, the rules of hooks/hooks.json,
// failure modes, the counts of a start, and the audit. See docs/systems/ironclaw.md.
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

	"github.com/grapnel-dev/grapnel/systems/ironclaw"
	"github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

//go:embed hooks/hooks.json
var bundle []byte

// events has one event for each of IronClaw's points.
var events = []ironclaw.HookEvent{
	ironclaw.SessionStart{UserID: "ada", SessionID: "s1"},
	ironclaw.Inbound{UserID: "ada", Channel: "web", Content: "Pay the printer."},
	ironclaw.ToolCall{ToolName: "pay", Parameters: json.RawMessage(`{"amount":40}`), UserID: "ada", Context: "chat"},
	ironclaw.ResponseTransform{UserID: "ada", Response: "Paid."},
	ironclaw.Outbound{UserID: "ada", Channel: "mail", Content: "Paid."},
	ironclaw.SessionEnd{UserID: "ada", SessionID: "s1"},
}

// A function is the part of a hook that answers.
type function func(ctx context.Context, event ironclaw.HookEvent, hookCtx *ironclaw.HookContext) (ironclaw.HookOutcome, error)

// points runs each event and prints the input of a hook of that point.
func points(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "points:")
	for _, e := range events {
		show := func(_ context.Context, event ironclaw.HookEvent, _ *ironclaw.HookContext) (ironclaw.HookOutcome, error) {
			user, content := "", event.PrimaryContent()
			switch e := event.(type) {
			case ironclaw.SessionStart:
				user = e.UserID
			case ironclaw.Inbound:
				user = e.UserID
			case ironclaw.ToolCall:
				user, content = e.UserID, e.ToolName+" "+content
			case ironclaw.ResponseTransform:
				user = e.UserID
			case ironclaw.Outbound:
				user, content = e.UserID, e.Channel+": "+content
			case ironclaw.SessionEnd:
				user = e.UserID
			}
			fmt.Fprintf(out, "  %-18s%-17s%s | %s\n", event.Point(), event.Point().Kind(), user, content)
			return ironclaw.OK(), nil
		}
		hooks := ironclaw.NewHookRegistry(nil)
		if err := hooks.Register(ironclaw.HookFunc{HookName: "show", Points: []ironclaw.HookPoint{e.Point()}, Func: show}); err != nil {
			return err
		}
		for _, event := range events { // the hook gets one of them
			if _, err := hooks.Run(ctx, event); err != nil {
				return err
			}
		}
	}
	return nil
}

// answer returns the result of a run as text.
func answer(outcome ironclaw.HookOutcome, err error) string {
	if rejected, ok := errors.AsType[*ironclaw.RejectedError](err); ok {
		return "rejected: " + rejected.Reason
	}
	if late, ok := errors.AsType[*ironclaw.TimeoutError](err); ok {
		return fmt.Sprintf("timeout: %v", late.Duration)
	}
	if failed, ok := errors.AsType[*ironclaw.ExecutionFailedError](err); ok {
		return "failed: " + failed.Err.Error()
	}
	if text, ok := outcome.Modified(); ok {
		return fmt.Sprintf("continue with %q", text)
	}
	return "continue"
}

// rules runs the rules of the bundle, with a function before, between and after them.
func rules(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "rules:")
	hooks := ironclaw.NewHookRegistry(nil)
	if _, err := hooks.Bootstrap(installation(nil)); err != nil {
		return err
	}
	saw := func(_ context.Context, event ironclaw.HookEvent, _ *ironclaw.HookContext) (ironclaw.HookOutcome, error) {
		fmt.Fprintln(out, "  saw:", event.PrimaryContent())
		return ironclaw.Modify(event.PrimaryContent() + "."), nil
	}
	for name, priority := range map[string]uint32{"first": 10, "between": 55, "last": 100} {
		hook := ironclaw.HookFunc{HookName: name, Points: []ironclaw.HookPoint{ironclaw.BeforeOutbound}, Func: saw}
		if err := hooks.RegisterWithPriority(hook, priority); err != nil {
			return err
		}
	}
	for _, event := range []ironclaw.HookEvent{
		ironclaw.Outbound{Content: "To DE12345678901234567890"},
		ironclaw.Inbound{Content: "Lift the Embargo"},
		ironclaw.Inbound{Content: "Lift the box"},
	} {
		fmt.Fprintf(out, "  %s: %s\n", event.Point(), answer(hooks.Run(ctx, event)))
	}
	return nil
}

// failures runs five hooks in both failure modes. Each runs after a hook that adds "+".
func failures(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "failure modes:")
	gives := func(outcome ironclaw.HookOutcome, err error) function {
		return func(context.Context, ironclaw.HookEvent, *ironclaw.HookContext) (ironclaw.HookOutcome, error) {
			return outcome, err
		}
	}
	late := func(ctx context.Context, _ ironclaw.HookEvent, _ *ironclaw.HookContext) (ironclaw.HookOutcome, error) {
		<-ctx.Done()
		return ironclaw.OK(), ctx.Err()
	}
	for _, row := range []struct {
		name string
		does function
	}{
		{"ok", gives(ironclaw.OK(), nil)},
		{"modify", gives(ironclaw.Modify("x+!"), nil)},
		{"reject", gives(ironclaw.Reject("no"), nil)},
		{"error", gives(ironclaw.OK(), errors.New("disk full"))},
		{"timeout", late},
	} {
		for _, mode := range []ironclaw.HookFailureMode{ironclaw.FailOpen, ironclaw.FailClosed} {
			hooks, at := ironclaw.NewHookRegistry(nil), []ironclaw.HookPoint{ironclaw.BeforeInbound}
			err := errors.Join(
				hooks.Register(ironclaw.HookFunc{HookName: "plus", Points: at, Func: gives(ironclaw.Modify("x+"), nil)}),
				hooks.Register(ironclaw.HookFunc{HookName: row.name, Points: at, Func: row.does, Mode: mode, Limit: 20 * time.Millisecond}))
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "  %-10s%-13s%s\n", row.name, mode, answer(hooks.Run(ctx, ironclaw.Inbound{Content: "x"})))
		}
	}
	return nil
}

// installation describes a small installation: the bundle of its workspace, a plugin, and a broken
// file.
func installation(audit func(line []byte) error) *ironclaw.BootstrapOptions {
	return &ironclaw.BootstrapOptions{
		Audit: audit,
		Files: []hookfile.File{
			{Source: "workspace:hooks/hooks.json", Path: "hooks/hooks.json", Data: bundle},
			{Source: "workspace:hooks/cut.hook.json", Path: "hooks/cut.hook.json", Data: []byte(`{"rules": [`)},
			{Source: "plugin.tool:bank", Path: "bank.capabilities.json", Data: []byte(
				`{"hooks": {"rules": [{"name": "limit", "points": ["beforeToolCall"], "when_regex": "\"amount\":\\d{4}", "reject_reason": "too much"}]}}`)},
		},
	}
}

// start prints the hooks after a start, in their order, and the number of lines of the audit.
func start(ctx context.Context, out io.Writer) error {
	var lines []string
	hooks := ironclaw.NewHookRegistry(nil)
	loaded, err := hooks.Bootstrap(installation(func(line []byte) error { lines = append(lines, string(line)); return nil }))
	if err != nil {
		return err
	}
	n := loaded.Summary
	fmt.Fprintf(out, "start: %d bundled, %d of plugins, %d of the workspace, %d errors\n", n.BundledHooks, n.PluginHooks, n.WorkspaceHooks, n.Errors)
	for _, name := range hooks.List() {
		fmt.Fprintln(out, " ", name)
	}
	for _, e := range events {
		if _, err := hooks.Run(ctx, e); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "audit:", len(lines), "lines")
	return nil
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
