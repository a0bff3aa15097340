package grapnel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/presets"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// inOrder returns the changed fields sorted by name, whole fields before the views of them.
func inOrder(changes map[Field]json.RawMessage) []Field {
	var whole, views []Field
	for _, field := range slices.Sorted(maps.Keys(changes)) {
		if field.view() {
			views = append(views, field)
		} else {
			whole = append(whole, field)
		}
	}
	return append(whole, views...)
}

// mergeField returns a copy of the event with one change applied by its merge rule.
func mergeField(ev *Event, field Field, value json.RawMessage, patch bool, merge string) (*Event, error) {
	current, has := ev.Get(field)
	if patch {
		if !has {
			current = json.RawMessage("null")
		}
		patched, err := mergePatch(current, value)
		if err != nil {
			return nil, err
		}
		value = patched
	}
	switch merge {
	case mergeJoin:
		if old, ok := rawString(current); ok && old != "" {
			if more, ok := rawString(value); ok {
				value = rawjson.Quote(old + "\n" + more)
			}
		}
	case mergeIntersect:
		var old, now []string
		if has && json.Unmarshal(current, &old) == nil && json.Unmarshal(value, &now) == nil {
			value = rawjson.OrNull(slices.DeleteFunc(old, func(t string) bool { return !slices.Contains(now, t) }))
		}
	case mergeUnion:
		var old, now []string
		if has && json.Unmarshal(current, &old) == nil && json.Unmarshal(value, &now) == nil {
			old = append(old, now...)
			slices.Sort(old)
			value = rawjson.OrNull(slices.Compact(old))
		}
	case mergeStrictest:
		if old, ok := rawString(current); ok {
			if now, ok := rawString(value); ok && strictness(old) > strictness(now) {
				value = current
			}
		}
	case mergeOr:
		if has && string(current) == "true" {
			value = current
		}
	case mergeChain:
	}
	return ev.Set(field, value)
}

// strictness returns the rank of a toolset mode, laxest first. It is -1 for unknown modes.
func strictness(mode string) int { return slices.Index([]string{"auto", "any", "none"}, mode) }

// changes reports whether an answer changed the event.
func (a *answer) changes() bool { return len(a.changed) > 0 && !a.spec.Observe }

// enforced returns the decision that affects the Verdict: None for observing hooks, expired Allows
// and approved answers.
func (a *answer) enforced() Decision {
	if a.spec.Observe || a.expired != "" || a.approved() {
		return None
	}
	return a.decision
}

// merge builds the Verdict. It is a pure function of the answers.
func (f *firing) merge() Verdict {
	v := Verdict{Event: f.ev}
	if len(f.answers) == 0 {
		return v
	}
	if f.unread != nil {
		return f.mergeUnread()
	}
	f.expireAllows()
	for i := range f.answers {
		v.Decision = max(v.Decision, f.answers[i].enforced())
	}
	var halts []Reason
	for i := range f.answers {
		a := &f.answers[i]
		if a.unsure != nil && !a.spec.Observe {
			v.Messages = appendNew(v.Messages, fmt.Sprintf("grapnel: hook %q: %v", a.spec.FullName(), a.unsure))
		}
		if a.silent() || a.spec.Observe || a.approved() {
			continue
		}
		if a.out.Halt != "" && (len(halts) == 0 || f.engine.rules.Reasons != presets.ReasonsFirst) {
			halts = appendReason(halts, a, a.out.Halt, CauseDecision)
		}
		if f.gives(a, &v) {
			v.Reasons = appendReason(v.Reasons, a, a.reason(), a.cause())
			v.failed(a)
		}
		for _, text := range a.out.Context {
			v.Context = appendNew(v.Context, text)
		}
		v.Messages = appendNew(v.Messages, a.out.Message)
		if a.failOpen {
			v.Messages = appendNew(v.Messages, "grapnel: "+failure(a.spec.FullName(), 0, countsAsNone, a.err))
		}
		for key, value := range a.out.Native {
			v.native(f.first.Agent.Name, key, value)
		}
	}
	f.addNotRun(&v)
	f.answered(&v)
	f.halt(&v, halts)
	f.nameWayOut(&v)
	f.changes(&v)
	if can := f.first.Can(); can != nil {
		f.degrade(&v, can)
	}
	slices.Sort(v.Unsupported)
	v.Reasons = capReasons(v.Reasons, f.engine.opts.ReasonLimit)
	v.Halt = capText(v.Halt, f.engine.opts.ReasonLimit)
	v.Messages = capTexts(v.Messages, f.engine.opts.ReasonLimit)
	v.Context = capTexts(v.Context, f.engine.opts.ContextLimit)
	return v
}

// failed adds the error of a hook whose failure made the decision, except for a hook that did not
// run; see addNotRun.
func (v *Verdict) failed(a *answer) {
	if a.byError && !a.notRun {
		v.Err = errors.Join(v.Err, a.err)
	}
}

// addNotRun adds the common error of all hooks that could not start.
func (f *firing) addNotRun(v *Verdict) {
	var first *answer
	more := -1
	for i := range f.answers {
		if a := &f.answers[i]; a.notRun {
			first = cmp.Or(first, a)
			more++
		}
	}
	if first != nil {
		v.Err = errors.Join(v.Err, fmt.Errorf("%s: %w", hooksNamed(first.spec.FullName(), more), first.err))
	}
}

// mergeUnread builds the Verdict for an event that could not be read. All hooks failed for the
// same reason, so the Verdict contains the reason once.
func (f *firing) mergeUnread() Verdict {
	v := Verdict{Event: f.ev}
	var closed, open []*answer
	for i := range f.answers {
		a := &f.answers[i]
		v.Decision = max(v.Decision, a.enforced())
		if a.failOpen {
			open = append(open, a)
		}
	}
	for i := range f.answers {
		if a := &f.answers[i]; !a.spec.Observe && f.gives(a, &v) {
			closed = append(closed, a)
		}
	}
	if len(closed) > 0 {
		v.Err = f.unread
		v.Reasons = []Reason{{Hook: closed[0].spec.FullName(), Text: failure(closed[0].spec.Name, len(closed)-1, "", f.unread), Cause: closed[0].cause()}}
	}
	if len(open) > 0 {
		v.Messages = []string{"grapnel: " + failure(open[0].spec.FullName(), len(open)-1, countsAsNone, f.unread)}
	}
	if can := f.first.Can(); can != nil {
		f.degrade(&v, can)
	}
	v.Reasons = capReasons(v.Reasons, f.engine.opts.ReasonLimit)
	return v
}

const countsAsNone = ", treated as no opinion"

// failure returns the message for a hook, and a number of further hooks, that could not answer.
func failure(hook string, more int, counts string, err error) string {
	return fmt.Sprintf("%s could not answer%s: %v", hooksNamed(hook, more), counts, err)
}

// hooksNamed returns words for a hook and a number of further hooks.
func hooksNamed(hook string, more int) string {
	if more > 0 {
		return fmt.Sprintf("hook %q and %d more", hook, more)
	}
	return fmt.Sprintf("hook %q", hook)
}

// gives reports whether the Verdict includes the answer's reason.
func (f *firing) gives(a *answer, v *Verdict) bool {
	decisive := v.Decision > None && a.enforced() == v.Decision
	switch f.engine.rules.Reasons {
	case presets.ReasonsFirst:
		return decisive && len(v.Reasons) == 0
	case presets.ReasonsAll:
		return decisive || a.out.Reason != ""
	default:
		return decisive
	}
}

// native adds a value that only one agent supports. Values for other agents are listed as
// unsupported.
func (v *Verdict) native(agent, key string, value json.RawMessage) {
	if !strings.HasPrefix(key, agent+".") {
		v.Unsupported = appendNew(v.Unsupported, key+": only valid for another agent")
		return
	}
	if v.Native == nil {
		v.Native = make(map[string]json.RawMessage)
	}
	v.Native[key] = value
}

// changes adds the net changes to the Verdict. If a Block stops the action, it adds nothing.
func (f *firing) changes(v *Verdict) {
	changed := changedFields(f.first, f.ev, f.contract.Changes)
	if slices.Contains(changed, FieldTools) {
		f.ev = f.ev.withoutTools()
		v.Event = f.ev
		changed = changedFields(f.first, f.ev, f.contract.Changes)
	}
	if len(changed) == 0 {
		v.Event = f.first // the original bytes, even if a hook rewrote equal JSON
		return
	}
	if v.Decision == Block && f.contract.Blocks == BlockingAction {
		return
	}
	v.Changes = make(map[Field]json.RawMessage, len(changed))
	for _, field := range changed {
		value, ok := f.ev.Get(field)
		if !ok { // only text fields can become empty
			value = rawjson.Quote("")
		}
		v.Changes[field] = value
	}
}

// withoutTools returns the event with the mode none if a model must call a tool and has none.
func (ev *Event) withoutTools() *Event {
	if ev.Toolset.Mode != "any" || len(ev.Toolset.Allowed) > 0 {
		return ev
	}
	out := *ev
	out.Toolset = clone(ev.Toolset)
	out.Toolset.Mode = "none"
	return &out
}

// expireAllows drops invalid Allows: an Allow for another input than the one that will run, and
// an Allow from a source that may not skip the user's consent. If a guard failed open, it drops
// all of them, because the guard's decision is unknown.
func (f *firing) expireAllows() {
	failed := false
	for i := range f.answers {
		failed = failed || f.answers[i].failOpen
	}
	for i := range f.answers {
		a := &f.answers[i]
		switch {
		case a.decision != Allow:
		case !a.spec.MayAllow && !a.spec.Source.Scope.mayAllow():
			a.expired = "its source may not allow"
		case failed:
			a.expired = "a guard could not answer"
		case f.differs(a.left):
			a.expired = "it was for another input"
		}
	}
}

// halt applies the halts to the Verdict. Ending the turn also stops the announced action, and it
// overrides a Block that would keep the agent from stopping.
func (f *firing) halt(v *Verdict, halts []Reason) {
	if len(halts) == 0 {
		return
	}
	v.Halt = strings.Join(reasonTexts(halts), "\n")
	switch f.contract.Blocks {
	case BlockingAction:
		if v.Decision < Block {
			v.Decision, v.Reasons = Block, halts
		}
	case BlockingStop:
		v.Decision, v.Reasons = None, nil
	case BlockingFeedback, BlockingNothing:
	}
}

// reason returns the text of an answer's reason. A Block always has one.
func (a *answer) reason() string {
	failed := ""
	if a.byError {
		failed = failure(a.spec.Name, 0, "", a.err)
	}
	switch {
	case a.out.Reason != "" && failed != "":
		return a.out.Reason + "\n" + failed
	case a.out.Reason != "":
		return a.out.Reason
	case failed != "":
		return failed
	case a.decision == Block:
		return fmt.Sprintf("blocked by hook %q", a.spec.Name)
	default:
		return ""
	}
}

// takes reports whether the agent applies a new value of a field exactly.
func (f *firing) takes(can *Can, field Field, value json.RawMessage) bool {
	switch field { //nolint:exhaustive // the agent accepts every value of the other fields
	case FieldInput:
		return f.first.Tool == nil || can.takes(f.first.Tool.Input, value)
	case FieldRequest:
		return rawjson.IsObject(value)
	}
	return true
}

// degrade replaces unsupported parts of the Verdict by the next stricter ones that the agent
// supports, never by weaker ones. Unsupported lists each part.
func (f *firing) degrade(v *Verdict, can *Can) {
	// If a Block stops the action, a halt stops it too. At the end of a turn, neither is stricter
	// than None, because a Block there prevents the stop.
	blocks := f.contract.Blocks
	d := degrading{firing: f, v: v, can: can, strict: can.Block && (blocks == BlockingAction || blocks == BlockingFeedback) || can.Halt && blocks == BlockingAction}
	d.decision(d.changes())
	d.stop()
	if len(v.Context) > 0 && !can.Context {
		d.unsupported("context", "not sent")
		v.Context = nil
	}
	if len(v.Messages) > 0 && !can.Message {
		d.unsupported("message", "not sent")
		v.Messages = nil
	}
	if len(v.Changes) == 0 || v.Decision == Block && blocks == BlockingAction {
		v.Changes = nil
	}
}

// degrading holds the state while degrade changes a verdict.
type degrading struct {
	*firing

	v      *Verdict
	can    *Can
	strict bool // a Block is stricter than an unsupported part
}

func (d *degrading) unsupported(what, result string) {
	d.v.Unsupported = append(d.v.Unsupported, what+": "+result)
}

func (d *degrading) block(what, why string) {
	d.unsupported(what, "downgraded to block")
	if d.v.Decision < Block {
		d.v.Decision, d.v.Reasons = Block, nil
	}
	d.v.Reasons = append(d.v.Reasons, Reason{Hook: "grapnel", Text: why, Cause: CauseDecision})
}

// changes degrades changes of fields. It reports whether the agent still runs the input that an
// Allow approved.
func (d *degrading) changes() bool {
	v, can, approved := d.v, d.can, true
	tellable := can.Beside == None || v.Decision == can.Beside || can.Beside == Block && v.Halt != ""
	for _, field := range sortedFields(v.Changes) {
		if tellable && slices.Contains(can.Change, field) && d.takes(can, field, v.Changes[field]) {
			continue
		}
		text, ok := rawString(v.Changes[field])
		if !ok {
			text = string(v.Changes[field])
		}
		delete(v.Changes, field)
		what := "change of " + string(field)
		if !d.strict || field == FieldOutput && can.Keeps {
			d.unsupported(what, "not sent")
			approved = false
			continue
		}
		why := "%s must be changed, but %s does not support that. Use this instead: %s"
		if field == FieldOutput && d.contract.Blocks == BlockingAction {
			why = "%s is known without the call, but %s does not support that. Use this result: %s"
		}
		d.block(what, fmt.Sprintf(why, field, d.agent(), capText(text, 2000)))
	}
	return approved
}

func (d *degrading) decision(approved bool) {
	switch v := d.v; {
	case v.Decision == Allow && !(d.can.Allow && approved):
		d.unsupported("allow", "not sent")
		v.Decision, v.Reasons = None, nil
	case v.Decision == Ask && !d.can.Ask && d.strict:
		reasons := slices.Clone(v.Reasons)
		why := fmt.Sprintf("this needs the approval of a person, but %s cannot ask for it", d.agent())
		d.block("ask", why)
		if len(reasons) > 0 { // a bare question would look like a refusal without a way out
			can := "do it or change the policy"
			if _, how := d.wayOut(); how != "" {
				can = "approve it with " + how
			}
			reasons[0].Text = why + ". Tell the user, who can " + can + ". The question is: " + reasons[0].Text
			v.Reasons = reasons
		}
	case v.Decision == Ask && !d.can.Ask:
		d.unsupported("ask", "not sent")
		v.Decision, v.Reasons = None, nil
	}
}

// stop degrades a block and a halt.
func (d *degrading) stop() {
	v, can := d.v, d.can
	if v.Decision == Block && !can.Block {
		switch {
		case !can.Halt || d.contract.Blocks == BlockingStop:
			d.unsupported("block", "not sent")
		case v.Halt == "":
			d.unsupported("block", "downgraded to halt")
			v.Halt = v.Reason()
		}
	}
	if v.Halt != "" && !can.Halt {
		switch {
		case !d.strict:
			d.unsupported("halt", "not sent")
		case v.Decision < Block:
			d.block("halt", v.Halt)
		default:
			d.unsupported("halt", "downgraded to block")
		}
		v.Halt = ""
	}
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

// appendReason adds a reason unless its text is empty or already in the list.
func appendReason(list []Reason, a *answer, text string, cause Cause) []Reason {
	if text == "" {
		return list
	}
	for i := range list {
		if list[i].Text == text {
			return list
		}
	}
	return append(list, Reason{Hook: a.spec.FullName(), Text: text, Cause: cause})
}

func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// capText cuts a text at a rune boundary and appends the number of removed bytes.
func capText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	kept := rawjson.Cut(text, limit)
	return fmt.Sprintf("%s… [grapnel: %d more bytes cut]", kept, len(text)-len(kept))
}

// capTexts limits the total size of a list of texts, in bytes.
func capTexts(texts []string, limit int) []string {
	for i, text := range texts {
		if len(text) > limit {
			texts[i] = capText(text, limit)
			if more := len(texts) - i - 1; more > 0 {
				texts[i] += fmt.Sprintf(" [grapnel: %d more texts cut]", more)
			}
			return texts[:i+1]
		}
		limit -= len(text)
	}
	return texts
}

func capReasons(reasons []Reason, limit int) []Reason {
	capped := capTexts(reasonTexts(reasons), limit)
	for i, text := range capped {
		reasons[i].Text = text
	}
	return reasons[:len(capped)]
}

// newRecord returns the Record of the firing.
func (f *firing) newRecord(v *Verdict, begun time.Time) *Record {
	rec := &Record{
		ID: f.first.ID, Time: begun.UTC(), Agent: f.first.Agent.Name, Session: f.first.Session.ID, Event: f.first.Kind,
		Decision: v.Decision, Reasons: v.Reasons, Halt: v.Halt, Changed: sortedFields(v.Changes), Conflicts: f.conflicts,
		Approval: f.approval, Unsupported: v.Unsupported, Input: f.first, Verdict: v, Hooks: make([]HookRun, 0, len(f.answers)),
	}
	if f.first.Tool != nil {
		rec.Tool = f.first.Tool.Name
	}
	for i := range f.answers {
		a := &f.answers[i]
		run := a.run()
		if run.Observed {
			rec.Would = max(rec.Would, a.decision)
			if f.haltBlocks(a) {
				rec.Would = Block
			}
		}
		rec.Hooks = append(rec.Hooks, run)
	}
	rec.MS = milliseconds(time.Since(begun) - f.waited)
	return rec
}

// run returns the hook's entry in the Record.
func (a *answer) run() HookRun {
	run := HookRun{
		Name: a.spec.Name, Source: a.spec.Source.Name, Line: a.spec.Line, Decision: a.decision, Changed: a.changed, FailOpen: a.failOpen,
		Halt: a.out.Halt != "", Expired: a.expired != "", Observed: a.spec.Observe, MS: milliseconds(a.took),
		Phase: a.spec.Phase, Step: int(a.step), Saw: a.saw, Output: a.output, Expiry: a.expired, Superseded: a.superseded,
	}
	if a.out != &noOpinion {
		run.Outcome = a.out
	}
	switch {
	case a.err != nil:
		run.Cause, run.Error, run.Err = causeOf(a.err), a.err.Error(), a.err
	case a.decision > None:
		run.Cause = CauseDecision
	}
	if a.err == nil && a.unsure != nil {
		run.Error, run.Err = a.unsure.Error(), a.unsure
	}
	if a.round > 1 {
		run.Round = int(a.round)
	}
	if a.approved() {
		run.Approved = a.decision
		if run.Halt {
			run.Approved = Block
		}
		run.Decision, run.Cause, run.Halt = None, "", false
	}
	return run
}
