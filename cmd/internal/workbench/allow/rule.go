package allow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// ruled is the end of the kind of the Records that log a Rule.
const ruled = "Rule"

// A Rule is a change of the user's policy: its hooks, and hooks of its packs, do not stop one command
// line any more, in any directory. Tests prove that.
type Rule struct {
	Record  string   `json:"record"` // ID of the Record of the call
	Command string   `json:"command"`
	Hooks   []string `json:"hooks"`  // names of the hooks that get the exception
	Tests   []string `json:"tests"`  // names of the new tests
	Files   []Edit   `json:"files"`  // the tests, if there are new ones, and the policy
	Digest  string   `json:"digest"` // of all that a person saw

	place   local.Place
	full    []string // full names of Hooks
	call    string   // digest of the call
	event   *grapnel.Event
	policy  []byte // content before the change
	changed []byte
	hunks   string // of the policy
}

// An Edit is a change of a file.
type Edit struct {
	File string `json:"file"`
	Diff string `json:"diff"` // unified, with any characters of users and agents

	change install.Change
}

// Propose returns the Rule for a stopped call, and writes nothing. It returns an error if a change of
// the user's policy cannot let the call pass, or if the Record does not have exactly the command.
func Propose(ctx context.Context, place local.Place, e *spool.Entry) (*Rule, error) {
	r := &Rule{Record: e.ID, call: e.CallDigest, place: place}
	err := r.read(e)
	if err == nil {
		err = r.except(ctx)
	}
	if err == nil {
		err = r.prove(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make a rule from this call: %w", err)
	}
	seen := []any{r.Record, r.call, r.Command}
	for _, f := range r.Files {
		seen = append(seen, f.File, f.change.Before, f.change.After)
	}
	data, err := rawjson.Marshal(seen)
	r.Digest = files.Digest(data)
	return r, err
}

// read reads the command line, and which hooks stopped it.
func (r *Rule) read(e *spool.Entry) error {
	c := &Call{Entry: e}
	if err := c.examine(r.place); err != nil {
		return err
	}
	r.event, _ = stopped(e)
	t, members := r.event.Tool, map[string]json.RawMessage{}
	switch {
	case t == nil || t.Class != grapnel.ClassShell || len(t.Commands) != 1 || strings.TrimSpace(t.Commands[0]) == "":
		return cli.WithHint(errors.New("it is not one shell command"), "change the match of the hook yourself")
	case c.Partly:
		return c.partly()
	case c.Masked:
		return cli.WithHint(errors.New("a part of the command is masked, and an exception needs the exact command"), "let the command read its secrets from files or variables")
	}
	_ = json.Unmarshal(t.Input, &members) // another input has no environment
	for name, value := range members {
		if value[0] == '{' {
			return cli.WithHint(fmt.Errorf("the exception would be for any %s", name), "approve the call once, or for this session")
		}
	}
	r.Command = t.Commands[0]
	for i := range e.Hooks {
		run := &e.Hooks[i]
		switch why := stays(run, grapnel.Block, c.specs); {
		case run.Observed || run.Async || run.Decision < grapnel.Ask && !run.Halt:
		case run.Halt:
			return cli.WithHint(fmt.Errorf("%s ended the agent's turn", fullName(run)), "change this hook first")
		case run.Source != r.place.Policy && why != "": // except finds the problems of an own hook
			return fmt.Errorf("%s stopped it: %s", fullName(run), why)
		case !slices.Contains(r.full, fullName(run)):
			r.Hooks, r.full = append(r.Hooks, run.Name), append(r.full, fullName(run))
		}
	}
	if len(r.Hooks) == 0 {
		return errors.New("no hook stopped it")
	}
	return nil
}

// except adds the exceptions to the policy.
func (r *Rule) except(ctx context.Context) (err error) {
	file := r.place.Policy
	if r.policy, err = current(file); err != nil {
		return err
	}
	if info, err := os.Stat(file); err != nil {
		return err
	} else if info.Mode().Perm()&0o200 == 0 {
		return cli.WithHint(fmt.Errorf("%s is read-only", file), "make it writable, or change the original of which it is a copy")
	}
	r.changed = r.policy
	for _, name := range r.full {
		source, hook, _ := strings.Cut(name, "::")
		var hunk string
		if pack, ok := strings.CutPrefix(source, file+"#"); ok {
			err = r.permit(ctx, name, pack, hook, &hunk)
		} else {
			err = r.exceptOwn(hook, &hunk)
		}
		if err != nil {
			return err
		}
		r.hunks += hunk
	}
	return nil
}

// exceptOwn adds the exception to a hook of the policy.
func (r *Rule) exceptOwn(name string, hunk *string) error {
	file := r.place.Policy
	p, errs := policy.Parse(file, r.changed)
	if len(errs) > 0 {
		return cli.WithHint(errs[0], "grapnel check")
	}
	i := slices.IndexFunc(p.Hooks, func(h policyfile.Hook) bool { return h.Name == name })
	if i < 0 {
		return fmt.Errorf("%s has no hook %s now", file, name)
	}
	changed, diff, err := replay.Except(file, r.changed, &p.Hooks[i], r.Command)
	if err != nil {
		return cli.WithHint(fmt.Errorf("%s:%d: hook %s: %w", file, p.Hooks[i].Line, name, err), "change this hook yourself")
	}
	r.changed, *hunk = changed, diff
	return nil
}

// permit adds the exception for a hook of a pack: the commands of the line that it stops.
func (r *Rule) permit(ctx context.Context, full, pack, name string, hunk *string) error {
	cannot := func(err error) error {
		return cli.WithHint(fmt.Errorf("hook %s of the pack %s: %w", name, pack, err), "write the exception yourself: use: [{pack: "+pack+", allow: {"+name+": {command: ...}}}]")
	}
	var failed error
	patterns, ok := replay.CommandPatterns(r.Command, func(line string) bool {
		_, by, err := r.try(ctx, r.policy, line)
		failed = cmp.Or(failed, err)
		return slices.Contains(by, full)
	})
	switch {
	case failed != nil:
		return failed
	case !ok:
		return cannot(errors.New("no pattern describes exactly this command"))
	}
	changed, diff, err := replay.Permit(r.place.Policy, r.changed, pack, name, patterns)
	if err != nil {
		return cannot(err)
	}
	r.changed, *hunk = changed, diff
	return nil
}

// loads returns a function that loads a content of the policy. Observers, which write files, are off.
func (r *Rule) loads(content []byte) func(load.Request) load.Set {
	return func(req load.Request) load.Set {
		req.Home, req.Content = r.place.Home, map[string][]byte{r.place.Policy: content}
		set := load.Policies(req)
		for i := range set.Specs {
			if set.Specs[i].Phase == grapnel.PhaseObserve {
				set.Specs[i].Hook = noop.Hook{}
			}
		}
		return set
	}
}

// try returns the Record of the call with another command line under a content of the policy, and the
// full names of the hooks that stop it. No program runs.
func (r *Rule) try(ctx context.Context, content []byte, line string) (e *spool.Entry, by []string, err error) {
	loaded, errs := policytest.Load(r.place.Policy, policytest.Loading{Load: r.loads(content), Answer: func(dryrun.Call) grapnel.Hook { return noop.Hook{} }})
	if len(errs) > 0 {
		return nil, nil, errs[0]
	}
	value, _ := rawjson.Marshal(line) // marshaling a text cannot fail
	ev := *r.event
	if other, err := ev.Set(grapnel.FieldCommand, value); line != r.Command && err == nil {
		ev = *other
	}
	ev.Native = nil
	if d, ok := dialect.FindAgent(ev.Agent.Name); ok && d.WriteEvent != nil {
		ev.Native, _ = d.WriteEvent(&ev) // otherwise the test is for the plain dialect
	}
	e = &spool.Entry{}
	keep := grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { e.Record = *rec })
	engine, err := grapnel.New(loaded.Specs, &grapnel.Options{Observers: []grapnel.Observer{keep}})
	if err != nil {
		return nil, nil, err
	}
	engine.Fire(ctx, &ev)
	for i := range e.Hooks {
		if run := &e.Hooks[i]; !run.Observed && !run.Async && (run.Decision >= grapnel.Ask || run.Halt) {
			by = append(by, fullName(run))
		}
	}
	return e, by, context.Cause(ctx)
}

// prove makes the tests. It returns an error if one of them fails, or an existing test of the command.
func (r *Rule) prove(ctx context.Context) error {
	_, by, err := r.try(ctx, r.policy, r.Command)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.full, func(name string) bool { return !slices.Contains(by, name) }) {
		return cli.WithHint(errors.New("not all hooks stop it now: the policy has changed, or they need earlier events of the session"), "change the hooks yourself")
	}
	passes, by, err := r.try(ctx, r.changed, r.Command)
	if err == nil && len(by) > 0 {
		err = fmt.Errorf("%s would still stop it", strings.Join(by, ", "))
	}
	if err != nil {
		return err
	}
	trials := []*spool.Entry{passes}
	for _, more := range []string{" --another-option", " /another/operand"} { // the exception of a pack permits options
		if longer, by, err := r.try(ctx, r.changed, r.Command+more); err == nil && longer.Decision >= grapnel.Ask && len(by) > 0 && !strings.Contains(r.Command, "\n") {
			trials = append(trials, longer)
			break
		}
	}
	file := strings.TrimSuffix(r.place.Policy, filepath.Ext(r.place.Policy)) + policytest.Suffix
	before, err := current(file)
	if err != nil {
		return err
	}
	after, err := r.record(ctx, file, before, trials)
	if err != nil {
		return err
	}
	for _, c := range []install.Change{{File: file, Before: before, After: after}, {File: r.place.Policy, Before: r.policy, After: r.changed}} {
		if c.Changed() {
			r.Files = append(r.Files, Edit{c.File, install.Unified(c.File, c.Before, c.After), c})
		}
	}
	f, errs := policytest.Parse(file, after)
	if len(errs) > 0 {
		return errs[0]
	}
	tests := slices.DeleteFunc(f.Tests, func(t *policytest.Test) bool {
		return !slices.Contains(r.Tests, t.Name) && !t.Event.Runs(r.Command)
	})
	results, err := policytest.Run(ctx, tests, &policytest.Options{Load: r.loads(r.changed)})
	for i := range results {
		if res := &results[i]; res.Status == policytest.Failed || res.Status == policytest.Broken {
			return cli.WithHint(fmt.Errorf("%s:%d: the test %q would fail", file, res.Test.Line, res.Test.Name), "change or remove this test first")
		}
	}
	return errors.Join(err, context.Cause(ctx))
}

// record returns the content of the test file with new tests for Records.
func (r *Rule) record(ctx context.Context, file string, text []byte, trials []*spool.Entry) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = nil
	} else if f, errs := policytest.Parse(file, text); len(errs) == 0 && f.Policy != r.place.Policy {
		return nil, cli.WithHint(fmt.Errorf("%s does not test %s", file, r.place.Policy), "rename this file")
	}
	tests, err := policytest.NewRecorder(file, text, policytest.RecorderOptions{Policy: r.place.Policy, Scope: grapnel.ScopeUser, Private: true, Load: r.loads(r.changed)})
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("cannot add tests to %s: %w", file, err), "grapnel test "+file)
	}
	defer func() { _ = tests.Close() }()
	for _, e := range trials {
		made := tests.Add(ctx, e, nil)
		switch {
		case made.Skipped || made.Want == "":
			return nil, fmt.Errorf("no test can prove it: %s", made.Why)
		case made.Test != "": // otherwise it exists already
			r.Tests = append(r.Tests, made.Test)
		}
	}
	return tests.Text()
}

// current returns the content of a file, or nil if it does not exist.
func current(file string) ([]byte, error) {
	data, err := files.Read(file, yaml.MaxSize+1)
	if errors.Is(err, fs.ErrNotExist) && !files.Exists(file) {
		return nil, nil
	}
	return append([]byte{}, data...), err
}

// Write logs the Rule with the name of the person, and writes its files if they are as they were. If
// it cannot write the policy, it restores the tests.
func (r *Rule) Write(place local.Place) error {
	for _, f := range r.Files {
		now, err := current(f.File)
		if err != nil {
			return err
		}
		if (now == nil) != (f.change.Before == nil) || !bytes.Equal(now, f.change.Before) {
			return cli.WithHint(fmt.Errorf("%s has changed since you saw the rule: nothing was written", f.File), "look at the rule again")
		}
	}
	user := place.Identity().User
	text := fmt.Sprintf("%s makes a rule from the call %s: its hooks do not stop it\n%s", cmp.Or(user, "a person"), r.Record, r.hunks)
	if _, err := records.Put(place, ruled, grapnel.Record{CallDigest: r.call, User: user, Reasons: []grapnel.Reason{{Hook: "grapnel", Text: text, Cause: grapnel.CauseDecision}}}); err != nil {
		return err
	}
	for i, f := range r.Files {
		if _, err := install.Apply(&f.change, "", time.Time{}); err != nil {
			for _, done := range r.Files[:i] {
				back := install.Change{File: done.File, Before: done.change.After, After: done.change.Before}
				_, failed := install.Apply(&back, "", time.Time{})
				err = errors.Join(err, failed)
			}
			return err
		}
	}
	return nil
}

// Settle waits until hooks use the written policy: for a moment they take a changed file for half
// saved. The next call of the agent would otherwise meet the old rule.
func (r *Rule) Settle(place local.Place) {
	const moment = 20 * time.Millisecond
	for range 100 {
		req := place.Request(place.Files(nil, nil), policy.Runners{})
		req.Settled = true
		if slices.ContainsFunc(load.Policies(req).Files, func(f load.Loaded) bool { return f.Digest == files.Digest(r.changed) }) {
			return
		}
		time.Sleep(moment)
	}
}
