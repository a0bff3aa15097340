package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// epoch is the start time of these tests, and the time of an entry.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// opened ends the test at every error.
type opened struct {
	*Store
	t   *testing.T
	ctx context.Context
	dir string
}

// begin opens a new store that keeps at most 100 Records, for a day.
func begin(t *testing.T) *opened {
	t.Helper()
	return again(t, filepath.Join(t.TempDir(), "store"))
}

// again opens the store in a directory.
func again(t *testing.T, dir string) *opened {
	t.Helper()
	s, err := Open(dir, &Options{Limits: Limits{MaxAge: 24 * 60 * 60, MaxRecords: 100}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &opened{s, t, context.Background(), dir}
}

func (s *opened) put(items ...Item) {
	s.t.Helper()
	if err := s.Put(s.ctx, items...); err != nil {
		s.t.Fatalf("Put: %v", err)
	}
}

func (s *opened) line(entries ...spool.Entry) {
	s.t.Helper()
	for _, e := range entries {
		s.put(Item{Line: lineOf(e)})
	}
}

// ids returns the IDs of the Records that match a Query.
func (s *opened) ids(q Query) []string {
	s.t.Helper()
	ids := []string{}
	for row, err := range s.Records(s.ctx, q) {
		if err != nil {
			s.t.Fatalf("Records(%+v): %v", q, err)
		}
		ids = append(ids, row.ID)
	}
	return ids
}

func (s *opened) want(q Query, ids ...string) {
	s.t.Helper()
	if got := s.ids(q); !slices.Equal(got, ids) {
		s.t.Errorf("Records(%+v) = %v, want %v", q, got, ids)
	}
}

func (s *opened) sound(rows int) Report {
	s.t.Helper()
	report, err := s.Verify(s.ctx)
	if err != nil || !report.OK() || report.Rows != rows {
		s.t.Errorf("Verify = %+v, %v, want %d rows and nothing wrong", report, err, rows)
	}
	return report
}

func TestRecordOnce(t *testing.T) {
	t.Parallel()
	s := begin(t)
	first := entry("1")
	s.line(first, first)
	s.put(Item{Line: lineOf(first)}, Item{Line: lineOf(first)})
	second := entry("1")
	second.Decision, second.MS = grapnel.None, 7
	s.line(second, second)
	late := entry("1")
	late.Late = true
	s.line(late, late)
	late.MS = 9
	s.line(late)
	var got []bool
	for row, err := range s.Records(s.ctx, Query{Oldest: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 && row.Decision != grapnel.Block {
			t.Errorf("the second answer replaced the first: %+v", row)
		}
		if len(got) == 0 && string(row.Line)+"\n" != string(lineOf(first)) {
			t.Errorf("Line = %q, want %q", row.Line, lineOf(first))
		}
		got = append(got, row.Late)
	}
	if !slices.Equal(got, []bool{false, true, true}) {
		t.Errorf("late = %v, want one firing and two later lines", got)
	}
	if counter, err := s.Count(s.ctx, time.Time{}); err != nil || counter.Totals().Again != 1 || counter.Totals().Firings != 1 {
		t.Errorf("Count = %+v, %v, want one firing and one other reply", counter.Totals(), err)
	}
	s.want(Query{ID: "1", Limit: 2}, "1", "1")
	s.want(Query{ID: "2"})
	s.sound(3)
}

func TestPutWhole(t *testing.T) {
	t.Parallel()
	s := begin(t)
	for name, bad := range map[string]Item{
		"torn":       {Line: lineOf(entry("x"))[:50]},
		"no id":      {Line: lineOf(entry(""))},
		"no time":    {Line: lineOf(spool.Entry{Record: grapnel.Record{ID: "x"}})},
		"no object":  {Line: []byte("7\n")},
		"empty":      {Line: []byte{}},
		"too long":   {Line: append(slices.Repeat([]byte(" "), 10), []byte(`{"id":"x","time":"2026-03-04T05:06:07Z","agent":"`+strings.Repeat("a", MaxLine)+`"}`)...)},
		"bad mark":   {Mark: &Mark{File: "", Offset: 1}},
		"below zero": {Mark: &Mark{File: "f", Offset: -1}},
	} {
		good := Item{Line: lineOf(entry("good")), Mark: &Mark{File: "f", Offset: 1}}
		err := s.Put(s.ctx, good, bad)
		if at, ok := errors.AsType[*ItemError](err); !ok || at.Item != 1 || bad.Line != nil != errors.Is(err, ErrLine) {
			t.Errorf("%s: Put = %v", name, err)
		}
	}
	s.want(Query{})
	if at, err := s.Mark(s.ctx, "f"); at != 0 || err != nil {
		t.Errorf("Mark = %v, %v, want 0", at, err)
	}
	s.put()
	s.put(Item{})
	s.sound(0)
}

func TestRestart(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(Item{Line: lineOf(entry("1")), Mark: &Mark{File: "f", Offset: 7}})
	s.put(Item{Mark: &Mark{File: "f", Offset: 70}}, Item{Mark: &Mark{File: "g", Offset: 1}})
	if err := s.ForgetMark(s.ctx, "g"); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = again(t, s.dir)
	s.want(Query{}, "1")
	for file, want := range map[string]int64{"f": 70, "g": 0, "unknown": 0} {
		if got, err := s.Mark(s.ctx, file); got != want || err != nil {
			t.Errorf("Mark(%s) = %v, %v, want %d", file, got, err, want)
		}
	}
	s.line(entry("1"), entry("2"))
	s.want(Query{}, "2", "1")
	s.sound(2)
}

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
		entries = append(entries, e)
	}
	return entries
}

func TestFilter(t *testing.T) {
	t.Parallel()
	s := begin(t)
	entries := various()
	s.line(entries...)
	far := entry("far")
	far.Time = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	s.line(far)
	entries = append(entries, far)
	for _, f := range []spool.Filter{
		{},
		{Since: epoch.Add(20 * time.Second)},
		{Since: epoch.Add(20*time.Second + 1)},
		{Since: epoch.Add(time.Hour)},
		{Since: time.Date(9999, 6, 1, 0, 0, 0, 0, time.UTC)},
		{Since: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)},
		{Agent: "codex"},
		{Agent: "CODEX"},
		{Session: "s2"},
		{Machine: "m1"},
		{Events: []grapnel.Kind{grapnel.AgentAfter, "native.x.Y"}},
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
			if f.Wants(&entries[i]) && !(f.Since.Year() == 9999) {
				want = append(want, entries[i].ID)
			}
		}
		if f.Since.Year() == 9999 {
			want = []string{"far"} // times that far away are all the same
		}
		s.want(Query{Filter: f, Oldest: true}, want...)
		slices.Reverse(want)
		s.want(Query{Filter: f}, want...)
		s.want(Query{Filter: f, Lean: true, Limit: 3}, want[:min(3, len(want))]...)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	s := begin(t)
	for i := range 30 {
		e := entry(fmt.Sprintf("%02d", i))
		if i%2 == 1 {
			e.Reasons, e.Hooks[0].Name = nil, "plain"
			e.Input.Tool.Input = []byte(`{"command":"rm -rf \u002ftmp\/neuromancer\n\"case\"","timeout":120000,"nested":[{"text":"molly"},["deep"]]}`)
		}
		s.line(e)
	}
	check := func(when string) {
		t.Helper()
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
			if got := len(s.ids(Query{Text: text})); got != want {
				t.Errorf("%s: %q finds %d, want %d", when, text, got, want)
			}
		}
		s.want(Query{Text: "molly", Limit: 2, Before: 20}, "17", "15")
		s.want(Query{Text: "molly", Oldest: true, After: 20, Filter: spool.Filter{Hook: "plain"}, Limit: 2}, "21", "23")
		for _, text := range []string{"*", `"`, "--", `" "`} {
			for _, err := range s.Records(s.ctx, Query{Text: text}) {
				if err == nil {
					t.Errorf("%s: %q finds something", when, text)
				}
			}
		}
	}
	check("at once")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = again(t, s.dir)
	check("after a restart")
	time.Sleep(time.Second) // for an index that is built later, if there is one
	check("later")
	s.line(entry("more"))
	s.want(Query{Text: "wintermute", Limit: 2}, "more", "28")
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := begin(t)
	var items []Item
	var want []string
	for i := range 400 {
		id := fmt.Sprintf("%03d", i)
		items, want = append(items, Item{Line: lineOf(entry(id))}), append(want, id)
	}
	s.put(items...)
	s.want(Query{Oldest: true}, want...)
	s.want(Query{Oldest: true, Limit: 300}, want[:300]...)
	s.want(Query{Oldest: true, After: 100, Before: 300}, want[100:299]...)
	var got []string
	for before := int64(0); ; {
		n := len(got)
		for row, err := range s.Records(s.ctx, Query{Before: before, Limit: 33}) {
			if err != nil {
				t.Fatal(err)
			}
			got, before = append(got, row.ID), row.Seq
		}
		if len(got) == n {
			break
		}
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("pages = %v, want %v", got, want)
	}
	for _, err := range s.Records(s.ctx, Query{}) {
		if err != nil {
			t.Error(err)
		}
		break // nothing may stay open, or Close would hang
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	for _, err := range s.Records(ctx, Query{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Records = %v, want context.Canceled", err)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	s := begin(t)
	for _, e := range various() {
		s.line(e)
	}
	for _, since := range []time.Time{{}, epoch.Add(20 * time.Second), epoch.Add(time.Hour)} {
		want := stats.NewCounter(since)
		for _, e := range various() {
			if !e.Time.Before(since) {
				want.Add(&e, func() error { return nil })
			}
		}
		got, err := s.Count(s.ctx, since)
		if diff := gocmp.Diff(want.Totals(), got.Totals(), cmpopts.IgnoreUnexported(stats.Hook{})); diff != "" || err != nil {
			t.Errorf("counts since %v (- want + got): %v\n%s", since, err, diff)
		}
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	s := begin(t)
	now := epoch.Add(48 * time.Hour)
	var ids []string
	at := func(id string, age time.Duration) {
		e := entry(id)
		e.Time = now.Add(-age)
		s.line(e)
		ids = append(ids, id)
	}
	at("old", 25*time.Hour)
	at("old3", 25*time.Hour)
	at("old4", 25*time.Hour)
	at("ahead", -10000*time.Hour) // written while the clock was wrong
	at("old2", 24*time.Hour+1)
	at("edge", 24*time.Hour)
	at("old behind a young one", 25*time.Hour)
	head := s.sound(7).Head
	if err := s.Prune(s.ctx, now); err != nil {
		t.Fatal(err)
	}
	s.want(Query{Oldest: true}, "edge", "old behind a young one")
	s.want(Query{Oldest: true, Text: "wintermute"}, "edge", "old behind a young one")
	report := s.sound(2)
	if n := len(report.Removed); n != 1 || len(report.Limits) != 1 || report.Head.Seq != head.Seq+2 || report.Removed[0].Last != 5 || report.Removed[0].Records != 5 {
		t.Errorf("Verify = %+v, want a row about the limits and one removal of 5 rows behind the former head", report)
	}
	if report, err := s.Verify(s.ctx, head); err != nil || !report.OK() || len(report.Unknown) > 0 {
		t.Errorf("Verify with the former head = %+v, %v", report, err)
	}
	if err := s.Prune(s.ctx, now); err != nil {
		t.Fatal(err)
	}
	if again := s.sound(2); again.Head != report.Head {
		t.Errorf("Verify = %+v, want no removal if no row was old", again)
	}
	if err := s.Prune(s.ctx, now.Add(30*time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.want(Query{})
	report = s.sound(0)
	if n := len(report.Removed); n != 1 || report.Removed[0].First != 6 || report.Removed[0].Last != 9 || report.Removed[0].Records != 2 {
		t.Errorf("Verify = %+v, want one removal of 2 Records, of the removal before and of the row about the limits", report)
	}
	if report, err := s.Verify(s.ctx, head); err != nil || !report.OK() || len(report.Unknown) != 1 {
		t.Errorf("Verify with a removed head = %+v, %v, want it to be unknown", report, err)
	}
	// Prune by number of Records, in several batches.
	var items []Item
	for i := range 700 {
		e := entry(fmt.Sprintf("n%03d", i))
		e.Time = now
		items = append(items, Item{Line: lineOf(e)})
	}
	s.put(items...)
	if err := s.Prune(s.ctx, now); err != nil {
		t.Fatal(err)
	}
	if got := s.ids(Query{Oldest: true}); len(got) != 100 || got[0] != "n600" {
		t.Errorf("Records = %v, want the newest 100", got)
	}
	if report := s.sound(100); len(report.Removed) != 3 || report.Removed[2].Reason != "number" {
		t.Errorf("Verify = %+v, want three removals by number", report)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = again(t, s.dir)
	s.line(entry("after"))
	s.sound(101)
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.line(entry("before"))
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	live, other := s.Subscribe(ctx), s.Subscribe(s.ctx)
	for i := range 20 {
		s.line(entry(fmt.Sprint(i)), entry(fmt.Sprint(i)))
		for _, ch := range []<-chan Live{live, other} {
			if got := <-ch; got.ID != fmt.Sprint(i) || got.Dropped != 0 || got.Seq != int64(i)+2 || string(got.Line)+"\n" != string(lineOf(entry(got.ID))) {
				t.Fatalf("row %d = %+v", i, got)
			}
		}
	}
	cancel()
	if got, ok := <-live; ok {
		t.Errorf("got %+v after the end", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, ok := <-other; ok {
		t.Errorf("got %+v after Close", got)
	}
	if got, ok := <-s.Subscribe(s.ctx); ok {
		t.Errorf("Subscribe after Close = %+v", got)
	}
}

func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	s := begin(t)
	const rows = 2500
	live := s.Subscribe(t.Context())
	for i := 0; i < rows; i += 500 {
		var items []Item
		for j := range 500 {
			items = append(items, Item{Line: lineOf(entry(fmt.Sprint(i + j)))})
		}
		s.put(items...)
	}
	seen, dropped := 0, 0
	for last := int64(0); last < rows; {
		got := <-live
		seen, dropped = seen+1, dropped+got.Dropped
		if got.Seq != last+1+int64(got.Dropped) {
			t.Fatalf("row %d came after %d, and %d were reported as lost", got.Seq, last, got.Dropped)
		}
		last = got.Seq
	}
	if dropped == 0 || seen+dropped != rows {
		t.Errorf("saw %d and lost %d of %d, want some to be lost", seen, dropped, rows)
	}
}

func TestCallers(t *testing.T) {
	t.Parallel()
	s := begin(t)
	var wait sync.WaitGroup
	for w := range 32 {
		wait.Go(func() {
			for i := range 20 {
				id := fmt.Sprintf("%d-%d", w, i)
				if err := s.Put(s.ctx, Item{Line: lineOf(entry(id)), Mark: &Mark{File: fmt.Sprint(w), Offset: int64(i)}}); err != nil {
					t.Error(err)
				}
				if w%16 == i {
					if got := s.ids(Query{Limit: 1, Text: "wintermute"}); len(got) != 1 {
						t.Errorf("no record exists after Put")
					}
				}
			}
		})
	}
	wait.Wait()
	if got := s.ids(Query{Lean: true}); len(got) != 32*20 {
		t.Errorf("%d records, want %d", len(got), 32*20)
	}
	s.sound(32 * 20)
}

func TestCallersGone(t *testing.T) {
	t.Parallel()
	s := begin(t)
	ctx, cancel := context.WithCancel(s.ctx)
	var wait sync.WaitGroup
	var mu sync.Mutex
	kept := map[string]bool{}
	for w := range 32 {
		wait.Go(func() {
			for i := range 1000 {
				id := fmt.Sprintf("%d-%d", w, i)
				err := s.Put(ctx, Item{Line: lineOf(entry(id))}, Item{Line: lineOf(entry(id + "+"))})
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				kept[id], kept[id+"+"] = true, true
				mu.Unlock()
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	cancel()
	wait.Wait()
	// An error means that nothing was stored, and nil that everything was.
	got := s.ids(Query{Lean: true})
	for _, id := range got {
		if !kept[id] {
			t.Errorf("%s exists, but Put returned an error", id)
		}
	}
	if len(got) != len(kept) {
		t.Errorf("%d records, want %d", len(got), len(kept))
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s := begin(t)
	var wait sync.WaitGroup
	var mu sync.Mutex
	kept := 0
	for w := range 16 {
		wait.Go(func() {
			for i := 0; ; i++ {
				err := s.Put(s.ctx, Item{Line: lineOf(entry(fmt.Sprintf("%d-%d", w, i)))})
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				kept++
				mu.Unlock()
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wait.Wait()
	s = again(t, s.dir)
	s.sound(kept)
}
