// Package wire has the JSON form of an event with its Terms and its Verdict. Programs of Grapnel
// pass it to each other and to hooks; a Record has only the facts.
package wire

import (
	"encoding/json"

	"github.com/grapnel-dev/grapnel"
)

// Event is the JSON form. Its members follow the members of the event.
type Event struct {
	*grapnel.Event
	More
}

// More is the part of an event besides its facts.
type More struct {
	Verdict  *grapnel.Verdict  `json:"verdict,omitempty"`
	Contract *grapnel.Contract `json:"contract,omitempty"`
	Can      *grapnel.Can      `json:"can,omitempty"`
}

// Of returns the JSON form of ev.
func Of(ev *grapnel.Event) Event {
	w := Event{Event: ev, More: More{Verdict: ev.Verdict()}}
	if t := ev.Terms; t != nil {
		w.More.Contract, w.More.Can = t.Contract, t.Can
	}
	return w
}

// Read returns the event of a JSON form.
func Read(data []byte) (*grapnel.Event, error) {
	w := Event{Event: &grapnel.Event{}}
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, err
	}
	return w.Add(w.Event), nil
}

// Add returns ev with the Terms and the Verdict. It may modify ev.
func (m *More) Add(ev *grapnel.Event) *grapnel.Event {
	if m.Contract != nil || m.Can != nil {
		t := grapnel.Terms{}
		if ev.Terms != nil {
			t = *ev.Terms
		}
		t.Contract, t.Can = m.Contract, m.Can
		ev.Terms = &t
	}
	if m.Verdict != nil {
		ev = ev.WithVerdict(m.Verdict)
	}
	return ev
}
