package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/presets"
)

// answer returns the view of a firing, with the members that three families share.
func (f *firing) answer(ctx context.Context) view {
	v := view{
		"decision": "continue", "cause": nil, "reason": "", "modified": nil, "effective": "continue",
		"ran": []string{}, "results": 0, "saw": map[string]any{}, "log": f.bench.logged(), "warnings": f.warnings(),
		"process_started": probe(func(any) any { return f.started(ctx) }), "ms": f.took.Milliseconds(), "config_error": nil,
		"no_file_after_ms": probe(f.missing),
	}
	f.decide(v)
	ran := []string{}
	saw := map[string]any{}
	for _, c := range f.calls {
		if c.hook.Async {
			continue
		}
		ran = append(ran, c.hook.Name)
		p := primaryOf(c.saw.Kind)
		saw[c.hook.Name] = p.value(c.saw)
	}
	v["ran"], v["results"], v["saw"] = ran, len(ran), saw
	if more := f.bench.family.answer; more != nil {
		more(f, v)
	}
	return v
}

// started reports whether any hook started a process, including after the reply.
func (f *firing) started(ctx context.Context) bool {
	b := f.bench
	b.settle(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.calls[f.first:], func(c *call) bool { return c.process })
}

// decide adds the hooks' decision to the view. If the event's Contract does not permit a block,
// the view still has the decision; only "effective", the action of the host, stays "continue".
func (f *firing) decide(v view) {
	contract, _ := grapnel.ContractOf(f.event.Kind)
	decided := f.blocks()
	switch {
	case decided != nil:
		v["decision"], v["cause"], v["reason"] = "block", decided.Cause, decided.Text
		if f.verdict.Decision == grapnel.Block && contract.Blocks == grapnel.BlockingAction {
			v["effective"] = "block"
		}
	case len(f.verdict.Changes) > 0:
		v["decision"], v["modified"], v["effective"] = "modify", words(f.verdict.Changes), "modify"
	default:
		if changes := f.replaced(); changes != nil {
			v["decision"], v["modified"] = "modify", changes
		}
	}
}

// blocks returns the reason of a block, or nil if nothing blocked. It uses the Verdict. For an
// event that cannot be blocked it uses the first hook that answered block or whose failure
// would block.
func (f *firing) blocks() *grapnel.Reason {
	if f.verdict.Decision == grapnel.Block && len(f.verdict.Reasons) > 0 {
		r := f.verdict.Reasons[0]
		if c := f.call(r.Hook); c != nil && c.out.Decision == grapnel.Block && r.Cause == grapnel.CauseDecision {
			if own := f.ownReason(c); own == "" || own != c.out.Reason {
				r.Text = own
			}
		}
		return &r
	}
	for i := range f.calls {
		c := &f.calls[i]
		run := f.run(c)
		switch {
		case c.hook.Async:
		case c.out.Decision == grapnel.Block:
			return &grapnel.Reason{Text: c.out.Reason, Cause: grapnel.CauseDecision}
		case c.ended && c.err == nil && run.Cause != grapnel.CauseTimeout: // it did not fail; its changes are ignored
		case run.FailOpen && c.hook.FailureMode == "fail_closed":
			return &grapnel.Reason{Text: c.hook.Name + ": " + run.Error, Cause: run.Cause}
		}
	}
	return nil
}

// ownReason returns the reason in the system's own words: without a default text, and without the
// words that Grapnel adds for people if a program blocked and wrote nothing.
func (f *firing) ownReason(c *call) string {
	speaks, err := f.bench.family.speaks()
	if err != nil || c.output == nil {
		return c.out.Reason
	}
	out, _ := speaks.ReadOutcome(c.saw, *c.output)
	return out.Reason
}

// replaced returns the fields that hooks replaced, for presets in which the last change wins.
// It includes replacements by the same value and replacements that the event does not permit.
func (f *firing) replaced() map[string]any {
	if f.bench.row.Changes != presets.ChangesLastWins {
		return nil
	}
	var last map[string]any
	for _, c := range f.calls {
		for field, value := range c.out.Set {
			if field != sessionField && json.Valid(value) {
				last = words(map[grapnel.Field]json.RawMessage{field: value})
			}
		}
	}
	return last
}

// words renames changed fields to the names that cases use.
func words(changes map[grapnel.Field]json.RawMessage) map[string]any {
	named := make(map[string]any, len(changes))
	for field, value := range changes {
		word := string(field)
		switch field {
		case grapnel.FieldInput:
			word = "tool_input"
		case grapnel.FieldOutput:
			word = "tool_output"
		default: // the same name in both
		}
		named[word] = value
	}
	return named
}

// call returns the last call of the hook with this full name, or nil.
func (f *firing) call(fullName string) *call {
	for _, c := range slices.Backward(f.calls) {
		s := grapnel.Spec{Name: c.hook.Name, Source: grapnel.Source{Name: c.hook.Source}}
		if s.FullName() == fullName {
			return &c
		}
	}
	return nil
}

// run returns the Record's entry for a call, or a zero value.
func (f *firing) run(c *call) grapnel.HookRun {
	if f.record != nil {
		for _, run := range f.record.Hooks {
			if run.Name == c.hook.Name && run.Source == c.hook.Source {
				return run
			}
		}
	}
	return grapnel.HookRun{}
}

type warning struct {
	Hook  string `json:"hook"`
	Class string `json:"class"`
}

// warnings lists the hooks that could not answer, or that gave an ignored answer.
func (f *firing) warnings() []warning {
	list := []warning{}
	if f.record == nil {
		return list
	}
	for _, run := range f.record.Hooks {
		if run.Error == "" {
			continue
		}
		s := grapnel.Spec{Name: run.Name, Source: grapnel.Source{Name: run.Source}}
		c := cmp.Or(f.call(s.FullName()), &call{})
		class := "hook_error"
		switch {
		case run.Cause == grapnel.CauseTimeout:
			class = "hook_timeout"
		case errors.Is(c.err, grapnel.ErrIllegal), c.ended && c.err == nil && len(c.out.Set) > 0:
			class = "bad_modification"
		case c.ended && c.err == nil: // a decision that the event does not support: see decide
			continue
		case c.output != nil && (c.output.Exit == 0 || c.output.Exit == 2):
			class = "bad_output"
		}
		list = append(list, warning{run.Name, class})
	}
	return list
}

// logged returns the messages of the logging hooks, by hook name.
func (b *bench) logged() map[string][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	logs := map[string][]string{}
	for name, log := range b.logs {
		logs[name] = log.Messages()
	}
	return logs
}

// missing waits until each file has had time to appear, and reports the files that exist.
func (f *firing) missing(want any) any {
	files, _ := want.(map[string]any)
	seen := map[string]any{}
	for _, file := range slices.SortedFunc(maps.Keys(files), func(a, b string) int { return cmp.Compare(size(files[a]), size(files[b])) }) {
		time.Sleep(time.Until(f.began.Add(time.Duration(size(files[file])) * time.Millisecond)))
		seen[file] = files[file]
		if _, err := os.Lstat(filepath.Join(f.bench.dir, file)); err == nil {
			seen[file] = "it exists"
		}
	}
	return seen
}
