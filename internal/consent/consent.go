// Package consent asks a person about a call that hooks stop with a question, and waits for the
// answer in the files of package approval. No daemon takes part: if one dies, nothing changes.
package consent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// terminalWait is how long a person in the browser has before the agent asks the person at its
// terminal.
const terminalWait = 20 * time.Second

// Margin is how long before the agent's own timeout the reply is written. Several agents run the
// call if their hook is late.
const Margin = 3 * time.Second

// unknownTimeout is the timeout of an agent that "grapnel install" did not set up: the shortest one
// that it uses.
const unknownTimeout = 60 * time.Second

// Patience returns how long a person may take to answer while an agent waits for the reply to an
// event: the timeout in its settings, or its own shorter one, less the Margin. The zero Record is
// an unknown installation; row may be nil.
func Patience(rec installation.Record, row *dialect.EventRow, native string) time.Duration {
	limit := cmp.Or(rec.Timeout(native), unknownTimeout)
	if row != nil && row.Wait > 0 {
		limit = min(limit, row.Wait)
	}
	return limit - Margin
}

// An Asker asks a person about the call of one event. Set, Spool and Place are required.
type Asker struct {
	Place    local.Place
	Spool    *spool.Spool   // gets the Records of requests
	Set      *load.Set      // the policies in force
	Policies string         // their digest
	Current  func() string  // digest of the policies in force now; nil = Policies
	Agent    string         // name of the agent, if the event names none
	Until    time.Time      // when the agent must have a reply; zero = it waits for any time
	Sent     *grapnel.Event // before changes by hooks; nil = unknown
	Terminal bool           // a person at the agent's terminal sees the agent's own question

	Waiting func(until time.Time)                                                    // called before each wait; may be nil
	Notify  func(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error // runs observing hooks now
	Lost    func(error)                                                              // gets the error of a Record that was not stored
}

// terms are the `approve:` keys of all hooks that ask.
type terms struct {
	within time.Duration // the shortest one
	agent  bool          // without an answer the agent asks: all hooks say so
	notify []grapnel.Spec
}

func (k *Asker) terms(hooks []grapnel.HookRun) terms {
	t := terms{within: approval.Max, agent: true}
	found := false
	for i := range k.Set.Specs {
		h := &k.Set.Specs[i]
		a := approval.Terms(h)
		if a == nil || !slices.ContainsFunc(hooks, func(run grapnel.HookRun) bool { return run.Name == h.Name && run.Source == h.Source.Name }) {
			continue
		}
		found = true
		t.within = min(t.within, time.Duration(a.Within))
		t.agent = t.agent && a.Else == "ask"
		for _, s := range k.Set.Specs {
			if s.Source.Name == h.Source.Name && slices.Contains(a.Notify, s.Name) {
				t.notify = append(t.notify, s)
			}
		}
	}
	if !found { // a question of the agent itself
		t.within, t.agent = approval.Default, false
	}
	return t
}

// Ask implements grapnel.Approval.Ask.
func (k *Asker) Ask(ctx context.Context, ev *grapnel.Event, hooks []grapnel.HookRun) (string, grapnel.Outcome) {
	id, out, err := k.answer(ctx, ev, hooks)
	if err != nil {
		return "", grapnel.Outcome{Decision: grapnel.Block, Reason: "a person must approve this call, but no person could be asked: " + err.Error()}
	}
	return id, out
}

func (k *Asker) answer(ctx context.Context, ev *grapnel.Event, hooks []grapnel.HookRun) (string, grapnel.Outcome, error) {
	store, t := k.Place.Approvals(), k.terms(hooks)
	r, err := k.request(store, ev, hooks, t)
	if err != nil {
		return "", grapnel.Outcome{}, err
	}
	if e := store.Earlier(r, r.Since); e != nil {
		if e.Answer != nil {
			return k.result(store, e, e.Answer, ev, t)
		}
		e.Waits, e.PID, e.Record, e.Line, r = r.Waits, r.PID, r.Record, r.Line, e // the agent retries the call
		if e.Waits.After(e.Until) {
			e.Waits = e.Until
		}
	} else {
		k.note("Ask", r, fmt.Sprintf("request %s asks a person about %s: %s in %s, until %s", r.ID, r.Record, strings.TrimSpace(r.Scope.Agent+" "+r.Scope.Tool), r.Scope.Dir, r.Until.Local().Format("Mon 15:04:05")))
		k.notify(ctx, ev, r, t)
	}
	if err := store.Ask(r); err != nil {
		return "", grapnel.Outcome{}, err
	}
	if k.Waiting != nil {
		k.Waiting(r.Waits)
	}
	a := store.Await(ctx, r)
	if a == nil {
		if ctx.Err() != nil { // the agent ended the wait: it can retry the call at once
			r.Waits = time.Now()
			return "", grapnel.Outcome{}, errors.Join(context.Cause(ctx), store.Ask(r))
		}
		if a, err = k.unanswered(store, r, ev, t); err != nil || a == nil {
			return "", pending(r), err
		}
	}
	return k.result(store, r, a, ev, t)
}

// unanswered ends a Request, unless the agent can retry the call.
func (k *Asker) unanswered(store approval.Store, r *approval.Request, ev *grapnel.Event, t terms) (*approval.Answer, error) {
	now := time.Now()
	a := &approval.Answer{State: approval.Expired, Time: now.UTC()}
	can := ev.Can() == nil || ev.Can().Ask
	switch over := !now.Before(r.Until); {
	case can && (k.Terminal || over && t.agent):
		a.State = approval.Handed
	case !over:
		return nil, nil
	}
	a, first, err := store.Answer(r.ID, a)
	if first {
		k.note("Expire", r, fmt.Sprintf("request %s: %v", r.ID, a))
	}
	return a, err
}

// result returns the ID of the Grant that was used, or the outcome for the agent.
func (k *Asker) result(store approval.Store, r *approval.Request, a *approval.Answer, ev *grapnel.Event, t terms) (string, grapnel.Outcome, error) {
	block := func(text string) grapnel.Outcome { return grapnel.Outcome{Decision: grapnel.Block, Reason: text} }
	by := cmp.Or(a.By, "a person")
	switch a.State {
	case approval.Approved:
		if k.Current != nil && k.Current() != k.Policies {
			return "", block(fmt.Sprintf("%s approved this call, but the policies have changed since the question. Retry exactly the same call, so that the new policies judge it.", by)), nil
		}
		if store.Spend(r, a, ev.ID, time.Now()) {
			_, _, _ = store.Answer(r.ID, a) // a grant can come without an answer; if this fails, the request ends with its time
			return a.Grant.ID, grapnel.Outcome{}, nil
		}
		return "", block(fmt.Sprintf("%s approved this call, but the approval is no longer valid: it was revoked or used. Retry exactly the same call to ask again.", by)), nil
	case approval.Denied:
		text := fmt.Sprintf("%s denied this call", by)
		if a.Reason != "" {
			text += ": " + a.Reason
		}
		return "", block(strings.TrimRight(text, ".") + ". Do not try to do the same in another way."), nil
	case approval.Expired:
		if !t.agent {
			return "", block(fmt.Sprintf("no person answered within %v, so this call is blocked. Silence is not consent: ask the user, who can still allow it with \"grapnel allow\" in another terminal.", r.Until.Sub(r.Since).Round(time.Second))), nil
		}
	case approval.Handed:
	}
	return "", grapnel.Outcome{}, nil
}

// pending is the reply if the agent cannot wait for the person, who can still answer.
func pending(r *approval.Request) grapnel.Outcome {
	return grapnel.Outcome{Decision: grapnel.Block, Reason: fmt.Sprintf("a person must approve this call, and has not answered yet (request %s). "+
		"Continue with other work or end your turn, and retry exactly the same call later; a person can answer until %s.", r.ID, r.Until.Local().Format("15:04:05"))}
}

// request builds the Request for an event.
func (k *Asker) request(store approval.Store, ev *grapnel.Event, hooks []grapnel.HookRun, t terms) (*approval.Request, error) {
	now := time.Now()
	r := &approval.Request{
		ID: approval.NewID(), PID: os.Getpid(), Since: now.UTC(), Until: now.UTC().Add(t.within), Digest: store.Digest(ev), Policy: k.Policies, Record: ev.ID,
		Scope: approval.Scope{Agent: cmp.Or(ev.Agent.Name, k.Agent), Event: ev.Kind, Tool: ev.ToolName(), Dir: ev.Session.CWD, Session: ev.Session.ID},
	}
	if r.Digest == "" {
		return nil, fmt.Errorf("the calls that a person can approve cannot be stored in %s", store)
	}
	r.Changed = k.Sent != nil && store.Digest(k.Sent) != r.Digest
	r.Waits = r.Until
	if !k.Until.IsZero() {
		r.Waits = earlier(r.Waits, k.Until.UTC())
	}
	if can := ev.Can(); k.Terminal && (can == nil || can.Ask) {
		r.Waits = earlier(r.Waits, r.Since.Add(terminalWait))
	}
	rec := grapnel.Record{ID: ev.ID, Time: r.Since, Agent: r.Scope.Agent, Session: ev.Session.ID, Event: ev.Kind, Tool: ev.ToolName(), Decision: grapnel.Ask, CallDigest: r.Digest, PolicyDigest: r.Policy}
	for _, run := range hooks {
		name := (&grapnel.Spec{Name: run.Name, Source: grapnel.Source{Name: run.Source}}).FullName()
		r.Hooks = append(r.Hooks, name)
		rec.Hooks = append(rec.Hooks, run)
		if run.Outcome != nil && run.Outcome.Reason != "" {
			rec.Reasons = append(rec.Reasons, grapnel.Reason{Hook: name, Text: run.Outcome.Reason, Cause: grapnel.CauseDecision})
			r.Question = strings.TrimSpace(r.Question + "\n" + run.Outcome.Reason)
		}
	}
	final := *ev
	final.Native = nil // it has the input before the changes
	rec.Input = &final
	line, err := k.masked(&rec)
	r.Line = line
	return r, err
}

// maxShown is the maximum size in bytes of a masked event that a person sees.
const maxShown = 1 << 20

// masked returns a Record with all of its event, with the masks of the policies in force.
func (k *Asker) masked(rec *grapnel.Record) (json.RawMessage, error) {
	sp, err := spool.Open(k.Place.State, &spool.Options{MaxInput: maxShown})
	if err != nil {
		return nil, err
	}
	defer func() { _ = sp.Close() }()
	late.KeepRecords(sp, k.Set)
	sp.Keep(spool.Masked, k.Set.Records.Edit(), false)
	return sp.Line(rec)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// note stores a Record about the Request. If that fails, the Record of the event reports it.
func (k *Asker) note(what grapnel.Kind, r *approval.Request, text string) {
	_, err := k.Spool.Note(grapnel.NativePrefix+"grapnel."+what, grapnel.Record{
		Approval: r.ID, CallDigest: r.Digest, Reasons: []grapnel.Reason{{Hook: "grapnel", Text: text, Cause: grapnel.CauseDecision}},
	})
	if err != nil {
		k.Lost(err)
	}
}

// notify informs the targets of `approve:` that a person is asked. A notification is not a way to
// answer.
func (k *Asker) notify(ctx context.Context, ev *grapnel.Event, r *approval.Request, t terms) {
	if len(t.notify) == 0 {
		return
	}
	told := &grapnel.Event{
		ID: r.ID, Kind: grapnel.NotificationSent, Time: r.Since, Agent: ev.Agent, Session: ev.Session,
		Notification: &grapnel.Notification{
			Type: "approval", Title: "An agent waits for your approval",
			Message: fmt.Sprintf("%s in %s until %s: %s", strings.TrimSpace(r.Scope.Agent+" "+r.Scope.Tool), r.Scope.Dir, r.Until.Local().Format("15:04:05"), cmp.Or(r.Question, "no question")),
		},
	}
	if err := k.Notify(ctx, told, t.notify); err != nil {
		k.Lost(fmt.Errorf("a person was not notified: %w", err))
	}
}
