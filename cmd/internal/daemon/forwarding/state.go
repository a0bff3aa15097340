package forwarding

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/local"
)

// A State is how far a target is. It is for people: a Forwarder asks the target itself.
type State struct {
	Seq          int64     `json:"seq"`              // the last row that the target has
	Sent         int64     `json:"sent"`             // lines since the target is in the policies
	Missed       int64     `json:"missed,omitempty"` // Records that retention removed before they were sent
	Reached      time.Time `json:"reached,omitzero"` // when the target last answered
	Error        string    `json:"error,omitempty"`  // of the last attempt
	FailingSince time.Time `json:"failing_since,omitzero"`
	Warning      string    `json:"warning,omitempty"` // what the operator should know about the target
}

// states are the states by URL.
type states map[string]State

// file is the file of the states. The process that keeps the index writes it.
func file(place local.Place) string { return filepath.Join(place.State, "forward.json") }

// read reads the states. A file that cannot be read is like a new one, because a Forwarder does not need it.
func read(place local.Place) states {
	s := states{}
	if data, err := files.Read(file(place), 1<<20); err == nil && json.Unmarshal(data, &s) != nil {
		s = states{}
	}
	return s
}

func (s states) save(place local.Place) error {
	if reflect.DeepEqual(s, read(place)) {
		return nil
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return files.Write(file(place), append(data, '\n'), 0o600)
}

// A Report is a target with its State.
type Report struct {
	To string `json:"to"`
	State
	Behind int64     `json:"behind"`          // Records that the target does not have yet
	Oldest time.Time `json:"oldest,omitzero"` // of these
}

// Lag returns how old the oldest Record is that the target does not have yet.
func (r *Report) Lag(now time.Time) time.Duration {
	if r.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(r.Oldest))
}

// A Problem is something that the operator should know about a target.
type Problem struct {
	Bad        bool // Records are lost, or will be if nothing changes
	What, Hint string
}

// late is how old the oldest waiting Record of a target that works may be.
const late = 10 * time.Minute

// Problems returns what is wrong with a target.
func (r *Report) Problems(now time.Time) []Problem {
	var found []Problem
	switch {
	case r.Error != "":
		found = append(found, Problem{What: fmt.Sprintf("it fails since %s, and %d Records wait: %s", r.FailingSince.Local().Format("2006-01-02 15:04"), r.Behind, r.Error), Hint: "grapnel forward"})
	case r.Reached.IsZero() || r.Lag(now) > late:
		found = append(found, Problem{What: r.String(), Hint: "grapnel daemon start"})
	}
	if r.Missed > 0 {
		found = append(found, Problem{Bad: true, What: fmt.Sprintf("retention has removed %d Records before they were sent", r.Missed), Hint: "set longer limits: retention: {days: 365}"})
	}
	if r.Warning != "" {
		found = append(found, Problem{What: r.Warning})
	}
	return found
}

// String says in a few words how far the target is.
func (r *Report) String() string {
	switch {
	case r.Reached.IsZero() && r.Error == "":
		return "nothing was sent yet: a daemon sends Records (grapnel daemon start), or grapnel forward"
	case r.Error != "":
		return fmt.Sprintf("%d Records wait since %s: %s", r.Behind, r.FailingSince.Local().Format("2006-01-02 15:04"), r.Error)
	case r.Behind == 0:
		return "it has all Records"
	}
	return fmt.Sprintf("%d Records wait, the oldest of %s", r.Behind, r.Oldest.Local().Format("2006-01-02 15:04"))
}

// Reports returns the state of each target of the policies.
func Reports(ctx context.Context, place local.Place) ([]Report, error) {
	targets, err := Targets(place)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	known := read(place)
	reports := make([]Report, len(targets))
	r := records.Log(place).Open()
	defer r.Close()
	for i, t := range targets {
		reports[i] = Report{To: t.To.Text, State: known[t.To.Text]}
		if err == nil {
			reports[i].Behind, reports[i].Oldest, err = r.Behind(ctx, reports[i].Seq)
		}
	}
	return reports, err
}
