package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Print draws the firing, and lists below it the hooks that did not match.
func (x *Explanation) Print(c *cli.Console) {
	for _, notice := range x.Notices {
		fmt.Fprintln(c.Out, c.Paint(typeset.Yellow, printable.Text(notice)))
	}
	if slices.ContainsFunc(x.Policies, load.Loaded.OfProject) {
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "policies"))
		c.PrintPolicies(x.Policies)
	}
	c.Tree(x.tree())
	if rest := x.rest(); rest != nil {
		c.Tree(rest)
	}
}

// maxUnread is how many hooks are shown that fail because the event cannot be read.
const maxUnread = 5

// maxShown is how many characters of a text are shown.
const maxShown = 2000

// shown returns a text for the terminal, without control sequences.
func shown(text string) string { return printable.Text(cut(strings.TrimRight(text, "\n"), maxShown)) }

// tree draws the firing from the event to the reply.
func (x *Explanation) tree() *typeset.Tree {
	root := &typeset.Tree{Row: typeset.Row{typeset.Bold.Span("event"), typeset.Text(" %s", printable.Line(string(x.Event)))}}
	if x.sent.Tool != nil {
		root.Row = append(root.Row, typeset.Text(" %s", printable.Line(x.sent.Tool.Name)))
	}
	root.Row = append(root.Row, typeset.Text(" (%s)", printable.Line(x.Agent)))
	if x.Record != "" {
		root.Note(typeset.Yellow.Span("of the record " + printable.Line(x.Record) + ": masked and shortened, as stored"))
	}
	for _, line := range x.about {
		root.Note(typeset.Text("%s", shown(line)))
	}
	if x.timed {
		root.Note(typeset.Dim.Span(fmt.Sprintf("took %.3f ms", x.MS)))
	}
	if x.Error != "" {
		root.Note(typeset.Red.Span(shown(x.Error)))
	}
	if len(x.Hooks) == 0 {
		root.Add(typeset.Text("no hook listens"))
	}
	x.asked(root)
	if len(x.Merge) > 0 {
		merge := root.Add(typeset.Bold.Span("merge"))
		for _, line := range x.Merge {
			merge.Add(typeset.Text("%s", printable.Line(line)))
		}
	}
	x.verdict(root)
	x.observers(root)
	x.reply(root)
	return root
}

// asked draws the deciding hooks by phase, and the event after each change.
func (x *Explanation) asked(root *typeset.Tree) {
	var last *grapnel.Event // the last event that was shown
	var phase *typeset.Tree
	var name string
	for i := range x.Hooks {
		h := &x.Hooks[i]
		if h.Part == partLater || h.Phase == grapnel.PhaseObserve && h.Part != partNotAsked {
			continue
		}
		if h.saw != nil && h.saw != last {
			if last != nil && len(h.saw.Changed(last)) > 0 {
				x.changed(root.Add(typeset.Bold.Span("event now")), h.saw)
				name = ""
			}
			last = h.saw
		}
		if is := phaseOf(h); is != name {
			name, phase = is, root.Add(typeset.Bold.Span(is))
		}
		if h.Step == 0 && h.Part != partNotAsked && len(phase.Nodes) == maxUnread && !x.timed {
			phase.Add(typeset.Text("and others (see --all)"))
			break
		}
		x.hook(phase.Add(), h)
	}
}

// observers draws the hooks that run after the reply.
func (x *Explanation) observers(root *typeset.Tree) {
	var after *typeset.Tree
	for i := range x.Hooks {
		h := &x.Hooks[i]
		if h.Phase != grapnel.PhaseObserve || h.Part == partNotAsked {
			continue
		}
		if after == nil {
			after = root.Add(typeset.Bold.Span("observers"))
		}
		x.hook(after.Add(), h)
	}
}

// phaseOf returns the name of the group that a hook is drawn in.
func phaseOf(h *hookPart) string {
	if h.Part == partNotAsked {
		return "skipped"
	}
	name := map[grapnel.Phase]string{grapnel.PhaseRewrite: "rewrites", grapnel.PhaseRule: "rules", grapnel.PhaseStep: "step"}[h.Phase]
	if h.Phase == grapnel.PhaseStep && h.Step > 0 {
		name = fmt.Sprintf("step %d", h.Step)
	}
	if h.Round > 1 {
		name += ", again"
	}
	return name
}

// hook draws the run of a hook.
func (x *Explanation) hook(t *typeset.Tree, h *hookPart) {
	if h.Step > 0 && h.Phase != grapnel.PhaseStep {
		t.Row = append(t.Row, typeset.Text("%d ", h.Step))
	}
	t.Row = append(t.Row, typeset.Text("%s", printable.Line(h.Hook)))
	left := h.Part != partNotAsked && slices.Contains(x.NotRun, h.Hook)
	if did, style := h.did(); did != "" && !left {
		t.Row = append(t.Row, typeset.Text(" "), style.Span(did))
	}
	t.Row = append(t.Row, typeset.Dim.Span("  "+printable.Line(placeOf(h.Source, h.File, h.Line))))
	if h.matched != "" && h.matched != "event "+string(x.Event) { // the kind of event is shown above
		t.Note(typeset.Text("%s", shown(h.matched)))
	}
	switch {
	case left:
		t.Note(typeset.Yellow.Span("a " + x.kindOf(h.Hook)))
	case h.Part == partNotAsked, h.Part == partFailed && h.Error == "":
		t.Note(typeset.Yellow.Span(printable.Line(h.Reason)))
	case h.Part != partDecides && h.Reason != "" && h.Part != partOutvoted && h.Part != partLater:
		t.Note(typeset.Yellow.Span(printable.Line(h.Reason)))
	}
	if h.Error != "" && !strings.Contains(x.Error, h.Error) { // an unreadable event is reported once
		t.Note(typeset.Red.Span("failed: " + shown(h.Error)))
	}
	if h.Outcome != nil && h.Phase != grapnel.PhaseRewrite { // the result of rewrites is drawn below them
		for _, f := range slices.Sorted(maps.Keys(h.Outcome.Set)) {
			t.Note(typeset.Text("%s = %s", f, shown(valueText(h.Outcome.Set[f]))))
		}
		for _, f := range slices.Sorted(maps.Keys(h.Outcome.Patch)) {
			t.Note(typeset.Text("%s gets %s", f, shown(valueText(h.Outcome.Patch[f]))))
		}
	}
	switch {
	case h.Wrote != nil:
		h.wroteNotes(t)
	case x.timed && h.saw != nil:
		t.Note(typeset.Dim.Span(fmt.Sprintf("took %.3f ms", h.MS)))
	}
}

// wroteNotes adds the output and the duration of a program.
func (h *hookPart) wroteNotes(t *typeset.Tree) {
	end := fmt.Sprintf("exit %d", h.Wrote.Exit)
	if h.Wrote.Signal != "" {
		end = "ended by signal " + printable.Line(h.Wrote.Signal)
	}
	t.Note(typeset.Text("%s after %.1f ms", end, h.MS))
	for _, out := range []struct{ name, text string }{{"stdout", h.Wrote.Stdout}, {"stderr", h.Wrote.Stderr}} {
		if out.text != "" {
			t.Note(typeset.Text("%s: %s", out.name, shown(out.text)))
		}
	}
}

// did returns a short description of an outcome, and its style.
func (h *hookPart) did() (string, typeset.Style) {
	var words []string
	style := typeset.Normal
	if h.Decision > grapnel.None {
		words = append(words, map[grapnel.Decision]string{grapnel.Allow: "allows", grapnel.Ask: "asks", grapnel.Block: "blocks"}[h.Decision])
		style = map[grapnel.Decision]typeset.Style{grapnel.Allow: typeset.Green, grapnel.Ask: typeset.Yellow, grapnel.Block: typeset.Red}[h.Decision]
	}
	if h.Part == partObserves && h.Decision > grapnel.None {
		words[0], style = "would "+h.Decision.String(), typeset.Yellow
	}
	if len(h.run.Changed) > 0 {
		var fields []string
		for _, f := range h.run.Changed {
			fields = append(fields, string(f))
		}
		verb := "changes "
		if h.Part == partObserves {
			verb = "would change "
		}
		words = append(words, verb+listed(fields, "and"))
	}
	if h.Outcome != nil {
		if len(h.Outcome.Context) > 0 {
			words = append(words, "adds context")
		}
		if h.Outcome.Halt != "" {
			words, style = append(words, "ends the turn"), typeset.Red
		}
		if h.Outcome.Message != "" && h.Decision == grapnel.None {
			words = append(words, "sends a message to the user")
		}
	}
	switch {
	case h.Part == partLater:
		return "", typeset.Normal
	case h.Part == partOutvoted:
		words[0] += " (outvoted)"
	case h.Part == partExpired:
		words[0], style = words[0]+" (ignored)", typeset.Yellow
	case h.Part == partApproved:
		return "would " + h.run.Approved.String(), typeset.Yellow
	case h.Part == partFailed:
		words, style = append(words, "fails"), typeset.Red
	case h.Part == partNone && h.Phase != grapnel.PhaseObserve:
		return "no opinion", typeset.Dim
	}
	return strings.Join(words, ", "), style
}

// placeOf returns the position of a hook: FILE:LINE, and its pack.
func placeOf(source, file string, line int) string {
	at := file
	if line > 0 {
		at = fmt.Sprintf("%s:%d", file, line)
	}
	if pack, ok := strings.CutPrefix(source, file+"#"); ok {
		at += " (pack " + pack + ")"
	} else if format, ok := strings.CutSuffix(source, ":"+file); ok {
		at += " (" + format + ")"
	}
	return at
}

// changed draws the values of the event that differ from the original event.
func (x *Explanation) changed(t *typeset.Tree, now *grapnel.Event) {
	fields := now.Changed(x.sent)
	if len(fields) == 0 {
		t.Note(typeset.Text("unchanged"))
	}
	for _, f := range fields {
		wasRaw, _ := x.sent.Get(f)
		isRaw, _ := now.Get(f)
		was, is := parts(wasRaw), parts(isRaw)
		wasShown, isShown := parts(x.maskJSON(wasRaw)), parts(x.maskJSON(isRaw))
		for _, name := range slices.Sorted(maps.Keys(merged(was, is))) {
			if was[name] == is[name] {
				continue
			}
			title := string(f)
			if name != "" {
				title += "." + name
			}
			t.Note(typeset.Text("%s", printable.Line(title)))
			before, after := shown(wasShown[name]), shown(isShown[name])
			switch {
			case before == after:
				t.Note(typeset.Text("  differs only in masked parts: %s", after))
				continue
			case before != "":
				t.Note(typeset.Red.Span("- " + strings.ReplaceAll(before, "\n", "\n- ")))
			}
			if after != "" {
				t.Note(typeset.Green.Span("+ " + strings.ReplaceAll(after, "\n", "\n+ ")))
			}
		}
	}
}

// parts returns the members of a JSON object as text, or any other value under "".
func parts(raw json.RawMessage) map[string]string {
	if len(raw) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return map[string]string{"": valueText(raw)}
	}
	all := make(map[string]string, len(members))
	for name, value := range members {
		all[name] = valueText(value)
	}
	return all
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}

// valueText returns a JSON value for display: a string without quotes.
func valueText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// verdict draws the verdict.
func (x *Explanation) verdict(root *typeset.Tree) {
	v := &x.Verdict
	t := root.Add(typeset.Bold.Span("verdict "), cli.DecisionStyle(v.Decision.String()).Span(v.Decision.String()))
	var by []string
	for i := range x.Hooks {
		if h := &x.Hooks[i]; h.Part == partDecides && !slices.Contains(by, h.Hook) {
			by = append(by, h.Hook)
		}
	}
	if len(by) > 1 {
		t.Note(typeset.Dim.Span("by " + printable.Line(shortList(by, "and"))))
	}
	for _, r := range v.Reasons {
		t.Note(typeset.Text("%s", shown(r.Text)))
	}
	for _, field := range slices.Sorted(maps.Keys(v.Changes)) {
		t.Note(typeset.Text("%s is now %s", field, shown(string(v.Changes[field]))))
	}
	for _, context := range v.Context {
		t.Note(typeset.Text("context: %s", shown(context)))
	}
	for _, message := range v.Messages {
		t.Note(typeset.Text("to the user: %s", shown(message)))
	}
	if v.Halt != "" {
		t.Note(typeset.Text("halt: %s", shown(v.Halt)))
	}
}

// reply draws the reply, and the unsupported parts of the verdict.
func (x *Explanation) reply(root *typeset.Tree) {
	t := root.Add(typeset.Bold.Span("reply "), typeset.Text("exit %d", x.Reply.Exit))
	for _, out := range []struct{ name, text string }{{"stdout", x.Reply.Stdout}, {"stderr", x.Reply.Stderr}} {
		if out.text != "" {
			t.Note(typeset.Text("%s: %s", out.name, strings.TrimRight(printable.Text(out.text), "\n")))
		}
	}
	if x.Reply.Stdout == "" && x.Reply.Stderr == "" {
		t.Note(typeset.Text("nothing: the agent continues as without hooks"))
	}
	for _, text := range x.Verdict.Unsupported {
		t.Note(typeset.Yellow.Span("unsupported: " + printable.Text(text)))
	}
}

// rest lists the hooks that did not match; nil = all match.
func (x *Explanation) rest() *typeset.Tree {
	t := &typeset.Tree{Row: typeset.Row{typeset.Bold.Span("did not match this event")}}
	for _, n := range x.NotYet {
		line := []typeset.Span{typeset.Text("waits  %s  ", printable.Line(n.Hook)), typeset.Dim.Span(printable.Line(placeOf(n.Source, n.File, n.Line)))}
		t.Add(line...).Note(typeset.Text("%s", printable.Text(n.Why)))
	}
	for _, o := range x.Others {
		t.Add(typeset.Text("%s  ", printable.Line(o.Hook)), typeset.Dim.Span(printable.Line(placeOf(o.Source, o.File, o.Line))), typeset.Text("  %s", printable.Line(o.Because)))
	}
	hooks := printable.Count(x.more, "hook")
	switch {
	case x.more > 0 && len(t.Nodes) > 0:
		t.Add(typeset.Dim.Span("and " + hooks + " more (see --all)"))
	case x.more > 0:
		t.Row = append(t.Row, typeset.Dim.Span(": "+hooks+" (see --all)"))
	case len(t.Nodes) == 0:
		return nil
	}
	return t
}
