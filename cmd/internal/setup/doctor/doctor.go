// Package doctor checks whether the agents of this machine really call Grapnel: which entries are installed
// and whether they are current, which settings of the agents disable it, which hooks of other
// programs exist and how they changed, which actions no hook sees, which guards did not reply,
// and how long a reply takes.
//
//	report, err := doctor.Look(ctx, doctor.NewRequest(place, dir, ""))
//	if report.Worst() >= doctor.Warn { ... }
//
// Look gathers facts and judges them. Gathering reads files and starts the agents to get their
// versions; judging is pure. "grapnel status" is a glance at the same facts. The package repairs nothing. It writes only the fingerprints of
// hooks of other programs, for comparison in the next run.
package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
)

// A Level is the severity of a Finding.
type Level int

// The levels. Warn and above need an action of the user.
const (
	OK Level = iota
	Info
	Warn
	Bad
)

var levels = [...]string{"ok", "info", "warn", "bad"}

// String returns the level's name in the report.
func (l Level) String() string { return levels[l] }

// MarshalText returns the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(levels[l]), nil }

// UnmarshalText parses the name.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levels[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown level %q", text)
	}
	*l = Level(i)
	return nil
}

// A Finding is one result. ID is the kind of finding and stays the same across versions; together
// with Agent and Subject it is unique.
type Finding struct {
	ID      string `json:"id"`
	Level   Level  `json:"level"`
	Agent   string `json:"agent,omitempty"`   // empty = all agents
	Subject string `json:"subject,omitempty"` // the file, event, hook or tool
	What    string `json:"what"`
	Why     string `json:"why,omitempty"`  // why it matters
	Hint    string `json:"hint,omitempty"` // what the user can do

	Fingerprint string `json:"fingerprint,omitempty"` // of a hook of another program: SHA-256 of its entry and of the file that it runs
}

// A Report has all findings. Agents with the worst findings come first, and the worst findings of
// each agent.
type Report struct {
	Version  string    `json:"version"` // of Grapnel
	Time     time.Time `json:"time"`
	Dir      string    `json:"dir"` // directory whose project settings were read
	Findings []Finding `json:"findings"`
}

// Worst returns the highest level in the report.
func (r *Report) Worst() Level {
	worst := OK
	for _, f := range r.Findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// Look gathers the facts and returns the report.
func Look(ctx context.Context, req Request) (*Report, error) {
	report, _, err := look(ctx, req)
	return report, err
}

// look is like Look, and also returns the facts.
func look(ctx context.Context, req Request) (*Report, *facts, error) {
	if req.Now.IsZero() {
		req.Now = time.Now()
	}
	f, err := gather(ctx, &req)
	if err != nil {
		return nil, nil, err
	}
	found, kept := judge(f)
	if !req.glance {
		if err := kept.write(memoryFile(req.Place.State)); err != nil {
			found = append(found, Finding{
				ID: "hooks.unremembered", Level: Warn, What: "cannot save the fingerprints of other hooks",
				Why: err.Error(), Hint: "without them, the next check cannot find changes",
			})
		}
	}
	arrange(found)
	return &Report{
		Version: hookcmd.Version, Time: req.Now.UTC().Truncate(time.Second), Dir: req.Dir, Findings: found,
	}, f, nil
}

// arrange sorts findings into the order of the report. Equal findings stay in their order.
func arrange(found []Finding) {
	worst := map[string]Level{}
	first := map[string]int{}
	for i, f := range found {
		worst[f.Agent] = max(worst[f.Agent], f.Level)
		if _, ok := first[f.Agent]; !ok {
			first[f.Agent] = i
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(worst[b.Agent], worst[a.Agent]), cmp.Compare(first[a.Agent], first[b.Agent]), cmp.Compare(b.Level, a.Level))
	})
}

// raw returns a value as JSON for a message.
func raw(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// hooksOf returns the names of the hooks for one of these events.
func hooksOf(specs []grapnel.Spec, kinds ...grapnel.Kind) []string {
	var names []string
	for _, s := range specs {
		for _, kind := range kinds {
			if kind != "" && slices.Contains(s.On, kind) && !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return names
}
