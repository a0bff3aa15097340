package recordview

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// An Item is a Record in the form in which it is displayed. It keeps the displayed parts of the
// event, but not the event.
type Item struct {
	spool.Entry // without Input

	Dir   string // working directory of the agent; empty = unknown
	About string // the subject of the event on one line: a command, a path, a prompt
	Note  string // error for the unreadable part of the event

	Payload string // the event as indented JSON, possibly truncated
	Diffs   []Diff // in the order of their fields

	class string // of the tool
	text  string // all searchable text, in lower case
	size  int    // approximate size in bytes
}

// A Diff is the difference between the old and the new value of a field, line by line.
type Diff struct {
	Field grapnel.Field
	Lines []string // each begins with '+', '-' or ' '; empty = the new value was not recorded
}

// NewItem returns the Item of a Record. It reads the event in e.
func NewItem(e *spool.Entry) *Item {
	it := &Item{Entry: *e}
	it.Input, it.Verdict = nil, nil
	if e.Input != nil {
		it.Payload = wording.Shorten(indented(e.Input), maxBlock)
		ev := readEvent(e)
		it.Dir = cmp.Or(ev.Session.CWD, ev.Session.Root)
		it.About = wording.Shorten(about(ev), maxLine)
		if ev.Tool != nil {
			it.class = string(ev.Tool.Class)
		}
		it.Diffs = changesOf(e, ev)
	}
	text := []string{e.Agent, e.Session, string(e.Event), e.Tool, it.class, it.Dir, it.About, e.Halt, e.Error}
	for _, h := range e.Hooks {
		text = append(text, h.Name, h.Error)
	}
	for _, r := range e.Reasons {
		text = append(text, r.Text)
	}
	it.text = strings.ToLower(strings.Join(append(text, e.Unsupported...), "\n"))
	it.size = 1<<10 + len(it.Payload) + 3*len(it.text)
	for _, c := range it.Diffs {
		for _, line := range c.Lines {
			it.size += len(line) + 16
		}
	}
	return it
}

// About returns the subject of a Record's event in at most the given number of bytes: the command,
// the paths or the text. It is empty if the Record does not contain the event.
func About(e *spool.Entry, limit int) string {
	if e.Input == nil {
		return ""
	}
	return wording.Shorten(about(readEvent(e)), limit)
}

// readEvent returns the event of a Record, or its readable part if it is damaged or truncated.
func readEvent(e *spool.Entry) *grapnel.Event {
	ev, err := replay.Event(e)
	if err != nil {
		return e.Input
	}
	return ev
}

// about returns the subject of an event.
func about(ev *grapnel.Event) string {
	switch {
	case ev.Tool != nil:
		return aboutTool(ev.Tool, ev.Session.CWD)
	case len(ev.Calls) > 0:
		calls := make([]string, len(ev.Calls))
		for i := range ev.Calls {
			calls[i] = strings.TrimSpace(ev.Calls[i].Name + " " + aboutTool(&ev.Calls[i], ev.Session.CWD))
		}
		return strings.Join(calls, ", ")
	case ev.Stop != nil && ev.Stop.LastMessage != "":
		return ev.Stop.LastMessage
	case ev.Prompt != nil:
		return ev.Prompt.Text
	case ev.Message != nil:
		return cmp.Or(ev.Message.Content, string(ev.Message.Raw))
	case ev.Notification != nil:
		return cmp.Or(ev.Notification.Message, ev.Notification.Title, ev.Notification.Type)
	case ev.Task != nil:
		return cmp.Or(ev.Task.Subject, ev.Task.Description)
	case ev.Elicitation != nil:
		return strings.TrimSpace(ev.Elicitation.Server + " " + ev.Elicitation.Message)
	case ev.Config != nil:
		return cmp.Or(ev.Config.File, ev.Config.Source)
	case ev.Compact != nil:
		return cmp.Or(ev.Compact.Instructions, ev.Compact.Summary, ev.Cause)
	case ev.Toolset != nil:
		return strings.Join(ev.Toolset.Allowed, ", ")
	}
	return cmp.Or(ev.Cause, ev.Session.Model)
}

func aboutTool(t *grapnel.Tool, dir string) string {
	switch {
	case len(t.Commands) > 0:
		return strings.Join(t.Commands, "; ")
	case len(t.Paths) > 0:
		var paths []string
		for _, p := range t.Paths {
			path := p.Path
			if in, ok := files.Below(dir, path); ok && filepath.IsAbs(path) {
				path = filepath.FromSlash(in)
			}
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
		return strings.Join(paths, ", ")
	case len(t.URLs) > 0:
		return strings.Join(t.URLs, ", ")
	case t.Content != "":
		return t.Content
	}
	return members(t.Input)
}

// members returns the names and values of an object on one line, in their order.
func members(raw json.RawMessage) string {
	if !rawjson.IsObject(raw) {
		return readable(raw) // it may not be JSON at all
	}
	var b strings.Builder
	rawjson.Members(raw, func(m rawjson.Member) {
		switch {
		case b.Len() >= maxLine:
			return
		case b.Len() > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %s", m.Name, readable(m.Value))
	})
	return b.String()
}

// indented returns the recorded event in a readable form.
func indented(ev *grapnel.Event) string {
	if len(ev.Native) > 0 {
		return readable(ev.Native)
	}
	raw, err := rawjson.Marshal(ev)
	if err != nil {
		return fmt.Sprintf("(cannot be shown: %v)", err)
	}
	return readable(raw)
}

// readable returns a JSON value in a readable form: a string without quotes, an object or array
// with one member on each line.
func readable(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if len(raw) > maxBlock { // too long to read to the end
		return string(raw)
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// changesOf returns the changed fields, with their differences if the values are known.
func changesOf(e *spool.Entry, ev *grapnel.Event) []Diff {
	var list []Diff
	for _, field := range e.Changed {
		c := Diff{Field: field}
		if after, ok := e.Changes[field]; ok {
			before, _ := ev.Get(field)
			c.Lines = difference(readable(before), readable(after))
		}
		list = append(list, c)
	}
	return list
}

// difference compares two texts line by line.
func difference(before, after string) []string {
	before, after = wording.Shorten(before, maxBlock/4), wording.Shorten(after, maxBlock/4)
	out := string(diff.Diff("", []byte(before+"\n"), "", []byte(after+"\n")))
	var lines []string
	begun := false
	for text := range strings.Lines(out) {
		text = strings.TrimSuffix(text, "\n")
		switch hunk := strings.HasPrefix(text, "@@"); {
		case !begun:
			begun = hunk // file names precede the first hunk
		case hunk:
			lines = append(lines, "  ⋮")
		default:
			lines = append(lines, text)
		}
	}
	return lines
}

// Size returns the approximate number of bytes that the Item needs.
func (it *Item) Size() int { return it.size }

// Slow reports whether the event or one of its hooks took at least ms milliseconds.
func (it *Item) Slow(ms float64) bool {
	return it.MS >= ms || slices.ContainsFunc(it.Hooks, func(h grapnel.HookRun) bool { return h.MS >= ms })
}

// Word returns the result of an event as a word of at most six letters.
func Word(e *spool.Entry) string {
	switch {
	case e.Late:
		return "late"
	case e.Halt != "":
		return "halt"
	case e.Decision == grapnel.None && len(e.Changed) > 0:
		return "change"
	}
	return e.Decision.String()
}

// Parts returns the hooks that decided, failed or took at least slow milliseconds, the most important
// first, because the line may be too short for all.
func (it *Item) Parts(slow float64) []typeset.Span {
	var important, seen []typeset.Span
	quick := it.MS >= slow && !it.Late
	for i := range it.Hooks {
		h := &it.Hooks[i]
		name := Line(h.Name)
		if h.MS >= slow {
			name, quick = name+" "+Took(h.MS), false
		}
		did := DidOf(h)
		switch {
		case did == FailedOpen:
			important = append(important, typeset.Yellow.Span("FAILED OPEN: "+name))
		case did == Failed:
			important = append(important, typeset.Red.Span("FAILED: "+name))
		case did == Approved:
			important = append(important, typeset.Yellow.Span("allowed: "+name))
		case did == Would:
			seen = append(seen, typeset.Dim.Span("would "+h.Decision.String()+": "+name))
		case h.MS >= slow:
			important = append(important, typeset.Yellow.Span("slow: "+name))
		case did == Decided || did == Changed:
			important = append(important, typeset.Normal.Span(name))
		case it.Late:
			seen = append(seen, typeset.Dim.Span(name))
		}
	}
	if quick { // no single hook was slow, but the event was
		important = append(important, typeset.Yellow.Span("slow"))
	}
	if it.Error != "" {
		important = append(important, typeset.Red.Span("ERROR: "+Line(it.Error)))
	}
	if len(it.Unsupported) > 0 {
		seen = append(seen, typeset.Yellow.Span("unsupported: "+Line(strings.Join(it.Unsupported, ", "))))
	}
	if len(important)+len(seen) == 0 { // for example, a pause
		text := it.Halt
		if text == "" && len(it.Reasons) > 0 {
			text = it.Reasons[0].Text
		}
		if text != "" {
			seen = append(seen, typeset.Dim.Span(Line(text)))
		}
	}
	var all []typeset.Span
	for _, p := range append(important, seen...) {
		if !slices.Contains(all, p) { // hooks of two sources may have the same name
			all = append(all, p)
		}
	}
	return all
}

// Failures returns the number of hooks that failed, and how many of them failed open.
func (it *Item) Failures() (failed, open int) {
	for i := range it.Hooks {
		did := DidOf(&it.Hooks[i])
		if did == FailedOpen {
			open++
		}
		if did == Failed || did == FailedOpen {
			failed++
		}
	}
	return failed, open
}
