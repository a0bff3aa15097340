//go:build system

// These tests start no program. They write many rows, which takes half a minute under the race
// detector. The system tier does not use it.

package index

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// summaries returns the first and the last row of each stored summary.
func (p *place) summaries() (list [][2]int64) {
	p.t.Helper()
	r := p.Open()
	defer r.Close()
	p.ok(r.read(p.t.Context(), func(v *database.View) error {
		return v.Each("SELECT first, last FROM summary ORDER BY first", nil, func(scan func(into ...any) error) error {
			var rows [2]int64
			err := scan(&rows[0], &rows[1])
			list = append(list, rows)
			return err
		})
	}))
	return list
}

// Count gives the same counts with summaries as without, for any time, after a restart, and while and after rows of
// removed segments are forgotten.
func TestCountWithSummaries(t *testing.T) {
	t.Parallel()
	const rows = 2*summaryRows + 500
	p := begin(t)
	begun := time.Now().UTC().Add(-time.Hour).Round(0)
	list := make([]spool.Entry, rows)
	for i := range list {
		e := entry(fmt.Sprint(i))
		e.Time = begun.Add(time.Duration(i) * time.Millisecond)
		e.MS = float64(i % 97)
		e.Decision = []grapnel.Decision{grapnel.None, grapnel.Block, grapnel.Allow}[i%3]
		if i == 10 {
			e.Time = begun.Add(-time.Minute) // it was late, or the clock was wrong
		}
		list[i] = e
	}
	same := func(what string, left []spool.Entry) {
		t.Helper()
		for _, since := range []time.Time{
			{},
			begun.Add(-time.Second), begun.Add(time.Second), begun.Add(summaryRows * time.Millisecond),
			begun.Add(5 * time.Second), begun.Add(rows * time.Millisecond), begun.Add(time.Minute),
		} {
			want := stats.NewCounter(since)
			for i := range left {
				if e := left[i]; !e.Time.Before(since) {
					want.Add(&e, func() error { return nil })
				}
			}
			got, err := p.Count(t.Context(), since)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Summary(), got.Summary(), sameCounts); diff != "" {
				t.Errorf("%s, since %v (-want +got):\n%s", what, since.Sub(begun), diff)
			}
		}
	}
	p.put(list[:1000]...)
	p.next()
	p.put(list[1000 : summaryRows/2]...)
	p.index()
	p.put(list[summaryRows/2 : summaryRows+100]...)
	same("before rows are summarized", list[:summaryRows+100])
	p.index()
	p.next()
	p.put(list[summaryRows+100:]...)
	same("with one summary", list)
	x := p.keep(nil)
	p.catchUp(x)
	if got := p.summaries(); len(got) != 2 || got[0][0] != p.rows(Query{Oldest: true, Limit: 1})[0].Seq || got[1][0] <= got[0][1] {
		t.Errorf("summaries = %v, want two that begin with the first row", got)
	}
	same("with two summaries", list)
	p.retire(2000)
	same("after 1,000 rows were removed, and not forgotten", list[1000:])
	p.catchUp(x)
	if got := p.summaries(); len(got) != 1 {
		t.Errorf("after 1,000 rows were removed, the summaries are %v, want the second only", got)
	}
	same("after 1,000 rows were removed", list[1000:])
	p.next()
	p.put(at("open", 0))
	p.retire(1000)
	same("after almost all were removed", append(append([]spool.Entry{}, list[summaryRows+100:]...), at("open", 0)))
	p.catchUp(x)
	if n := p.sql(x.Reader, "SELECT count(*) FROM record"); n != rows-summaryRows-100+1 {
		p.catchUp(x)
	}
	same("forgotten", append(append([]spool.Entry{}, list[summaryRows+100:]...), at("open", 0)))
}
