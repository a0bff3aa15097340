package hookcmd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Some agents report one action twice: they load the hook files of another agent in addition to
// their own, or fire two events for one call. Each report gets a reply in its own dialect,
// but the action has one Record and counts once toward a limit. Its programs run once, unless
// the second report has more facts. Actions are stored for a short time in files that are
// locked while an action is judged, so reports at the same time are judged in turn.
//
// Not all of these agents number their calls. Two reports with the same call ID are the same
// action. Without an ID, a report is a duplicate only if it came in another way than before:
// two reports that came in the same way are two actions.

const (
	againWithin = 10 * time.Second // a duplicate without a call ID comes this soon after the first reply
	sameWithin  = 2 * time.Minute  // with an ID; some agents reuse IDs
	keepActions = 16
	keepReason  = 16 << 10 // bytes; longer reasons are computed again
	keepFacts   = 256
)

// An action is one action that an agent reported.
type action struct {
	ID       string // of the action's Record
	Call     string // the agent's ID for it
	What     string // digest of the action, from the values that all its reports have
	Whole    string // digest of all values that rules evaluate
	Facts    []string
	Ways     []string // of its reports: installation, event and kind of report, see hold
	At       int64    // time of the last reply, in nanoseconds since 1970
	Policy   string
	Decision grapnel.Decision
	Reason   string
	Halt     string
	Final    bool // the stored decision is valid for later reports without new facts
	Approved approved
}

// writeActions encodes actions as lines of quoted words. It does not use encoding/json: the
// preparation of the type takes longer than all other work here.
func writeActions(actions []action) []byte {
	var b []byte
	for i := range actions {
		a := &actions[i]
		for _, word := range []string{
			a.ID, a.Call, a.What, a.Whole, strings.Join(a.Facts, " "), strings.Join(a.Ways, "\n"), strconv.FormatInt(a.At, 10), a.Policy,
			a.Decision.String(), a.Reason, a.Halt, strconv.FormatBool(a.Final), strings.Join(a.Approved, "\n"),
		} {
			b = append(strconv.AppendQuote(b, word), '\t')
		}
		b = append(b, '\n')
	}
	return b
}

// readActions decodes the actions that are not too old. It returns nil for damaged data.
func readActions(kept []byte, now int64) []action {
	var actions []action
	for line := range strings.Lines(string(kept)) {
		var words []string
		for word := range strings.SplitSeq(strings.TrimSuffix(line, "\t\n"), "\t") {
			text, err := strconv.Unquote(word)
			if err != nil {
				return nil
			}
			words = append(words, text)
		}
		if len(words) != 13 {
			return nil
		}
		at, _ := strconv.ParseInt(words[6], 10, 64)
		a := action{
			ID: words[0], Call: words[1], What: words[2], Whole: words[3], Facts: strings.Fields(words[4]), Ways: strings.Split(words[5], "\n"), At: at,
			Policy: words[7], Reason: words[9], Halt: words[10], Final: words[11] == "true",
		}
		if a.Decision.UnmarshalText([]byte(words[8])) != nil {
			return nil
		}
		if words[12] != "" {
			a.Approved = strings.Split(words[12], "\n")
		}
		if now-at <= int64(sameWithin) {
			actions = append(actions, a)
		}
	}
	return actions
}

// again returns the index of the stored action that is reported again, or -1. It returns the
// first match, but prefers an action with an equal Whole, and one that was approved after it had
// been stopped.
func (now *action) again(kept []action) int {
	fits := -1
	for i := range kept {
		k := &kept[i]
		age := now.At - k.At
		switch {
		case k.What != now.What || age < -int64(sameWithin): // a clock was set back
		case k.Call != "" && now.Call != "":
			if k.Call == now.Call && age <= int64(sameWithin) {
				return i
			}
		case age > int64(againWithin) || slices.Contains(k.Ways, now.Ways[0]):
		case fits < 0 || k.Whole == now.Whole && kept[fits].Whole != now.Whole, kept[fits].Approved == nil && k.Approved != nil:
			fits = i
		}
	}
	return fits
}

// dedupe handles one report of an action.
type dedupe struct {
	action
	to    sink // receives the records and hooks that count
	spool *spool.Spool
	held  *spool.Held
	kept  []action
	first int // index in kept of the action that is reported again; -1 = the action is new

	// These are held back until keep decides whether they are passed on.
	records []*grapnel.Record
	late    []func() error
}

// hold waits for other processes that judge the same action, and subtracts the waiting time from
// the budget of the event. It returns nil for agents that report each action once, and if nothing
// can be stored: then each report counts separately.
func hold(sp *spool.Spool, to sink, got dialect.Received, inv *invocation) *dedupe {
	way, duplicates := got.Way()
	if !duplicates || got.Err != nil {
		return nil
	}
	ev := got.Event
	begun := time.Now()
	t := &dedupe{spool: sp, to: to, first: -1, action: action{
		What: whatIs(ev), Whole: wholeOf(ev), Facts: factsOf(ev.Native), Ways: []string{strings.Join([]string{inv.id, inv.event, way}, " ")},
	}}
	if ev.Tool != nil {
		t.Call = ev.Tool.ID
	}
	var err error
	t.held, err = sp.Hold(t.What, ev.Terms.Budget/2)
	ev.Terms.Budget -= time.Since(begun)
	if err != nil {
		return nil
	}
	t.At = time.Now().UnixNano()
	t.kept = readActions(t.held.Kept, t.At)
	if t.first = t.again(t.kept); t.first < 0 {
		return t
	}
	// Use the IDs of the first report, because limits identify calls by these IDs.
	k := &t.kept[t.first]
	ev.ID = k.ID
	if ev.Tool != nil && ev.Tool.ID == "" {
		ev.Tool.ID = k.Call
	}
	return t
}

// approved returns the approval of the first report.
func (t *dedupe) approved() approved {
	if t.first < 0 {
		return nil
	}
	return t.kept[t.first].Approved
}

// close releases the lock, so that other processes can judge the action.
func (t *dedupe) close() {
	if t != nil {
		_ = t.held.Close()
	}
}

// verdict returns an engine that repeats the decision of the first report. It returns nil if the
// policy must be evaluated again: the policy has changed, or this report has more facts.
func (t *dedupe) verdict(set *load.Set, f *firing) *grapnel.Engine {
	if t == nil {
		return nil
	}
	t.Policy = digestOf(set)
	if t.first < 0 {
		return nil
	}
	k := &t.kept[t.first]
	if !k.Final || k.Policy != t.Policy || k.Whole != t.Whole || len(t.Facts) == 0 ||
		slices.ContainsFunc(t.Facts, func(f string) bool { return !slices.Contains(k.Facts, f) }) {
		return nil
	}
	out := grapnel.Outcome{Decision: k.Decision, Reason: k.Reason, Halt: k.Halt} // context and messages were in the first reply
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "first answer",
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil }),
	}}, &grapnel.Options{Observers: []grapnel.Observer{f}})
	if err != nil {
		return nil
	}
	return engine
}

// Observe holds a Record back until keep decides whether it counts.
func (t *dedupe) Observe(_ context.Context, rec *grapnel.Record) { t.records = append(t.records, rec) }

// Run holds observing hooks back until keep decides whether they run.
func (t *dedupe) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	t.late = append(t.late, func() error { return t.to.Run(ctx, ev, hooks) })
	return nil
}

// keep stores the result of a report, and releases its Records and hooks: all for the first report.
// For later reports only a decision that is stricter than the decision before, or a failure.
func (t *dedupe) keep(ctx context.Context) {
	if t == nil {
		return
	}
	k := &t.action
	if t.first >= 0 {
		k = &t.kept[t.first]
		k.Ways = append(k.Ways, t.Ways[0])
	}
	k.At = time.Now().UnixNano()
	counts := t.first < 0
	final := false
	for _, rec := range t.records {
		failed := rec.Error != ""
		for i := range rec.Hooks {
			failed = failed || rec.Hooks[i].Error != ""
		}
		if t.first >= 0 && (rec.Decision > k.Decision || failed) {
			counts = true
		}
		if t.first < 0 {
			k.ID, k.Halt, k.Approved = rec.ID, rec.Halt, approvedIn(rec)
			if rec.Verdict != nil {
				// If the agent did not get the complete verdict, its next report may have other
				// values.
				k.Reason = rec.Verdict.Reason()
				final = !failed && len(rec.Unsupported)+len(rec.Verdict.Native) == 0 && len(k.Reason)+len(k.Halt) <= keepReason
			}
			k.Final = final && len(rec.Changed) == 0
		}
		k.Decision = max(k.Decision, rec.Decision)
	}
	if counts {
		t.release(ctx)
	}
	if t.first < 0 {
		t.kept = append(t.kept, *k)
	}
	t.kept = t.kept[max(0, len(t.kept)-keepActions):]
	_ = t.held.Keep(writeActions(t.kept)) // if this fails, the next report counts separately
	if t.first < 0 {
		t.keepChanged(final)
	}
}

// release passes the held hooks and Records on.
func (t *dedupe) release(ctx context.Context) {
	var failed error
	for _, run := range t.late {
		if err := run(); err != nil {
			failed = fmt.Errorf("observing hooks were not started: %w", err)
		}
	}
	for _, rec := range t.records {
		if failed != nil && rec.Error == "" {
			rec.Error = failed.Error()
		}
		t.to.Observe(ctx, rec)
	}
}

// keepChanged also stores the action in its changed form, if the reply changed it: a later report
// has the changed form. That form was judged already and is not changed again.
func (t *dedupe) keepChanged(final bool) {
	if len(t.records) != 1 || t.records[0].Verdict == nil || t.records[0].Verdict.Event == nil || len(t.records[0].Changed) == 0 {
		return
	}
	after := t.action
	now := t.records[0].Verdict.Event
	if after.What, after.Whole = whatIs(now), wholeOf(now); after.What == t.What {
		return
	}
	after.Final = final
	changed := map[string]any{}
	if now.Tool != nil {
		changed["input"] = now.Tool.Input
	}
	if now.Prompt != nil {
		changed["prompt"] = now.Prompt.Text
	}
	if data, err := json.Marshal(changed); err == nil {
		after.Facts = slices.Concat(t.Facts, factsOf(data))
	}
	t.close()
	held, err := t.spool.Hold(after.What, time.Second)
	if err != nil {
		return
	}
	defer held.Close()
	kept := append(readActions(held.Kept, t.At), after)
	_ = held.Keep(writeActions(kept[max(0, len(kept)-keepActions):]))
}

// digestOf returns a digest of the policy in force. It writes the source only once for
// consecutive hooks of the same source.
func digestOf(set *load.Set) string {
	var parts []string
	var before grapnel.Source
	for i := range set.Specs {
		s := &set.Specs[i]
		if i == 0 || s.Source != before {
			before = s.Source
			parts = append(parts, "", before.Name, before.Digest, before.File, fmt.Sprint(before.Scope))
		}
		parts = append(parts, s.Name, strconv.FormatBool(s.Observe))
	}
	return nameOf(parts...)
}

// nameOf returns a digest of parts that can be used as a file name.
func nameOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// whatIs returns a digest of the action of an event, from the values that all its reports have:
// the words of a command, the path of a file, the input of any other call.
func whatIs(ev *grapnel.Event) string {
	parts := []string{ev.Agent.Name, ev.Session.ID, ev.Session.Turn, string(ev.Kind), ev.Cause}
	if s := ev.Session.Subagent; s != nil {
		parts = append(parts, s.ID)
	}
	if p := ev.Prompt; p != nil {
		parts = append(parts, p.Text)
	}
	if s := ev.Stop; s != nil {
		parts = append(parts, s.LastMessage)
	}
	if n := ev.Notification; n != nil {
		parts = append(parts, n.Type, n.Title, n.Message)
	}
	if m := ev.Message; m != nil {
		parts = append(parts, m.Content)
	}
	if t := ev.Task; t != nil {
		parts = append(parts, t.Description)
	}
	switch t := ev.Tool; {
	case t == nil:
	case t.MCP != nil:
		parts = append(parts, "mcp", t.MCP.Tool, canonical(t.Input))
	case t.Class == grapnel.ClassShell && len(t.Commands) > 0:
		parts = append(append(parts, "shell"), t.Commands...)
	case len(t.Paths) > 0 && t.Class == grapnel.ClassRead:
		parts = append(parts, "read", t.Paths[0].Path)
	case len(t.Paths) > 0 && (t.Class == grapnel.ClassWrite || t.Class == grapnel.ClassEdit):
		parts = append(parts, "write", t.Paths[0].Path)
	default:
		parts = append(parts, "tool", t.Name, canonical(t.Input))
	}
	return nameOf(parts...)
}

// wholeOf returns a digest of the values that rules evaluate. If two reports differ in it, the
// decision for one is not valid for the other.
func wholeOf(ev *grapnel.Event) string {
	parts := []string{whatIs(ev), ev.Session.CWD, ev.Session.Root, ev.Session.Mode, ev.Session.Model}
	if t := ev.Tool; t != nil {
		parts = append(parts, t.Name, string(t.Class), canonical(t.Input), canonical(t.Output), fmt.Sprint(t.Failed))
		if t.MCP != nil {
			parts = append(parts, t.MCP.Server)
		}
	}
	return nameOf(parts...)
}

// canonical returns JSON with sorted object members, and other text unchanged.
func canonical(raw json.RawMessage) string {
	text, err := rawjson.Sorted(raw)
	if err != nil {
		return string(raw)
	}
	return text
}

// reportMembers lists members, in lower case without underscores, that only describe the report: its
// names for the event, the tool and the call. Cursor adds sandbox when it reports a command the
// second time: whether the command would run in a sandbox.
var reportMembers = []string{"hookeventname", "hookname", "timestamp", "toolname", "tooluseid", "sandbox"}

// factsOf returns a digest of each value of a payload together with its member's name,
// independent of the spelling of the name. Hooks get the payload in addition to the neutral
// fields, so a report with more facts than the first is judged again. nil = more facts than can
// be stored.
func factsOf(payload json.RawMessage) []string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil
	}
	var facts []string
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				walk(strings.ReplaceAll(strings.ToLower(name), "_", ""), member)
			}
		case []any:
			for _, element := range v {
				walk(name, element)
			}
		default:
			if !slices.Contains(reportMembers, name) && len(facts) <= keepFacts {
				facts = append(facts, nameOf(name, fmt.Sprint(v))[:16])
			}
		}
	}
	walk("", v)
	if len(facts) > keepFacts {
		return nil
	}
	slices.Sort(facts)
	return slices.Compact(facts)
}
