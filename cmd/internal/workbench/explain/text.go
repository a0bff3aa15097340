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
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Print draws the firing, and lists below it the hooks that did not match.
func (x *Explanation) Print(c *cli.Console) {
	for _, notice := range x.Notices {
		fmt.Fprintln(c.Out, c.Paint(cli.Yellow, printable.Text(notice)))
	}
	if slices.ContainsFunc(x.Policies, load.Loaded.OfProject) {
		fmt.Fprintln(c.Out, c.Paint(cli.Bold, "policies"))
		c.PrintPolicies(x.Policies)
	}
	p := newPen(c)
	p.draw(x.tree())
	if rest := x.rest(); rest != nil {
		p.draw(rest)
	}
}

// maxUnread is how many hooks are shown that fail because the event cannot be read.
const maxUnread = 5

// maxShown is how many characters of a text are shown.
const maxShown = 2000

// shown returns a text for the terminal, without control sequences.
func shown(text string) string { return printable.Text(cut(strings.TrimRight(text, "\n"), maxShown)) }

// tree draws the firing from the event to the reply.
func (x *Explanation) tree() *tree {
	root := &tree{line: []span{{"event", cli.Bold}, text(" %s", printable.Line(string(x.Event)))}}
	if x.sent.Tool != nil {
		root.line = append(root.line, text(" %s", printable.Line(x.sent.Tool.Name)))
	}
	root.line = append(root.line, text(" (%s)", printable.Line(x.Agent)))
	if x.Record != "" {
		root.note(span{"of the record " + printable.Line(x.Record) + ": masked and shortened, as stored", cli.Yellow})
	}
	for _, line := range x.about {
		root.note(text("%s", shown(line)))
	}
	if x.timed {
		root.note(span{fmt.Sprintf("took %.3f ms", x.MS), cli.Dim})
	}
	if x.Error != "" {
		root.note(span{shown(x.Error), cli.Red})
	}
	if len(x.Hooks) == 0 {
		root.add(text("no hook listens"))
	}
	x.asked(root)
	if len(x.Merge) > 0 {
		merge := root.add(span{"merge", cli.Bold})
		for _, line := range x.Merge {
			merge.add(text("%s", printable.Line(line)))
		}
	}
	x.verdict(root)
	x.observers(root)
	x.reply(root)
	return root
}

// asked draws the deciding hooks by phase, and the event after each change.
func (x *Explanation) asked(root *tree) {
	var last *grapnel.Event // the last event that was shown
	var phase *tree
	var name string
	for i := range x.Hooks {
		h := &x.Hooks[i]
		if h.Part == partLater || h.Phase == grapnel.PhaseObserve && h.Part != partNotAsked {
			continue
		}
		if h.saw != nil && h.saw != last {
			if last != nil && len(h.saw.Changed(last)) > 0 {
				x.changed(root.add(span{"event now", cli.Bold}), h.saw)
				name = ""
			}
			last = h.saw
		}
		if is := phaseOf(h); is != name {
			name, phase = is, root.add(span{is, cli.Bold})
		}
		if h.Step == 0 && h.Part != partNotAsked && len(phase.nodes) == maxUnread && !x.timed {
			phase.add(text("and others (see --all)"))
			break
		}
		x.hook(phase.add(), h)
	}
}

// observers draws the hooks that run after the reply.
func (x *Explanation) observers(root *tree) {
	var after *tree
	for i := range x.Hooks {
		h := &x.Hooks[i]
		if h.Phase != grapnel.PhaseObserve || h.Part == partNotAsked {
			continue
		}
		if after == nil {
			after = root.add(span{"observers", cli.Bold})
		}
		x.hook(after.add(), h)
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
func (x *Explanation) hook(t *tree, h *hookPart) {
	if h.Step > 0 && h.Phase != grapnel.PhaseStep {
		t.line = append(t.line, text("%d ", h.Step))
	}
	t.line = append(t.line, text("%s", printable.Line(h.Hook)))
	left := h.Part != partNotAsked && slices.Contains(x.NotRun, h.Hook)
	if did, code := h.did(); did != "" && !left {
		t.line = append(t.line, text(" "), span{did, code})
	}
	t.line = append(t.line, span{"  " + printable.Line(placeOf(h.Source, h.File, h.Line)), cli.Dim})
	if h.matched != "" && h.matched != "event "+string(x.Event) { // the kind of event is shown above
		t.note(text("%s", shown(h.matched)))
	}
	switch {
	case left:
		t.note(span{"a " + x.kindOf(h.Hook), cli.Yellow})
	case h.Part == partNotAsked, h.Part == partFailed && h.Error == "":
		t.note(span{printable.Line(h.Reason), cli.Yellow})
	case h.Part != partDecides && h.Reason != "" && h.Part != partOutvoted && h.Part != partLater:
		t.note(span{printable.Line(h.Reason), cli.Yellow})
	}
	if h.Error != "" && !strings.Contains(x.Error, h.Error) { // an unreadable event is reported once
		t.note(span{"failed: " + shown(h.Error), cli.Red})
	}
	if h.Outcome != nil && h.Phase != grapnel.PhaseRewrite { // the result of rewrites is drawn below them
		for _, f := range slices.Sorted(maps.Keys(h.Outcome.Set)) {
			t.note(text("%s = %s", f, shown(valueText(h.Outcome.Set[f]))))
		}
		for _, f := range slices.Sorted(maps.Keys(h.Outcome.Patch)) {
			t.note(text("%s gets %s", f, shown(valueText(h.Outcome.Patch[f]))))
		}
	}
	switch {
	case h.Wrote != nil:
		h.wroteNotes(t)
	case x.timed && h.saw != nil:
		t.note(span{fmt.Sprintf("took %.3f ms", h.MS), cli.Dim})
	}
}

// wroteNotes adds the output and the duration of a program.
func (h *hookPart) wroteNotes(t *tree) {
	end := fmt.Sprintf("exit %d", h.Wrote.Exit)
	if h.Wrote.Signal != "" {
		end = "ended by signal " + printable.Line(h.Wrote.Signal)
	}
	t.note(text("%s after %.1f ms", end, h.MS))
	for _, out := range []struct{ name, text string }{{"stdout", h.Wrote.Stdout}, {"stderr", h.Wrote.Stderr}} {
		if out.text != "" {
			t.note(text("%s: %s", out.name, shown(out.text)))
		}
	}
}

// did returns a short description of an outcome, and its color.
func (h *hookPart) did() (string, string) {
	var words []string
	code := ""
	if h.Decision > grapnel.None {
		words = append(words, map[grapnel.Decision]string{grapnel.Allow: "allows", grapnel.Ask: "asks", grapnel.Block: "blocks"}[h.Decision])
		code = map[grapnel.Decision]string{grapnel.Allow: cli.Green, grapnel.Ask: cli.Yellow, grapnel.Block: cli.Red}[h.Decision]
	}
	if h.Part == partObserves && h.Decision > grapnel.None {
		words[0], code = "would "+h.Decision.String(), cli.Yellow
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
			words, code = append(words, "ends the turn"), cli.Red
		}
		if h.Outcome.Message != "" && h.Decision == grapnel.None {
			words = append(words, "sends a message to the user")
		}
	}
	switch {
	case h.Part == partLater:
		return "", ""
	case h.Part == partOutvoted:
		words[0] += " (outvoted)"
	case h.Part == partExpired:
		words[0], code = words[0]+" (ignored)", cli.Yellow
	case h.Part == partApproved:
		return "would " + h.run.Approved.String(), cli.Yellow
	case h.Part == partFailed:
		words, code = append(words, "fails"), cli.Red
	case h.Part == partNone && h.Phase != grapnel.PhaseObserve:
		return "no opinion", cli.Dim
	}
	return strings.Join(words, ", "), code
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
func (x *Explanation) changed(t *tree, now *grapnel.Event) {
	fields := now.Changed(x.sent)
	if len(fields) == 0 {
		t.note(text("unchanged"))
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
			t.note(text("%s", printable.Line(title)))
			before, after := shown(wasShown[name]), shown(isShown[name])
			switch {
			case before == after:
				t.note(text("  differs only in masked parts: %s", after))
				continue
			case before != "":
				t.note(span{"- " + strings.ReplaceAll(before, "\n", "\n- "), cli.Red})
			}
			if after != "" {
				t.note(span{"+ " + strings.ReplaceAll(after, "\n", "\n+ "), cli.Green})
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
func (x *Explanation) verdict(root *tree) {
	v := &x.Verdict
	t := root.add(span{"verdict ", cli.Bold}, span{v.Decision.String(), cli.DecisionColour(v.Decision.String())})
	var by []string
	for i := range x.Hooks {
		if h := &x.Hooks[i]; h.Part == partDecides && !slices.Contains(by, h.Hook) {
			by = append(by, h.Hook)
		}
	}
	if len(by) > 1 {
		t.note(span{"by " + printable.Line(shortList(by, "and")), cli.Dim})
	}
	for _, r := range v.Reasons {
		t.note(text("%s", shown(r.Text)))
	}
	for _, field := range slices.Sorted(maps.Keys(v.Changes)) {
		t.note(text("%s is now %s", field, shown(string(v.Changes[field]))))
	}
	for _, context := range v.Context {
		t.note(text("context: %s", shown(context)))
	}
	for _, message := range v.Messages {
		t.note(text("to the user: %s", shown(message)))
	}
	if v.Halt != "" {
		t.note(text("halt: %s", shown(v.Halt)))
	}
}

// reply draws the reply, and the unsupported parts of the verdict.
func (x *Explanation) reply(root *tree) {
	t := root.add(span{"reply ", cli.Bold}, text("exit %d", x.Reply.Exit))
	for _, out := range []struct{ name, text string }{{"stdout", x.Reply.Stdout}, {"stderr", x.Reply.Stderr}} {
		if out.text != "" {
			t.note(text("%s: %s", out.name, strings.TrimRight(printable.Text(out.text), "\n")))
		}
	}
	if x.Reply.Stdout == "" && x.Reply.Stderr == "" {
		t.note(text("nothing: the agent continues as without hooks"))
	}
	for _, text := range x.Verdict.Unsupported {
		t.note(span{"unsupported: " + printable.Text(text), cli.Yellow})
	}
}

// rest lists the hooks that did not match; nil = all match.
func (x *Explanation) rest() *tree {
	t := &tree{line: []span{{"did not match this event", cli.Bold}}}
	for _, n := range x.NotYet {
		line := []span{text("waits  %s  ", printable.Line(n.Hook)), {printable.Line(placeOf(n.Source, n.File, n.Line)), cli.Dim}}
		t.add(line...).note(text("%s", printable.Text(n.Why)))
	}
	for _, o := range x.Others {
		t.add(text("%s  ", printable.Line(o.Hook)), span{printable.Line(placeOf(o.Source, o.File, o.Line)), cli.Dim}, text("  %s", printable.Line(o.Because)))
	}
	hooks := printable.Count(x.more, "hook")
	switch {
	case x.more > 0 && len(t.nodes) > 0:
		t.add(span{"and " + hooks + " more (see --all)", cli.Dim})
	case x.more > 0:
		t.line = append(t.line, span{": " + hooks + " (see --all)", cli.Dim})
	case len(t.nodes) == 0:
		return nil
	}
	return t
}
