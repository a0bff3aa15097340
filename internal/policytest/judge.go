package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Mismatch is a result that differs from the expected one.
type Mismatch struct {
	What string `json:"what"` // the name of the result: decision, reason, a field, ...
	Want string `json:"want"`
	Got  string `json:"got"`
}

// String describes the actual and the expected result.
func (m Mismatch) String() string { return fmt.Sprintf("%s: got %s, want %s", m.What, m.Got, m.Want) }

// judge compares the results of an event with the expected ones.
func (w *Want) judge(f *Firing) []Mismatch {
	var list []Mismatch
	for _, m := range w.compare(f) {
		if !m.holds {
			list = append(list, m.Mismatch)
		}
	}
	if w.Not != nil {
		for _, m := range w.Not.compare(f) {
			if m.holds {
				list = append(list, Mismatch{m.What, "not " + m.Want, m.Got})
			}
		}
	}
	if w.Would != nil && !slices.Contains(w.Would, f.Record.Would) {
		list = append(list, Mismatch{"would", either(w.Would), f.Record.Would.String()})
	}
	for _, run := range f.Runs() {
		named := slices.ContainsFunc(w.Failed, func(n policyfile.Word) bool { return called(run.Name, n.Text) })
		if run.Error != "" && !named {
			list = append(list, Mismatch{"hook " + run.Name, "an answer", run.Error})
		}
	}
	for _, name := range w.Failed {
		if !slices.ContainsFunc(f.Runs(), func(r grapnel.HookRun) bool { return r.Error != "" && called(r.Name, name.Text) }) {
			list = append(list, Mismatch{"hook " + name.Text, "an error", "an answer"})
		}
	}
	for _, agent := range []string{"", f.Agent} {
		if want, ok := w.Replies[agent]; ok {
			list = append(list, want.judge(f)...)
		}
	}
	return list
}

// A comparison is a Mismatch that applies only if holds is false.
type comparison struct {
	Mismatch
	holds bool
}

// compare compares all results that `not:` may also contain.
func (w *Want) compare(f *Firing) []comparison {
	var list []comparison
	add := func(holds bool, what, want, got string) {
		list = append(list, comparison{Mismatch{what, want, got}, holds})
	}
	if w.Decision != nil {
		add(slices.ContainsFunc(w.Decision, f.decided), "decision", either(w.Decision), f.losing(f.Decision.String()))
	}
	if slices.Equal(w.Decision, []grapnel.Decision{grapnel.None}) { // no effect except the expected ones
		if changed := f.changed(); w.Changes == nil {
			add(len(changed) == 0, "changes", "none", joined(changed))
		}
		if w.Context == nil {
			add(len(f.Context) == 0, "context", "none", texts(f.Context))
		}
		if w.Halt == nil {
			add(f.Halt == "", "halt", "none", fmt.Sprintf("%q", f.Halt))
		}
	}
	if w.Reason != nil {
		add(w.Reason.in(f.Reason()), "reason", w.Reason.String(), orNone(f.Reason()))
	}
	if w.Halt != nil {
		add(w.Halt.in(f.Halt), "halt", w.Halt.String(), f.losing(orNone(f.Halt)))
	}
	each := func(what string, want []Text, got []string) {
		if want != nil && len(want) == 0 {
			add(len(got) == 0, what, "none", texts(got))
		}
		for i := range want {
			add(slices.ContainsFunc(got, want[i].in), what, want[i].String(), f.losing(texts(got)))
		}
	}
	each("unsupported", w.Unsupported, f.Unsupported)
	each("context", w.Context, f.Context)
	each("message", w.Message, f.Messages)
	if w.Rule != nil {
		by := f.By()
		var names []string
		for _, name := range w.Rule {
			names = append(names, name.Text)
		}
		add(slices.ContainsFunc(by, func(hook string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return called(hook, name) })
		}), "rule", strings.Join(names, " or "), joined(by))
	}
	if w.Changes != nil {
		list = append(list, w.changes(f)...)
	}
	return list
}

// changes compares the new values of fields. All other fields must be unchanged.
func (w *Want) changes(f *Firing) []comparison {
	var list []comparison
	now := f.now()
	for _, field := range slices.Sorted(maps.Keys(w.Changes)) {
		before, _ := f.Record.Input.Get(field)
		got, _ := now.Get(field)
		want := w.Changes[field]
		shown := orNone(string(got))
		if rawjson.Equal(before, got) {
			shown = "no change of " + shown
		}
		list = append(list, comparison{Mismatch{string(field), sample.Short(string(want)), shown}, !rawjson.Equal(before, got) && alike(want, got)})
	}
	for _, field := range f.changed() {
		wanted := false
		for want := range w.Changes {
			wanted = wanted || string(want) == field || field == string(grapnel.FieldInput) && viewed(want)
		}
		if !wanted {
			got, _ := now.Get(grapnel.Field(field))
			list = append(list, comparison{Mismatch{field, "no change", sample.Short(string(got))}, false})
		}
	}
	return list
}

// viewed reports whether a field is a part of a tool's input.
func viewed(field grapnel.Field) bool {
	return slices.Contains([]grapnel.Field{grapnel.FieldCommand, grapnel.FieldPath, grapnel.FieldURL, grapnel.FieldContent}, field)
}

// alike reports whether a value is the expected one. An expected text may also be inside an
// object or a list: the output of a tool is an object in one agent and a text in another.
func alike(want, got json.RawMessage) bool {
	if rawjson.Equal(want, got) {
		return true
	}
	var text string
	if json.Unmarshal(want, &text) != nil || len(got) == 0 || got[0] != '{' && got[0] != '[' {
		return false
	}
	var value any
	return json.Unmarshal(got, &value) == nil && holds(value, text)
}

func holds(value any, text string) bool {
	switch value := value.(type) {
	case string:
		return value == text
	case []any:
		return slices.ContainsFunc(value, func(v any) bool { return holds(v, text) })
	case map[string]any:
		for _, v := range value {
			if holds(v, text) {
				return true
			}
		}
	}
	return false
}

func (r *Reply) judge(f *Firing) []Mismatch {
	var list []Mismatch
	for _, stream := range []struct {
		name string
		want *Text
		got  []byte
	}{{"stdout", r.Stdout, f.Reply.Stdout}, {"stderr", r.Stderr, f.Reply.Stderr}} {
		if w := stream.want; w != nil && !w.in(string(stream.got)) && !(w.Whole && w.Text != "" && rawjson.Equal(json.RawMessage(w.Text), stream.got)) {
			list = append(list, Mismatch{stream.name + " of " + f.Agent, w.String(), orNone(string(stream.got))})
		}
	}
	if r.Exit != nil && *r.Exit != f.Reply.Exit {
		list = append(list, Mismatch{"exit code of " + f.Agent, fmt.Sprint(*r.Exit), fmt.Sprint(f.Reply.Exit)})
	}
	return list
}

// String returns the text for a message.
func (t *Text) String() string {
	if t.re != nil {
		return t.Text
	}
	return orNone(t.Text)
}

// hooksDecided returns the decision of the hooks, before any downgrade for the agent.
func (f *Firing) hooksDecided() grapnel.Decision {
	d := grapnel.None
	for i := range f.Record.Hooks {
		if run := &f.Record.Hooks[i]; !run.Observed && !run.Expired {
			d = max(d, run.Decision)
		}
	}
	return d
}

// decided reports whether the decision is want. If the agent does not support a decision and gets
// a stricter one, both match.
func (f *Firing) decided(want grapnel.Decision) bool {
	return f.Decision == want || f.hooksDecided() == want && f.Decision > want && len(f.Unsupported) > 0 && f.Verdict.Halt == ""
}

// losing adds the unsupported parts of the verdict to an actual result.
func (f *Firing) losing(got string) string {
	if len(f.Unsupported) > 0 {
		got += " (" + f.Agent + " does not support: " + strings.Join(f.Unsupported, ", ") + ")"
	}
	return got
}

// now returns the event after all changes by hooks, including changes that the agent does not
// support.
func (f *Firing) now() *grapnel.Event {
	if f.Event != nil {
		return f.Event
	}
	return f.Record.Input
}

// changed returns the fields that hooks changed.
func (f *Firing) changed() []string {
	ev := f.Record.Input
	var fields []string
	for _, change := range ev.Contract().Changes {
		was, _ := ev.Get(change.Field)
		is, _ := f.now().Get(change.Field)
		if !rawjson.Equal(was, is) {
			fields = append(fields, string(change.Field))
		}
	}
	return fields
}

// By returns the names of the hooks that caused the result: those with the final decision, and
// those that changed something, added context or ended the turn. Hooks in observe mode are not
// included; their results are in the Record.
func (f *Firing) By() []string {
	decided := f.hooksDecided()
	var names []string
	for i := range f.Record.Hooks {
		run := &f.Record.Hooks[i]
		if run.Observed || run.Expired {
			continue
		}
		acts := run.Decision > grapnel.None && run.Decision == decided || len(run.Changed) > 0 || run.Halt
		acts = acts || run.Outcome != nil && (len(run.Outcome.Context) > 0 || run.Outcome.Message != "")
		if acts && !slices.Contains(names, run.Name) {
			names = append(names, run.Name)
		}
	}
	return names
}

func either(list []grapnel.Decision) string {
	words := make([]string, len(list))
	for i, d := range list {
		words[i] = d.String()
	}
	return strings.Join(words, " or ")
}

func joined(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func texts(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return sample.Short(fmt.Sprintf("%q", list))
}

func orNone(text string) string {
	if text == "" {
		return "nothing"
	}
	return sample.Short(strings.TrimRight(text, "\n"))
}
