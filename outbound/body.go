package outbound

import (
	"cmp"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/webhook"
)

// A body is a format for event notifications.
type body struct {
	// write returns the notification about an event for the hook of this name. at is the time of
	// the event. It is pure.
	write func(hook string, ev *grapnel.Event, at time.Time) ([]byte, error)
	// anyStatus means that a delivery succeeds with every response status.
	anyStatus bool
	// closed means that another system defines the format, and that it has no origin.
	closed bool
}

// bodies lists the formats by their names in files.
var bodies = map[string]body{
	"":         {write: writeSummary},
	"ironclaw": {write: ironclaw.Body, anyStatus: true, closed: true},
}

// WriteBody returns the notification about an event for the hook of this name. language is the
// Body of a [Config]. If the event has no time, it uses at. An unknown language is an [*Error]
// with BadBody.
func WriteBody(language, hook string, ev *grapnel.Event, at time.Time) ([]byte, error) {
	b, known := bodies[language]
	if !known {
		return nil, fault(BadBody, "unknown body %q", language)
	}
	data, err := b.write(hook, ev, cmp.Or(ev.Time, at))
	if err != nil {
		return nil, fault(BadBody, "%v", err)
	}
	return data, nil
}

// summary is Grapnel's default notification. Its members are named as in "grapnel log".
type summary struct {
	Hook     string       `json:"hook"`
	Time     time.Time    `json:"time"`
	ID       string       `json:"id,omitempty"`
	Agent    string       `json:"agent,omitempty"`
	Session  string       `json:"session,omitempty"`
	Event    grapnel.Kind `json:"event"`
	Tool     string       `json:"tool,omitempty"`
	Decision string       `json:"decision,omitempty"` // the merged decision of all hooks
}

func writeSummary(hook string, ev *grapnel.Event, at time.Time) ([]byte, error) {
	s := summary{Hook: hook, Time: at.UTC(), ID: ev.ID, Agent: ev.Agent.Name, Session: ev.Session.ID, Event: ev.Kind}
	if ev.Tool != nil {
		s.Tool = ev.Tool.Name
	}
	if v := ev.Verdict(); v != nil {
		s.Decision = v.Decision.String()
	}
	return rawjson.Marshal(s)
}
