package builtin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/shorten"
)

// An Entry is one line of an audit: what happened, and what became of it. Nothing of
// what was said, done or answered is in it, the texts of reasons included, since a
// hook may quote there what it saw.
type Entry struct {
	Time     time.Time        `json:"time"`
	Hook     string           `json:"hook"` // that wrote the line
	ID       string           `json:"id,omitempty"`
	Event    grapnel.Kind     `json:"event"`
	Agent    string           `json:"agent,omitempty"`
	User     string           `json:"user,omitempty"`
	Session  string           `json:"session,omitempty"`
	Tool     string           `json:"tool,omitempty"`
	Decision grapnel.Decision `json:"decision"`
	By       []By             `json:"by,omitempty"`   // the hooks that decided so
	Halt     bool             `json:"halt,omitempty"` // the turn ends
}

// By is a hook that made a decision: because it said so, or because it failed.
type By struct {
	Hook  string        `json:"hook"`
	Cause grapnel.Cause `json:"cause"`
}

// Audit is a hook that writes one [Entry] for each event, as a line of JSON, once the
// Verdict is final: also of what was blocked, and by whom. write is called from many
// goroutines; its error is the hook's.
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
	if v := ev.Verdict; v != nil {
		e.Decision, e.Halt = v.Decision, v.Halt != ""
		for _, r := range v.Reasons {
			e.By = append(e.By, By{r.Hook, r.Cause})
		}
	}
	return e
}

// AuditLogName and AuditLogPriority are those of IronClaw's own audit.
const (
	AuditLogName     = "builtin.audit_log"
	AuditLogPriority = 25
)

// AuditLog is the audit as IronClaw has it: a step before the others that lets
// everything pass and says of each event which hook saw it, what it was, and whose.
// It cannot tell what becomes of the event; [Audit] can.
func AuditLog(write func(line []byte) error) grapnel.Spec {
	priority := AuditLogPriority
	return grapnel.Spec{
		Name: AuditLogName, Priority: &priority, OnError: grapnel.OnErrorOpen,
		On: []grapnel.Kind{grapnel.PromptBefore, grapnel.ToolBefore, grapnel.MessageBefore, grapnel.SessionStart, grapnel.SessionEnd, grapnel.ResponseBefore},
		Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{}, writeLine(write, struct {
				Hook  string       `json:"hook"`
				Point grapnel.Kind `json:"point"`
				User  string       `json:"user_id"`
			}{AuditLogName, ev.Kind, short(ev.Session.User)})
		}),
	}
}

func writeLine(write func([]byte) error, value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return write(append(line, '\n'))
}

// timeOf is when the event happened, or now if nobody says.
func timeOf(ev *grapnel.Event) time.Time {
	if ev.Time.IsZero() {
		return time.Now().UTC()
	}
	return ev.Time.UTC()
}

// short cuts a name that nobody would give, so that a line stays one.
func short(name string) string { return shorten.To(name, 256) }
