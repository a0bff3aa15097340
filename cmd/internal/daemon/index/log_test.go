package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

func at(id string, after time.Duration) spool.Entry {
	e := entry(id)
	e.Time = epoch.Add(after * time.Second)
	return e
}

// Read shows what the index has in the order of time, and newer lines among them as they come.
func TestLogRead(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.wantShown(Query{})
	p.put(at("a", 1), at("b", 4))
	p.raw("\ntorn \x1b[31m\n")
	p.wantShown(Query{}, "a", "b", "!")
	p.wantShown(Query{Text: "wintermute"}, "a", "b")
	p.wantShown(Query{Text: `"torn line"`}, "!")
	p.wantShown(Query{After: 1 << 40, Before: 1, Limit: 1, Oldest: true}, "a", "b", "!") // not used
	if _, err := os.Stat(p.Index); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading has made an index: %v", err)
	}
	p.index()
	p.wantShown(Query{}, "a", "b", "!")
	p.wantShown(Query{Text: `"torn line"`}, "!")
	p.put(at("c", 2))
	p.index()
	p.wantShown(Query{}, "a", "c", "b", "!")
	p.put(at("d", 6), at("c", 7), at("e", 3), at("e", 3)) // another answer to c, and a line that was written twice
	p.wantShown(Query{}, "a", "c", "b", "!", "d", "e")
	p.wantShown(Query{Text: "wintermute", Filter: spool.Filter{Since: epoch.Add(5 * time.Second)}}, "d")
	p.wantShown(Query{Filter: spool.Filter{Agent: "none"}})
	p.wantShown(Query{Text: "nothing"})
	p.wantShown(Query{After: 1 << 40, Before: 1}, "a", "c", "b", "!", "d", "e")
	p.index()
	p.wantShown(Query{}, "a", "c", "e", "b", "!", "d")
	for k, err := range p.Read(t.Context(), Query{Filter: spool.Filter{Session: "s1"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(k.Event(), k.Event()); err != nil || k.Input == nil || k.Input.Tool.Name != "Bash" {
			t.Errorf("the event of %s: %v, %v", k.ID, k.Input, err)
		}
	}
	counter, err := p.Count(t.Context(), time.Time{})
	if n := counter.Totals(); err != nil || n.Firings != 5 || n.Unreadable != 1 || n.Again != 1 || len(n.Hooks) != 1 || n.Hooks[0].Runs != 5 {
		t.Errorf("Count = %+v, %v", n, err)
	}
}

// A file that is no database is not an error for readers: the journal has everything.
func TestLogBroken(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.put(entry("a"))
	p.ok(os.MkdirAll(p.Index, 0o700))
	p.ok(os.WriteFile(p.db(), []byte(strings.Repeat("no database", 1000)), 0o600))
	p.wantShown(Query{}, "a")
	p.want(Query{}, "a")
	counter, err := p.Count(t.Context(), time.Time{})
	if n := counter.Totals(); err != nil || n.Firings != 1 {
		t.Errorf("Count = %+v, %v", n, err)
	}
}

// Any number of late lines tell about a firing. One that was written twice is shown once.
func TestLogLate(t *testing.T) {
	t.Parallel()
	list := []spool.Entry{entry("a")}
	for i := range 2 {
		late := spool.Entry{Late: true, Record: grapnel.Record{ID: "a", Time: epoch, Hooks: []grapnel.HookRun{{Name: fmt.Sprint("h", i), Async: true}}}}
		list = append(list, late, late)
	}
	states(t, append(list, list...), func(t *testing.T, p *place) {
		p.wantShown(Query{}, "a", "a", "a")
		p.want(Query{}, "a", "a", "a")
		p.want(Query{ID: "a", Limit: 2}, "a", "a")
		counter, err := p.Count(t.Context(), time.Time{})
		if n := counter.Totals(); err != nil || n.Firings != 1 || n.Again != 0 {
			t.Errorf("Count = %+v, %v", n, err)
		}
		r := p.Open()
		defer r.Close()
		p.agree("late", r, Query{}, Query{Filter: spool.Filter{Hook: "h1"}})
	})
}

// An event that was answered twice: the first line is its Record for each reader, wherever the index ends, and
// whatever the Query selects.
func TestAgain(t *testing.T) {
	t.Parallel()
	first, second, third := at("x", 1), at("x", 2), at("x", 3)
	second.Session, second.Hooks[0].Name = "s2", "other"
	second.Input.Tool.Input = []byte(`{"command":"straylight"}`)
	late := at("x", 4)
	late.Late = true
	list := []spool.Entry{at("a", 0), first, at("b", 1), first, second, at("c", 2), second, late, third, at("d", 3)}
	for n := range len(list) + 1 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			p := begin(t)
			for i, e := range list {
				if i == n && n > 0 {
					p.index()
				}
				if i == 4 {
					if len(p.numbers()) > 0 {
						p.next()
					}
				}
				p.put(e)
			}
			if n == len(list) {
				p.index()
			}
			p.want(Query{Oldest: true}, "a", "x", "b", "c", "x", "d")
			p.want(Query{Filter: spool.Filter{Decisions: []grapnel.Decision{grapnel.Allow, grapnel.Ask}}})
			p.want(Query{Filter: spool.Filter{Session: "s2"}})
			p.want(Query{Filter: spool.Filter{Hook: "other"}})
			p.want(Query{Filter: spool.Filter{Since: epoch.Add(2 * time.Second)}}, "d", "x", "c")
			p.want(Query{Text: "straylight"})
			p.want(Query{After: p.rows(Query{ID: "b"})[0].Seq}, "d", "x", "c")
			p.want(Query{Before: p.rows(Query{ID: "c"})[0].Seq}, "b", "x", "a")
			p.wantShown(Query{Filter: spool.Filter{Session: "s2"}})
			if rows := p.rows(Query{ID: "x", Oldest: true}); len(rows) != 2 || rows[0].Decision != grapnel.Block || string(rows[0].Line) != string(lineOf(first)) || !rows[1].Late {
				t.Errorf("rows of x = %+v", rows)
			}
			for _, since := range []time.Duration{0, 1} { // two other answers, one of them written twice
				c, err := p.Count(t.Context(), epoch.Add(since*time.Second))
				if n := c.Totals(); err != nil || n.Firings != 5-int(since) || n.Again != 3 {
					t.Errorf("Count since %d = %+v, %v, want %d firings and 3 other answers", since, n, err, 5-since)
				}
			}
			r := p.Open()
			defer r.Close()
			p.agree("again", r, Query{}, Query{Filter: spool.Filter{Decisions: []grapnel.Decision{grapnel.Ask}}})
			p.sameLines()
		})
	}
}

// sameLines checks that the first line with each key for a forwarder is the line that readers show.
func (p *place) sameLines() {
	p.t.Helper()
	lines, err := p.Open().Lines(p.t.Context(), 0, 100)
	p.ok(err)
	var first, shown []int64
	keys := map[string]bool{}
	for _, line := range lines {
		if !keys[line.Key()] {
			first = append(first, line.Seq)
		}
		keys[line.Key()] = true
	}
	for _, row := range p.rows(Query{Oldest: true}) {
		shown = append(shown, row.Seq)
	}
	if diff := cmp.Diff(shown, first); diff != "" {
		p.t.Errorf("rows that readers show, and that forwarders send (-want +got):\n%s", diff)
	}
}

// An agent reports an event again and says more, and then it is blocked: both Records are shown, wherever the
// index ends.
func TestTwoDecisions(t *testing.T) {
	t.Parallel()
	allowed, blocked := at("x", 1), at("x", 2)
	allowed.Decision = grapnel.None
	for n := range 3 {
		p := begin(t)
		for i, e := range []spool.Entry{allowed, blocked, allowed} {
			if i == n {
				p.index()
			}
			p.put(e)
		}
		p.want(Query{Oldest: true}, "x", "x")
		p.sameLines()
		p.want(Query{Filter: spool.Filter{Decisions: []grapnel.Decision{grapnel.Block}}}, "x")
		c, err := p.Count(t.Context(), time.Time{})
		if got := c.Totals(); err != nil || got.Again != 0 {
			t.Errorf("Count = %+v, %v", got, err)
		}
	}
}

// A position does not depend on the index: a client can continue where it was.
func TestSeq(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.w.MaxSize = 20 << 10
	list := entries(150)
	p.put(list[:50]...)
	p.next()
	p.put(list[50:]...)
	before := p.rows(Query{Oldest: true, Lean: true})
	p.index()
	check := func(when string) {
		t.Helper()
		after := p.rows(Query{Oldest: true, Lean: true})
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s (-before +after):\n%s", when, diff)
		}
		for i, row := range after {
			if i%49 == 0 {
				p.want(Query{After: row.Seq, Oldest: true, Lean: true}, idsOf(list)[i+1:]...)
			}
		}
	}
	check("with an index")
	p.ok(os.RemoveAll(p.Index))
	check("removed")
	p.index()
	check("made again")
	r := p.Open()
	defer r.Close()
	for n, want := range map[int]int64{0: before[148].Seq, 5: before[143].Seq, 148: before[0].Seq, 149: 0} {
		if got, err := r.Back(t.Context(), before[149].Seq, n); got != want || err != nil {
			t.Errorf("Back(%d) = %d, %v, want %d", n, got, err, want)
		}
	}
	if !slices.IsSortedFunc(before, func(a, b Row) int { return int(a.Seq - b.Seq) }) {
		t.Error("the numbers do not grow")
	}
}

// Events in side files are found by their words and shown, also of a torn log.
func TestSideFiles(t *testing.T) {
	t.Parallel()
	p := begin(t)
	sp, err := spool.Open(p.State, &spool.Options{Records: spool.Full})
	p.ok(err)
	defer sp.Close()
	big, gone := entry("big"), entry("gone")
	big.Input.Tool.Content = strings.Repeat("<big>", 30_000) + " panther"
	gone.Input.Tool.Content = strings.Repeat("<gone>", 30_000)
	p.ok(sp.Store(&big.Record))
	check := func(when string) {
		t.Helper()
		p.want(Query{Text: "panther"}, "big")
		for _, row := range p.rows(Query{ID: "big"}) {
			if row.Input == nil || row.Input.Tool.Content != big.Input.Tool.Content || !strings.Contains(string(row.Line), "panther") {
				t.Errorf("%s: the event is not in the row", when)
			}
		}
	}
	check("without an index")
	p.index()
	check("with an index")
	p.ok(sp.Store(&gone.Record))
	p.ok(os.RemoveAll(p.State + "/journal/side"))
	r := p.Open()
	defer r.Close()
	for range 2 {
		n := 0
		for row, err := range r.Records(t.Context(), Query{}) {
			if n++; err == nil || !strings.Contains(err.Error(), "missing") || row.ID == "" {
				t.Errorf("row %+v, %v, want that the file is missing", row.ID, err)
			}
		}
		if n != 2 {
			t.Errorf("%d rows, want 2", n)
		}
		p.index()
	}
}
