package hookcmd

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd/ancestor"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/consent"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/local"
)

// A person asks a person about the call of one event; see package consent.
type person struct {
	place  local.Place
	got    dialect.Received
	inv    *invocation
	firing *firing
	opts   *local.Options // with which the policies were loaded
}

// ask implements grapnel.Approval.Ask.
func (p *person) ask(ctx context.Context, ev *grapnel.Event, hooks []grapnel.HookRun) (string, grapnel.Outcome) {
	return p.asker(interactive(ev.Agent.Name)).Ask(ctx, ev, hooks)
}

func (p *person) asker(terminal bool) *consent.Asker {
	return &consent.Asker{
		Place: p.place, Sent: p.got.Event, Spool: p.firing.spool, Set: p.firing.set, Policies: p.firing.policies(), Current: p.policies,
		Until: p.inv.watch.start().Add(p.patience()), Terminal: terminal, Waiting: p.inv.watch.extend, Lost: p.firing.lost,
		Notify: func(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
			if err := (queue{p.firing.spool}).Run(ctx, ev, hooks); err != nil {
				return err
			}
			return startDrain(*p.inv)
		},
	}
}

// policies returns the digest of the policies in force now. Without one, no yes counts.
func (p *person) policies() string {
	again := *p.opts
	again.Loaded = nil
	engine, err := local.Open(context.Background(), &again)
	if err != nil {
		return ""
	}
	return engine.Set.Digest()
}

// patience returns how long the agent waits for the reply to the event.
func (p *person) patience() time.Duration {
	row, native := p.got.Row(), p.inv.event
	if row != nil {
		native = row.Native
	}
	if p.inv.id != "" {
		rec, _ := installation.Find(p.inv.id) // without a record, the time is short
		return consent.Patience(rec, row, native)
	}
	list, _ := installation.List(p.place.Installs()) // an installation with --root has no ID in its command
	list = slices.DeleteFunc(list, func(rec installation.Record) bool { return rec.Agent != p.got.Event.Agent.Name })
	if len(list) == 0 {
		return consent.Patience(installation.Record{}, row, native)
	}
	shortest := consent.Patience(list[0], row, native)
	for i := range list {
		shortest = min(shortest, consent.Patience(list[i], row, native))
	}
	return shortest
}

// interactive reports whether a person sits at the terminal of the agent.
func interactive(agent string) bool {
	unattended := ""
	if d, ok := dialect.FindAgent(agent); ok && d.Setup() != nil {
		unattended = d.Setup().Unattended
	}
	name, beginning, _ := strings.Cut(unattended, "=")
	if value := os.Getenv(name); value != "" {
		return !strings.HasPrefix(value, beginning)
	}
	found, err := ancestor.Agent()
	return err == nil && found != nil && found.Interactive()
}
