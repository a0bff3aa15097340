package hookfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

const workspace = "workspace:hooks/hooks.json"

// errAddress is the error of webhookMaker for an address that is not https.
var errAddress = errors.New("the address is not https")

func webhookMaker(w policyfile.Webhook) (grapnel.Hook, error) {
	if !strings.HasPrefix(w.URL, "https://") {
		return nil, errAddress
	}
	return grapnel.Watch(func(context.Context, *grapnel.Event) {}), nil
}

func loadIronClaw(source, bundle string) ironclaw.Set {
	return ironclaw.Load(ironclaw.Request{
		Files: []ironclaw.File{{Source: source, Path: "file.json", Data: []byte(bundle)}}, Webhook: webhookMaker,
	})
}

// namesOf lists hooks in run order.
func namesOf(t *testing.T, specs []grapnel.Spec) []string {
	t.Helper()
	engine := engineOf(t, specs)
	names := []string{}
	for _, s := range engine.Specs("") {
		names = append(names, s.FullName())
	}
	return names
}

func engineOf(t testing.TB, specs []grapnel.Spec) *grapnel.Engine {
	t.Helper()
	preset, ok := grapnel.FindPreset("ironclaw")
	if !ok {
		t.Fatal("there is no preset")
	}
	engine, err := grapnel.New(specs, &grapnel.Options{Preset: preset})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// Valid and invalid bundles.
//
// Proves: IC-01, IC-06, IC-09, IC-37, IC-39, IC-41, IC-43, IC-44, IC-45, IC-46, IC-47, IC-52
// Proves: IC-53, IC-56, IC-58
func TestIronClawBundle(t *testing.T) {
	t.Parallel()
	rule := func(more string) string {
		return `{"rules": [{"name": "r", "points": ["beforeInbound"], "append": "!"` + more + `}]}`
	}
	hook := func(more string) string {
		return `{"outbound_webhooks": [{"name": "w", "points": ["beforeInbound"], "url": "https://example.com/"` + more + `}]}`
	}
	const (
		format  = ironclaw.InvalidFormat
		points  = ironclaw.MissingPoints
		regex   = ironclaw.InvalidRegex
		timeout = ironclaw.InvalidTimeout
		flight  = ironclaw.InvalidMaxInFlight
		address = "" // the error is errAddress
	)
	one := []string{"r"}
	for name, tt := range map[string]struct {
		source   string // empty = a file of the workspace
		bundle   string
		hooks    []string // in run order
		kinds    []string // kinds of errors
		warnings int
	}{
		"empty object":         {"", `{}`, nil, nil, 0},
		"empty list":           {"", `[]`, nil, nil, 0},
		"empty lists":          {"", `{"rules": [], "outbound_webhooks": []}`, nil, nil, 0},
		"both":                 {"", rule("")[:len(rule(""))-1] + "," + hook("")[1:], []string{"r", "w"}, nil, 0},
		"a list of rules":      {"", `[{"name": "r", "points": ["beforeInbound"], "append": "!"}]`, one, nil, 0},
		"below hooks":          {"", `{"hooks": ` + rule("") + `, "other": 1}`, one, nil, 0},
		"list below hooks":     {"", `{"hooks": [{"name": "r", "points": ["beforeInbound"], "append": "!"}]}`, one, nil, 0},
		"hooks below hooks":    {"", `{"hooks": {"hooks": ` + rule("") + `}}`, nil, nil, 1},
		"hooks is null":        {"", `{"hooks": null, "rules": []}`, nil, []string{format}, 0},
		"capabilities, no":     {"", `{"capabilities": {"hooks": ` + rule("") + `}}`, nil, nil, 1},
		"null":                 {"", `null`, nil, []string{format}, 0},
		"a number":             {"", `7`, nil, []string{format}, 0},
		"no bytes":             {"", ``, nil, []string{format}, 0},
		"white space":          {"", " \n", nil, []string{format}, 0},
		"two values":           {"", `{} {}`, nil, []string{format}, 0},
		"not UTF-8":            {"", "{\"a\": \"\xff\"}", nil, []string{format}, 0},
		"unknown fields":       {"", `{"rule": [], "rules": [{"name": "r", "points": ["beforeInbound"], "append": "!", "Append": 1, "x": {"y": []}}]}`, one, nil, 3},
		"rules is null":        {"", `{"rules": null}`, nil, []string{format}, 0},
		"rules is an object":   {"", `{"rules": {}}`, nil, []string{format}, 0},
		"webhooks is null":     {"", `{"outbound_webhooks": null}`, nil, []string{format}, 0},
		"a rule is text":       {"", `{"rules": ["r"]}`, nil, []string{format}, 0},
		"a rule is null":       {"", `[null]`, nil, []string{format}, 0},
		"one bad, all out":     {"", `{"rules": [{"name": "r", "points": ["beforeInbound"]}, {"name": 7, "points": ["beforeInbound"]}]}`, nil, []string{format}, 0},
		"webhook bad, all out": {"", rule("")[:len(rule(""))-1] + `, "outbound_webhooks": [{"name": "w"}]}`, nil, []string{format}, 0},
		"the last counts":      {"", `{"rules": 7, "rules": [{"name": "no", "name": "r", "points": ["beforeInbound"], "append": "!"}]}`, one, nil, 0},

		"no name":             {"", `{"rules": [{"points": ["beforeInbound"]}]}`, nil, []string{format}, 0},
		"name is null":        {"", `{"rules": [{"name": null, "points": ["beforeInbound"]}]}`, nil, []string{format}, 0},
		"no member points":    {"", `{"rules": [{"name": "r"}]}`, nil, []string{format}, 0},
		"points is null":      {"", `{"rules": [{"name": "r", "points": null}]}`, nil, []string{format}, 0},
		"points is text":      {"", `{"rules": [{"name": "r", "points": "beforeInbound"}]}`, nil, []string{format}, 0},
		"no points":           {"", `{"rules": [{"name": "r", "points": [], "timeout_ms": 0, "when_regex": "("}]}`, nil, []string{points}, 0},
		"unknown point":       {"", `{"rules": [{"name": "r", "points": ["beforeInbound", "BeforeInbound"]}]}`, nil, []string{format}, 0},
		"point is null":       {"", `{"rules": [{"name": "r", "points": [null]}]}`, nil, []string{format}, 0},
		"every point":         {"", `[{"name": "r", "points": ["beforeInbound", "beforeToolCall", "beforeOutbound", "onSessionStart", "onSessionEnd", "transformResponse"], "append": "!"}]`, one, nil, 0},
		"a point twice":       {"", `[{"name": "r", "points": ["beforeInbound", "beforeInbound"], "append": "!"}]`, one, nil, 0},
		"priority 0":          {"", rule(`, "priority": 0`), one, nil, 0},
		"priority, largest":   {"", rule(`, "priority": 4294967295`), one, nil, 0},
		"priority, too large": {"", rule(`, "priority": 4294967296`), nil, []string{format}, 0},
		"priority below 0":    {"", rule(`, "priority": -1`), nil, []string{format}, 0},
		"priority, fraction":  {"", rule(`, "priority": 1.0`), nil, []string{format}, 0},
		"priority, exponent":  {"", rule(`, "priority": 1e2`), nil, []string{format}, 0},
		"priority is text":    {"", rule(`, "priority": "1"`), nil, []string{format}, 0},
		"nulls":               {"", rule(`, "priority": null, "failure_mode": null, "timeout_ms": null, "when_regex": null, "reject_reason": null, "prepend": null`), one, nil, 0},
		"fail_open":           {"", rule(`, "failure_mode": "fail_open"`), one, nil, 0},
		"fail_closed":         {"", rule(`, "failure_mode": "fail_closed"`), one, nil, 0},
		"failure_mode, other": {"", rule(`, "failure_mode": ""`), nil, []string{format}, 0},
		"failure_mode, bool":  {"", rule(`, "failure_mode": true`), nil, []string{format}, 0},

		"timeout 1":         {"", rule(`, "timeout_ms": 1`), one, nil, 0},
		"timeout 30000":     {"", rule(`, "timeout_ms": 30000`), one, nil, 0},
		"timeout 30001":     {"", rule(`, "timeout_ms": 30001`), nil, []string{timeout}, 0},
		"timeout 0":         {"", rule(`, "timeout_ms": 0, "when_regex": "("`), nil, []string{timeout}, 0},
		"timeout, largest":  {"", rule(`, "timeout_ms": 18446744073709551615`), nil, []string{timeout}, 0},
		"timeout, larger":   {"", rule(`, "timeout_ms": 18446744073709551616`), nil, []string{format}, 0},
		"timeout below 0":   {"", rule(`, "timeout_ms": -5`), nil, []string{format}, 0},
		"timeout, fraction": {"", rule(`, "timeout_ms": 0.5`), nil, []string{format}, 0},

		"guard":                {"", rule(`, "when_regex": "("`), nil, []string{regex}, 0},
		"guard is a number":    {"", rule(`, "when_regex": 1`), nil, []string{format}, 0},
		"replacement":          {"", rule(`, "replacements": [{"pattern": "a", "replacement": "b"}, {"pattern": "[", "replacement": ""}]`), nil, []string{regex}, 0},
		"no pattern":           {"", rule(`, "replacements": [{"replacement": "b"}]`), nil, []string{format}, 0},
		"no replacement":       {"", rule(`, "replacements": [{"pattern": "a"}]`), nil, []string{format}, 0},
		"replacements is null": {"", rule(`, "replacements": null`), nil, []string{format}, 0},
		"replacement unknown":  {"", rule(`, "replacements": [{"pattern": "a", "replacement": "b", "with": "c"}]`), one, nil, 1},
		"guard, no action":     {"", `[{"name": "r", "points": ["beforeInbound"], "when_regex": "a"}]`, one, nil, 1},
		"guard, empty list":    {"", `[{"name": "r", "points": ["beforeInbound"], "when_regex": "a", "replacements": []}]`, one, nil, 1},
		"reject without words": {"", `[{"name": "r", "points": ["beforeInbound"], "when_regex": "a", "reject_reason": ""}]`, one, nil, 0},
		"the others stay": {
			"", `[{"name": "a", "points": []}, {"name": "r", "points": ["beforeInbound"], "append": "!"}, {"name": "b", "points": ["beforeInbound"], "when_regex": "["}]`,
			one,
			[]string{points, regex},
			0,
		},
		"twice": {
			"", `[{"name": "r", "points": ["beforeInbound"], "append": "1"}, {"name": "s", "points": ["beforeInbound"], "append": "2"}, {"name": "r", "points": ["beforeInbound"], "append": "3"}]`,
			[]string{"r", "s"},
			nil, 1,
		},
		"twice, and further back": {
			"", `[{"name": "r", "points": ["beforeInbound"], "append": "1"}, {"name": "s", "points": ["beforeInbound"], "append": "2"}, {"name": "r", "points": ["beforeInbound"], "append": "3", "priority": 101}]`,
			[]string{"s", "r"},
			nil, 1,
		},
		"the second is bad": {
			"", `[{"name": "r", "points": ["beforeInbound"], "append": "1"}, {"name": "r", "points": []}]`, one, []string{points}, 0,
		},

		"webhook":                   {"", hook(""), []string{"w"}, nil, 0},
		"webhook, all":              {"", hook(`, "headers": {"X-A": "b"}, "timeout_ms": 30000, "priority": 0, "max_in_flight": 1`), []string{"w"}, nil, 0},
		"webhook, nulls":            {"", hook(`, "timeout_ms": null, "priority": null, "max_in_flight": null`), []string{"w"}, nil, 0},
		"no url":                    {"", `{"outbound_webhooks": [{"name": "w", "points": ["beforeInbound"]}]}`, nil, []string{format}, 0},
		"url is null":               {"", `{"outbound_webhooks": [{"name": "w", "points": ["beforeInbound"], "url": null}]}`, nil, []string{format}, 0},
		"headers is null":           {"", hook(`, "headers": null`), nil, []string{format}, 0},
		"headers is a list":         {"", hook(`, "headers": []`), nil, []string{format}, 0},
		"a header is a number":      {"", hook(`, "headers": {"X-A": 1}`), nil, []string{format}, 0},
		"webhook timeout 30001":     {"", hook(`, "timeout_ms": 30001, "max_in_flight": 0`), nil, []string{timeout}, 0},
		"max_in_flight 0":           {"", hook(`, "max_in_flight": 0`), nil, []string{flight}, 0},
		"max_in_flight below 0":     {"", hook(`, "max_in_flight": -1`), nil, []string{format}, 0},
		"max_in_flight, huge":       {"", hook(`, "max_in_flight": 18446744073709551615`), []string{"w"}, nil, 0},
		"webhook, reject_reason":    {"", hook(`, "reject_reason": "no"`), []string{"w"}, nil, 1},
		"webhook without points":    {"", `{"outbound_webhooks": [{"name": "w", "points": [], "url": "http://example.com/", "timeout_ms": 0}]}`, nil, []string{points}, 0},
		"address before timeout":    {"", `{"outbound_webhooks": [{"name": "w", "points": ["beforeInbound"], "url": "http://example.com/", "timeout_ms": 0}]}`, nil, []string{address}, 0},
		"the errors are in order":   {"", `{"outbound_webhooks": [{"name": "a", "points": ["beforeInbound"], "url": "x"}, {"name": "b", "points": [], "url": "x"}], "rules": [{"name": "c", "points": []}]}`, nil, []string{points, address, points}, 0},
		"webhook in place of rule":  {"", `{"rules": [{"name": "w", "points": ["beforeInbound"], "append": "!"}], ` + hook("")[1:], []string{"w"}, nil, 1},
		"extension":                 {"plugin.tool:x", `{"hooks": ` + rule("") + `}`, one, nil, 0},
		"extension, nested":         {"plugin.channel:x", `{"capabilities": {"hooks": ` + rule("") + `}}`, one, nil, 0},
		"extension, root first":     {"plugin.dev_tool:x", `{"hooks": [], "capabilities": {"hooks": ` + rule("") + `}}`, nil, nil, 0},
		"extension, root is null":   {"plugin.tool:x", `{"hooks": null, "capabilities": {"hooks": ` + rule("") + `}}`, nil, []string{format}, 0},
		"extension, bare":           {"plugin.tool:x", rule(""), nil, nil, 0},
		"extension without hooks":   {"plugin.tool:x", `{"capabilities": {"http": {}}}`, nil, nil, 0},
		"extension, a list":         {"plugin.tool:x", `[]`, nil, nil, 0},
		"neither, bare":             {"test", rule(""), one, nil, 0},
		"neither, below hooks":      {"test", `{"hooks": ` + rule("") + `}`, one, nil, 0},
		"extension, text":           {"plugin.tool:x", `"hooks"`, nil, nil, 0},
		"extension, capabilities 7": {"plugin.tool:x", `{"capabilities": 7}`, nil, nil, 0},
		"extension, bad JSON":       {"plugin.tool:x", `{"hooks":`, nil, []string{format}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := tt.source
			if source == "" {
				source = workspace
			}
			set := loadIronClaw(source, tt.bundle)
			kinds := []string{}
			for _, err := range set.Errors {
				kinds = append(kinds, err.Kind)
				if (err.Kind == address) != errors.Is(err, errAddress) || (err.Kind == format) != (err.Hook == "") || !strings.HasPrefix(err.Error(), "file.json:") {
					t.Errorf("the error of kind %q is about %q: %v", err.Kind, err.Hook, err)
				}
			}
			if diff := cmp.Diff(append([]string{}, tt.kinds...), kinds); diff != "" {
				t.Errorf("%s\nerrors %v (-want +got):\n%s", tt.bundle, set.Errors, diff)
			}
			var want []string
			for _, name := range tt.hooks {
				want = append(want, source+"::"+name)
			}
			if diff := cmp.Diff(append([]string{}, want...), namesOf(t, set.Specs)); diff != "" {
				t.Errorf("%s\nhooks (-want +got):\n%s", tt.bundle, diff)
			}
			if want := tt.warnings + 1; len(set.Warnings) != want { // the request takes no audit
				t.Errorf("%s\n%d warnings, want %d: %v", tt.bundle, len(set.Warnings), want, set.Warnings)
			}
			if set.Summary.Errors != len(tt.kinds) {
				t.Errorf("%s\nSummary = %+v", tt.bundle, set.Summary)
			}
		})
	}
}

// The fields of the Specs.
//
// Proves: IC-05, IC-06, IC-46, IC-47, IC-56
func TestIronClawSpecs(t *testing.T) {
	t.Parallel()
	set := loadIronClaw(workspace, `{"hooks": {
		"rules": [
			{"name": "plain", "points": ["beforeInbound"], "append": "!"},
			{"name": "all", "points": ["beforeToolCall", "beforeOutbound"], "append": "!", "priority": 7, "failure_mode": "fail_closed", "timeout_ms": 500}],
		"outbound_webhooks": [{"name": "told", "points": ["onSessionEnd"], "url": "https://example.com/"}]}}`)
	source := grapnel.Source{Name: workspace, File: "file.json", Digest: set.Specs[0].Source.Digest}
	want := []grapnel.Spec{
		{Name: "plain", Line: 3, On: []grapnel.Kind{grapnel.PromptBefore}, Timeout: 5 * time.Second, OnError: grapnel.OnErrorOpen, Sequential: true},
		{Name: "all", Line: 4, On: []grapnel.Kind{grapnel.ToolBefore, grapnel.MessageBefore}, Priority: 7 - 100, Timeout: 500 * time.Millisecond, OnError: grapnel.OnErrorClosed, Sequential: true},
		{Name: "told", Line: 5, On: []grapnel.Kind{grapnel.SessionEnd}, Priority: 300 - 100, Timeout: 5 * time.Second, OnError: grapnel.OnErrorOpen},
	}
	for i := range want {
		want[i].Source = source
		if set.Specs[i].Hook == nil {
			t.Errorf("%s has no hook", want[i].Name)
		}
		set.Specs[i].Hook = nil
	}
	if diff := cmp.Diff(want, set.Specs); diff != "" {
		t.Errorf("Specs (-want +got):\n%s", diff)
	}
	var got policyfile.Webhook
	ironclaw.Load(ironclaw.Request{
		Files: []ironclaw.File{{Source: "plugin.tool:x", Data: []byte(`{"hooks": {"outbound_webhooks": [
			{"name": "told", "points": ["onSessionEnd"], "url": "https://example.com/", "headers": {"X-A": "b"}}]}}`)}},
		Webhook: func(w policyfile.Webhook) (grapnel.Hook, error) { got = w; return nil, nil },
	})
	wantWebhook := policyfile.Webhook{
		Name: "plugin.tool:x::told", URL: "https://example.com/", Headers: map[string]string{"X-A": "b"},
		Timeout: policyfile.Duration(2 * time.Second), MaxInFlight: 32, Body: "ironclaw",
	}
	if diff := cmp.Diff(wantWebhook, got); diff != "" {
		t.Errorf("Webhook (-want +got):\n%s", diff)
	}
}

// All hooks of an installation.
//
// Proves: IC-33, IC-34, IC-36, IC-37, IC-38, IC-40, IC-41, IC-44
func TestLoadIronClaw(t *testing.T) {
	t.Parallel()
	file := func(source, path, data string) ironclaw.File {
		return ironclaw.File{Source: source, Path: path, Data: []byte(data)}
	}
	const (
		same     = `[{"name": "same", "points": ["beforeInbound"], "append": "!"}]`
		webhooks = `{"hooks": {"rules": ` + same + `, "outbound_webhooks": [{"name": "told", "points": ["beforeInbound"], "url": "https://example.com/"}]}}`
		hooks    = `{"hooks": ` + same + `}`
	)
	req := ironclaw.Request{
		Audit:   func([]byte) error { return nil },
		Active:  func(source string) bool { return source != "plugin.tool:off" },
		Webhook: webhookMaker,
		Files: []ironclaw.File{
			file("workspace:hooks/z.hook.json", "", same),
			file("workspace:hooks/hooks.json", "", webhooks),
			file("plugin.tool:git", "/tools/git.json", hooks),
			file("plugin.channel:chat", "/channels/chat.json", webhooks),
			file("plugin.tool:off", "/tools/off.json", hooks),
			file("plugin.tool:git-too", "/tools/git.json", hooks),
			file("plugin.dev_tool:new", "/dev/new.json", `{`),
			{Source: "plugin.tool:gone", Path: "/tools/gone.json", Err: fmt.Errorf("open: %w", fs.ErrNotExist)},
			file("workspace:hooks/bad.hook.json", "", `{"rules": 1}`),
		},
	}
	for range 2 { // the order of the files is not significant
		set := ironclaw.Load(req)
		if want := (ironclaw.Summary{BundledHooks: 1, PluginHooks: 2, WorkspaceHooks: 2, OutboundWebhooks: 2, Errors: 3}); set.Summary != want || set.Summary.Total() != 7 {
			t.Errorf("Summary = %+v, %d in all, want %+v, 7 in all\n%v", set.Summary, set.Summary.Total(), want, set.Errors)
		}
		want := []string{
			"builtin.audit_log",
			"plugin.channel:chat::same", "plugin.tool:git::same", "workspace:hooks/hooks.json::same", "workspace:hooks/z.hook.json::same",
			"plugin.channel:chat::told", "workspace:hooks/hooks.json::told",
		}
		if diff := cmp.Diff(want, namesOf(t, set.Specs)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		slices.Reverse(req.Files)
	}
	none := ironclaw.Load(ironclaw.Request{Files: []ironclaw.File{file(workspace, "", webhooks)}})
	if want := (ironclaw.Summary{WorkspaceHooks: 1}); none.Summary != want || len(none.Specs) != 1 {
		t.Errorf("without a maker of webhooks: %+v, %d hooks", none.Summary, len(none.Specs))
	}
	if text := fmt.Sprint(none.Warnings); !strings.Contains(text, `webhook "told" is not loaded (set Request.Webhook)`) || !strings.Contains(text, "builtin.audit_log: is not loaded (set Request.Audit)") {
		t.Errorf("without a maker of webhooks and without an audit: warnings %s, want one for each", text)
	}
}

// Extensions can be added and removed while others stay.
//
// Proves: IC-42
func TestIronClawExtensionAtRunTime(t *testing.T) {
	t.Parallel()
	extension := func(name string) []grapnel.Spec {
		return loadIronClaw("plugin.tool:"+name, `{"hooks": [
			{"name": "a", "points": ["beforeInbound"], "append": "!"}, {"name": "b", "points": ["beforeInbound"], "append": "?"}]}`).Specs
	}
	engine := engineOf(t, extension("github"))
	for range 2 { // adding it again replaces it
		if err := engine.Add(extension("git")...); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(engine.Specs("")); n != 4 {
		t.Errorf("%d hooks, want 4", n)
	}
	removed := engine.Remove(func(s *grapnel.Spec) bool {
		return s.Source.Name == "plugin.tool:git" || s.Source.Name == "plugin.dev_tool:git"
	})
	var left []string
	for _, s := range engine.Specs("") {
		left = append(left, s.FullName())
	}
	if want := []string{"plugin.tool:github::a", "plugin.tool:github::b"}; removed != 2 || !slices.Equal(left, want) {
		t.Errorf("removed %d, left %v", removed, left)
	}
}

// A rule for a tool's input has the same effect in every agent.
//
// Proves: IC-55
func TestIronClawRuleInAgents(t *testing.T) {
	t.Parallel()
	set := loadIronClaw(workspace, `[
		{"name": "no-force-push", "points": ["beforeToolCall"], "when_regex": "git push[^\"]*--force", "reject_reason": "force push is not allowed"},
		{"name": "careful", "points": ["beforeToolCall"], "replacements": [{"pattern": "rm -rf", "replacement": "rm -ri"}]}]`)
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string]string{
		"claude-code": `{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/p","tool_name":"Bash","tool_input":{"command":%q,"description":"d"}}`,
		"gemini-cli":  `{"hook_event_name":"BeforeTool","session_id":"s","cwd":"/p","tool_name":"run_shell_command","tool_input":{"command":%q}}`,
	} {
		d, ok := dialect.Find(name)
		if !ok {
			t.Fatalf("there is no dialect %s", name)
		}
		fire := func(command string) grapnel.Verdict {
			ev, err := d.Read(dialect.Input{Payload: fmt.Appendf(nil, payload, command)})
			if err != nil {
				t.Fatal(err)
			}
			return engine.Fire(t.Context(), ev)
		}
		if v := fire("cd x && git push origin main --force"); v.Decision != grapnel.Block || v.Reason() != "force push is not allowed" {
			t.Errorf("%s: %v %q", name, v.Decision, v.Reason())
		}
		if v := fire("git push origin main"); v.Decision != grapnel.None || len(v.Changes) > 0 {
			t.Errorf("%s: %v %v", name, v.Decision, v.Changes)
		}
		if v := fire("rm -rf build"); !strings.Contains(string(v.Changes[grapnel.FieldInput]), `"command":"rm -ri build"`) {
			t.Errorf("%s: %v %s", name, v.Decision, v.Changes[grapnel.FieldInput])
		}
	}
}

// If only bundles are used, they have the same effect in Grapnel's default engine as with
// IronClaw's preset: priority, one after the other, and a reject ends the sequence.
//
// Proves: IC-10, IC-16, IC-17, IC-18, IC-19, IC-49
func TestIronClawRulesUnderBothEngines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "ab", "{", "}", `"`, "$0$0", ""})
		var rules []map[string]any
		for i := range rapid.IntRange(1, 6).Draw(t, "rules") {
			rule := map[string]any{"name": fmt.Sprint("r", i), "points": []string{"beforeInbound", "beforeToolCall", "onSessionStart"}}
			some := func(key string, of *rapid.Generator[string], often int) {
				if rapid.IntRange(1, often).Draw(t, key+"?") == 1 {
					rule[key] = of.Draw(t, key)
				}
			}
			some("when_regex", rapid.SampledFrom([]string{"a", "b", "^a", "ab", "x"}), 2)
			some("reject_reason", rapid.SampledFrom([]string{"no", "never"}), 5)
			some("prepend", word, 3)
			some("append", word, 3)
			some("failure_mode", rapid.SampledFrom([]string{"fail_open", "fail_closed"}), 2)
			if rapid.Bool().Draw(t, "priority?") {
				rule["priority"] = rapid.IntRange(99, 102).Draw(t, "priority")
			}
			if rapid.Bool().Draw(t, "replacements?") {
				rule["replacements"] = []map[string]string{{"pattern": rapid.SampledFrom([]string{"a", "b+", "", `"`}).Draw(t, "pattern"), "replacement": word.Draw(t, "replacement")}}
			}
			rules = append(rules, rule)
		}
		bundle, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		set := loadIronClaw(workspace, string(bundle))
		if len(set.Errors) > 0 {
			t.Fatal(set.Errors)
		}
		preset, _ := grapnel.FindPreset("ironclaw")
		var verdicts [2]grapnel.Verdict
		text := rapid.SampledFrom([]string{"a", "ab", "ba", "abab", ""}).Draw(t, "text")
		for _, ev := range []*grapnel.Event{
			{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: text}},
			{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Input: json.RawMessage(`{"b":"` + text + `"}`)}},
			{Kind: grapnel.SessionStart, Session: grapnel.Session{ID: text}},
		} {
			for i, p := range []grapnel.Preset{{}, preset} {
				engine, err := grapnel.New(set.Specs, &grapnel.Options{Preset: p})
				if err != nil {
					t.Fatal(err)
				}
				verdicts[i] = engine.Fire(t.Context(), ev)
			}
			own, theirs := &verdicts[0], &verdicts[1]
			if own.Decision != theirs.Decision || !reflect.DeepEqual(own.Changes, theirs.Changes) || !reflect.DeepEqual(own.Reasons, theirs.Reasons) {
				t.Fatalf("%s on %s:\nours   %v %s %v\ntheirs %v %s %v", bundle, ev.Kind, own.Decision, own.Changes, own.Reasons, theirs.Decision, theirs.Changes, theirs.Reasons)
			}
		}
	})
}

// The files that `load: [ironclaw]` finds next to a policy are in force.
//
// Proves: IC-33, IC-38
func TestLoadOfIronClaw(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"grapnel.yaml":                 "version: 1\nload: [ironclaw]\n",
		"hooks/hooks.json":             `{"hooks": [{"name": "one", "points": ["beforeInbound"], "append": "1"}]}`,
		"hooks/more/two.hook.json":     `{"rules": [{"name": "two", "points": ["beforeInbound"], "append": "2", "priority": 1}]}`,
		"hooks/other.json":             `{"rules": [{"name": "none", "points": ["beforeInbound"], "append": "x"}]}`,
		"tools/git.capabilities.json":  `{"capabilities": {"hooks": {"rules": [{"name": "three", "points": ["beforeInbound"], "when_regex": "13$", "append": "3"}, {"name": "bad", "points": []}]}}}`,
		"channels/c.capabilities.json": `{"hooks": {"rules": [{"name": "guard", "points": ["beforeInbound"], "when_regex": "secret", "reject_reason": "no secrets"}]}}`,
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: filepath.Join(dir, "grapnel.yaml")}}, Home: t.TempDir()})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	fire := func(text string) grapnel.Verdict {
		return engine.Fire(t.Context(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: text}})
	}
	if v := fire("a"); string(v.Changes[grapnel.FieldPrompt]) != `"a21"` {
		t.Errorf("Verdict = %v %s", v.Decision, v.Changes)
	}
	if v := fire("a secret"); v.Decision != grapnel.Block || v.Reason() != "no secrets" {
		t.Errorf("Verdict = %v %q", v.Decision, v.Reason())
	}
	skipped := 0
	for _, row := range set.Files {
		skipped += row.Skipped
	}
	if skipped != 1 {
		t.Errorf("%d hooks are left out, want 1: %+v", skipped, set.Files)
	}
}

// A bundle never panics, each registered hook has a name and points, and every accepted rule
// can handle any event.
func FuzzIronClawBundle(f *testing.F) {
	f.Add([]byte(`{"hooks": {"rules": [{"name": "r", "points": ["beforeToolCall"], "when_regex": "a", "replacements": [{"pattern": "(a)", "replacement": "$1"}], "prepend": "x"}]}}`), "a", true)
	f.Add([]byte(`[{"name": "r", "points": [], "timeout_ms": 1e9}]`), `{"a": 1}`, false)
	f.Add([]byte(`{"outbound_webhooks": [{"name": "w", "points": ["onSessionEnd"], "url": "https://example.com/", "headers": {"a": "b"}, "max_in_flight": 0}]}`), "", false)
	f.Add([]byte(`{"capabilities": {"hooks": [null]}}`), "\xff", true)
	f.Fuzz(func(t *testing.T, bundle []byte, text string, extension bool) {
		source := workspace
		if extension {
			source = "plugin.tool:x"
		}
		set := loadIronClaw(source, string(bundle))
		if len(set.Errors) != set.Summary.Errors {
			t.Errorf("%d errors, counted %d", len(set.Errors), set.Summary.Errors)
		}
		if _, err := grapnel.New(set.Specs, nil); err != nil {
			t.Fatalf("%s: %v", bundle, err)
		}
		if len(text) > 1000 {
			return
		}
		input := json.RawMessage(text)
		if !json.Valid(input) {
			input, _ = json.Marshal(text)
		}
		for _, c := range grapnel.Contracts() {
			ev := &grapnel.Event{
				Kind: c.Kind, Prompt: &grapnel.Prompt{Text: text}, Message: &grapnel.Message{Content: text},
				Tool: &grapnel.Tool{Name: "shell", Input: input}, Model: &grapnel.Model{Response: input}, Session: grapnel.Session{ID: text},
			}
			for _, empty := range []bool{false, true} {
				if empty {
					ev = &grapnel.Event{Kind: ev.Kind}
				}
				for _, s := range set.Specs {
					_, _ = s.Hook.Handle(t.Context(), ev) // only a panic fails the test
				}
			}
		}
	})
}
