package grapnel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

type rawValue = json.RawMessage

// fieldOrder puts whole fields before the views of them.
func fieldOrder(a, b Field) int {
	return cmp.Or(cmp.Compare(btoi(a.view()), btoi(b.view())), cmp.Compare(a, b))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mergeField lays one change over an event.
func mergeField(ev *Event, field Field, value rawValue, patch bool, merge Merge) (*Event, error) {
	current, has := ev.Get(field)
	if patch {
		if !has {
			current = rawValue("null")
		}
		patched, err := mergePatch(current, value)
		if err != nil {
			return nil, err
		}
		value = patched
	}
	switch merge {
	case MergeJoin:
		if old, ok := rawString(current); ok && old != "" {
			if more, ok := rawString(value); ok {
				value = quote(old + "\n" + more)
			}
		}
	case MergeIntersect:
		var old, now []string
		if has && json.Unmarshal(current, &old) == nil && json.Unmarshal(value, &now) == nil {
			value = encode(slices.DeleteFunc(old, func(t string) bool { return !slices.Contains(now, t) }))
		}
	case MergeOr:
		if has && string(current) == "true" {
			value = current
		}
	case MergeChain:
	}
	return ev.Set(field, value)
}

func (a *answer) halts() bool { return a.out.Halt != "" && a.spec.Mode == Enforce }

// enforced is the decision that counts.
func (a *answer) enforced() Decision {
	if a.spec.Mode == Observe || a.expired {
		return None
	}
	return a.decision
}

// merge makes the Verdict. It is a pure function of the answers.
func (f *firing) merge() Verdict {
	v := Verdict{Event: f.ev}
	if len(f.answers) == 0 {
		return v
	}
	f.expireAllows()
	for i := range f.answers {
		v.Decision = max(v.Decision, f.answers[i].enforced())
	}
	var halts []string
	for i := range f.answers {
		a := &f.answers[i]
		if a.spec.Mode == Observe {
			continue
		}
		if a.halts() {
			halts = appendNew(halts, a.out.Halt)
		}
		if text := a.reason(); v.Decision > None && a.enforced() == v.Decision && text != "" {
			r := Reason{Hook: a.spec.FullName(), Text: text, Cause: a.cause}
			if !slices.ContainsFunc(v.Reasons, func(o Reason) bool { return o.Text == r.Text }) {
				v.Reasons = append(v.Reasons, r)
			}
		}
		for _, text := range a.out.Context {
			v.Context = appendNew(v.Context, text)
		}
		v.Messages = appendNew(v.Messages, a.out.Message)
		if a.failOpen {
			v.Messages = appendNew(v.Messages, fmt.Sprintf("grapnel: hook %q did not answer and the action went on (on_error: open): %v", a.spec.FullName(), a.err))
		}
		for key, value := range a.out.Native {
			if v.Native == nil {
				v.Native = make(map[string]json.RawMessage)
			}
			v.Native[key] = value
		}
	}
	v.Halt = strings.Join(halts, "\n")
	f.combineHalt(&v)
	if changed := changedFields(f.first, f.ev, f.contract.Changes); len(changed) > 0 && !(v.Decision == Block && f.contract.Blocks == BlockAction) {
		v.Changes = make(map[Field]json.RawMessage, len(changed))
		for _, field := range changed {
			v.Changes[field], _ = f.ev.Get(field)
		}
	}
	if f.first.Can != nil {
		f.degrade(&v, f.first.Can)
	}
	v.Reasons = capReasons(v.Reasons, f.engine.opts.ReasonLimit)
	v.Context = capTexts(v.Context, f.engine.opts.ContextLimit)
	return v
}

// expireAllows drops every Allow for another input than the one that will run,
// and all of them once a guard failed open: nobody knows what it would have said.
func (f *firing) expireAllows() {
	failed := false
	for i := range f.answers {
		failed = failed || f.answers[i].failOpen
	}
	for i := range f.answers {
		a := &f.answers[i]
		if a.decision == Allow && (failed || f.differs(a.left)) {
			a.expired = true
		}
	}
}

// combineHalt: stopping the turn also stops the action that is about to happen,
// and stopping for good beats "do not stop yet".
func (f *firing) combineHalt(v *Verdict) {
	if v.Halt == "" {
		return
	}
	switch f.contract.Blocks {
	case BlockAction:
		if v.Decision < Block {
			v.Decision, v.Reasons = Block, nil
		}
		if len(v.Reasons) == 0 {
			v.Reasons = []Reason{{Hook: f.halter(), Text: v.Halt, Cause: CauseDecision}}
		}
	case BlockStop:
		v.Decision, v.Reasons = None, nil
	case BlockFeedback, BlockNothing:
	}
}

func (f *firing) halter() string {
	for i := range f.answers {
		if f.answers[i].halts() {
			return f.answers[i].spec.FullName()
		}
	}
	return ""
}

// reason is what an answer gives as its reason; a Block always has one.
func (a *answer) reason() string {
	failure := ""
	if a.err != nil && a.cause != CauseDecision {
		failure = fmt.Sprintf("hook %q could not answer: %v", a.spec.Name, a.err)
	}
	switch {
	case a.out.Reason != "" && failure != "":
		return a.out.Reason + "\n" + failure
	case a.out.Reason != "":
		return a.out.Reason
	case failure != "":
		return failure
	case a.decision == Block:
		return fmt.Sprintf("blocked by hook %q", a.spec.Name)
	default:
		return ""
	}
}

// degrade turns what the agent cannot be told into the next stricter thing that
// it understands, and never into something weaker. Lost names each.
func (f *firing) degrade(v *Verdict, can *Can) {
	lose := func(format string, args ...any) { v.Lost = append(v.Lost, fmt.Sprintf(format, args...)) }
	stoppable := can.Block && (f.contract.Blocks == BlockAction || f.contract.Blocks == BlockFeedback)
	block := func(text string) {
		if v.Decision < Block {
			v.Decision, v.Reasons = Block, nil
		}
		v.Reasons = append(v.Reasons, Reason{Hook: "grapnel", Text: text, Cause: CauseDecision})
	}

	for _, field := range sortedFields(v.Changes) {
		if slices.Contains(can.Change, field) {
			continue
		}
		value := v.Changes[field]
		delete(v.Changes, field)
		if !stoppable {
			lose("change of %s: not told", field)
			continue
		}
		text := string(value)
		if s, ok := rawString(value); ok {
			text = s
		}
		lose("change of %s: told as block, with the suggestion as reason", field)
		block(fmt.Sprintf("%s must be changed, and %s cannot be told to do so. Use this instead: %s", field, f.agent(), capText(text, 2000)))
	}
	if v.Decision == Allow && !can.Allow {
		lose("allow: not told")
		v.Decision, v.Reasons = None, nil
	}
	if v.Decision == Ask && !can.Ask {
		switch {
		case stoppable:
			lose("ask: told as block")
			v.Decision = Block
		case can.Halt && f.contract.Blocks == BlockAction:
			lose("ask: told as halt")
			v.Decision = Block
		default:
			lose("ask: not told")
			v.Decision, v.Reasons = None, nil
		}
	}
	if v.Decision == Block && !can.Block {
		if can.Halt && f.contract.Blocks != BlockStop {
			if v.Halt == "" {
				lose("block: told as halt")
				v.Halt = v.Reason()
			}
		} else {
			lose("block: not told")
		}
	}
	if v.Halt != "" && !can.Halt {
		lose("halt: not told")
		v.Halt = ""
	}
	if len(v.Context) > 0 && !can.Context {
		lose("context: not told")
		v.Context = nil
	}
	if len(v.Messages) > 0 && !can.Message {
		lose("message: not told")
		v.Messages = nil
	}
	for key := range v.Native {
		if !strings.HasPrefix(key, f.first.Agent.Name+".") {
			lose("%s: only for another agent", key)
			delete(v.Native, key)
		}
	}
	slices.Sort(v.Lost)
}

func (f *firing) agent() string {
	if f.first.Agent.Name == "" {
		return "the agent"
	}
	return f.first.Agent.Name
}

func sortedFields(changes map[Field]json.RawMessage) []Field {
	fields := make([]Field, 0, len(changes))
	for field := range changes {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return fields
}

func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// capText cuts a text at a rune and says how much is gone.
func capText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… [grapnel: %d more bytes cut]", text[:cut], len(text)-cut)
}

// capTexts cuts a list of texts at a total size.
func capTexts(texts []string, limit int) []string {
	for i, text := range texts {
		if len(text) > limit {
			texts[i] = capText(text, limit)
			rest := 0
			for _, t := range texts[i+1:] {
				rest += len(t)
			}
			if rest > 0 {
				texts[i] += fmt.Sprintf(" [grapnel: %d more texts cut]", len(texts)-i-1)
			}
			return texts[:i+1]
		}
		limit -= len(text)
	}
	return texts
}

func capReasons(reasons []Reason, limit int) []Reason {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.Text
	}
	capped := capTexts(texts, limit)
	for i, text := range capped {
		reasons[i].Text = text
	}
	return reasons[:len(capped)]
}

// newRecord writes down what happened.
func (f *firing) newRecord(v *Verdict, late []Spec, begun time.Time) *Record {
	rec := &Record{
		ID: f.first.ID, Time: begun.UTC(), Agent: f.first.Agent.Name, Session: f.first.Session.ID, Event: f.first.Kind,
		Decision: v.Decision, Reasons: v.Reasons, Halt: v.Halt, Changed: sortedFields(v.Changes), Conflicts: f.conflicts,
		Lost: v.Lost, Input: f.first, Verdict: v, Hooks: []HookRun{},
	}
	if f.first.Tool != nil {
		rec.Tool = f.first.Tool.Name
	}
	for i := range f.answers {
		a := &f.answers[i]
		run := HookRun{
			Name: a.spec.Name, Source: a.spec.Source.Name, Decision: a.decision, FailOpen: a.failOpen, Expired: a.expired,
			Observed: a.spec.Mode == Observe, MS: milliseconds(a.took),
		}
		if a.decision > None || a.err != nil {
			run.Cause = a.cause
		}
		if a.round > 1 {
			run.Round = a.round
		}
		if a.err != nil {
			run.Cause, run.Error = causeOf(a.err), a.err.Error()
		}
		if run.Observed {
			rec.Would = max(rec.Would, a.decision)
		}
		rec.Hooks = append(rec.Hooks, run)
	}
	for i := range late {
		rec.Hooks = append(rec.Hooks, HookRun{Name: late[i].Name, Source: late[i].Source.Name, Async: true})
	}
	rec.MS = milliseconds(time.Since(begun))
	return rec
}
