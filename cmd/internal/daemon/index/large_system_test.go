//go:build system

// These tests start no program. They write so many rows that they take minutes under the
// race detector, which the system tier does not use.

package index

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// Although lines arrive all the time, the index is never further behind than a reader can read in a moment.
//
// chaos: size
func TestBehind(t *testing.T) {
	t.Parallel()
	p := begin(t)
	var list []spool.Entry
	for i := range 2000 {
		e := entry(fmt.Sprint(i))
		e.Input.Tool.Content = fmt.Sprintf("%020000d", i)
		list = append(list, e)
	}
	p.put(list...)
	x := p.keep(nil)
	ctx, stop := context.WithCancel(t.Context())
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := p.w.Append(lineOf(entry(fmt.Sprint("busy", i)))); err != nil {
				t.Error(err)
			}
			x.Wake()
			time.Sleep(quiet / 4)
		}
	}()
	p.run(x)
	await.Until(t, "the index is near the end", func() bool {
		lag, err := x.Lag(t.Context())
		return err == nil && lag.Bytes <= maxBehind
	})
	if p.sql(x.Reader, "SELECT count(*) FROM record") == 0 {
		t.Error("no row is indexed")
	}
	stop()
	<-writing
	p.all()
	p.want(Query{Text: "00000000001999", Limit: 1, Lean: true})
	if n := p.sql(x.Reader, "SELECT count(*) FROM words WHERE words MATCH 'wintermute'"); n < 2000 {
		t.Errorf("%d rows have words, want all", n)
	}
}

// A search and a page of a log with 100,000 Records read only what they need.
func TestLarge(t *testing.T) {
	t.Parallel()
	const n = 100_000
	p := begin(t)
	for i := 0; i < n; i += 500 {
		list := make([]spool.Entry, 500)
		for j := range list {
			e := entry(fmt.Sprintf("%012d", i+j))
			e.Time = epoch.Add(time.Duration(i+j) * time.Second)
			if (i+j)%1000 == 7 {
				e.Session = "rare"
				e.Input.Tool.Input = []byte(`{"command":"ice"}`)
			}
			list[j] = e
		}
		p.put(list...)
	}
	p.index()
	p.want(Query{Limit: 2, Lean: true}, fmt.Sprintf("%012d", n-1), fmt.Sprintf("%012d", n-2))
	for _, q := range []Query{{Text: "ice"}, {Filter: spool.Filter{Session: "rare"}}, {Text: "ice", Filter: spool.Filter{Session: "rare"}}} {
		if rows := p.rows(q); len(rows) != n/1000 {
			t.Errorf("%+v finds %d, want %d", q, len(rows), n/1000)
		}
		if shown := p.shown(q); len(shown) != n/1000 {
			t.Errorf("%+v shows %d, want %d", q, len(shown), n/1000)
		}
	}
	if rows := p.rows(Query{Filter: spool.Filter{Since: epoch.Add((n - 300) * time.Second)}, Lean: true}); len(rows) != 300 {
		t.Errorf("%d rows since then, want 300", len(rows))
	}
	c, err := p.Count(t.Context(), time.Time{})
	if got := c.Totals().Firings; err != nil || got != n {
		t.Errorf("Count = %d, %v", got, err)
	}
	ids := p.IDs(t.Context())
	defer ids.Close()
	if short := ids.Short(t.Context(), fmt.Sprintf("%012d", 4711)); short != fmt.Sprintf("%012d", 4711) {
		t.Errorf("Short = %s", short)
	}
	r := p.Open()
	defer r.Close()
	if size, err := r.Size(t.Context()); err != nil || size.Records != n {
		t.Errorf("Size = %+v, %v", size, err)
	}
}
