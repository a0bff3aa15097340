package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

// ironclaw runs its hooks in its own process, and has no command hooks.
var ironclaw = family{
	name:   "ironclaw",
	events: eventsOf(dialect.IronClawEvents()),
}

// ironClawFileFilter checks whether a file of the workspace is a hook file.
func ironClawFileFilter(_ context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Path string `json:"path"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	return c.compare(view{"is_hook_file": hookfile.IsHookFile(d.Path)}), nil
}

// ironClawBundle loads one bundle.
func ironClawBundle(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Source string          `json:"source"`
		Bundle json.RawMessage `json:"bundle"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	v, err := ironClawView(ctx, c, &hookfile.Request{Files: []hookfile.File{{Source: d.Source, Data: d.Bundle, Err: errorOf(d.Bundle)}}}, nil)
	if err != nil {
		return nil, err
	}
	return c.compare(v), nil
}

// ironClawBootstrap loads all hooks of an installation.
func ironClawBootstrap(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Given struct {
			Plugins        map[string]json.RawMessage `json:"plugins"`
			Inactive       []string                   `json:"inactive"`
			Workspace      json.RawMessage            `json:"workspace"`
			SessionSummary bool                       `json:"session_summary"`
		} `json:"given"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	req := hookfile.Request{
		Audit:  func([]byte) error { return nil },
		Active: func(source string) bool { return !slices.Contains(d.Given.Inactive, source) },
	}
	for source, raw := range d.Given.Plugins {
		req.Files = append(req.Files, fileOf(source, raw))
	}
	var workspace map[string]json.RawMessage
	switch err := errorOf(d.Given.Workspace); {
	case err != nil: // no file of the workspace can be read
		req.Files = append(req.Files, hookfile.File{Source: "workspace:hooks/hooks.json", Err: err})
	case len(d.Given.Workspace) > 0:
		if err := strict(d.Given.Workspace, &workspace); err != nil {
			return nil, err
		}
	}
	for path, raw := range workspace {
		if hookfile.IsHookFile(path) {
			req.Files = append(req.Files, fileOf("workspace:"+path, raw))
		}
	}
	var application []grapnel.Spec
	if d.Given.SessionSummary {
		application = append(application, builtin.SessionSummary(builtin.Conversations{}, nil, nil))
	}
	v, err := ironClawView(ctx, c, &req, application)
	if err != nil {
		return nil, err
	}
	return c.compare(v), nil
}

// fileOf returns a file with this content: the text of a JSON string, or any other value as
// JSON.
func fileOf(source string, raw json.RawMessage) hookfile.File {
	f := hookfile.File{Source: source, Data: raw, Err: errorOf(raw)}
	var text *string // nil if the value is null
	if json.Unmarshal(raw, &text) == nil && text != nil {
		f.Data = []byte(*text)
	}
	return f
}

// ironClawView returns the result of loading the files of req together with the application's
// hooks.
func ironClawView(ctx context.Context, c *Case, req *hookfile.Request, application []grapnel.Spec) (v view, err error) {
	client := outbound.NewClient(nil)
	defer func() { err = errors.Join(err, client.Close(ctx)) }()
	req.Webhook = func(w policyfile.Webhook) (grapnel.Hook, error) {
		hook, err := client.Webhook(outbound.Config{
			Name: w.Name, URL: w.URL, Headers: w.Headers, Timeout: time.Duration(w.Timeout), MaxInFlight: w.MaxInFlight, Body: w.Body,
		})
		if err != nil {
			return nil, err
		}
		return hook, nil
	}
	if c.names != nil {
		return ironclawNamesView(req, application)
	}
	set := hookfile.Load(*req)
	preset, _ := grapnel.FindPreset(ironclaw.name)
	engine, err := grapnel.New(slices.Concat(application, set.Specs), &grapnel.Options{Preset: preset})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, s := range engine.Specs("") {
		names = append(names, s.FullName())
	}
	return ironClawSetView(&set, names), nil
}

func ironClawSetView(set *hookfile.Set, names []string) view {
	kinds := []string{}
	for _, err := range set.Errors {
		kinds = append(kinds, ironClawErrorKind(err))
	}
	sum := &set.Summary
	return view{
		"bundled_hooks": sum.BundledHooks, "plugin_hooks": sum.PluginHooks, "workspace_hooks": sum.WorkspaceHooks,
		"hooks": sum.PluginHooks + sum.WorkspaceHooks, "outbound_webhooks": sum.OutboundWebhooks,
		"errors": sum.Errors, "error_kinds": kinds, "total": sum.Total(), "list": names, "warnings": set.Warnings,
	}
}

// ironClawErrorKind returns IronClaw's name for an error. IronClaw has fewer kinds of errors
// than Grapnel.
func ironClawErrorKind(err *hookfile.Error) string {
	fault, ok := errors.AsType[*outbound.Error](err)
	if !ok {
		return err.Kind
	}
	switch cmp.Or(fault.Repaired, fault.Fault) { // IronClaw parses URLs the way browsers do
	case outbound.BadURL, outbound.NoHost, outbound.UserInfo:
		return "invalid_webhook_url"
	case outbound.BadScheme:
		return "invalid_webhook_scheme"
	case outbound.AmbiguousHost, outbound.ForbiddenIP, outbound.ForbiddenHost, outbound.ForbiddenPort:
		return "forbidden_webhook_host"
	case outbound.BadHeader:
		return "invalid_webhook_header"
	case outbound.ForbiddenHeader:
		return "forbidden_webhook_header"
	default:
		return string(fault.Fault)
	}
}
