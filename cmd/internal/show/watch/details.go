package watch

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// maxRows is the maximum number of lines in the details of one event.
const maxRows = 3000

// Details returns a Record and the late results of its hooks in readable lines, for a terminal of
// that many columns; 0 means that no line is broken. color adds colors.
func Details(e *spool.Entry, late []spool.Entry, width int, color bool, opts Options) []string {
	width = cmp.Or(width, math.MaxInt32)
	d := details{Model: New(opts), width: width}
	for _, entry := range append([]spool.Entry{*e}, late...) {
		for i := range entry.Hooks {
			d.names = max(d.names, printable.Columns(inLine(entry.Hooks[i].Name)))
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
		d.text(red, "  error: ", late[i].Error)
	}
	d.origin(e)
	d.event(it)
	var lines []string
	for _, r := range d.rows {
		text := r.plain()
		if color {
			text = r.fit(math.MaxInt32, false)
		}
		lines = append(lines, strings.TrimRight(text, " "))
	}
	return lines
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
		d.text(normal, "  "+left(field.name, 12), field.value)
	}
}

// count formats a number; 0 is "".
func count(n int) string {
	if n == 0 {
		return ""
	}
	return printable.Number(n)
}

// detailRows returns the details of the selected event as lines for a width in columns.
func (m *Model) detailRows(width int) []row {
	it := m.selected()
	if it == nil {
		return []row{line(dim, "no event is selected")}
	}
	d := details{Model: m, width: width}
	d.item(it)
	d.event(it)
	return d.rows
}

// item adds everything about an event but the event itself.
func (d *details) item(it *Item) {
	word := Word(&it.Entry)
	r := row{{it.Time.In(d.opts.Location).Format("2006-01-02 15:04:05.000  "), dim}, {inLine(it.Agent), bold}, {"  " + inLine(string(it.Event)), bold}}
	if it.Tool != "" {
		r = append(r, span{"  " + inLine(it.Tool), bold})
	}
	r = append(r, span{"  " + word, wordLook[word]})
	if it.Would > grapnel.None {
		r = append(r, span{" (would " + it.Would.String() + ")", dim})
	}
	d.add(append(r, span{fmt.Sprintf("  %.1f ms", it.MS), normal}))
	d.add(line(dim, "session "+orNone(inLine(it.Session))+"  in "+d.dirName(it.Dir)+"  record "+inLine(it.ID)))
	d.text(normal, "", it.About)
	if it.Note != "" {
		d.text(yellow, "", it.Note)
	}
	if it.Error != "" {
		d.text(red, "error: ", it.Error)
	}
	if it.Halt != "" {
		d.text(red, "halt: ", it.Halt)
	}
	for _, reason := range it.Reasons {
		look := normal
		if reason.Cause == grapnel.CauseError || reason.Cause == grapnel.CauseTimeout {
			look = yellow
		}
		_, name, found := strings.Cut(reason.Hook, "::") // the line of the hook shows its source
		if !found {
			name = reason.Hook
		}
		d.text(look, "because of "+inLine(name)+": ", reason.Text)
	}
	if len(it.Hooks) > 0 {
		d.section("hooks")
		for i := range it.Hooks {
			d.hook(&it.Hooks[i])
		}
	}
	for _, c := range it.Diffs {
		d.section("changed: " + inLine(string(c.Field)))
		d.change(c)
	}
	for _, field := range it.Conflicts {
		d.text(yellow, "conflict: ", "two hooks replaced "+field)
	}
	if len(it.Context) > 0 {
		d.section("context for the model")
		for _, text := range it.Context {
			d.text(normal, "  ", text)
		}
	}
	if len(it.Unsupported) > 0 {
		d.section("unsupported by the agent")
		for _, text := range it.Unsupported {
			d.text(yellow, "  ", text)
		}
	}
}

// event adds the event as it was recorded.
func (d *details) event(it *Item) {
	if it.Payload == "" {
		return
	}
	d.section("event as recorded")
	for _, text := range broken(it.Payload, d.width-2, false) {
		d.add(line(normal, "  "+text))
	}
}

// details collects lines.
type details struct {
	*Model
	rows  []row
	width int
	names int // width of the names of hooks; 0 = a third of width
}

func (d *details) add(r row) {
	if len(d.rows) < maxRows {
		d.rows = append(d.rows, r)
	} else if len(d.rows) == maxRows {
		d.rows = append(d.rows, line(dim, "… too long to show: see \"grapnel log --json\""))
	}
}

func (d *details) section(name string) { d.add(line(bold, name)) }

// text adds a text after a prefix. Further lines are indented to the start of the text, or by two
// columns if the prefix is too wide.
func (d *details) text(look style, before, text string) {
	if text == "" {
		return
	}
	by := printable.Columns(before)
	if by > d.width/3 {
		d.add(line(look, strings.TrimRight(before, " ")))
		before, by = "  ", 2
	}
	for i, part := range wrapped(text, d.width-by) {
		if i > 0 {
			before = strings.Repeat(" ", by)
		}
		d.add(row{{before, look}, {part, look}})
	}
}

// hook adds the result of one hook.
func (d *details) hook(h *grapnel.HookRun) {
	word, look := h.Decision.String(), wordLook[h.Decision.String()]
	switch {
	case h.Error != "" && h.FailOpen:
		word, look = "FAILED OPEN", yellow
	case h.Error != "":
		word, look = "FAILED", red
	case h.Halt:
		word, look = "halt", red
	case h.Approved > grapnel.None:
		word, look = "allowed", yellow
	case h.Observed && h.Decision > grapnel.None:
		word, look = "would "+h.Decision.String(), dim
	case h.Decision == grapnel.None && len(h.Changed) > 0:
		word, look = "change", cyan
	}
	r := row{{"  " + left(inLine(h.Name), cmp.Or(d.names, within(d.width/3, 12, 40))), normal}, {" " + left(word, 12), look}}
	switch {
	case h.MS >= d.slow:
		r = append(r, span{right(took(h.MS), 6) + " slow", yellow})
	case h.Async && h.MS == 0:
		r = append(r, span{" later", dim})
	default:
		r = append(r, span{right(took(h.MS), 6), dim})
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
	from := d.dirName(h.Source)
	if h.Line > 0 {
		from += fmt.Sprintf(":%d", h.Line)
	}
	d.add(append(r, span{"  " + inLine(strings.Join(append(notes, from), ", ")), dim}))
	if h.Error != "" {
		if h.Cause != "" {
			d.text(look, "    "+inLine(string(h.Cause))+": ", h.Error)
		} else {
			d.text(look, "    ", h.Error)
		}
	}
}

// change adds the difference between the old and the new value of a field, line by line.
func (d *details) change(c Diff) {
	if len(c.Lines) == 0 {
		d.add(line(dim, "  the new value was not recorded"))
	}
	for _, text := range c.Lines {
		if text == "" {
			continue
		}
		look := dim
		switch text[0] {
		case '-':
			look = red
		case '+':
			look = green
		}
		for i, part := range broken(text[1:], d.width-4, false) {
			sign := text[:1]
			if i > 0 {
				sign = " "
			}
			d.add(row{{"  " + sign + " ", look}, {part, look}})
		}
	}
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
