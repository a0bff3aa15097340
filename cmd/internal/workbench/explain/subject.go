package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Subject is the event to explain, and the function that makes the agent's reply.
type Subject struct {
	event  *grapnel.Event
	unread bool // the event could not be read; the Record has the error
	record string
	answer func(context.Context, *grapnel.Engine) dialect.Reply
}

// NewSubject returns the Subject of an event that an agent sent.
func NewSubject(got dialect.Received) *Subject {
	return &Subject{event: got.Event, unread: got.Err != nil, answer: got.Answer}
}

// RecordedSubject returns the Subject of the Record whose ID begins with a prefix.
func RecordedSubject(ctx context.Context, log index.Log, prefix string) (*Subject, error) {
	id, err := records.FindID(ctx, log, prefix)
	if err != nil {
		return nil, err
	}
	for k, err := range log.Read(ctx, index.Query{ID: id}) {
		if err != nil || k.Late {
			continue
		}
		if err := k.Event(); err != nil {
			return nil, fmt.Errorf("cannot read the event of the record %s: %w", id, err)
		}
		got, err := receivedFromRecord(&k.Entry)
		if err != nil {
			return nil, cli.WithHint(fmt.Errorf("cannot read the event of the record %s: %w", id, err), "\"records:\" in a policy controls which parts of events are stored")
		}
		s := NewSubject(got)
		s.record = id
		return s, nil
	}
	return nil, cli.WithHint(fmt.Errorf("the record %s has only late results of hooks", printable.Line(id)), "\"grapnel log show "+printable.Line(id)+"\" shows them")
}

// receivedFromRecord returns the event of a Record in the form in which its agent sent it.
func receivedFromRecord(e *spool.Entry) (dialect.Received, error) {
	ev := e.Input
	if ev == nil {
		return dialect.Received{}, errors.New("the record contains no event")
	}
	payload := []byte(ev.Native)
	d, ok := dialect.FindAgent(ev.Agent.Name)
	if !ok || payload == nil {
		d = dialect.Plain() // an unknown agent, or an event without the agent's payload
	}
	if payload == nil {
		var err error
		if payload, err = json.Marshal(ev); err != nil {
			return dialect.Received{}, err
		}
	}
	got := dialect.ReceiveAs(d, payload, e.Event)
	return got, got.Err
}
