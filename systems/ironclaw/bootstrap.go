package ironclaw

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

// HookBootstrapSummary counts the registered hooks, and the skipped files and entries. It does not
// count the session summary.
type HookBootstrapSummary = hookfile.Summary

// Loaded is the result of registering hooks.
type Loaded struct {
	Summary  HookBootstrapSummary
	Errors   []*hookfile.Error   // skipped files and entries, in order
	Warnings []*policyfile.Error // entries that are used but probably wrong
}

func (l *Loaded) add(more *Loaded) {
	l.Summary.BundledHooks += more.Summary.BundledHooks
	l.Summary.PluginHooks += more.Summary.PluginHooks
	l.Summary.WorkspaceHooks += more.Summary.WorkspaceHooks
	l.Summary.OutboundWebhooks += more.Summary.OutboundWebhooks
	l.Summary.Errors += more.Summary.Errors
	l.Errors = append(l.Errors, more.Errors...)
	l.Warnings = append(l.Warnings, more.Warnings...)
}

// BundleOptions configure how bundles are registered. The zero value and nil mean the defaults.
type BundleOptions struct {
	Active func(source string) bool // reports whether an extension is active; nil = all are

	// Webhook builds the hook of an outbound webhook, for example with PolicyWebhook of an
	// outbound.Client; nil = webhooks are skipped and reported.
	Webhook func(policyfile.Webhook) (grapnel.Hook, error)
}

// RegisterSessionSummary registers the session summary, a Spec of [builtin.SessionSummary].
func (r *HookRegistry) RegisterSessionSummary(summary grapnel.Spec) error {
	return r.engine.Add(preset().Defaults(summary))
}

// RegisterBundledHooks registers the hooks that IronClaw has built in: the audit, with priority 25
// at all points. audit gets one line of JSON per event; nil = debug lines of log/slog.
func (r *HookRegistry) RegisterBundledHooks(audit func(line []byte) error) (*Loaded, error) {
	if audit == nil {
		audit = func(line []byte) error {
			slog.Debug("hook point", "audit", string(bytes.TrimSpace(line)))
			return nil
		}
	}
	return &Loaded{Summary: HookBootstrapSummary{BundledHooks: 1}}, r.engine.Add(preset().Defaults(hookfile.AuditLog(audit)))
}

// RegisterPluginBundles registers the bundles in the capability files of active extensions. Other
// files are ignored. Invalid files and entries are skipped and reported. To deactivate an
// extension, call [HookRegistry.UnregisterSource].
func (r *HookRegistry) RegisterPluginBundles(files []hookfile.File, opts *BundleOptions) (*Loaded, error) {
	return r.register(files, ofPlugin, opts)
}

// RegisterWorkspaceBundles registers the bundles of the workspace. Capability files of extensions
// are ignored. Invalid files and entries are skipped and reported.
func (r *HookRegistry) RegisterWorkspaceBundles(files []hookfile.File, opts *BundleOptions) (*Loaded, error) {
	return r.register(files, func(f *hookfile.File) bool { return !ofPlugin(f) }, opts)
}

func ofPlugin(f *hookfile.File) bool { return strings.HasPrefix(f.Source, "plugin.") }

// register registers the bundles in the chosen files.
func (r *HookRegistry) register(files []hookfile.File, chosen func(*hookfile.File) bool, opts *BundleOptions) (*Loaded, error) {
	o := BundleOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Webhook == nil {
		o.Webhook = func(policyfile.Webhook) (grapnel.Hook, error) {
			return nil, errors.New("the program has no client for webhooks (set BundleOptions.Webhook)")
		}
	}
	set := hookfile.Load(hookfile.Request{
		Files:  slices.DeleteFunc(slices.Clone(files), func(f hookfile.File) bool { return !chosen(&f) }),
		Active: o.Active, Webhook: o.Webhook,
		Audit: func([]byte) error { return nil },
	})
	set.Specs = slices.DeleteFunc(set.Specs, func(s grapnel.Spec) bool { return s.FullName() == hookfile.AuditLogName })
	set.Summary.BundledHooks = 0 // RegisterBundledHooks registers the audit
	return &Loaded{set.Summary, set.Errors, set.Warnings}, r.engine.Add(set.Specs...)
}

// BootstrapOptions configure [HookRegistry.Bootstrap]. The zero value and nil register the hooks of
// the working directory and of the user's home directory.
type BootstrapOptions struct {
	BundleOptions

	Home      string          // contains .ironclaw/ with the user's extensions; empty = the home directory of the user
	Workspace string          // contains hooks/, and tools/ and channels/ in development; empty = the working directory
	Files     []hookfile.File // the bundles; nil = the files in Home and Workspace

	Audit   func(line []byte) error // gets the lines of the audit; nil = debug lines of log/slog
	Summary *grapnel.Spec           // from builtin.SessionSummary; nil = a summary of the prompts in the session's transcript, below daily/ in the workspace
}

// Bootstrap registers the hooks that IronClaw registers at its start, in its order: the session summary, the
// bundled hooks, the bundles of extensions and the bundles of the workspace. It does not watch the
// files. Invalid files and entries are skipped: Loaded lists them, and agents that use
// [HookRegistry.Engine] also show them to the user at session start and with each prompt. The error
// is non-nil if a directory cannot be read.
func (r *HookRegistry) Bootstrap(opts *BootstrapOptions) (*Loaded, error) {
	o := BootstrapOptions{}
	if opts != nil {
		o = *opts
	}
	loaded, err := r.bootstrap(&o)
	if err != nil {
		return nil, fmt.Errorf("cannot start the hooks of IronClaw: %w", err)
	}
	return loaded, nil
}

func (r *HookRegistry) bootstrap(o *BootstrapOptions) (*Loaded, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := r.RegisterSessionSummary(*o.Summary); err != nil {
		return nil, err
	}
	loaded := &Loaded{}
	for _, way := range []func() (*Loaded, error){
		func() (*Loaded, error) { return r.RegisterBundledHooks(o.Audit) },
		func() (*Loaded, error) { return r.RegisterPluginBundles(o.Files, &o.BundleOptions) },
		func() (*Loaded, error) { return r.RegisterWorkspaceBundles(o.Files, &o.BundleOptions) },
	} {
		more, err := way()
		if err != nil {
			return nil, err
		}
		loaded.add(more)
	}
	if len(loaded.Errors) == 0 {
		return loaded, nil
	}
	return loaded, r.engine.Add(notice.For(grapnel.Source{Name: presetName, File: o.Workspace}, skipped(loaded.Errors)))
}

// complete sets the defaults.
func (o *BootstrapOptions) complete() (err error) {
	if o.Home == "" && o.Files == nil {
		if o.Home, err = os.UserHomeDir(); err != nil {
			return err
		}
	}
	if o.Workspace == "" && (o.Files == nil || o.Summary == nil) {
		if o.Workspace, err = os.Getwd(); err != nil {
			return err
		}
	}
	if o.Files == nil {
		if o.Files, err = hookfile.Find(o.Home, o.Workspace); err != nil {
			return err
		}
	}
	if o.Summary == nil {
		spec := builtin.SessionSummary(builtin.Conversations{Newest: builtin.Transcript}, builtin.Prompts, builtin.InDir(o.Workspace))
		o.Summary = &spec
	}
	return nil
}

// skipped returns the message about skipped files and entries.
func skipped(errs []*hookfile.Error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return "grapnel: skipped hooks of IronClaw: " + strings.Join(texts, "; ")
}
