package builtin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// An Entry is one line of an audit: an event and its decision. It contains no prompts, inputs,
// outputs or reason texts, because hooks may quote content in reasons.
type Entry struct {
	Time     time.Time        `json:"time"`
	Hook     string           `json:"hook"` // name of the hook that wrote the line
	ID       string           `json:"id,omitempty"`
	Event    grapnel.Kind     `json:"event"`
	Agent    string           `json:"agent,omitempty"`
	User     string           `json:"user,omitempty"`
	Session  string           `json:"session,omitempty"`
	Tool     string           `json:"tool,omitempty"`
	Decision grapnel.Decision `json:"decision"`
	By       []By             `json:"by,omitempty"`   // the hooks that made the decision
	Halt     bool             `json:"halt,omitempty"` // the turn ends
}

// By is a hook that made a decision, by its answer or by its failure.
type By struct {
	Hook  string        `json:"hook"`
	Cause grapnel.Cause `json:"cause"`
}

// Audit returns the Spec of an observing hook that writes one [Entry] per event as a line of
// JSON, after the Verdict is final. This includes blocked events and the hooks that blocked them.
// write is called concurrently; its error is the hook's error.
func Audit(name string, write func(line []byte) error) grapnel.Spec {
	return grapnel.Spec{Name: name, Phase: grapnel.PhaseObserve, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{}, writeLine(write, newEntry(name, ev))
	})}
}

func newEntry(hook string, ev *grapnel.Event) Entry {
	e := Entry{
		Time: timeOf(ev), Hook: hook, ID: ev.ID, Event: ev.Kind,
		Agent: short(ev.Agent.Name), User: short(ev.Session.User), Session: short(ev.Session.ID),
	}
	if ev.Tool != nil {
		e.Tool = short(ev.Tool.CanonicalName())
	}
	if v := ev.Verdict(); v != nil {
		e.Decision, e.Halt = v.Decision, v.Halt != ""
		for _, r := range v.Reasons {
			e.By = append(e.By, By{r.Hook, r.Cause})
		}
	}
	return e
}

func writeLine(write func([]byte) error, value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return write(append(line, '\n'))
}

// timeOf returns the time of the event in UTC, or the current time if the event has none.
func timeOf(ev *grapnel.Event) time.Time {
	if ev.Time.IsZero() {
		return time.Now().UTC()
	}
	return ev.Time.UTC()
}

// short cuts an extremely long name, which keeps lines short.
func short(name string) string { return wording.Shorten(name, 256) }
