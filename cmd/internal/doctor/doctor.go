// Package doctor finds out whether the agents of this machine really ask Grapnel:
// what is installed where and whether it is current, what in the agents' own settings
// switches it off, whose hooks stand beside ours and what has become of them, what no
// hook sees, which guards did not answer, and what an answer costs.
//
//	report, err := doctor.Look(ctx, doctor.Request{Place: place, Dir: dir, Set: set})
//	if report.Worst() >= doctor.Warn { ... }
//
// Look gathers facts and judges them. Gathering reads files and starts the agents to
// ask for their versions; judging is pure. Nothing is mended here, and nothing is
// written but what has to be compared next time: the fingerprints of others' hooks.
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
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Level says how much a Finding matters.
type Level int

// The levels. From Warn on something is to be done.
const (
	OK Level = iota
	Info
	Warn
	Bad
)

var levels = [...]string{"ok", "info", "warn", "bad"}

// String is the level's name in the report.
func (l Level) String() string { return levels[l] }

// MarshalText writes the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(levels[l]), nil }

// UnmarshalText reads the name.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levels[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown level %q", text)
	}
	*l = Level(i)
	return nil
}

// A Finding is one thing that was found. ID names the kind of it and stays the same
// from version to version; with Agent and Subject it is this one and no other.
type Finding struct {
	ID      string `json:"id"`
	Level   Level  `json:"level"`
	Agent   string `json:"agent,omitempty"`   // empty = it concerns all of them
	Subject string `json:"subject,omitempty"` // the file, event, hook or tool that it is about
	What    string `json:"what"`
	Why     string `json:"why,omitempty"`  // it matters
	Hint    string `json:"hint,omitempty"` // the way out

	Fingerprint string `json:"fingerprint,omitempty"` // of a hook of others: SHA-256 of its entry and of the file that it runs
}

// A Report is all that was found, the agents with the worst first, and of each the worst
// first.
type Report struct {
	Version  string    `json:"version"` // of Grapnel
	Time     time.Time `json:"time"`
	Dir      string    `json:"dir"` // whose project settings were looked at
	Findings []Finding `json:"findings"`
}

// Worst is the highest level in the report.
func (r *Report) Worst() Level {
	worst := OK
	for _, f := range r.Findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// A Request says what to look at.
type Request struct {
	Place   local.Place
	Dir     string     // where the person is, an absolute path
	Agents  []string   // names or aliases; none = all
	Set     policy.Set // of the place, with hooks that are never called
	Program string     // grapnel-hook of this Grapnel; empty = none is there
	Root    string     // --root

	Programs []policyfile.Command // of the hooks in Set
	Damaged  []policy.Corruption  // what policy.CheckIntegrity finds before Set is loaded, which mends some of it

	// Events are those that the policy listens to beside the default sets, by agent, as
	// for install.
	Events map[string][]string

	// Starts are those at which a hook of the policy starts a program, as for install.
	Starts map[string]map[string]string

	NoRun bool // start no program: not the agents, and not the hook

	// Slow is how long an answer may take, at the median, before it is a warning; 0: 60 times
	// a program that does nothing.
	Slow time.Duration
	Now  time.Time // zero = time.Now
}

// Look looks.
func Look(ctx context.Context, req Request) (*Report, error) {
	if req.Now.IsZero() {
		req.Now = time.Now()
	}
	f, err := gather(ctx, &req)
	if err != nil {
		return nil, err
	}
	found, kept := judge(f)
	if err := kept.write(memoryFile(req.Place.State)); err != nil {
		found = append(found, Finding{
			ID: "hooks.unremembered", Level: Warn, What: "the fingerprints of others' hooks cannot be kept",
			Why: err.Error(), Hint: "without them, the next check cannot find changes",
		})
	}
	arrange(found)
	return &Report{Version: hookcmd.Version, Time: req.Now.UTC().Truncate(time.Second), Dir: req.Dir, Findings: found}, nil
}

// arrange puts findings into the order of the report. What was found first comes first
// where nothing else tells.
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

// raw is a JSON text in a message.
func raw(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// hooksOf names the hooks that listen to one of these events.
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
