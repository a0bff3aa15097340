// Package status collects the active policies, recent problems, and the state of agents and
// daemon.
package status

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/allow"
	"github.com/grapnel-dev/grapnel/cmd/internal/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/stats"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Report is the output of "grapnel status --json".
type Report struct {
	Version  string              `json:"version"`
	State    string              `json:"state"`
	Policies []policy.Loaded     `json:"policies"`
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
	Keep     store.Limits        `json:"retention"`         // limits at which a daemon removes the oldest Records
	Warnings []string            `json:"warnings"`

	OnlyManaged string `json:"only_managed,omitempty"` // message for the user if a managed policy disables all other policies
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

// Dead reports whether an agent cannot start the hook program.
func (s *Report) Dead() bool {
	return slices.ContainsFunc(s.Installs, func(i Install) bool { return i.Dead })
}

// Gather collects the state of the policies, the daemon, the agents and the log of a place.
func Gather(ctx context.Context, place local.Place) (*Report, error) {
	s := &Report{Version: hookcmd.Version, State: place.State, Warnings: []string{}, Installs: []Install{}}
	dir, err := cli.WorkDir()
	if err != nil {
		return nil, err
	}
	s.policies(place, dir)
	off, err := pause.ReadOff(place.Off())
	if err != nil {
		s.warn("%v", err)
	}
	for _, h := range off {
		s.warn("hook %s is off since %s: %s; \"grapnel hooks enable %[1]s\" switches it on", h.Hook, h.Since.Local().Format("2006-01-02 15:04"), h.Reason)
	}
	if pause, ok := pause.Read(place.Pause(), time.Now()); ok {
		s.Paused = pause.Until
		s.warn("%v: all hooks except managed ones and self-protection are in observe mode; \"grapnel pause --off\" ends it", pause)
	}
	if s.Grants, err = place.Approvals().List(time.Now()); err != nil {
		s.warn("cannot list the allowed calls: %v", err)
	}
	unlogged, err := allow.Unlogged(ctx, place, time.Now().Add(-24*time.Hour), false)
	if err != nil {
		s.warn("cannot compare the allowed calls with the log: %v", err)
	}
	for _, what := range unlogged {
		s.warn("%s", what)
	}
	var last time.Time
	if s.Rootless, last = place.RootsRefused(time.Now()); s.Rootless > 0 {
		s.warn("%s without a stored session root, last %s: a project's policy applies only while the agent is in the project's directory", printable.Count(s.Rootless, "event"), last.Local().Format("2006-01-02 15:04"))
	}
	s.losses(place)
	s.Daemon = control.Status(ctx, place)
	if s.Daemon.State == "dead" {
		s.warn("the daemon died: grapnel-hook answers without it; run \"grapnel daemon start\"")
	} else if s.Daemon.State != "absent" && s.Daemon.Problem != "" {
		s.warn("daemon: %s", s.Daemon.Problem)
	}
	if s.Forward, err = forwarding.Reports(ctx, place); err != nil {
		s.warn("cannot see how far Records are forwarded: %v", err)
	}
	for i := range s.Forward {
		for _, problem := range s.Forward[i].Problems(time.Now()) {
			s.warn("%s: %s", s.Forward[i].To, problem.What)
		}
	}
	refusals, err := control.Refusals(ctx, place)
	if err != nil {
		s.warn("cannot see whether targets refuse deliveries: %v", err)
	}
	for i := range refusals {
		s.warn("hook %s: its target refuses deliveries: %s; run \"%s\"", refusals[i].Target, printable.Text(refusals[i].Error), control.RefusalHint(&refusals[i]))
	}
	s.installs(place)
	day, err := records.Log(place).Count(ctx, time.Now().Add(-24*time.Hour))
	if err != nil {
		s.warn("the counts of the last 24 hours are incomplete: %v", err)
	}
	s.Day = day.Totals()
	for _, h := range s.Day.Hooks {
		if h.FailOpen > 0 {
			s.warn("hook %s failed open %d times, last: %s", h.Name, h.FailOpen, h.LastError)
		}
	}
	return s, nil
}

func (s *Report) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// losses adds warnings about Records that were lost, or cannot be stored now.
func (s *Report) losses(place local.Place) {
	if l := spool.ReadLosses(place.Spool(), time.Now()); l.Replies > 0 {
		s.Losses = &l
		s.warn("%s without a complete record since %s, last %s: %s", printable.Count(l.Replies, "event"), l.First.Local().Format("2006-01-02 15:04"), l.Last.Local().Format("2006-01-02 15:04"), l.Error)
	}
	if err := spool.Unwritable(place.Spool()); err != nil {
		s.warn("records cannot be stored without a daemon: %v", err)
	}
}

// policies loads the active policies of a directory, and adds warnings about problems.
func (s *Report) policies(place local.Place, dir string) {
	req := check.LookRequest(place, place.Files(nil, place.DirsOf(dir)))
	sandboxes := noteSandboxes(&req)
	look := req.HTTP
	req.HTTP = func(h policyfile.HTTP) (grapnel.Hook, error) {
		if why := ask.Circuit(place, &h, time.Now()); why != nil {
			s.warn("hook %s is %v", h.Name, why)
		}
		if _, err := look(h); err != nil { // the hook is active, but fails
			s.warn("hook %s cannot reach its server: %v", h.Name, err)
		}
		return noop.Hook{}, nil
	}
	req.Notify = func(h policyfile.HTTP) (grapnel.Hook, error) {
		if _, err := look(h); err != nil {
			s.warn("hook %s cannot send notifications: %v", h.Name, err)
		}
		return noop.Hook{}, nil
	}
	set := policy.Load(req)
	s.Digest, s.Keep = set.Digest(), store.LimitsOf(&set)
	s.Policies, s.Sandbox, s.OnlyManaged = set.Files, *sandboxes, set.OnlyManaged
	for _, h := range s.Sandbox {
		if h.Problem != "" {
			s.warn("hook %s %s", h.Hook, h.Problem)
		}
	}
	for i := range set.Files {
		s.file(place, &set, &set.Files[i])
	}
	if observes(&set, place.Policy) {
		s.warn("%s only observes: it stops nothing; \"grapnel stats --would\" shows what it would have stopped, and \"grapnel enforce\" ends this", place.Policy)
	}
}

// observes reports whether a policy file has hooks, and none of them decides.
func observes(set *policy.Set, file string) bool {
	found := false
	for i := range set.Specs {
		s := &set.Specs[i]
		if s.Source.File != file || s.Phase == grapnel.PhaseObserve {
			continue
		}
		if !s.Observe {
			return false
		}
		found = true
	}
	return found
}

// file adds warnings about problems in a policy file.
func (s *Report) file(place local.Place, set *policy.Set, file *policy.Loaded) {
	if file.State == policy.Absent && !slices.ContainsFunc(set.Specs, func(s grapnel.Spec) bool { return !notice.Own(&s) }) {
		s.warn("no policy %s found, so only Grapnel itself is guarded: run \"grapnel init\"", file.File)
	} else if file.Notice != "" {
		s.warn("%s", file.Notice)
	}
	if file.Expired(time.Now()) {
		s.warn("%s expired at %s and stays in force; \"grapnel bundle pull\" brings a newer revision", file.File, file.Expires.Format(time.RFC3339))
	}
	if trust, err := place.Trusts().Of(file.File); err == nil && trust != nil {
		for _, changed := range trust.Changed() {
			s.warn("hooks of %s do not run: %v: grapnel trust %s", file.File, changed, file.File)
		}
	}
}

// installs lists the installations of this user and of the administrator.
func (s *Report) installs(place local.Place) {
	var recs []installation.Record
	for _, dir := range []string{place.Installs(), filepath.Join(place.Managed, "installs")} {
		list, err := installation.List(dir)
		if err != nil {
			s.warn("%v", err)
		}
		recs = append(recs, list...)
	}
	order := install.Names()
	slices.SortFunc(recs, func(a, b installation.Record) int { // the tokens are random and give no useful order
		return cmp.Or(cmp.Compare(slices.Index(order, a.Agent), slices.Index(order, b.Agent)), cmp.Compare(b.Scope, a.Scope), cmp.Compare(a.Settings, b.Settings))
	})
	for _, rec := range recs {
		state := Install{Agent: rec.Agent, Scope: rec.Scope, File: rec.Settings, Events: len(rec.Events)}
		state.inspect(&rec)
		s.Installs = append(s.Installs, state)
		if state.Problem != "" {
			s.warn("%s: %s", rec.Agent, state.Problem)
		}
	}
}

// inspect checks whether the hook program still exists, and whether the agent's settings still
// contain the installed hooks.
func (s *Install) inspect(rec *installation.Record) {
	if _, err := exec.LookPath(rec.Program); err != nil { // an upgrade may have removed it
		s.Dead = true
		again := "grapnel install " + s.Agent
		if s.Scope != string(install.User) {
			again += " --scope " + s.Scope
		}
		s.Problem = fmt.Sprintf("it cannot start %s, so nothing is guarded: run %q", rec.Program, again)
		return
	}
	agent, err := install.Lookup(s.Agent)
	if err != nil {
		s.Problem = err.Error()
		return
	}
	found, err := agent.Installed(*rec)
	if err != nil {
		s.Problem = fmt.Sprintf("cannot read its settings: %v", err)
		return
	}
	var missing []string
	for _, event := range rec.Events {
		if !slices.ContainsFunc(found.Entries, func(e install.Entry) bool { return e.Event == event }) {
			missing = append(missing, event)
		}
	}
	switch {
	case len(found.Entries) == 0:
		s.Problem = "its settings no longer contain grapnel-hook: run \"grapnel install\" again"
	case len(missing) > 0:
		s.Problem = fmt.Sprintf("its settings no longer contain grapnel-hook for %s: run \"grapnel install\" again", strings.Join(missing, ", "))
	}
	s.Notes = found.Notes
}
