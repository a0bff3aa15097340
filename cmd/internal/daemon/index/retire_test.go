package index

import (
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// Records of removed segments disappear for every reader at once, also for one that had a segment open, and before
// the index has forgotten them.
func TestRetired(t *testing.T) {
	t.Parallel()
	p := begin(t)
	list := entries(120)
	for i := range 6 {
		p.put(list[20*i : 20*i+20]...)
		if i < 5 {
			p.next()
		}
	}
	again := list[5]
	again.MS++
	p.next()
	p.put(again)
	x := p.keep(nil)
	p.catchUp(x)
	p.agree("before", x.Reader, Query{})
	ids := idsOf(list)
	for _, left := range []int{90, 50, 10} {
		p.retire(left)
		kept := 120 - (left+19)/20*20 // whole segments
		want := ids[kept:]
		for range 2 {
			got := []string{}
			for _, row := range p.rowsOf(x.Reader, Query{Oldest: true}) {
				got = append(got, row.ID)
			}
			// The second answer to an event whose Record was removed is shown only when the index is made again.
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d records are left: got %v, want %v", left, got, want)
			}
			if n, _, err := x.Behind(t.Context(), 0); err != nil || n != int64(len(want)) {
				t.Errorf("Behind = %d, %v, want %d", n, err, len(want))
			}
			if found, err := p.find(ids[kept-1]); len(found) != 0 || err != nil {
				t.Errorf("a removed ID is found: %v, %v", found, err)
			}
			c, err := x.Count(t.Context(), epoch)
			if n := c.Totals(); err != nil || n.Firings != len(want) || n.Again != 0 {
				t.Errorf("Count = %d and %d again, %v, want %d", n.Firings, n.Again, err, len(want))
			}
			p.want(Query{Text: "wintermute", Oldest: true}, want...)
			p.catchUp(x)
		}
		if n := p.sql(x.Reader, "SELECT count(*) FROM record"); n != int64(len(want)) {
			t.Errorf("the index has %d rows, want %d", n, len(want))
		}
	}
	for _, table := range []string{"record", "ran", "words", "again"} {
		want := int64(20)
		if table == "again" {
			want = 0
		}
		if n := p.sql(x.Reader, "SELECT count(*) FROM "+table); n != want {
			t.Errorf("table %s has %d rows, want %d", table, n, want)
		}
	}
}

func (p *place) find(prefix string) ([]string, error) {
	ids := p.IDs(p.t.Context())
	defer ids.Close()
	return ids.Find(p.t.Context(), prefix, 10)
}

// An Index that runs forgets removed Records also if nothing is appended, and says nothing about retention.
func TestRetiredIdle(t *testing.T) {
	t.Parallel()
	p := begin(t)
	var list []spool.Entry
	for i := range forgetRows + 100 {
		e := entry(fmt.Sprint(i))
		e.Input, e.Hooks, e.Reasons = nil, nil, nil
		list = append(list, e)
	}
	p.put(list...)
	p.next()
	p.put(at("a", 1))
	p.next()
	p.put(at("b", 2))
	x := p.keep(nil)
	p.run(x)
	p.all()
	if rows := p.rowsOf(x.Reader, Query{Limit: 3, Lean: true}); len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
	p.retire(1)
	p.want(Query{}, "b", "a")
	await.Until(t, "the rows are forgotten", func() bool { return p.sql(x.Reader, "SELECT count(*) FROM record") == 2 })
	if got := x.Condition(); got != (Condition{}) {
		t.Errorf("Condition = %+v, want none", got)
	}
	p.agree("forgotten", x.Reader, Query{})
}
