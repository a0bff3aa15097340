package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// A Cause is the reason why a Record cannot be evaluated.
type Cause string

// The causes.
const (
	Torn    Cause = "the line is not readable"
	NoEvent Cause = "no event was stored (records: metadata)"
	Gone    Cause = "the stored event is no longer readable"
	Unread  Cause = "Grapnel could not read the event, or does not know its agent"
)

// ErrNoEvent is the error for an Entry without an event.
var ErrNoEvent = errors.New("the record contains no event")

// Event decodes the event of an Entry with its dialect. Data that was masked or cut in the
// payload is missing in the event. The event has the ID and the time of the firing.
func Event(e *spool.Entry) (*grapnel.Event, error) {
	if e.Input == nil {
		return nil, ErrNoEvent
	}
	ev := e.Input
	if ev.Native != nil {
		d, ok := dialect.FindAgent(cmp.Or(ev.Agent.Name, e.Agent))
		if !ok {
			d = dialect.Plain() // the agent is not built in
		}
		got := dialect.ReceiveAs(d, ev.Native, e.Event)
		switch {
		case got.Err != nil:
			return nil, got.Err
		case got.Event.Kind != e.Event:
			return nil, fmt.Errorf("%s reads it as %s, but it was %s", d.Name, got.Event.Kind, e.Event)
		}
		ev = got.Event
	}
	ev.ID = e.ID
	if ev.Time.IsZero() {
		ev.Time = e.Time
	}
	return ev, nil
}

// A scene is a Record to evaluate.
type scene struct {
	entry    spool.Entry
	event    *grapnel.Event
	cause    Cause // the reason why it cannot be evaluated; empty = it can
	unwanted bool
	beside   bool // the Record is not for an event
	reduced  bool // a part of the event was masked or cut
}

// The marks of masked and of cut text.
var (
	maskMark = []byte("***")
	cutMark  = []byte("… [grapnel: ")
)

func newScene(r *Record, wants func(*spool.Entry) bool) scene {
	s := scene{}
	e := &r.Entry
	switch {
	case e.ID != "" && (wants != nil && !wants(e)):
		return scene{unwanted: true}
	case e.ID != "" && beside(e):
		return scene{entry: *e, beside: true}
	case r.Load != nil:
		err := r.Load(e)
		switch {
		case e.ID == "":
			return scene{cause: Torn}
		case wants != nil && !wants(e):
			return scene{unwanted: true}
		case beside(e):
			return scene{entry: *e, beside: true}
		case err != nil:
			s.cause = Gone
		}
	}
	if s.cause == "" {
		var err error
		s.event, err = Event(e)
		switch {
		case errors.Is(err, ErrNoEvent) && e.InputAt != "":
			s.cause = Gone
		case errors.Is(err, ErrNoEvent):
			s.cause = NoEvent
		case err != nil:
			s.cause = Unread
		}
	}
	if s.event != nil {
		raw := s.event.Native
		s.reduced = bytes.Contains(raw, maskMark) || bytes.Contains(raw, cutMark)
		if raw == nil {
			s.reduced = holds(s.event)
		}
	}
	s.entry = *e
	s.entry.Input = nil
	return s
}

// holds reports whether an event of the plain dialect contains a mark.
func holds(ev *grapnel.Event) bool {
	texts := []string{}
	for _, f := range []grapnel.Field{grapnel.FieldInput, grapnel.FieldOutput, grapnel.FieldPrompt, grapnel.FieldText, grapnel.FieldRequest, grapnel.FieldResponse} {
		if raw, ok := ev.Get(f); ok {
			texts = append(texts, string(raw))
		}
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(text, string(maskMark)) || strings.Contains(text, string(cutMark))
	})
}

// beside reports whether a Record is not for an event, but for the result of an observing hook or
// a note of Grapnel itself.
func beside(e *spool.Entry) bool {
	return e.Late || strings.HasPrefix(string(e.Event), grapnel.NativePrefix+"grapnel.")
}

// player returns the number of the player for the session.
func (s *scene) player(of int) int {
	if of == 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, s.entry.Agent+"\x00"+s.entry.Session)
	return int(h.Sum32() % uint32(of)) // the value is less than of
}

// about returns a one-line description of an event without secrets: its command, path or prompt.
func about(ev *grapnel.Event) string {
	var text string
	switch t := ev.Tool; {
	case t != nil && len(t.Commands) > 0:
		text = strings.Join(t.Commands, "; ")
	case t != nil && len(t.Paths) > 0:
		for i, p := range t.Paths {
			if i > 0 {
				text += ", "
			}
			text += p.Path
		}
	case t != nil && len(t.URLs) > 0:
		text = strings.Join(t.URLs, ", ")
	case t != nil:
		text = string(t.Input)
	case ev.Prompt != nil:
		text = ev.Prompt.Text
	case ev.Message != nil:
		text = ev.Message.Content
	}
	return short(text)
}

// maxText is the maximum length of a text in a report.
const maxText = 160

// short returns a text in one line, masked and cut.
func short(text string) string {
	if len(text) > maxMasked { // longer texts are too expensive to mask
		text = text[:maxMasked]
	}
	return wording.Shorten(strings.Join(strings.Fields(spool.Mask(text)), " "), maxText)
}

// maxMasked is the maximum number of bytes of a text that are masked before it is cut.
const maxMasked = 64 << 10

// maxName is the maximum length of a name in a report. Names in Records may have any length.
const maxName = 1 << 10
