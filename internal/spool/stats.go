package spool

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// Stats are the counts of a log.
type Stats struct {
	Since      time.Time                `json:"since,omitzero"`
	Last       time.Time                `json:"last,omitzero"` // time of the newest firing
	Firings    int                      `json:"firings"`
	Decisions  map[grapnel.Decision]int `json:"decisions"`
	Would      map[grapnel.Decision]int `json:"would"`      // decisions of hooks in observe mode that were not applied
	Errors     int                      `json:"errors"`     // firings whose event could not be read, or whose observing hooks could not be started
	FailOpen   int                      `json:"fail_open"`  // firings in which a hook failed and the action continued
	Unreadable int                      `json:"unreadable"` // unreadable lines
	Hooks      []HookStats              `json:"hooks"`      // slowest first, by P95
}

// HookStats are the counts of one hook. Times are in milliseconds.
type HookStats struct {
	Name      string                   `json:"name"`
	Source    string                   `json:"source"`
	Runs      int                      `json:"runs"`
	Decisions map[grapnel.Decision]int `json:"decisions"`
	Errors    int                      `json:"errors"` // including timeouts
	Timeouts  int                      `json:"timeouts"`
	FailOpen  int                      `json:"fail_open"`
	LastError string                   `json:"last_error,omitempty"`
	P50       float64                  `json:"p50_ms"`
	P95       float64                  `json:"p95_ms"`
	Max       float64                  `json:"max_ms"`
}

// Summarize counts the Entries of the log since a time; the zero time means all Entries. It
// counts unreadable lines, and returns the first error that kept it from reading the log.
func Summarize(dir string, since time.Time) (Stats, error) {
	tally := NewTally(since)
	t := tail{dir: dir, filter: Filter{Since: since}, lean: true}
	defer t.close()
	if err := t.refresh(); err != nil {
		return tally.Stats(), err
	}
	t.read(true, func(e Entry, err error) bool {
		if err != nil {
			tally.Unreadable(1)
		} else {
			tally.Add(&e)
		}
		return true
	})
	return tally.Stats(), nil
}

// A Tally counts Entries of any source into Stats.
type Tally struct {
	stats Stats
	hooks map[tallied]*HookStats
	times map[tallied][]float64
}

// tallied identifies a hook that is counted.
type tallied struct{ name, source string }

// NewTally returns an empty Tally for Entries since a time; zero means all Entries.
func NewTally(since time.Time) *Tally {
	return &Tally{
		stats: Stats{Since: since, Decisions: map[grapnel.Decision]int{}, Would: map[grapnel.Decision]int{}},
		hooks: map[tallied]*HookStats{}, times: map[tallied][]float64{},
	}
}

// Unreadable adds to the number of unreadable lines.
func (t *Tally) Unreadable(lines int) { t.stats.Unreadable += lines }

// Add counts an Entry.
func (t *Tally) Add(e *Entry) {
	s := &t.stats
	if !e.Late {
		s.Firings++
		s.Decisions[e.Decision]++
		if e.Would > grapnel.None {
			s.Would[e.Would]++
		}
		if e.Time.After(s.Last) {
			s.Last = e.Time
		}
	}
	if e.Error != "" {
		s.Errors++
	}
	open := false
	for i := range e.Hooks {
		run := &e.Hooks[i]
		if run.Async && !e.Late && run.Error == "" {
			continue // it was only queued
		}
		k := tallied{run.Name, run.Source}
		h := t.hooks[k]
		if h == nil {
			h = &HookStats{Name: run.Name, Source: run.Source, Decisions: map[grapnel.Decision]int{}}
			t.hooks[k] = h
		}
		h.Runs++
		h.Decisions[run.Decision]++
		if run.Error != "" {
			h.Errors++
			h.LastError = run.Error
		}
		if run.Cause == grapnel.CauseTimeout {
			h.Timeouts++
		}
		if run.FailOpen {
			h.FailOpen++
			open = true
		}
		t.times[k] = append(t.times[k], run.MS)
	}
	if open {
		s.FailOpen++
	}
}

// Stats returns the counts so far.
func (t *Tally) Stats() Stats {
	s := t.stats
	s.Decisions, s.Would = maps.Clone(s.Decisions), maps.Clone(s.Would)
	s.Hooks = make([]HookStats, 0, len(t.hooks))
	for k, counted := range t.hooks {
		h := *counted
		h.Decisions = maps.Clone(h.Decisions)
		slices.Sort(t.times[k])
		h.P50, h.P95, h.Max = percentile(t.times[k], 50), percentile(t.times[k], 95), percentile(t.times[k], 100)
		s.Hooks = append(s.Hooks, h)
	}
	slices.SortFunc(s.Hooks, func(a, b HookStats) int {
		return cmp.Or(cmp.Compare(b.P95, a.P95), cmp.Compare(b.Max, a.Max), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
	})
	return s
}

// percentile returns the smallest of the sorted values that at least p percent of them do not
// exceed.
func percentile(sorted []float64, p int) float64 {
	return sorted[max(0, int(math.Ceil(float64(len(sorted)*p)/100))-1)]
}
