package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// Options configure [Check].
type Options struct {
	Hook     string            // absolute path of grapnel-hook
	Progress func(what string) // called before each run; nil = no progress
}

// A Report lists which parts of a verdict an installed agent honors.
type Report struct {
	Agent    string    `json:"agent"`
	Version  string    `json:"version"`
	System   string    `json:"system"`
	Time     time.Time `json:"time"`
	Rows     []Row     `json:"rows"`
	Problems []string  `json:"problems,omitempty"` // why a run could not be judged
}

// A Row is the result of one test.
type Row struct {
	Event string       `json:"event"` // the agent's own name
	Kind  grapnel.Kind `json:"kind"`
	What  string       `json:"what"`            // "fires", a word of a verdict, or the behavior of a failing guard
	Claim string       `json:"claim,omitempty"` // the promise in the tables
	Seen  string       `json:"seen"`            // the observed result
	OK    bool         `json:"ok"`
}

// OK reports whether all results match the promises of the tables.
func (r *Report) OK() bool {
	return len(r.Problems) == 0 && !slices.ContainsFunc(r.Rows, func(row Row) bool { return !row.OK })
}

// canary is one run of the agent under a policy. Its result does not depend on Grapnel's own
// reports: it checks which files exist and which texts reached the model.
type canary struct {
	name     string
	policy   string // hooks of the policy, without "version" and "hooks:"
	also     []use  // words to test at events that are not installed by default
	cautious bool   // with the agent's own prompts
	needs    func(c *check) bool
	steps    func(w *World) []model.Step
	judge    func(c *check, res Result)
}

// use is a word of a verdict at a kind of event, or the agent's name of such an event.
type use struct {
	kind grapnel.Kind
	word string
}

// check is a running Check.
type check struct {
	dialect *dialect.Dialect
	program Program
	report  *Report
	fired   map[use]bool    // native events that arrived, with their kind
	added   map[string]bool // native events that are installed in addition to the default set
	askEnds bool            // the agent ends a run when it would ask a user
	world   *World
}

// Check installs Grapnel into private worlds of the agent, one for each canary. A scripted model
// works there under a policy that blocks, rewrites, adds context, fails and hangs. Check reports
// how the agent handled each word of a verdict at each event. It does not touch the user's own
// settings and sessions. It takes as long as five to seven runs of the agent.
//
// It returns an error if the agent could not be run at all.
func Check(ctx context.Context, p Program, opts Options) (*Report, error) {
	d, ok := dialect.FindAgent(p.Agent.ID)
	if !ok {
		return nil, fmt.Errorf("no dialect for %s", p.Agent.ID)
	}
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	c := &check{dialect: d, program: p, fired: map[use]bool{}, added: map[string]bool{}, report: &Report{
		Agent: d.Name, Version: p.Version, System: runtime.GOOS + "/" + runtime.GOARCH, Time: time.Now().UTC().Truncate(time.Second), Rows: []Row{},
	}}
	if c.report.Version == "" {
		version, err := p.AskVersion(ctx)
		if err != nil {
			return nil, err
		}
		c.report.Version = version
	}
	for _, can := range canaries {
		if can.needs != nil && !can.needs(c) {
			continue
		}
		opts.Progress(can.name)
		if err := c.run(ctx, &can, opts.Hook); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			c.report.Problems = append(c.report.Problems, fmt.Sprintf("%s: %v", can.name, err))
		}
	}
	c.events()
	return c.report, nil
}

// run creates a world, installs Grapnel, and plays one canary.
func (c *check) run(ctx context.Context, can *canary, hook string) (err error) {
	w, err := NewWorld(c.program, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Remove()) }()
	c.world, w.Cautious = w, can.cautious
	root := filepath.Join(w.Root, "grapnel")
	policy := "version: 1\nhooks:\n" + strings.ReplaceAll(can.policy, "$ROOT", w.Root)
	if err := write(filepath.Join(root, "grapnel.yaml"), policy); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(root, "grapnel.yaml"), 0o600); err != nil {
		return err
	}
	extra := c.extra(can)
	if _, err := install.Install(ctx, install.Request{
		Agents: []string{c.dialect.Name}, Root: root, Program: hook, Home: w.Home, ProjectDir: w.Project, Env: w.getenv,
		Versions: map[string]string{c.dialect.Name: c.report.Version}, Events: map[string][]string{c.dialect.Name: extra},
	}); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	res, runErr := w.Run(ctx, "Do as planned, CANARY-SECRET.", can.steps(w)...)
	fired, err := c.listen(root)
	switch {
	case runErr != nil:
		return runErr
	case err != nil:
		return err
	case fired == 0:
		return fmt.Errorf("the agent ran, but no event arrived: it does not run its hooks (exit %d)\n%s", res.Exit, w.Report())
	}
	can.judge(c, res)
	return nil
}

// extra lists the events that are installed in addition to the default set: those without a reason
// against them, and those that a canary tests.
func (c *check) extra(can *canary) []string {
	var names []string
	for i := range c.dialect.Events {
		row := &c.dialect.Events[i]
		tried := slices.ContainsFunc(can.also, func(u use) bool { return u.kind == row.Kind && Claim(c.dialect, row, u.word) == Native })
		if !row.Install && !row.Never && (row.Why == "" || tried) {
			names = append(names, row.Native)
			c.added[row.Native] = true
		}
	}
	return names
}

// getenv returns the value of a variable of the world, or "".
func (w *World) getenv(name string) string {
	value := ""
	for _, pair := range w.Env() {
		if n, v, _ := strings.Cut(pair, "="); n == name {
			value = v
		}
	}
	return value
}

// listen reads the Records of the run and stores which events arrived. fired is their number.
func (c *check) listen(root string) (fired int, err error) {
	for entry, err := range spool.Read(filepath.Join(root, "state"), spool.Filter{}) {
		if err != nil {
			return fired, err
		}
		fired++
		if native := c.native(entry.Input, entry.Event); native != "" {
			c.fired[use{entry.Event, native}] = true
		}
	}
	return fired, nil
}

// native returns the agent's name of a recorded event, or "".
func (c *check) native(ev *grapnel.Event, kind grapnel.Kind) string {
	if ev != nil {
		if row := dialect.Receive(c.dialect, dialect.Input{Payload: ev.Native}).Row(); row != nil {
			return row.Native
		}
	}
	if row := c.row(kind); row != nil {
		return row.Native
	}
	return ""
}

// row returns the first installed event of a kind, or nil if none is installed.
func (c *check) row(kind grapnel.Kind) *dialect.EventRow {
	for i := range c.dialect.Events {
		row := &c.dialect.Events[i]
		if (row.Kind == kind || row.Failed == kind) && (row.Install || c.added[row.Native]) {
			return row
		}
	}
	return nil
}

// events adds a row for each installed event that shows whether it arrived in any run.
func (c *check) events() {
	var rows []Row
	for _, row := range c.dialect.Events {
		r := Row{Event: row.Native, Kind: row.Kind, What: "fires", Seen: "not in these runs", OK: true}
		if c.fired[use{row.Kind, row.Native}] || c.fired[use{row.Failed, row.Native}] {
			r.Seen = "yes"
		} else if !row.Install {
			continue
		}
		rows = append(rows, r)
	}
	c.report.Rows = append(rows, c.report.Rows...)
}

// claim returns the promise of the tables for a word at a kind of event. It returns "" if the agent
// has no such event, or if the word does not apply to the event.
func (c *check) claim(kind grapnel.Kind, word string) string {
	row := c.row(kind)
	if row == nil {
		return ""
	}
	return Claim(c.dialect, row, word)
}

// note adds a row with the observed result. It adds nothing if the word does not apply to the
// event, or if the event did not fire, which has a separate row. An event before a tool call must
// fire, so it always gets a row.
func (c *check) note(kind grapnel.Kind, word, seen string) {
	claim := c.claim(kind, word)
	if claim == "" {
		return
	}
	if c.fired[use{kind, c.row(kind).Native}] || kind == grapnel.ToolBefore {
		c.report.Rows = append(c.report.Rows, Row{Event: c.row(kind).Native, Kind: kind, What: word, Claim: claim, Seen: seen, OK: seen == claim})
	}
}

// promise adds a row about a call that must happen, or must not happen, in every agent.
func (c *check) promise(kind grapnel.Kind, what string, happened, want bool) {
	seen := "the call did not happen"
	if happened {
		seen = "the call happened"
	}
	if row := c.row(kind); row != nil {
		c.report.Rows = append(c.report.Rows, Row{Event: row.Native, Kind: kind, What: what, Seen: seen, OK: happened == want})
	}
}
