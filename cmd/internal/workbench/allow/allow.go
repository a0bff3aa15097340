// Package allow finds calls that hooks stopped, and lets a person allow one of them.
package allow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/explain"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A Call is a stopped call.
type Call struct {
	*spool.Entry

	Text    string            // the masked command, paths or text, and the input: all that a grant covers, unless Partly
	Partly  bool              // a part of the call was cut from the Record
	Masked  bool              // a part of Text is masked or replaced, but none was cut
	Dir     string            // working directory of the agent
	Changed bool              // hooks changed the call before others stopped it
	Hooks   []Hook            // that stopped it
	Request *approval.Request // that waits for an answer; nil = the call was stopped
	Others  []spool.Entry     // other calls that were stopped shortly before, the newest first

	specs  []grapnel.Spec // in force now
	policy string         // their digest
}

// A Hook is a hook that stopped a call.
type Hook struct {
	Name     string // full name
	Decision grapnel.Decision
	Reason   string
	Now      bool   // it did not stop the call then, but would stop it now
	Stays    string // why its answer cannot be allowed, and who can change it; empty = it can
}

const (
	recent   = 24 * time.Hour // how old the newest stopped call may be
	together = approval.Default

	maxOthers = 5
)

// Find returns the stopped call of the Record with an ID, or with an ID that begins so, or the call
// of an open request. "last" is the newest open request, or else the newest stopped call.
func Find(ctx context.Context, place local.Place, id string) (*Call, error) {
	if c, err := pending(place, id); c != nil || err != nil {
		return c, err
	}
	query := index.Query{Filter: spool.Filter{Events: approval.Kinds(), Decisions: []grapnel.Decision{grapnel.Ask, grapnel.Block}}}
	last := id == "last"
	if last {
		query.Since = time.Now().Add(-recent)
	}
	var found []index.Kept
	for k, err := range records.Log(place).Read(ctx, query) {
		switch {
		case err != nil || k.Late:
		case last:
			found = append(found, k)
			found = slices.DeleteFunc(found, func(e index.Kept) bool { return k.Time.Sub(e.Time) > together })
		case strings.HasPrefix(k.ID, id):
			found = append(found, k)
		}
	}
	switch {
	case len(found) == 0 && last:
		return nil, cli.WithHint(errors.New("no call was stopped in the last 24 hours"), `"grapnel log" lists the records`)
	case len(found) == 0:
		return nil, cli.WithHint(fmt.Errorf("no stopped call has the record %s", printable.Line(id)), `"grapnel log --json --decision block" lists the records with their IDs`)
	case len(found) > 1 && !last:
		return nil, cli.Usage(cli.WithHint(fmt.Errorf("%d stopped calls have a record ID that begins with %s", len(found), printable.Line(id)), "pass more characters of the ID"))
	}
	k := &found[len(found)-1]
	if err := k.Event(); err != nil {
		return nil, fmt.Errorf("cannot read the event of the record %s: %w", k.ID, err)
	}
	c := &Call{Entry: &k.Entry}
	for i := range slices.Backward(found[:len(found)-1]) {
		e := &found[i]
		if e.CallDigest != c.CallDigest && len(c.Others) < maxOthers && !slices.ContainsFunc(c.Others, func(o spool.Entry) bool { return o.CallDigest == e.CallDigest }) {
			_ = e.Event() // otherwise it is listed without its text
			c.Others = append(c.Others, e.Entry)
		}
	}
	if err := c.examine(place); err != nil {
		return nil, err
	}
	return c, c.again(ctx, place)
}

// examine finds the hooks that stopped the call, and whether a person can allow their answers.
func (c *Call) examine(place local.Place) error {
	if c.CallDigest == "" {
		return cli.WithHint(fmt.Errorf("the record %s does not identify its call", c.ID), "let the agent try it again, then run this command")
	}
	ev, known := stopped(c.Entry)
	if ev == nil {
		return cli.WithHint(fmt.Errorf("the record %s contains no event, so you cannot see what you would allow", c.ID), "records: in your policy sets how much is recorded")
	}
	c.setText(ev, known, place.Approvals())
	own := *ev
	c.Dir = own.Session.CWD
	set := load.Policies(check.LookRequest(place, place.Files(nil, place.Dirs(&own, false))))
	c.specs, c.policy = set.Specs, set.Digest()
	for i := range c.Entry.Hooks {
		run := &c.Entry.Hooks[i]
		c.Changed = c.Changed || len(run.Changed) > 0 && !run.Observed
		name := fullName(run)
		if run.Observed || run.Async || run.Decision < grapnel.Ask && !run.Halt || slices.ContainsFunc(c.Hooks, func(h Hook) bool { return h.Name == name }) {
			continue
		}
		h := Hook{Name: name, Decision: run.Decision}
		if run.Halt {
			h.Decision = grapnel.Block
		}
		for _, r := range c.Reasons {
			if r.Hook == name {
				_, question, _ := strings.Cut(r.Text, " The question is: ")
				h.Reason = cmp.Or(question, r.Text)
			}
		}
		if c.Request == nil { // each question is for a person
			h.Stays = stays(run, h.Decision, c.specs)
		}
		c.Hooks = append(c.Hooks, h)
	}
	return nil
}

// again adds the hooks that would stop the call if the agent made it again now, for example because
// it was blocked before.
func (c *Call) again(ctx context.Context, place local.Place) error {
	subject, err := explain.RecordedSubject(ctx, records.Log(place), c.ID)
	if err != nil {
		return nil //nolint:nilerr // the hooks that stopped it are known
	}
	x, err := explain.New(ctx, place, subject, &explain.Options{})
	if err != nil {
		return err
	}
	for i := range x.Hooks {
		h := &x.Hooks[i]
		run := &grapnel.HookRun{Name: h.Hook, Source: h.Source}
		if h.Decision < grapnel.Ask || h.Phase != grapnel.PhaseRule || h.Error != "" || !h.Counts() || slices.ContainsFunc(c.Hooks, func(known Hook) bool { return known.Name == fullName(run) }) {
			continue
		}
		c.Hooks = append(c.Hooks, Hook{Name: fullName(run), Decision: h.Decision, Reason: h.Outcome.Reason, Now: true, Stays: stays(run, h.Decision, c.specs)})
	}
	return nil
}

func fullName(run *grapnel.HookRun) string {
	s := grapnel.Spec{Name: run.Name, Source: grapnel.Source{Name: run.Source}}
	return s.FullName()
}

// stays returns why a person cannot allow the answer of a hook, or nothing.
func stays(run *grapnel.HookRun, decision grapnel.Decision, specs []grapnel.Spec) string {
	name := fullName(run)
	i := slices.IndexFunc(specs, func(s grapnel.Spec) bool { return s.FullName() == name })
	switch {
	case decision == grapnel.Block && run.Error != "":
		return "it failed, and its on_error blocks: repair the hook"
	case i < 0:
		return "it is not in force now, or comes from a --policy file on the command line of the agent: change that file"
	}
	s := &specs[i]
	file := s.Source.File
	switch approval.OriginOf(s, decision) {
	case approval.Approvable:
		return ""
	case approval.OfGrapnel:
		return "it protects Grapnel itself: do this yourself, in a terminal"
	case approval.OfManaged:
		return "it is from the managed policy " + file + ": ask your administrator"
	case approval.OfProject:
		return "it is from the project's policy " + file + ": change it together with the project"
	case approval.OfPlugin:
		return "it is from the plugin of " + file + ": change or remove the plugin"
	case approval.OfForeign:
		return "it is from " + file + ": change the hook there"
	case approval.OfSession:
		return "it is from " + file + ", which the agent's command line names: change that file"
	case approval.OfProgram:
	}
	return fmt.Sprintf("a program, a server or a function decided, and not a rule: change what it decides, or run \"grapnel hooks disable %s\"", s.Name)
}

// Allowable returns an error if a person cannot allow the call.
func (c *Call) Allowable() error {
	var staying []string
	for _, h := range c.Hooks {
		if h.Stays != "" {
			staying = append(staying, fmt.Sprintf("%s stays: %s", h.Name, h.Stays))
		}
	}
	switch {
	case c.Partly:
		return c.partly()
	case len(staying) > 0:
		return fmt.Errorf("cannot allow this call: %s", strings.Join(staying, "; "))
	case len(c.Hooks) == 0:
		return cli.WithHint(errors.New("cannot allow this call: no decision of a hook stopped it"), "\"grapnel explain "+c.ID+"\" shows why it was stopped")
	}
	return nil
}

// Terms are the choices of a person.
type Terms struct {
	For     time.Duration // how long any number of uses is valid; 0 = a single use
	Session bool          // any number of uses in the session of the call
	Reason  string
}

// Grant returns the grant of a call, which is not stored yet.
func (c *Call) Grant(place local.Place, t Terms) (*approval.Grant, error) {
	g := &approval.Grant{
		By: place.Identity().User, Reason: t.Reason, Uses: 1, Digest: c.CallDigest, Record: c.ID, Call: recordview.About(c.Entry, 200),
		Scope: approval.Scope{Agent: c.Agent, Event: c.Event, Tool: c.Tool, Dir: c.Dir},
	}
	for _, h := range c.Hooks {
		g.Hooks = append(g.Hooks, h.Name)
	}
	if c.PolicyDigest == c.policy { // otherwise the policies have changed since, or --policy named others
		g.Policy = c.policy
	}
	length := approval.Default
	switch {
	case t.Session && c.Session == "":
		return nil, cli.WithHint(errors.New("the agent did not name its session"), "use --for 1h instead of --session")
	case t.Session:
		length, g.Uses, g.Scope.Session = cmp.Or(t.For, approval.Max), 0, c.Session
	case t.For != 0:
		length, g.Uses = t.For, 0
	default:
		g.Scope.Session = c.Session
	}
	if err := g.New(time.Now(), length); err != nil {
		return nil, err
	}
	return g, nil
}

// Allow records a grant of the call and then stores it. If the Record cannot be written, the call
// stays stopped.
func (c *Call) Allow(place local.Place, g *approval.Grant) (err error) {
	if g.Logged, err = records.Put(place, granted, Record(g)); err != nil {
		return fmt.Errorf("cannot allow the call without a record: %w", err)
	}
	if err := place.Approvals().Add(g); err != nil {
		return fmt.Errorf("cannot allow the call: %w", err)
	}
	return nil
}

// Select returns the active grant with an ID, or with an ID that begins so.
func Select(place local.Place, id string) (*approval.Grant, error) {
	grants, err := place.Approvals().List(time.Now())
	if err != nil {
		return nil, err
	}
	grants = slices.DeleteFunc(grants, func(g approval.Grant) bool { return id == "" || !strings.HasPrefix(g.ID, id) })
	switch len(grants) {
	case 0:
		return nil, cli.WithHint(fmt.Errorf("no open grant %s", printable.Line(id)), `"grapnel allow --list" lists them`)
	case 1:
		return &grants[0], nil
	}
	return nil, cli.Usage(cli.WithHint(fmt.Errorf("%d grants have an ID that begins with %s", len(grants), printable.Line(id)), "pass more characters of the ID"))
}
