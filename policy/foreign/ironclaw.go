// Package foreign starts the hooks of an IronClaw installation in an agent written in Go.
package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

// IronClawOptions configure [StartIronClaw]. The zero value starts the hooks of the working directory and of the
// user's home directory.
type IronClawOptions struct {
	Home      string // contains .ironclaw/ with the user's extensions; empty = the home directory of the user
	Workspace string // contains hooks/, and tools/ and channels/ in development; empty = the working directory

	Active func(source string) bool // reports whether an extension is active; nil = all are

	Audit   func(line []byte) error // receives the lines of the audit; nil = debug lines of log/slog
	Summary *grapnel.Spec           // from builtin.SessionSummary; nil = a summary of the prompts in the session's transcript, below daily/ in the workspace

	// Webhook builds the hook of an outbound webhook, for example with PolicyWebhook of an outbound.Client;
	// nil = webhooks are skipped and reported.
	Webhook func(policyfile.Webhook) (grapnel.Hook, error)

	Engine *grapnel.Options // further options of the engine, except Preset; nil = none
}

// IronClaw is an engine with the hooks of an IronClaw installation. The caller must close it.
type IronClaw struct {
	*grapnel.Engine

	// Loaded counts the hooks, and lists the skipped files and entries. The first event of a session
	// and each prompt also show the skipped ones to the user.
	Loaded ironclaw.Set
}

// StartIronClaw starts the hooks of an IronClaw installation in a Go agent, and returns an engine with
// the preset "ironclaw"; opts may be nil. It registers what IronClaw registers at its start: the
// session summary, the audit, and the bundles of extensions and of the workspace. It does not watch
// these files. Invalid files and entries are skipped, see [IronClaw]. The error is non-nil if a
// directory cannot be read.
//
//	client := outbound.NewClient(nil)
//	hooks, err := foreign.StartIronClaw(&foreign.IronClawOptions{
//		Workspace: dir,
//		Webhook:   func(w policyfile.Webhook) (grapnel.Hook, error) { return client.PolicyWebhook(w) },
//	})
//	if err != nil {
//		return err
//	}
//	defer hooks.Close(ctx)
//	verdict := hooks.Fire(ctx, event)
//
// To run bundles in other agents, use `load: [ironclaw]` in a policy.
func StartIronClaw(opts *IronClawOptions) (*IronClaw, error) {
	o := IronClawOptions{}
	if opts != nil {
		o = *opts
	}
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("cannot start the hooks of IronClaw: %w", err)
	}
	h := &IronClaw{}
	if o.Webhook == nil {
		o.Webhook = func(policyfile.Webhook) (grapnel.Hook, error) {
			return nil, errors.New("the program has no client for webhooks (set IronClawOptions.Webhook)")
		}
	}
	files, err := ironclaw.Find(o.Home, o.Workspace)
	if err != nil {
		return nil, err
	}
	h.Loaded = ironclaw.Load(ironclaw.Request{Audit: o.Audit, Files: files, Active: o.Active, Webhook: o.Webhook})
	preset, _ := grapnel.FindPreset("ironclaw")
	specs := append([]grapnel.Spec{preset.Defaults(*o.Summary)}, h.Loaded.Specs...)
	if text := skipped(h.Loaded.Errors); text != "" {
		specs = append(specs, notice.For(grapnel.Source{Name: preset.Name, File: o.Workspace}, text))
	}
	engine := grapnel.Options{}
	if o.Engine != nil {
		engine = *o.Engine
	}
	engine.Preset = preset
	if h.Engine, err = grapnel.New(specs, &engine); err != nil {
		return nil, err
	}
	return h, nil
}

// complete sets the defaults.
func (o *IronClawOptions) complete() (err error) {
	if o.Home == "" {
		if o.Home, err = os.UserHomeDir(); err != nil {
			return err
		}
	}
	if o.Workspace == "" {
		if o.Workspace, err = os.Getwd(); err != nil {
			return err
		}
	}
	if o.Audit == nil {
		o.Audit = func(line []byte) error {
			slog.Debug("hook point", "audit", string(bytes.TrimSpace(line)))
			return nil
		}
	}
	if o.Summary == nil {
		spec := builtin.SessionSummary(builtin.Conversations{Newest: builtin.Transcript}, builtin.Prompts, builtin.InDir(o.Workspace))
		o.Summary = &spec
	}
	return nil
}

// skipped returns the message about skipped files and entries, or "".
func skipped(errs []*ironclaw.Error) string {
	if len(errs) == 0 {
		return ""
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return fmt.Sprintf("grapnel: skipped hooks of IronClaw: %s", strings.Join(texts, "; "))
}
