package hookfiles

import (
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// An IronClawFile is a file that may hold a bundle of hooks.
type IronClawFile struct {
	// Source is what its hooks are named by: plugin.tool:NAME, plugin.dev_tool:NAME and
	// plugin.channel:NAME of what an extension says of itself, where the bundle is below
	// "hooks" or "capabilities"."hooks", and workspace:PATH of a file of the workspace,
	// which may have it below "hooks". A source of any other name is read like the latter.
	Source string
	Path   string // where it is, for people; a path counts once. Empty = nowhere
	Data   []byte
	Err    error // why it cannot be read; nil = Data is what it says
}

// IronClawRequest says what an IronClaw installation has.
type IronClawRequest struct {
	Audit  func(line []byte) error  // takes the lines of the audit that IronClaw brings along; nil = there is no audit
	Files  []IronClawFile           // in any order. Of the workspace, those that IronClawHookFile tells
	Active func(source string) bool // whether an extension is active; nil = all are

	// Webhook makes the hook behind an outbound webhook, or says what is wrong with its
	// address and headers; nil = webhooks are left out.
	Webhook func(Webhook) (grapnel.Hook, error)
}

// IronClawSet is what an IronClaw installation runs.
type IronClawSet struct {
	Specs    []grapnel.Spec // in the order in which they are registered
	Summary  IronClawSummary
	Errors   []*IronClawError    // what is left out, in order
	Warnings []*policyfile.Error // what is kept, and is hardly meant
}

// IronClawSummary counts what was registered. A hook that takes the place of another
// one counts too. Hooks that the application itself registers do not, such as the
// session summary.
type IronClawSummary struct {
	BundledHooks     int `json:"bundled_hooks"`
	PluginHooks      int `json:"plugin_hooks"`
	WorkspaceHooks   int `json:"workspace_hooks"`
	OutboundWebhooks int `json:"outbound_webhooks"`
	Errors           int `json:"errors"` // files and entries that are left out
}

// Total is how many hooks were registered.
func (s IronClawSummary) Total() int {
	return s.BundledHooks + s.PluginHooks + s.WorkspaceHooks + s.OutboundWebhooks
}

// The kinds of errors in bundles, by IronClaw's own words.
const (
	IronClawInvalidFormat      = "invalid_format" // the whole file: bad JSON, a wrong type, a missing field, an unknown point
	IronClawMissingPoints      = "missing_points"
	IronClawInvalidRegex       = "invalid_regex"
	IronClawInvalidTimeout     = "invalid_timeout"
	IronClawInvalidMaxInFlight = "invalid_webhook_max_in_flight"
)

// An IronClawError is why a file or an entry of it is left out.
type IronClawError struct {
	Kind string            // empty = Err, which comes from IronClawRequest.Webhook, says what it is
	Hook string            // full name; empty = the whole file
	At   *policyfile.Error // what people are told
	Err  error
}

// Error returns FILE:LINE:COL: message.
func (e *IronClawError) Error() string { return e.At.Error() }

// Unwrap returns what the webhook's maker said, or nil.
func (e *IronClawError) Unwrap() error { return e.Err }

// IronClawHookFile reports whether a file of the workspace holds hooks. The path is
// relative to the workspace, with slashes.
func IronClawHookFile(path string) bool {
	return path == "hooks/hooks.json" || strings.HasPrefix(path, "hooks/") && strings.HasSuffix(path, ".hook.json")
}

// LoadIronClaw returns the hooks that IronClaw would register when it starts: those it
// brings along, those of active extensions and those of the workspace. What is wrong
// is left out, and the rest stays. The Specs are made for the preset "ironclaw", whose
// Defaults are filled in, and their sources are the files':
//
//	preset, _ := grapnel.FindPreset("ironclaw")
//	set := hookfiles.LoadIronClaw(hookfiles.IronClawRequest{Files: files})
//	engine, err := grapnel.New(set.Specs, &grapnel.Options{Preset: preset})
//
// An extension that is activated later is loaded the same way and goes to Engine.Add;
// Engine.Remove with its source takes its hooks away, and those of no other.
func LoadIronClaw(req IronClawRequest) IronClawSet {
	files := slices.DeleteFunc(slices.Clone(req.Files), func(f IronClawFile) bool {
		return ofExtension(f.Source) && req.Active != nil && !req.Active(f.Source)
	})
	webhook := req.Webhook
	if webhook == nil {
		webhook = func(Webhook) (grapnel.Hook, error) { return nil, nil }
	}
	r := readIronClaw(files, webhook)
	set := IronClawSet{Errors: r.errors, Warnings: r.notes}
	set.Summary = IronClawSummary{OutboundWebhooks: r.senders, Errors: len(r.errors)}
	for source, rules := range r.rules {
		if ofExtension(source) {
			set.Summary.PluginHooks += rules
		} else {
			set.Summary.WorkspaceHooks += rules
		}
	}
	preset, _ := grapnel.FindPreset("ironclaw")
	if req.Audit != nil {
		set.Specs = append(set.Specs, preset.Defaults(builtin.AuditLog(req.Audit)))
		set.Summary.BundledHooks = len(set.Specs)
	}
	for i := range r.hooks {
		set.Specs = append(set.Specs, preset.Defaults(r.hooks[i].spec(&files[r.hooks[i].FileIndex])))
	}
	return set
}
