package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Status is the output of "grapnel status --json".
type Status struct {
	Version  string              `json:"version"`
	State    string              `json:"state"`
	Policies []load.Loaded       `json:"policies"`
	Digest   string              `json:"policy_digest,omitempty"` // as in records
	Installs []Install           `json:"installs"`
	Day      stats.Totals        `json:"last_24h"`
	Sandbox  []Sandbox           `json:"sandboxes,omitempty"`
	Paused   time.Time           `json:"paused_until,omitzero"`   // see "grapnel pause"
	Grants   []approval.Grant    `json:"grants,omitempty"`        // calls that the user has allowed
	Rootless int                 `json:"roots_refused,omitempty"` // events of the last seven days in sessions without a stored root
	Losses   *spool.Losses       `json:"lost_records,omitempty"`  // replies of the last seven days without a complete Record
	Daemon   *control.Report     `json:"daemon"`
	Forward  []forwarding.Report `json:"forward,omitempty"` // targets outside of this machine that get the Records
	Keep     journal.Limits      `json:"retention"`         // limits above which the oldest Records are removed
	Warnings []Finding           `json:"warnings"`          // findings of "grapnel doctor" that need an action

	OnlyManaged string `json:"only_managed,omitempty"` // message for the user if a managed policy disables all other policies
	Elsewhere   string `json:"elsewhere,omitempty"`    // why the state is not in the directory HOME
}

// An Install is the state of one installation in an agent.
type Install struct {
	Agent   string   `json:"agent"`
	Scope   string   `json:"scope"`
	File    string   `json:"file"`
	Events  int      `json:"events"`
	Problem string   `json:"problem,omitempty"`
	Dead    bool     `json:"program_missing,omitempty"` // the agent cannot start the hook program, so nothing is guarded
	Notes   []string `json:"notes,omitempty"`
}

// A Sandbox is the sandbox of a hook.
type Sandbox struct {
	Hook    string `json:"hook"`
	Sandbox string `json:"sandbox"`
	Problem string `json:"problem,omitempty"`
}

// Dead reports whether an agent cannot start the hook program.
func (s *Status) Dead() bool {
	return slices.ContainsFunc(s.Installs, func(i Install) bool { return i.Dead })
}

// Glance returns the state of the policies, the daemon, the agents and the log of a place: the facts of
// [Look] that need neither a program nor more than a day of the log.
func Glance(ctx context.Context, place local.Place, root string) (*Status, error) {
	dir, err := cli.WorkDir()
	if err != nil {
		return nil, err
	}
	req := NewRequest(place, dir, root)
	req.glance = true
	report, f, err := look(ctx, req)
	if err != nil {
		return nil, err
	}
	s := &Status{
		Version: f.version, State: place.State, Policies: f.policies, Digest: req.Set.Digest(), OnlyManaged: f.only,
		Keep: late.LimitsOf(&req.Set), Daemon: control.Describe(place, f.daemon.found, f.daemon.err), Warnings: []Finding{}, Installs: []Install{},
		Paused: f.paused, Rootless: f.rootless, Forward: f.forward,
	}
	if f.losses.Replies > 0 {
		s.Losses = &f.losses
	}
	for i := range report.Findings {
		switch f := &report.Findings[i]; {
		case f.Level >= Warn:
			s.Warnings = append(s.Warnings, *f)
		case f.ID == "state.elsewhere":
			s.Elsewhere = f.What + ": " + f.Why
		}
	}
	for _, b := range f.boxes {
		box := Sandbox{Hook: b.hook, Sandbox: b.holds}
		if b.missing != nil {
			box.Problem = b.missing.Error()
		}
		s.Sandbox = append(s.Sandbox, box)
	}
	if s.Grants, err = place.Approvals().List(time.Now()); err != nil {
		s.warn("cannot list the allowed calls: %v", err)
	}
	s.installs(f.records)
	day, err := records.Log(place).Count(ctx, f.since)
	if err != nil {
		s.warn("the counts of the last 24 hours are incomplete: %v", err)
	}
	s.Day = day.Totals()
	return s, nil
}

func (s *Status) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, Finding{ID: "status.incomplete", Level: Warn, What: fmt.Sprintf(format, args...)})
}

// installs lists the installations of this user and of the administrator. Those that cannot be
// read are findings.
func (s *Status) installs(recs []installation.Record) {
	recs = slices.Clone(recs)
	order := install.Names()
	slices.SortFunc(recs, func(a, b installation.Record) int { // the tokens are random and give no useful order
		return cmp.Or(cmp.Compare(slices.Index(order, a.Agent), slices.Index(order, b.Agent)), cmp.Compare(b.Scope, a.Scope), cmp.Compare(a.Settings, b.Settings))
	})
	for _, rec := range recs {
		state := Install{Agent: rec.Agent, Scope: rec.Scope, File: rec.Settings, Events: len(rec.Events)}
		for i := range s.Warnings {
			f := &s.Warnings[i]
			if f.Agent != rec.Agent || f.Subject != rec.Settings || f.Level < Bad {
				continue
			}
			state.Problem = cmp.Or(state.Problem, f.What)
			state.Dead = state.Dead || f.ID == "program.gone" || f.ID == "program.dead"
		}
		if agent, err := install.Lookup(rec.Agent); err == nil && !state.Dead {
			if found, err := agent.Installed(rec); err == nil {
				state.Notes = found.Notes
			}
		}
		s.Installs = append(s.Installs, state)
	}
}
