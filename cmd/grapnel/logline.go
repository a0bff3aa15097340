package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/watch"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// Widths of a terminal from which a line of the log has all columns, the agent, and both the tool
// and the seconds.
const (
	wideLog   = 140
	agentLog  = 100
	mediumLog = 76
)

// logLines prints Records as lines of text.
type logLines struct {
	*console
	ctx context.Context
	ids *store.IDs
	day string // of the last line
}

// print prints one Record: with all columns, or on a narrow terminal with fewer, below a line with
// the day.
func (l *logLines) print(e *spool.Entry) error {
	width := l.Columns()
	limit := math.MaxInt
	if width > 0 {
		limit = 4 * width // bytes
	}
	about := inOneLine(watch.About(e, limit))
	if e.Late {
		about = ""
	}
	id := cli.Span{Text: fmt.Sprintf("%-12s  ", inOneLine(l.ids.Short(l.ctx, e.ID))), Code: cli.Yellow}
	at := e.Time.Local()
	word := decisionWord(e)
	decision := cli.Span{Text: fmt.Sprintf("%-11s", word), Code: cli.DecisionColour(word)}
	by := l.hooks(e, word)
	if width == 0 || width >= wideLog {
		row := []cli.Span{
			id,
			{Text: fmt.Sprintf("%s  %-11s %-17s %-18s ", at.Format("01-02 15:04:05"), inOneLine(e.Agent), inOneLine(string(e.Event)), inOneLine(e.Tool))},
			decision,
			{Text: fmt.Sprintf(" %6.1f ms", e.MS)},
		}
		return l.Row(append(append(row, by...), gap(about))...)
	}
	if day := at.Format("2006-01-02"); day != l.day {
		l.day = day
		if err := l.Row(cli.Span{Text: day, Code: cli.Bold}); err != nil {
			return err
		}
	}
	tool := gap(cmp.Or(inOneLine(e.Tool), strings.TrimPrefix(inOneLine(string(e.Event)), records.Own)))
	clock := "15:04:05  "
	if width < mediumLog {
		clock = "15:04  "
		if about != "" {
			tool = cli.Span{}
		}
	}
	row := []cli.Span{id, {Text: at.Format(clock)}, decision, tool}
	if width >= agentLog {
		row = slices.Insert(row, 2, cli.Span{Text: fmt.Sprintf("%-11s  ", inOneLine(e.Agent))})
	}
	room := width
	for _, s := range row {
		room -= printable.Columns(s.Text)
	}
	// The hooks leave at least half of the line for the subject, if it needs that much.
	room -= min(room/2, printable.Columns(gap(about).Text))
	for _, s := range by {
		s.Text = printable.Cut(s.Text, room)
		room -= printable.Columns(s.Text)
		row = append(row, s)
	}
	return l.Row(append(row, gap(about))...)
}

// gap returns a span with two spaces before a text, or nothing.
func gap(text string) cli.Span {
	if text == "" {
		return cli.Span{}
	}
	return cli.Span{Text: "  " + text}
}

func inOneLine(text string) string {
	return printable.Text(strings.Join(strings.Fields(text), " "))
}

// decisionWord returns the result of an event. What hooks in observe mode would have done is
// "would block" and the like, unless something stricter was done.
func decisionWord(e *spool.Entry) string {
	if !e.Late && e.Halt == "" && e.Would > e.Decision {
		return "would " + e.Would.String()
	}
	return watch.Word(e)
}

// hooks returns the hooks that decided, changed or failed, and other parts that the user should
// see. word is the result of the event.
func (l *logLines) hooks(e *spool.Entry, word string) []cli.Span {
	var by []cli.Span
	var shown []string
	add := func(code, text string) {
		if slices.Contains(shown, text) { // the hook ran in two rounds
			return
		}
		shown = append(shown, text)
		if before := ", "; len(by) > 0 {
			by = append(by, cli.Span{Text: before})
		} else {
			by = append(by, cli.Span{Text: "  "})
		}
		by = append(by, cli.Span{Text: inOneLine(text), Code: code})
	}
	labels := cli.Labels(e.Hooks, func(h *grapnel.HookRun) (string, string) { return h.Name, h.Source })
	for i, name := range labels {
		h := &e.Hooks[i]
		would := "would " + h.Decision.String()
		switch {
		case h.Error != "" && h.FailOpen:
			add(cli.Yellow, name+" failed open: "+h.Error)
		case h.Error != "":
			add(cli.Red, name+" failed: "+h.Error)
		case h.Approved > grapnel.None:
			add("", fmt.Sprintf("allowed by you: %s would %s", name, h.Approved))
		case h.Observed && h.Decision > grapnel.None && would != word:
			add("", name+" "+would)
		case h.Decision == grapnel.None && !e.Late && !h.Halt && len(h.Changed) == 0:
		default:
			add("", name)
		}
	}
	for _, text := range e.Unsupported {
		add(cli.Yellow, "unsupported: "+text)
	}
	if strings.HasPrefix(string(e.Event), records.Own) {
		for _, r := range e.Reasons {
			add(cli.Yellow, r.Text)
		}
	}
	if e.Error != "" {
		add(cli.Red, e.Error)
	}
	return by
}

// printRecord prints a Record as a line of JSON.
func (c *console) printRecord(e *spool.Entry) error {
	if e.Late { // its decision is not "none", but missing
		return c.PrintLine(struct {
			*spool.Entry

			Decision *grapnel.Decision `json:"decision,omitempty"`
		}{Entry: e})
	}
	return c.PrintLine(e)
}
