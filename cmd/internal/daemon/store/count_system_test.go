//go:build system

// This test starts no program. It writes many rows, which takes half a minute under the race
// detector. The system tier does not use it.

package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// summaries returns the first and the last row of each stored summary.
func summaries(t *testing.T, s *Store) (list [][2]int64) {
	t.Helper()
	err := s.read(t.Context(), func(v *view) error {
		return v.each("SELECT first, last FROM summary ORDER BY first", nil, func(scan func(into ...any) error) error {
			var rows [2]int64
			err := scan(&rows[0], &rows[1])
			list = append(list, rows)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Count gives the same counts with summaries as without, for any time, after a restart, and after
// rows were removed.
func TestCountWithSummaries(t *testing.T) {
	t.Parallel()
	const rows = 2*summaryRows + 500
	dir := t.TempDir()
	s := openTest(t, dir, &Options{unsafe: true})
	begin := time.Now().UTC().Add(-time.Hour).Round(0)
	entries := make([]spool.Entry, rows)
	for i := range entries {
		e := entry(fmt.Sprint(i))
		e.Time = begin.Add(time.Duration(i) * time.Millisecond)
		e.MS = float64(i % 97)
		e.Decision = []grapnel.Decision{grapnel.None, grapnel.Block, grapnel.Allow}[i%3]
		if i == 10 {
			e.Time = begin.Add(-time.Minute) // it was late, or the clock was wrong
		}
		entries[i] = e
	}
	put := func(list []spool.Entry) {
		for batch := range slices.Chunk(list, 500) {
			var items []Item
			for _, e := range batch {
				items = append(items, Item{Line: lineOf(e)})
			}
			if err := s.Put(t.Context(), items...); err != nil {
				t.Fatal(err)
			}
		}
	}
	same := func(what string, left []spool.Entry) {
		t.Helper()
		for _, since := range []time.Time{
			{},
			begin.Add(-time.Second), begin.Add(time.Second), begin.Add(summaryRows * time.Millisecond),
			begin.Add(5 * time.Second), begin.Add(rows * time.Millisecond), begin.Add(time.Minute),
		} {
			want := stats.NewCounter(since)
			for i := range left {
				if e := left[i]; !e.Time.Before(since) {
					want.Add(&e, func() error { return nil })
				}
			}
			got, err := s.Count(t.Context(), since)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Summary(), got.Summary(), cmpopts.IgnoreUnexported(stats.Hook{}, stats.Agent{}), cmpopts.EquateApprox(0.0101, 0.001)); diff != "" {
				t.Errorf("%s, since %v (-want +got):\n%s", what, since.Sub(begin), diff)
			}
		}
	}
	put(entries[:summaryRows/2])
	closeTest(t, s)
	s = openTest(t, dir, &Options{unsafe: true})
	put(entries[summaryRows/2:])
	same("before rows are summarized", entries)
	await.Until(t, "the rows are summarized", func() bool { return len(summaries(t, s)) == 2 })
	if got := summaries(t, s); got[0][0] != 1 || got[1][0] != got[0][1]+1 || got[1][1] > rows {
		t.Errorf("summaries = %v, want two that begin with row 1 and have no gap", got)
	}
	same("with two summaries", entries)

	s.SetLimits(Limits{MaxRecords: rows - 1000})
	if err := s.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := summaries(t, s); len(got) != 1 {
		t.Errorf("after 1,000 rows were removed, the summaries are %v, want the second only", got)
	}
	same("after 1,000 rows were removed", entries[1000:])
}
