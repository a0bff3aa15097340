package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// various returns a log in which every field of a Filter matters. Its clock jumps.
func various() []spool.Entry {
	var entries []spool.Entry
	for i := range 40 {
		e := entry(fmt.Sprintf("%02d", i))
		e.Time = epoch.Add(time.Duration(i*7%40) * time.Second)
		e.Agent = []string{"claude-code", "codex"}[i%2]
		e.Session = []string{"s1", "s2", "s3"}[i%3]
		e.Event = []grapnel.Kind{grapnel.ToolBefore, grapnel.AgentAfter, "native.x.Y"}[i%5%3]
		e.Decision = []grapnel.Decision{grapnel.None, grapnel.Allow, grapnel.Ask, grapnel.Block}[i%4]
		e.Late = i%11 == 10
		e.Would = grapnel.Decision(i % 3)
		e.Hooks = nil
		for h := range i % 3 {
			run := grapnel.HookRun{Name: fmt.Sprint("h", i%4), Source: fmt.Sprint("src", h), MS: float64(i) / 4, Async: i%7 == 0}
			if i%5 == 0 {
				run.Error, run.Cause, run.FailOpen = "broke", grapnel.CauseTimeout, true
			}
			e.Hooks = append(e.Hooks, run)
		}
		if i == 13 {
			e.Hooks = append(e.Hooks, grapnel.HookRun{Name: "odd::name", Source: "a::b"})
			e.Error = "the event could not be read"
			e.Machine = "m1"
		}
		if i == 17 {
			e.Event = spool.Alive
		}
		entries = append(entries, e)
	}
	far := entry("far")
	far.Time = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	return append(entries, far)
}

func TestFilter(t *testing.T) {
	t.Parallel()
	entries := various()
	states(t, entries, func(t *testing.T, p *place) {
		for _, f := range []spool.Filter{
			{},
			{Since: epoch.Add(20 * time.Second)},
			{Since: epoch.Add(20*time.Second + 1)},
			{Since: epoch.Add(time.Hour)},
			{Since: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)},
			{Agent: "codex"},
			{Agent: "CODEX"},
			{Session: "s2"},
			{Machine: "m1"},
			{Events: []grapnel.Kind{grapnel.AgentAfter, "native.x.Y"}},
			{Events: []grapnel.Kind{spool.Alive}},
			{Decisions: []grapnel.Decision{grapnel.None}},
			{Decisions: []grapnel.Decision{grapnel.Block, grapnel.Ask}},
			{Decisions: []grapnel.Decision{grapnel.Block, grapnel.None}},
			{Would: true},
			{Would: true, Hook: "h2", Decisions: []grapnel.Decision{grapnel.None}},
			{Hook: "h2"},
			{Hook: "src1::h2"},
			{Hook: "src9::h2"},
			{Hook: "odd::name"},
			{Hook: "a::b::odd::name"},
			{Hook: "b::odd::name"},
			{Hook: "::"},
			{Agent: "claude-code", Session: "s1", Hook: "h2", Events: []grapnel.Kind{grapnel.ToolBefore}, Since: epoch.Add(5 * time.Second), Decisions: []grapnel.Decision{grapnel.Ask}},
		} {
			want := []string{}
			for i := range entries {
				if f.Wants(&entries[i]) {
					want = append(want, entries[i].ID)
				}
			}
			p.want(Query{Filter: f, Oldest: true}, want...)
			shown := p.shown(Query{Filter: f})
			slices.Sort(shown)
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)), shown, cmp.Transformer("", func(l []string) string { return fmt.Sprint(l) })); diff != "" {
				t.Errorf("Read of %+v (-want +got):\n%s", f, diff)
			}
			slices.Reverse(want)
			p.want(Query{Filter: f}, want...)
			p.want(Query{Filter: f, Lean: true, Limit: 3}, want[:min(3, len(want))]...)
			p.want(Query{Filter: f, Lean: true, Limit: 30}, want[:min(30, len(want))]...)
		}
		p.want(Query{ID: "17"}, "17") // also a heartbeat
		p.want(Query{ID: "none"})
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	var list []spool.Entry
	for i := range 30 {
		e := entry(fmt.Sprintf("%02d", i))
		if i%2 == 1 {
			e.Reasons, e.Hooks[0].Name = nil, "plain"
			e.Input.Tool.Input = []byte(`{"command":"rm -rf \u002ftmp\/neuromancer\n\"case\"","timeout":120000,"nested":[{"text":"molly"},["deep"]]}`)
		}
		list = append(list, e)
	}
	states(t, list, func(t *testing.T, p *place) {
		for text, want := range map[string]int{
			"wintermute":        15,
			"WINTERMUTE":        15,
			"winter":            0,
			"winter*":           15,
			"says zoe":          15,
			"zoe says":          15,
			`"says zoe"`:        15,
			`"zoe says"`:        0,
			"rm -rf":            15,
			"-rf / && neurom*":  15,
			"/tmp/neuromancer":  15,
			"case molly deep":   15,
			"120000":            15,
			"timeout":           0, // names of members are not searched
			"command":           0,
			"plain":             15,
			"user no-ls":        15,
			"Bash":              30,
			"tool.before":       30,
			"wintermute molly":  0,
			"wintermute OR x":   0,
			"wintermute NOT zz": 0,
			`unfinished"`:       0,
			"x\x00y":            0,
			"  ":                30,
		} {
			if got := len(p.rows(Query{Text: text})); got != want {
				t.Errorf("Records: %q finds %d, want %d", text, got, want)
			}
			if got := len(p.shown(Query{Text: text})); got != want {
				t.Errorf("Read: %q finds %d, want %d", text, got, want)
			}
		}
		seq := func(i int) int64 { return p.rows(Query{ID: fmt.Sprintf("%02d", i)})[0].Seq }
		p.want(Query{Text: "molly", Limit: 2, Before: seq(19)}, "17", "15")
		p.want(Query{Text: "molly", Oldest: true, After: seq(19), Filter: spool.Filter{Hook: "plain"}, Limit: 2}, "21", "23")
		r := p.Open()
		defer r.Close()
		for _, text := range []string{"*", `"`, "--", `" "`} {
			for _, err := range r.Records(t.Context(), Query{Text: text}) {
				if err == nil {
					t.Errorf("%q finds something", text)
				}
			}
			if ValidText(text) == nil {
				t.Errorf("%q is valid", text)
			}
			if got := p.shown(Query{Text: text}); len(got) == 0 || slices.ContainsFunc(got, func(id string) bool { return id != "!" }) {
				t.Errorf("Read of %q = %v, want an error", text, got)
			}
		}
	})
}

// Pages of any size have each row once, also where the rows of the index end and the lines behind it begin.
func TestPages(t *testing.T) {
	t.Parallel()
	const n = 2*batchLines + 200 // so that a half is more than a batch
	list := entries(n)
	want := idsOf(list)
	states(t, list, func(t *testing.T, p *place) {
		p.want(Query{Oldest: true}, want...)
		p.want(Query{Oldest: true, Limit: 300}, want[:300]...)
		all := p.rows(Query{Oldest: true})
		p.want(Query{Oldest: true, After: all[99].Seq, Before: all[299].Seq}, want[100:299]...)
		for _, i := range []int{0, 1, n/2 - 2, n/2 - 1, n / 2, n/2 + 1, n - 1} { // a half is the border
			p.want(Query{Oldest: true, After: all[i].Seq}, want[i+1:]...)
			p.want(Query{Oldest: true, Before: all[i].Seq}, want[:i]...)
			p.want(Query{Oldest: true, After: all[i].Seq, Limit: 2}, want[i+1:min(i+3, n)]...)
			p.want(Query{Before: all[i].Seq, Limit: 1}, want[max(0, i-1):i]...)
		}
		r := p.Open()
		defer r.Close()
		for _, limit := range []int{61, page, n/2 - 1, n / 2, n/2 + 1} {
			var newest, oldest []string
			for before, more := int64(0), true; more; {
				rows := p.rowsOf(r, Query{Before: before, Limit: limit, Lean: true})
				for _, row := range rows {
					newest, before = append(newest, row.ID), row.Seq
				}
				more = len(rows) == limit
			}
			slices.Reverse(newest)
			for after, more := int64(0), true; more; {
				rows := p.rowsOf(r, Query{After: after, Limit: limit, Oldest: true, Lean: true})
				for _, row := range rows {
					oldest, after = append(oldest, row.ID), row.Seq
				}
				more = len(rows) == limit
			}
			if !slices.Equal(newest, want) || !slices.Equal(oldest, want) {
				t.Errorf("pages of %d = %v and %v, want %v", limit, newest, oldest, want)
			}
		}
		for _, err := range r.Records(t.Context(), Query{}) {
			if err != nil {
				t.Error(err)
			}
			break // nothing may stay open, or Close would hang
		}
		if _, err := os.Stat(p.db()); err == nil {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for _, err := range r.Records(ctx, Query{}) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Records = %v, want context.Canceled", err)
				}
			}
		}
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	states(t, various(), func(t *testing.T, p *place) {
		for _, since := range []time.Time{{}, epoch.Add(20 * time.Second), epoch.Add(time.Hour)} {
			want := stats.NewCounter(since)
			for _, e := range various() {
				if !e.Time.Before(since) {
					want.Add(&e, func() error { return nil })
				}
			}
			got, err := p.Count(t.Context(), since)
			if diff := cmp.Diff(want.Totals(), got.Totals(), sameCounts); diff != "" || err != nil {
				t.Errorf("counts since %v (- want + got): %v\n%s", since, err, diff)
			}
		}
	})
}

// A reader has each line once, while others write, close segments, and index them.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.w.MaxSize = 16 << 10
	p.run(p.keep(nil))
	r := p.Open()
	defer r.Close()
	var wait sync.WaitGroup
	const writers, each = 4, 100
	for w := range writers {
		wait.Go(func() {
			for i := range each {
				if _, err := p.w.Append(lineOf(entry(fmt.Sprintf("%d-%03d", w, i)))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	for before, last := 0, false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		seen := map[string]bool{}
		at := int64(0)
		for _, row := range p.rowsOf(r, Query{Oldest: true, Lean: true}) {
			if seen[row.ID] || row.Seq <= at {
				t.Fatalf("%s at %d comes twice, or after %d", row.ID, row.Seq, at)
			}
			seen[row.ID], at = true, row.Seq
		}
		if len(seen) < before || last && len(seen) != writers*each {
			t.Fatalf("%d rows after %d", len(seen), before)
		}
		before = len(seen)
	}
	p.all()
	p.agree("at the end", r)
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.put(entry("before"))
	var appended []string
	x := p.keep(&Options{Note: func(err error) { t.Error(err) }, Other: func(line *spool.Line) { appended = append(appended, line.Entry.ID) }})
	stop := p.run(x)
	p.all()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	live, other := x.Subscribe(ctx), x.Subscribe(t.Context())
	var want []string
	for i := range 20 {
		id := fmt.Sprint(i)
		if i%4 == 0 {
			p.next()
		}
		p.put(entry(id), entry(id)) // the same line again is not new
		x.Wake()
		want = append(want, id, id)
		for _, ch := range []<-chan Live{live, other} {
			got := <-ch
			if got.ID != id || got.Dropped != 0 || string(got.Line) != string(lineOf(entry(id))) || got.Input != nil {
				t.Fatalf("row %d = %+v", i, got)
			}
			if rows := p.rows(Query{ID: id}); len(rows) != 1 || rows[0].Seq != got.Seq {
				t.Fatalf("row %d is live at %d, and stored as %+v", i, got.Seq, rows)
			}
		}
	}
	cancel()
	if got, ok := <-live; ok {
		t.Errorf("got %+v after the end", got)
	}
	stop()
	if !slices.Equal(appended, want) {
		t.Errorf("Appended = %v, want %v", appended, want)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got, ok := <-other; ok {
		t.Errorf("got %+v after Close", got)
	}
	if got, ok := <-x.Subscribe(t.Context()); ok {
		t.Errorf("Subscribe after Close = %+v", got)
	}
}

// A slow subscriber gets the newest rows in order, and the number of those that it has missed.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.put(entry("before"))
	x := p.keep(nil)
	p.run(x)
	p.all()
	const rows = 1500
	live := x.Subscribe(t.Context())
	var list []spool.Entry
	for i := range rows {
		e := entry(fmt.Sprint(i))
		e.Input = nil
		list = append(list, e)
	}
	p.put(list...)
	p.all()
	seen, dropped := 0, 0
	for seen+dropped < rows {
		got := <-live
		dropped += got.Dropped
		if want := fmt.Sprint(seen + dropped); got.ID != want {
			t.Fatalf("row %s came, and %s was the next: %d were reported as lost", got.ID, want, got.Dropped)
		}
		seen++
	}
	if dropped == 0 {
		t.Errorf("saw %d of %d, want some to be lost", seen, rows)
	}
}

// What was appended while no daemon ran is new for the next one.
func TestAppendedMeanwhile(t *testing.T) {
	t.Parallel()
	p := begin(t)
	list := entries(300)
	p.put(list[:100]...)
	p.index()
	p.put(list[100:]...)
	came := make(chan string, len(list))
	x := p.keep(&Options{Other: func(line *spool.Line) { came <- line.Entry.ID }})
	stop := p.run(x)
	p.all()
	stop()
	close(came)
	var got []string
	for id := range came {
		got = append(got, id)
	}
	if diff := cmp.Diff(idsOf(list[100:]), got); diff != "" {
		t.Errorf("Appended (-want +got):\n%s", diff)
	}
}
