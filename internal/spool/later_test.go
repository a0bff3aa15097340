package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// If a hook cannot run now, a later drain runs it with the same ID, before hooks that were
// queued later. The hooks after it do not wait.
func TestDrainLater(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Sync: true})
	big := event("big")
	big.Tool.Content = rep("x", 200<<10)
	run(t, s, big, "a", "b")
	ids := map[string]string{}
	busy := true
	var ran []string
	drain := func() error {
		return s.Drain(t.Context(), func(_ context.Context, p Pending) error {
			if id := ids[p.Hook]; id != "" && id != p.ID {
				t.Errorf("%s was %s and is %s", p.Hook, id, p.ID)
			}
			ids[p.Hook] = p.ID
			if busy && p.Hook != "b" {
				return fmt.Errorf("%w: somebody else is at it", ErrLater)
			}
			ran = append(ran, p.Hook+" "+p.Event.ID)
			return nil
		})
	}
	for range 3 {
		if err := drain(); err != nil || !s.Later() {
			t.Fatal(err, s.Later())
		}
	}
	run(t, s, event("small"), "c")
	busy = false
	if err := drain(); err != nil || s.Later() || leftovers(dir) != nil {
		t.Fatalf("%v, later %v, left %v", err, s.Later(), leftovers(dir))
	}
	if diff := cmp.Diff([]string{"b big", "a big", "c small"}, ran); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	entries, problems := read(t, dir)
	if len(entries) != 3 || problems != nil {
		t.Errorf("Read = %v, %v, want one entry for each hook", entries, problems)
	}
}

// A drain that dies while it postpones hooks loses none. A hook that is in both files has one
// ID.
func TestDrainLaterKilled(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	run(t, s, event("x"), "a", "b")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := s.Drain(ctx, func(context.Context, Pending) error {
		cancel(errors.New("killed"))
		return ErrLater
	})
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatal(err)
	}
	var seen []string
	later := func(_ context.Context, p Pending) error { seen = append(seen, p.Hook); return ErrLater }
	if err := s.Drain(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	seen = nil
	// As if it had died between the line and the note: it is in both files.
	data, err := os.ReadFile(filepath.Join(dir, laterFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, takenFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	if err := s.Drain(t.Context(), func(_ context.Context, p Pending) error {
		if ids[p.Hook] != "" && ids[p.Hook] != p.ID {
			t.Errorf("%s has two IDs", p.Hook)
		}
		ids[p.Hook] = p.ID
		seen = append(seen, p.Hook)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "a", "b"}, seen); diff != "" || s.Later() {
		t.Errorf("later %v, ran (-want +got):\n%s", s.Later(), diff)
	}
}

// A hook is not postponed forever: after a week, or with an invalid time, the error is its
// result. If the line cannot be stored, the drain stops and keeps everything.
func TestDrainLaterEnds(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	for i, at := range []string{"2020-01-02T03:04:05Z", "2920-01-02T03:04:05Z"} {
		put(t, dir, pendingFile, fmt.Appendf(nil, `{"id":"p%d","time":%q,"hook":"h","event":{"kind":"tool.before"}}`, i, at))
		if err := s.Drain(t.Context(), func(context.Context, Pending) error { return fmt.Errorf("%w: the disk is full", ErrLater) }); err != nil || s.Later() {
			t.Fatal(err, s.Later())
		}
	}
	entries, _ := read(t, dir)
	if len(entries) != 2 || !strings.Contains(entries[1].Hooks[0].Error, "the disk is full") {
		t.Errorf("%+v", entries)
	}
	if err := os.Mkdir(filepath.Join(dir, laterFile), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir, filepath.Join(laterFile, "x"), []byte("x"))
	run(t, s, event("x"), "a")
	err := s.Drain(t.Context(), func(context.Context, Pending) error { return ErrLater })
	if err == nil {
		t.Error("a line that could not be kept was let go")
	}
	if left := leftovers(dir); left == nil {
		t.Error("nothing is left")
	}
}

// DrainNew leaves the hooks that an earlier drain has postponed.
func TestDrainNew(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	var ran []string
	run(t, s, event("x"), "a")
	if err := s.Drain(t.Context(), func(context.Context, Pending) error { return ErrLater }); err != nil || !s.Later() {
		t.Fatal(err, s.Later())
	}
	run(t, s, event("y"), "b")
	note := func(_ context.Context, p Pending) error { ran = append(ran, p.Hook); return nil }
	if err := s.DrainNew(t.Context(), note); err != nil || fmt.Sprint(ran) != "[b]" || !s.Later() {
		t.Errorf("%v, ran %v, later %v", err, ran, s.Later())
	}
	if err := s.Drain(t.Context(), note); err != nil || fmt.Sprint(ran) != "[b a]" || leftovers(dir) != nil {
		t.Errorf("%v, ran %v, left %v", err, ran, leftovers(dir))
	}
}
