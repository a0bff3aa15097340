package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/records"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// statusReport is what "grapnel status --json" prints.
type statusReport struct {
	Version  string          `json:"version"`
	State    string          `json:"state"`
	Policies []policy.Loaded `json:"policies"`
	Installs []installState  `json:"installs"`
	Day      spool.Stats     `json:"last_24h"`
	Sandbox  []sandboxState  `json:"sandboxes,omitempty"`
	Paused   time.Time       `json:"paused_until,omitzero"`   // see "grapnel pause"
	Rootless int             `json:"roots_refused,omitempty"` // events of the last seven days whose session has no stored root
	Daemon   *control.Report `json:"daemon"`
	Warnings []string        `json:"warnings"`

	OnlyManaged string `json:"only_managed,omitempty"` // what the person is told where a managed policy lets no other count
}

type installState struct {
	Agent   string   `json:"agent"`
	Scope   string   `json:"scope"`
	File    string   `json:"file"`
	Events  int      `json:"events"`
	Via     string   `json:"via,omitempty"` // "http" = the agent asks the daemon
	Problem string   `json:"problem,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

func newStatus(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:     "status",
		Short:   "Show what is in force and what went wrong",
		Long:    "Shows the policies in force, yours and those of the project you are in, the agents\nthat are set up, and of the last 24 hours what was decided, which hooks failed open,\nand which are slow.",
		Example: "  grapnel status\n  grapnel status --json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			s, err := status(cmd.Context(), place)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(s)
			}
			c.printStatus(s)
			return nil
		},
	})
}

func status(ctx context.Context, place local.Place) (*statusReport, error) {
	s := &statusReport{Version: hookcmd.Version, State: place.State, Warnings: []string{}, Installs: []installState{}}
	dir, err := cli.WorkDir()
	if err != nil {
		return nil, err
	}
	req := lookingRequest(place, place.Files(nil, place.DirsOf(dir)))
	held := sandboxes(&req)
	look := req.HTTP
	req.HTTP = func(h policy.HTTP) (grapnel.Hook, error) {
		if why := hookcmd.Circuit(place, &h, time.Now()); why != nil {
			s.Warnings = append(s.Warnings, fmt.Sprintf("hook %s is %v", h.Name, why))
		}
		if _, err := look(h); err != nil { // it is in force all the same, and fails
			s.Warnings = append(s.Warnings, fmt.Sprintf("hook %s asks nobody: %v", h.Name, err))
		}
		return grapnel.Watch(nil), nil
	}
	req.Notify = func(h policy.HTTP) (grapnel.Hook, error) {
		if _, err := look(h); err != nil {
			s.Warnings = append(s.Warnings, fmt.Sprintf("hook %s tells nobody: %v", h.Name, err))
		}
		return grapnel.Watch(nil), nil
	}
	set := policy.Load(req)
	s.Policies, s.Sandbox, s.OnlyManaged = set.Files, *held, set.OnlyManaged
	for _, h := range s.Sandbox {
		if h.Problem != "" {
			s.Warnings = append(s.Warnings, fmt.Sprintf("hook %s %s", h.Hook, h.Problem))
		}
	}
	for _, file := range set.Files {
		if file.State == policy.Absent {
			unguarded := ", so nothing but Grapnel itself is guarded"
			if slices.ContainsFunc(set.Specs, func(s grapnel.Spec) bool { return !policy.Own(&s) }) {
				unguarded = ""
			}
			s.Warnings = append(s.Warnings, fmt.Sprintf("there is no policy %s%s: grapnel init writes one", file.File, unguarded))
		} else if file.Notice != "" {
			s.Warnings = append(s.Warnings, file.Notice)
		}
		if trust, err := place.Trusts().Of(file.File); err == nil && trust != nil {
			for _, changed := range trust.Changed() {
				s.Warnings = append(s.Warnings, fmt.Sprintf("hooks of %s do not run: %v: grapnel trust %s", file.File, changed, file.File))
			}
		}
	}
	if pause, ok := policy.ReadPause(place.Pause(), time.Now()); ok {
		s.Paused = pause.Until
		s.Warnings = append(s.Warnings, fmt.Sprintf("%v: only managed hooks decide; \"grapnel pause --off\" ends it", pause))
	}
	var last time.Time
	if s.Rootless, last = place.RootsRefused(time.Now()); s.Rootless > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s without a stored session root, last %s: a project's policy ends where the agent leaves its directory", printable.Count(s.Rootless, "event"), last.Local().Format("2006-01-02 15:04")))
	}
	s.Daemon = control.Status(ctx, place)
	if s.Daemon.State == "dead" {
		s.Warnings = append(s.Warnings, "the daemon has died: grapnel-hook answers by itself until \"grapnel daemon start\"")
	} else if s.Daemon.State != "absent" && s.Daemon.Problem != "" {
		s.Warnings = append(s.Warnings, "daemon: "+s.Daemon.Problem)
	}
	recs, err := installation.List(place.Installs())
	if err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	managed, err := installation.List(filepath.Join(place.Managed, "installs"))
	if err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	recs = append(recs, managed...)
	order := agentNames()
	slices.SortFunc(recs, func(a, b installation.Record) int { // tokens say nothing
		return cmp.Or(cmp.Compare(slices.Index(order, a.Agent), slices.Index(order, b.Agent)), cmp.Compare(b.Scope, a.Scope), cmp.Compare(a.Settings, b.Settings))
	})
	for _, rec := range recs {
		state := installState{Agent: rec.Agent, Scope: rec.Scope, File: rec.Settings, Events: len(rec.Events)}
		state.inspect(&rec)
		state.askOverHTTP(ctx, place, &rec)
		s.Installs = append(s.Installs, state)
		if state.Problem != "" {
			s.Warnings = append(s.Warnings, fmt.Sprintf("%s: %s", rec.Agent, state.Problem))
		}
	}
	if s.Day, err = records.Log(place).Stats(ctx, time.Now().Add(-24*time.Hour)); err != nil {
		s.Warnings = append(s.Warnings, fmt.Sprintf("what happened in the last 24 hours is not all counted: %v", err))
	}
	for _, h := range s.Day.Hooks {
		if h.FailOpen > 0 {
			s.Warnings = append(s.Warnings, fmt.Sprintf("hook %s failed open %d times, last: %s", h.Name, h.FailOpen, h.LastError))
		}
	}
	return s, nil
}

// inspect says whether the agent's settings still hold what was installed.
func (s *installState) inspect(rec *installation.Record) {
	agent, err := install.Lookup(s.Agent)
	if err != nil {
		s.Problem = err.Error()
		return
	}
	found, err := agent.Installed(*rec)
	if err != nil {
		s.Problem = fmt.Sprintf("its settings cannot be read: %v", err)
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
		s.Problem = "its settings do not name grapnel-hook any more: run \"grapnel install\" again"
	case len(missing) > 0:
		s.Problem = fmt.Sprintf("its settings do not name grapnel-hook any more for %s: run \"grapnel install\" again", strings.Join(missing, ", "))
	default:
		if _, err := os.Stat(rec.Program); err != nil {
			s.Problem = fmt.Sprintf("%s is gone: run \"grapnel install\" again", rec.Program)
		}
	}
	s.Notes = found.Notes
}

func (c *console) printStatus(s *statusReport) {
	fmt.Fprintln(c.Out, c.Paint(cli.Bold, "policies"))
	c.PrintPolicies(s.Policies)
	if s.OnlyManaged != "" {
		fmt.Fprintf(c.Out, "  %s\n", printable.Text(strings.TrimPrefix(s.OnlyManaged, "grapnel: ")))
	}
	fmt.Fprintln(c.Out, c.Paint(cli.Bold, "agents"))
	if len(s.Installs) == 0 {
		fmt.Fprintln(c.Out, "  none: run \"grapnel install\"")
	}
	for _, i := range s.Installs {
		via := ""
		if i.Via != "" {
			via = " (over " + i.Via + ")"
		}
		fmt.Fprintf(c.Out, "  %-13s %-7s %2d events  %s%s\n", i.Agent, i.Scope, i.Events, printable.Line(i.File), via)
		for _, note := range i.Notes {
			fmt.Fprintf(c.Out, "    %s\n", c.Paint(cli.Yellow, note))
		}
	}
	if d := s.Daemon; d.PID != 0 { // nobody needs one
		fmt.Fprintln(c.Out, c.Paint(cli.Bold, "daemon"))
		fmt.Fprintf(c.Out, "  %-13s process %d, version %s\n", d.State, d.PID, printable.Line(cmp.Or(d.Version, "unknown")))
	}
	if len(s.Sandbox) > 0 {
		fmt.Fprintln(c.Out, c.Paint(cli.Bold, "programs that are held"))
	}
	for _, h := range s.Sandbox {
		fmt.Fprintf(c.Out, "  %-24s %s\n", printable.Line(h.Hook), printable.Line(h.Sandbox))
	}
	fmt.Fprintln(c.Out, c.Paint(cli.Bold, "last 24 hours"))
	fmt.Fprintf(c.Out, "  %s", printable.Count(s.Day.Firings, "event"))
	for _, d := range []grapnel.Decision{grapnel.Block, grapnel.Ask, grapnel.Allow} {
		if n := s.Day.Decisions[d]; n > 0 {
			fmt.Fprintf(c.Out, ", %d %s", n, c.Decision(d.String()))
		}
	}
	fmt.Fprintf(c.Out, ", %d failed open\n", s.Day.FailOpen)
	for _, h := range s.Day.Hooks[:min(5, len(s.Day.Hooks))] {
		fmt.Fprintf(c.Out, "  %-24s %4d runs  %3d errors  p95 %.1f ms\n", printable.Line(h.Name), h.Runs, h.Errors, h.P95)
	}
	slices.Sort(s.Warnings)
	for _, w := range s.Warnings {
		fmt.Fprintf(c.Out, "%s %s\n", c.Paint(cli.Yellow, "warning:"), printable.Text(w))
	}
}
