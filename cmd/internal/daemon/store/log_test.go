package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// shown returns the IDs that a log yields; "!" is an error.
func shown(t testing.TB, l Log, q Query) []string {
	t.Helper()
	out := []string{}
	for k, err := range l.Read(context.Background(), q) {
		if err != nil {
			t.Logf("%v", err)
			k.ID = "!"
		}
		out = append(out, k.ID)
	}
	return out
}

func wantShown(t testing.TB, l Log, q Query, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), shown(t, l, q)); diff != "" {
		t.Errorf("shown of %+v (-want +got):\n%s", q, diff)
	}
}

func TestLogRead(t *testing.T) {
	t.Parallel()
	l := Log{}
	l.Spool, l.Store = places(t.TempDir())
	wantShown(t, l, Query{})
	w := writer(t, l.Spool, nil)
	at := time.Now().Add(-time.Minute).UTC()
	add := func(id string, after time.Duration) {
		e := entry(id)
		e.Time = at.Add(after)
		w.Observe(context.Background(), &e.Record)
	}
	add("a", 1*time.Second)
	add("b", 4*time.Second)
	appendTo(t, segment(l.Spool, 1), "\ntorn \x1b[31m\n")
	wantShown(t, l, Query{}, "a", "b", "!")
	wantShown(t, l, Query{Text: "wintermute"}, "a", "b")
	wantShown(t, l, Query{Text: `"torn line"`}, "!")
	if _, err := os.Stat(l.Store); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading has made a store: %v", err)
	}

	s := openTest(t, l.Store, nil)
	in := &Intake{Spool: l.Spool, Store: s}
	wantShown(t, l, Query{}, "a", "b", "!")
	once(t, in)
	add("d", 6*time.Second)
	direct := entry("c") // directly into the store
	direct.Time = at.Add(2 * time.Second)
	if err := s.Put(context.Background(), Item{Line: lineOf(direct)}); err != nil {
		t.Fatal(err)
	}
	add("c", 7*time.Second) // only the first of two answers to a firing counts
	add("e", 3*time.Second) // not in the store, but older than the newest row
	add("e", 3*time.Second) // the second one is not shown
	early := shown(t, l, Query{})
	slices.Sort(early[len(early)-2:])
	if diff := cmp.Diff([]string{"a", "c", "b", "!", "d", "e"}, early); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantShown(t, l, Query{Text: "wintermute", Filter: spool.Filter{Since: at.Add(5 * time.Second)}}, "d")
	wantShown(t, l, Query{Filter: spool.Filter{Agent: "none"}})
	wantShown(t, l, Query{Text: "nothing"})
	if shown(t, l, Query{Text: "-"})[0] != "!" {
		t.Error("a search for no word is no error")
	}
	once(t, in)
	wantShown(t, l, Query{}, "a", "c", "e", "b", "!", "d")
	for k, err := range l.Read(context.Background(), Query{Filter: spool.Filter{Session: "s1"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Event(); err != nil || k.Input == nil || k.Input.Tool.Name != "Bash" {
			t.Errorf("the event of %s: %v, %v", k.ID, k.Input, err)
		}
	}
	counter, err := l.Count(context.Background(), time.Time{})
	if n := counter.Totals(); err != nil || n.Firings != 5 || n.Unreadable != 1 || len(n.Hooks) != 1 || n.Hooks[0].Runs != 5 {
		t.Errorf("Count = %+v, %v", n, err)
	}
	_ = s.Close()
	wantShown(t, l, Query{}, "a", "c", "e", "b", "!", "d") // the same without a running daemon
}

func TestLogFollow(t *testing.T) {
	t.Parallel()
	l := Log{}
	l.Spool, l.Store = places(t.TempDir())
	w := writer(t, l.Spool, nil)
	write(t, w, "a")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	came := make(chan string, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for k, err := range l.Follow(ctx, Query{}) {
			if err != nil {
				k.ID = "! " + err.Error()
			}
			came <- k.ID
		}
	}()
	want := func(ids ...string) {
		t.Helper()
		var got []string
		for range ids {
			select {
			case id := <-came:
				got = append(got, id)
			case <-ctx.Done():
				t.Fatalf("came %q, want %q", got, ids)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			t.Fatalf("came %q, want %q", got, ids)
		}
	}
	want("a")
	write(t, w, "b")
	want("b")
	s := openTest(t, l.Store, nil) // a store that is created later
	in := &Intake{Spool: l.Spool, Store: s}
	once(t, in)
	if err := s.Put(ctx, Item{Line: lineOf(fresh("c"))}); err != nil {
		t.Fatal(err)
	}
	want("c")
	write(t, w, "d")
	once(t, in)
	write(t, w, "e")
	want("d", "e")
	once(t, in)
	write(t, w, "f")
	want("f")
	time.Sleep(3 * followPoll) // no line is shown twice
	if len(came) > 0 {
		t.Errorf("came %q, too", <-came)
	}
	cancel()
	<-ended
}

// If the store cannot be read, the log reports it and still shows the spool.
func TestLogBrokenStore(t *testing.T) {
	t.Parallel()
	l := Log{}
	l.Spool, l.Store = places(t.TempDir())
	write(t, writer(t, l.Spool, nil), "a")
	if err := os.MkdirAll(l.Store, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Store, baseFile), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantShown(t, l, Query{}, "!", "a")
	counter, err := l.Count(context.Background(), time.Time{})
	if n := counter.Totals(); err == nil || n.Firings != 1 {
		t.Errorf("Count = %+v, %v", n, err)
	}
}

// Late lines can report on the same firing.
func TestLogLate(t *testing.T) {
	t.Parallel()
	l := Log{}
	l.Spool, l.Store = places(t.TempDir())
	s := openTest(t, l.Store, nil)
	write(t, writer(t, l.Spool, nil), "a")
	for i := range 2 {
		e := spool.Entry{Late: true, Record: grapnel.Record{ID: "a", Time: time.Now(), Hooks: []grapnel.HookRun{{Name: fmt.Sprint("h", i), Async: true}}}}
		putLine(t, l.Spool, lineOf(e))
	}
	wantShown(t, l, Query{}, "a", "a", "a")
	once(t, &Intake{Spool: l.Spool, Store: s})
	wantShown(t, l, Query{}, "a", "a", "a")
	if err := s.write(context.Background(), 0, func(c *change) error { return c.run("DELETE FROM mark") }); err != nil {
		t.Fatal(err)
	}
	wantShown(t, l, Query{}, "a", "a", "a")
}
