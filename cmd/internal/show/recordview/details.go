package recordview

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// maxRows is the maximum number of lines in the details of one event.
const maxRows = 3000

// A Form is the way in which details are shown.
type Form struct {
	Width    int            // in columns; 0 means that no line is broken
	Slow     time.Duration  // from which a hook is slow; 0 = no hook is
	Location *time.Location // of times; nil = local
	Home     string         // displayed as ~; empty = no replacement
}

// Record returns a Record with the late results of its hooks, and where it was judged.
func (f Form) Record(e *spool.Entry, late []spool.Entry) []typeset.Row {
	d := f.details()
	for _, entry := range append([]spool.Entry{*e}, late...) {
		for i := range entry.Hooks {
			d.names = max(d.names, printable.Columns(Line(entry.Hooks[i].Name)))
		}
	}
	it := NewItem(e)
	d.item(it)
	if len(late) > 0 {
		d.section("after the reply")
	}
	for i := range late {
		for k := range late[i].Hooks {
			d.hook(&late[i].Hooks[k])
		}
		d.text(typeset.Red, "  error: ", late[i].Error)
	}
	d.origin(e)
	d.event(it)
	return d.rows
}

// Item returns the details of an Item.
func (f Form) Item(it *Item) []typeset.Row {
	d := f.details()
	d.item(it)
	d.event(it)
	return d.rows
}

func (f Form) details() details {
	f.Width = cmp.Or(f.Width, typeset.NoLimit)
	f.Location = cmp.Or(f.Location, time.Local)
	slow := math.Inf(1)
	if f.Slow > 0 {
		slow = float64(f.Slow) / float64(time.Millisecond)
	}
	return details{Form: f, slow: slow}
}

// Dir returns a directory on one line, with ~ for the home directory.
func (f Form) Dir(dir string) string {
	if dir == "" {
		return "-"
	}
	if rest, ok := strings.CutPrefix(dir, f.Home); ok && f.Home != "" && (rest == "" || rest[0] == '/' || rest[0] == '\\') {
		dir = "~" + rest
	}
	return Line(dir)
}

// origin adds where the event was judged, and by which policy.
func (d *details) origin(e *spool.Entry) {
	begun := false
	for _, field := range []struct{ name, value string }{
		{"host", e.Host},
		{"user", e.User},
		{"machine", e.Machine},
		{"policies", e.PolicyDigest},
		{"revision", e.PolicyRevision},
		{"approval", e.Approval},
		{"provenance", e.Provenance},
		{"gateway", e.Gateway},
		{"tokens in", count(e.TokensIn)},
		{"tokens out", count(e.TokensOut)},
	} {
		if field.value != "" && !begun {
			d.section("origin")
			begun = true
		}
		d.text(typeset.Normal, "  "+typeset.Left(field.name, 12), field.value)
	}
}

// count formats a number; 0 is "".
func count(n int) string {
	if n == 0 {
		return ""
	}
	return printable.Number(n)
}

// item adds everything about an event but the event itself.
func (d *details) item(it *Item) {
	word := Word(&it.Entry)
	r := typeset.Row{typeset.Dim.Span(it.Time.In(d.Location).Format("2006-01-02 15:04:05.000  ")), typeset.Bold.Span(Line(it.Agent)), typeset.Bold.Span("  " + Line(string(it.Event)))}
	if it.Tool != "" {
		r = append(r, typeset.Bold.Span("  "+Line(it.Tool)))
	}
	r = append(r, Style(word).Span("  "+word))
	if it.Would > grapnel.None {
		r = append(r, typeset.Dim.Span(" (would "+it.Would.String()+")"))
	}
	d.add(append(r, typeset.Normal.Span(fmt.Sprintf("  %.1f ms", it.MS))))
	d.add(typeset.Dim.Row("session " + orNone(Line(it.Session)) + "  in " + d.Dir(it.Dir) + "  record " + Line(it.ID)))
	d.text(typeset.Normal, "", it.About)
	if it.Note != "" {
		d.text(typeset.Yellow, "", it.Note)
	}
	if it.Error != "" {
		d.text(typeset.Red, "error: ", it.Error)
	}
	if it.Halt != "" {
		d.text(typeset.Red, "halt: ", it.Halt)
	}
	for _, reason := range it.Reasons {
		look := typeset.Normal
		if reason.Cause == grapnel.CauseError || reason.Cause == grapnel.CauseTimeout {
			look = typeset.Yellow
		}
		_, name, found := strings.Cut(reason.Hook, "::") // the line of the hook shows its source
		if !found {
			name = reason.Hook
		}
		d.text(look, "because of "+Line(name)+": ", reason.Text)
	}
	if len(it.Hooks) > 0 {
		d.section("hooks")
		for i := range it.Hooks {
			d.hook(&it.Hooks[i])
		}
	}
	for _, c := range it.Diffs {
		d.section("changed: " + Line(string(c.Field)))
		d.change(c)
	}
	for _, field := range it.Conflicts {
		d.text(typeset.Yellow, "conflict: ", "two hooks replaced "+field)
	}
	if len(it.Context) > 0 {
		d.section("context for the model")
		for _, text := range it.Context {
			d.text(typeset.Normal, "  ", text)
		}
	}
	if len(it.Unsupported) > 0 {
		d.section("unsupported by the agent")
		for _, text := range it.Unsupported {
			d.text(typeset.Yellow, "  ", text)
		}
	}
}

// event adds the event as it was recorded.
func (d *details) event(it *Item) {
	if it.Payload == "" {
		return
	}
	d.section("event as recorded")
	for _, text := range broken(it.Payload, d.Width-2, false) {
		d.add(typeset.Normal.Row("  " + text))
	}
}

// details collects rows.
type details struct {
	Form

	slow  float64 // milliseconds
	names int     // width of the names of hooks; 0 = a third of the width
	rows  []typeset.Row
}

func (d *details) add(r typeset.Row) {
	if len(d.rows) < maxRows {
		d.rows = append(d.rows, r)
	} else if len(d.rows) == maxRows {
		d.rows = append(d.rows, typeset.Dim.Row("… too long to show: see \"grapnel log --json\""))
	}
}

func (d *details) section(name string) { d.add(typeset.Bold.Row(name)) }

// text adds a text after a prefix. Further lines are indented to the start of the text, or by two
// columns if the prefix is too wide.
func (d *details) text(look typeset.Style, before, text string) {
	if text == "" {
		return
	}
	by := printable.Columns(before)
	if by > d.Width/3 {
		d.add(look.Row(strings.TrimRight(before, " ")))
		before, by = "  ", 2
	}
	for i, part := range broken(text, d.Width-by, true) {
		if i > 0 {
			before = strings.Repeat(" ", by)
		}
		d.add(typeset.Row{look.Span(before), look.Span(part)})
	}
}

// hook adds the result of one hook.
func (d *details) hook(h *grapnel.HookRun) {
	word := h.Decision.String()
	look := Style(word)
	switch did := DidOf(h); {
	case did == FailedOpen:
		word, look = "FAILED OPEN", typeset.Yellow
	case did == Failed:
		word, look = "FAILED", typeset.Red
	case h.Halt:
		word, look = "halt", typeset.Red
	case did == Approved:
		word, look = "allowed", typeset.Yellow
	case did == Would:
		word, look = "would "+word, typeset.Dim
	case did == Changed:
		word, look = "change", typeset.Cyan
	}
	r := typeset.Row{typeset.Normal.Span("  " + typeset.Left(Line(h.Name), cmp.Or(d.names, max(12, min(d.Width/3, 40))))), look.Span(" " + typeset.Left(word, 12))}
	switch {
	case h.MS >= d.slow:
		r = append(r, typeset.Yellow.Span(typeset.Right(Took(h.MS), 6)+" slow"))
	case h.Async && h.MS == 0:
		r = append(r, typeset.Dim.Span(" later"))
	default:
		r = append(r, typeset.Dim.Span(typeset.Right(Took(h.MS), 6)))
	}
	var notes []string
	if h.Observed && h.Decision == grapnel.None {
		notes = append(notes, "observe mode")
	}
	if h.Expired {
		notes = append(notes, "its allow is ignored")
	}
	if h.Round > 1 {
		notes = append(notes, "asked again")
	}
	for _, field := range h.Changed {
		notes = append(notes, "changed "+string(field))
	}
	from := d.Dir(h.Source)
	if h.Line > 0 {
		from += fmt.Sprintf(":%d", h.Line)
	}
	d.add(append(r, typeset.Dim.Span("  "+Line(strings.Join(append(notes, from), ", ")))))
	if h.Error != "" {
		if h.Cause != "" {
			d.text(look, "    "+Line(string(h.Cause))+": ", h.Error)
		} else {
			d.text(look, "    ", h.Error)
		}
	}
}

// change adds the difference between the old and the new value of a field, line by line.
func (d *details) change(c Diff) {
	if len(c.Lines) == 0 {
		d.add(typeset.Dim.Row("  the new value was not recorded"))
	}
	for _, text := range c.Lines {
		if text == "" {
			continue
		}
		look := typeset.Dim
		switch text[0] {
		case '-':
			look = typeset.Red
		case '+':
			look = typeset.Green
		}
		for i, part := range broken(text[1:], d.Width-4, false) {
			sign := text[:1]
			if i > 0 {
				sign = " "
			}
			d.add(typeset.Row{look.Span("  " + sign + " "), look.Span(part)})
		}
	}
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
