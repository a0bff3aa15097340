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
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
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
	ids *index.IDs
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
	about := oneLine(recordview.About(e, limit))
	if e.Late {
		about = ""
	}
	id := typeset.Yellow.Span(fmt.Sprintf("%-12s  ", oneLine(l.ids.Short(l.ctx, e.ID))))
	at := e.Time.Local()
	word := decisionWord(e)
	decision := cli.DecisionStyle(word).Span(fmt.Sprintf("%-11s", word))
	by := l.hooks(e, word)
	if width == 0 || width >= wideLog {
		row := typeset.Row{
			id,
			{Text: fmt.Sprintf("%s  %-11s %-17s %-18s ", at.Format("01-02 15:04:05"), oneLine(e.Agent), oneLine(string(e.Event)), oneLine(e.Tool))},
			decision,
			{Text: fmt.Sprintf(" %6.1f ms", e.MS)},
		}
		return l.Row(append(append(row, by...), gap(about))...)
	}
	if day := at.Format("2006-01-02"); day != l.day {
		l.day = day
		if err := l.Row(typeset.Bold.Span(day)); err != nil {
			return err
		}
	}
	tool := gap(cmp.Or(oneLine(e.Tool), strings.TrimPrefix(oneLine(string(e.Event)), records.Own)))
	clock := "15:04:05  "
	if width < mediumLog {
		clock = "15:04  "
		if about != "" {
			tool = typeset.Span{}
		}
	}
	row := typeset.Row{id, {Text: at.Format(clock)}, decision, tool}
	if width >= agentLog {
		row = slices.Insert(row, 2, typeset.Span{Text: fmt.Sprintf("%-11s  ", oneLine(e.Agent))})
	}
	room := width - row.Columns()
	// The hooks leave at least half of the line for the subject, if it needs that much.
	room -= min(room/2, printable.Columns(gap(about).Text))
	row = append(row, by.Cut(room)...)
	return l.Row(append(row, gap(about))...)
}

// gap returns a span with two spaces before a text, or nothing.
func gap(text string) typeset.Span {
	if text == "" {
		return typeset.Span{}
	}
	return typeset.Span{Text: "  " + text}
}

// decisionWord returns the result of an event. The result that hooks in observe mode would have had is
// "would block" and the like, unless something stricter was done.
func decisionWord(e *spool.Entry) string {
	if !e.Late && e.Halt == "" && e.Would > e.Decision {
		return "would " + e.Would.String()
	}
	return recordview.Word(e)
}

// hooks returns the hooks that decided, changed or failed, and other parts that the user should
// see. word is the result of the event.
func (l *logLines) hooks(e *spool.Entry, word string) typeset.Row {
	var by typeset.Row
	var shown []string
	add := func(style typeset.Style, text string) {
		if slices.Contains(shown, text) { // the hook ran in two rounds
			return
		}
		shown = append(shown, text)
		if before := ", "; len(by) > 0 {
			by = append(by, typeset.Span{Text: before})
		} else {
			by = append(by, typeset.Span{Text: "  "})
		}
		by = append(by, style.Span(oneLine(text)))
	}
	labels := cli.Labels(e.Hooks, func(h *grapnel.HookRun) (string, string) { return h.Name, h.Source })
	for i, name := range labels {
		h := &e.Hooks[i]
		would := "would " + h.Decision.String()
		switch did := recordview.DidOf(h); {
		case did == recordview.FailedOpen:
			add(typeset.Yellow, name+" failed open: "+h.Error)
		case did == recordview.Failed:
			add(typeset.Red, name+" failed: "+h.Error)
		case did == recordview.Approved:
			add(typeset.Normal, fmt.Sprintf("allowed by you: %s would %s", name, h.Approved))
		case did == recordview.Would && would != word:
			add(typeset.Normal, name+" "+would)
		case did == recordview.Nothing && !e.Late:
		default:
			add(typeset.Normal, name)
		}
	}
	for _, text := range e.Unsupported {
		add(typeset.Yellow, "unsupported: "+text)
	}
	if strings.HasPrefix(string(e.Event), records.Own) {
		for _, r := range e.Reasons {
			add(typeset.Yellow, r.Text)
		}
	}
	if e.Error != "" {
		add(typeset.Red, e.Error)
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
