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
	"github.com/grapnel-dev/grapnel/internal/shorten"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Cause is why a Record cannot be played.
type Cause string

// The causes.
const (
	Torn    Cause = "the line cannot be read"
	NoEvent Cause = "no event was kept (records: metadata)"
	Gone    Cause = "the event that was kept cannot be read any more"
	Unread  Cause = "the event could not be read when it came, or its agent is not known"
)

// ErrNoEvent says that an Entry has none.
var ErrNoEvent = errors.New("no event was kept with it")

// Event is the event of an Entry as its dialect reads it in what the agent sent. What was
// masked or cut there is missing in it, too. It has the ID of the firing, and its time.
func Event(e *spool.Entry) (*grapnel.Event, error) {
	if e.Input == nil {
		return nil, ErrNoEvent
	}
	ev := e.Input
	if ev.Native != nil {
		d, ok := dialect.FindAgent(cmp.Or(ev.Agent.Name, e.Agent))
		if !ok {
			d = dialect.Plain() // an agent of its own name
		}
		got := dialect.ReceiveAs(d, ev.Native, e.Event)
		switch {
		case got.Err != nil:
			return nil, got.Err
		case got.Event.Kind != e.Event:
			return nil, fmt.Errorf("%s reads it as %s, and it was %s", d.Name, got.Event.Kind, e.Event)
		}
		ev = got.Event
	}
	ev.ID = e.ID
	if ev.Time.IsZero() {
		ev.Time = e.Time
	}
	return ev, nil
}

// scene is a Record that is about to be played.
type scene struct {
	entry    spool.Entry
	event    *grapnel.Event
	cause    Cause // why not; empty = it can be played
	unwanted bool
	beside   bool // it is none of an event
	reduced  bool // a part of the event was masked or cut
}

// The marks of what was masked, and of what was cut.
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

// holds reports whether an event in our own words holds a mark.
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

// beside reports whether a line is none of an event: it tells how observing hooks ended, or
// is a note of Grapnel's own.
func beside(e *spool.Entry) bool {
	return e.Late || strings.HasPrefix(string(e.Event), grapnel.NativePrefix+"grapnel.")
}

// player is which of some plays the session.
func (s *scene) player(of int) int {
	if of == 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, s.entry.Agent+"\x00"+s.entry.Session)
	return int(h.Sum32() % uint32(of)) //nolint:gosec // few
}

// about is what a person knows an event by, in one line, with no secrets in it.
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

// maxText is how long a text in a report is.
const maxText = 160

// short is a text in one line, masked and cut.
func short(text string) string {
	if len(text) > maxMasked { // nobody reads to its end
		text = text[:maxMasked]
	}
	return shorten.To(strings.Join(strings.Fields(spool.Mask(text)), " "), maxText)
}

// maxMasked is how much of a text is looked at for secrets, before it is cut.
const maxMasked = 64 << 10

// maxName is how long a name in a report is. Those of Records may be of any length.
const maxName = 1 << 10
