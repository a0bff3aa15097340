package explain

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// whyHook explains why one hook did or did not act.
type whyHook struct {
	Hook   string   `json:"hook"`
	Source string   `json:"source,omitempty"`
	File   string   `json:"file,omitempty"`
	Line   int      `json:"line,omitempty"`
	State  progress `json:"state"`
	Text   string   `json:"because"` // in one sentence

	left bool // excluded by `except`

	// Only for a hook in force.
	Scope   *grapnel.Scope  `json:"scope,omitempty"`
	Phase   *grapnel.Phase  `json:"phase,omitempty"`
	On      []grapnel.Kind  `json:"on,omitempty"`
	Mode    string          `json:"mode,omitempty"` // enforce or observe
	OnError grapnel.OnError `json:"on_error"`
	Checks  []match.Check   `json:"checks,omitempty"`
	Parts   []hookPart      `json:"parts,omitempty"` // in this firing
}

// progress is how far a hook got.
type progress string

// The states.
const (
	stateActed    progress = "acted"     // its outcome counts
	stateSilent   progress = "silent"    // it ran, but had no effect
	stateNotAsked progress = "not_asked" // it matches, but did not run
	stateOther    progress = "no_match"  // it does not match this event
	stateNoForce  progress = "not_in_force"
)

// why explains the hooks with a name.
func (t *explainer) why(name string, place local.Place, set *load.Set) error {
	var known []string
	for _, s := range t.specs {
		if marks(&s) {
			continue // a marker that stores events for `after:` is not the hook itself
		}
		known = append(known, s.Name)
		if named(&s, name) {
			t.x.Why = append(t.x.Why, t.whyOf(&s))
		}
	}
	for _, row := range set.Files {
		hooks, names := notInForce(row, name)
		for _, h := range hooks {
			inForce := func(w whyHook) bool { return w.File == h.File && w.State != stateNoForce }
			if h.left || !slices.ContainsFunc(t.x.Why, inForce) { // otherwise the hook in force is explained already
				t.x.Why = append(t.x.Why, h)
			}
		}
		known = append(known, names...)
	}
	if len(t.x.Why) > 0 {
		return nil
	}
	for _, of := range packs.All().Names() {
		pack, _ := packs.All().Find(of)
		hooks := pack.Hooks()
		known = append(known, hooks...)
		if slices.Contains(hooks, name) {
			t.x.Why = append(t.x.Why, whyHook{
				Hook: name, Source: of, State: stateNoForce,
				Text: fmt.Sprintf("%s did not act: it is a hook of the pack %s, which no policy in force uses", name, of),
			})
		}
	}
	if len(t.x.Why) > 0 {
		return nil
	}
	hint := fmt.Sprintf("\"grapnel explain --all\" lists all; the policy is %s", place.Policy)
	if near := cli.Nearest(name, known); len(near) > 0 {
		hint = "did you mean " + listed(near, "or") + "?"
	}
	return cli.WithHint(fmt.Errorf("no policy has a hook %q", name), hint)
}

// named reports whether a name means a hook: its name, or its name with a part of the full name
// before it.
func named(s *grapnel.Spec, name string) bool {
	if s.Name == name || s.FullName() == name {
		return true
	}
	rest, ok := strings.CutSuffix(s.FullName(), name)
	return ok && strings.Contains(name, "::") && (strings.HasSuffix(rest, "#") || strings.HasSuffix(rest, string(os.PathSeparator)))
}

// whyOf explains a hook in force.
func (t *explainer) whyOf(s *grapnel.Spec) whyHook {
	w := whyHook{
		Hook: s.Name, Source: s.Source.Name, File: s.Source.File, Line: s.Line,
		Scope: &s.Source.Scope, Phase: &s.Phase, On: s.On, Mode: "enforce", OnError: s.OnError,
	}
	if s.Observe {
		w.Mode = "observe"
	}
	for i := range t.x.Hooks {
		if h := &t.x.Hooks[i]; h.Hook == s.Name && h.Source == s.Source.Name && h.Phase == s.Phase {
			w.Parts = append(w.Parts, *h)
		}
	}
	if len(w.Parts) > 0 {
		last := &w.Parts[len(w.Parts)-1]
		w.Checks = last.Why
		w.State, w.Text = t.acted(s, last)
		return w
	}
	why := load.NewReasoner(s).Why(t.x.sent, nil)
	w.Checks = t.checks(why)
	why.Checks = w.Checks
	w.State = stateOther
	because := t.x.mask(whyNot(s, t.x.sent, &why))
	if why.Event {
		w.Text = fmt.Sprintf("%s did not match: %s", s.Name, because)
	} else {
		w.Text = fmt.Sprintf("%s did not act: %s, but this is %s", s.Name, because, t.x.sent.Kind)
	}
	return w
}

// acted returns the progress of a hook that matches, and a sentence about it.
func (t *explainer) acted(s *grapnel.Spec, h *hookPart) (progress, string) {
	verb := map[grapnel.Decision]string{grapnel.Allow: "allowed", grapnel.Ask: "asked about", grapnel.Block: "blocked"}[h.Decision]
	switch h.Part {
	case partDecides:
		if h.Error != "" {
			return stateActed, fmt.Sprintf("%s failed, which is treated as %s: %s", s.Name, h.Decision, h.Error)
		}
		return stateActed, fmt.Sprintf("%s %s this: %s", s.Name, verb, matchedText(h))
	case partOutvoted:
		return stateSilent, fmt.Sprintf("%s %s this, but was outvoted: %s", s.Name, verb, h.Reason)
	case partExpired:
		return stateSilent, fmt.Sprintf("%s allowed this, but its allow is ignored: %s", s.Name, h.Reason)
	case partApproved:
		return stateSilent, fmt.Sprintf("the %s of %s has no effect: %s", h.run.Approved, s.Name, h.Reason)
	case partObserves:
		did, _ := h.did()
		return stateSilent, fmt.Sprintf("%s is in observe mode: it %s", s.Name, did)
	case partFailed:
		return stateSilent, fmt.Sprintf("%s failed, which is treated as no opinion: %s", s.Name, h.Error)
	case partAdds:
		did, _ := h.did()
		return stateActed, fmt.Sprintf("%s acted: it %s", s.Name, did)
	case partNotAsked:
		return stateNotAsked, fmt.Sprintf("%s listens, but was skipped: %s", s.Name, h.Reason)
	case partLater:
		if slices.Contains(t.x.NotRun, s.Name) {
			return stateNotAsked, fmt.Sprintf("%s listens and runs after the reply: it is a %s", s.Name, t.x.kindOf(s.Name))
		}
		return stateActed, fmt.Sprintf("%s listens and runs after the reply", s.Name)
	case partNone:
	}
	if slices.Contains(t.x.NotRun, s.Name) {
		return stateNotAsked, fmt.Sprintf("%s listens, but is a %s", s.Name, t.x.kindOf(s.Name))
	}
	return stateSilent, fmt.Sprintf("%s ran, but had no opinion", s.Name)
}

func matchedText(h *hookPart) string {
	if h.matched != "" && !strings.HasPrefix(h.matched, "event ") {
		return h.matched
	}
	return "it matches every such event"
}

// notInForce returns the hooks with a name in a file that are not in force, and the names of all
// hooks in that file that are not in force.
func notInForce(row load.Loaded, name string) (hooks []whyHook, names []string) {
	if row.Format != "" {
		return nil, nil
	}
	p, errs := load.Read(row.File)
	add := func(line int, format string, args ...any) *whyHook {
		hooks = append(hooks, whyHook{
			Hook: name, File: row.File, Line: line, State: stateNoForce, Text: name + " did not act: " + fmt.Sprintf(format, args...),
		})
		return &hooks[len(hooks)-1]
	}
	cause := whyNotInForce(row, errs)
	if p == nil { // the file is not valid YAML
		if line := lineOf(row.File, name); line > 0 && cause != "" {
			add(line, "%s", cause)
		}
		return hooks, nil
	}
	for i := range p.Use {
		for _, w := range p.Use[i].Except {
			if names = append(names, w.Text); w.Text == name {
				add(w.Line, "the file leaves it out of the pack %s (`except`)", p.Use[i].Pack.Text).left = true
			}
		}
	}
	if cause == "" {
		return hooks, names
	}
	used, _ := load.PacksOf(p, row.File, packs.All())
	all := p.Hooks
	for _, pack := range used {
		all = append(all, pack.Policy.Hooks...)
	}
	for i := range all {
		if names = append(names, all[i].Name); all[i].Name == name {
			add(all[i].Line, "%s", cause)
		}
	}
	return hooks, names
}

// lineOf returns the first line of a file that seems to name a hook, or 0.
func lineOf(file, name string) int {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if _, value, ok := strings.Cut(line, "name:"); ok {
			value, _, _ = strings.Cut(value, ",")
			if strings.Trim(value, " \t\r\n\"'}") == name {
				return n
			}
		}
	}
	return 0
}

// whyNotInForce returns why the current content of a file is not in force; empty = it is.
func whyNotInForce(row load.Loaded, errs []*policyfile.Error) string {
	switch row.State {
	case load.Untrusted:
		return "the file is not trusted, so it has no effect (see \"grapnel trust\")"
	case load.Changed:
		return "the file differs from the trusted content, which stays active (see \"grapnel trust\")"
	case load.Ignored:
		return "a managed policy allows only managed policies"
	case load.Broken:
		text := "the file is broken, so its current content is not in force"
		if len(row.Errors) > 0 {
			text += ": " + row.Errors[0].Error()
		} else if len(errs) > 0 {
			text += ": " + errs[0].Error()
		}
		return text
	case load.Gone:
		return "the file is gone"
	case load.Valid, load.Absent, load.Trusted:
	}
	return ""
}

// PrintWhy prints why a hook did or did not act: first one sentence, then the details.
func (x *Explanation) PrintWhy(c *cli.Console) {
	for i := range x.Why {
		if i > 0 {
			fmt.Fprintln(c.Out)
		}
		c.Tree(x.Why[i].tree(x))
	}
}

func (w *whyHook) tree(x *Explanation) *typeset.Tree {
	style := map[progress]typeset.Style{stateActed: typeset.Green, stateSilent: typeset.Yellow, stateNotAsked: typeset.Yellow, stateOther: typeset.Yellow, stateNoForce: typeset.Red}[w.State]
	t := &typeset.Tree{Row: typeset.Row{style.Span(printable.Line(w.Text))}}
	if w.File != "" {
		t.Note(typeset.Dim.Span(printable.Line(placeOf(w.Source, w.File, w.Line))))
	}
	if w.State == stateNoForce {
		return t
	}
	about := fmt.Sprintf("%s of the %s", w.Phase, w.Scope)
	if w.Mode == "observe" {
		about += ", observe mode"
	}
	t.Note(typeset.Text("%s", about))
	conditions := t.Add(typeset.Bold.Span("conditions"))
	on := "every event"
	if len(w.On) > 0 {
		on = kinds(w.On)
	}
	listens := len(w.On) == 0 || slices.Contains(w.On, x.Event)
	event := conditions.Add(yesNo(listens), typeset.Text("on %s", printable.Line(on)))
	if !listens {
		event.Note(typeset.Text("the event is %s", printable.Line(string(x.Event))))
	}
	for i := range w.Checks {
		checkTree(conditions, &w.Checks[i])
	}
	if len(w.Parts) > 0 {
		part := t.Add(typeset.Bold.Span("its part"))
		for i := range w.Parts {
			h := &w.Parts[i]
			if h.saw != nil && len(h.saw.Changed(x.sent)) > 0 {
				x.changed(part.Add(typeset.Text("the event it received")), h.saw)
			}
			x.hook(part.Add(), h)
		}
	}
	return t
}

// yesNo returns whether a condition holds, in words of equal width.
func yesNo(ok bool) typeset.Span {
	if ok {
		return typeset.Green.Span("yes  ")
	}
	return typeset.Red.Span("no   ")
}

// maxWords is how many values of a condition are shown, in addition to the matching ones.
const maxWords = 12

// checkTree draws a condition and its inner conditions.
func checkTree(t *typeset.Tree, c *match.Check) {
	key := strings.TrimPrefix(c.Key, "match.")
	n := t.Add(yesNo(c.OK))
	switch takes := strings.HasSuffix(key, "]") && strings.HasPrefix(key, "except") || key == "not" || strings.HasSuffix(key, ".not"); {
	case takes && c.OK:
		n.Row = append(n.Row, typeset.Text("%s excludes nothing", printable.Line(key)))
	case takes:
		n.Row = append(n.Row, typeset.Text("%s excludes the event", printable.Line(key)))
	default:
		n.Row = append(n.Row, typeset.Text("%s", printable.Line(key[strings.LastIndex(key, ".")+1:])))
	}
	if c.Op != "" {
		n.Row = append(n.Row, typeset.Text(" (%s)", c.Op))
	}
	if c.Key == "when" {
		n.Row = append(n.Row, typeset.Text(" %s", printable.Line(strings.Join(c.Want, " "))))
	} else if len(c.Want) > 0 {
		n.Note(typeset.Text("wants %s", shown(fittingFirst(c))))
	}
	if len(c.Got) > 0 {
		n.Note(typeset.Text("has   %s", shown(someWords(c.Got))))
	} else if len(c.Want) > 0 && len(c.Of) == 0 && c.Key != "when" {
		n.Note(typeset.Text("has   no value"))
	}
	for i := range c.Of {
		checkTree(n, &c.Of[i])
	}
}

// fittingFirst lists the values of a condition, matching values first.
func fittingFirst(c *match.Check) string {
	var fit, rest []string
	for i, w := range c.Want {
		if slices.Contains(c.Fits, i) {
			fit = append(fit, w)
		} else {
			rest = append(rest, w)
		}
	}
	switch {
	case len(fit) == 0:
		return someWords(rest)
	case len(rest) == 0:
		return someWords(fit)
	}
	return someWords(fit) + " (or " + someWords(rest) + ")"
}

func someWords(words []string) string {
	var list []string
	for i, w := range words {
		if i == maxWords && len(words) > maxWords+1 {
			return strings.Join(list, ", ") + fmt.Sprintf(" and %d more", len(words)-maxWords)
		}
		list = append(list, cut(strings.Join(strings.Fields(w), " "), 100))
	}
	return strings.Join(list, ", ")
}
