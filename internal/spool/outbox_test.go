package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// run queues hooks of an event.
func run(t *testing.T, s *Spool, ev *grapnel.Event, names ...string) {
	t.Helper()
	if err := s.Run(t.Context(), ev, hooks(names...)); err != nil {
		t.Fatal(err)
	}
}

// ran lists the events that note got.
func ran(t *testing.T, dir string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "ran"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// leftovers lists the files that should not exist after a drain.
func leftovers(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, outboxDir, "*"))
	return found
}

// postText writes a file into the outbox.
func postText(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, outboxDir), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir, filepath.Join(outboxDir, name), []byte(text))
}

func TestDrain(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Sync: true})
	big := event("big")
	big.Tool.Content = rep("x", 200<<10)
	big = big.WithVerdict(&grapnel.Verdict{Decision: grapnel.Block, Changes: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"a":1}`)}})
	small := event("small")
	small.ID = ""
	run(t, s, big, "a", "b")
	run(t, s, small, "c")
	run(t, s, event("none"))
	for _, name := range leftovers(dir) {
		if info, err := os.Lstat(name); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	var got []Pending
	err := s.Drain(t.Context(), func(_ context.Context, p Pending) error {
		got = append(got, p)
		switch p.Hook {
		case "a":
			return fmt.Errorf("gave up: %w of 1s", grapnel.ErrTimeout)
		case "b":
			panic("oops")
		}
		return nil
	})
	if err != nil || s.Err() != nil {
		t.Fatalf("Drain = %v, Err = %v", err, s.Err())
	}
	if left := leftovers(dir); left != nil {
		t.Errorf("Drain left %v", left)
	}
	if len(got) != 3 || got[0].Hook != "a" || got[1].Hook != "b" || got[2].Hook != "c" || got[0].ID == got[1].ID {
		t.Fatalf("ran %+v, want a, b, c in this order", got)
	}
	if diff := cmp.Diff(big, got[0].Event); diff != "" {
		t.Errorf("the event came back changed (-want +got):\n%s", diff)
	}
	entries, problems := read(t, dir)
	if len(entries) != 3 || problems != nil {
		t.Fatalf("Read = %v, %v, want one entry for each hook", entries, problems)
	}
	var ends []string
	for _, e := range entries {
		ends = append(ends, fmt.Sprintf("%s %v %s %s %s %s", e.ID, e.Late, e.Event, e.Hooks[0].Name, e.Hooks[0].Cause, e.Hooks[0].Error))
	}
	want := []string{
		"big true tool.before a timeout gave up: took longer than its timeout of 1s",
		"big true tool.before b error panicked: oops",
		got[2].ID + " true tool.before c  ",
	}
	if diff := cmp.Diff(want, ends); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// Without pending hooks, no file is created and no hook runs.
func TestDrainNothing(t *testing.T) {
	t.Parallel()
	never := func(context.Context, Pending) error { t.Error("something ran"); return nil }
	s, dir := open(t, nil)
	if err := s.Drain(t.Context(), never); err != nil || exists(dir) {
		t.Errorf("Drain = %v, made the directory: %v", err, exists(dir))
	}
	observe(t, s, record("a"))
	if err := s.Drain(t.Context(), never); err != nil || s.Queued() {
		t.Errorf("Drain = %v, Queued = %v", err, s.Queued())
	}
}

// If a hook queues further hooks, the same drain runs them. Another drain in the meantime
// returns immediately and runs nothing.
func TestDrainSeesWhatComes(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	run(t, s, event("0"), "h")
	count := 0
	err := s.Drain(t.Context(), func(ctx context.Context, p Pending) error {
		if count++; count < 20 {
			if err := s.Run(ctx, event(fmt.Sprint(count)), hooks("h")); err != nil {
				return err
			}
		}
		other, err := Open(dir, nil)
		if err != nil {
			return err
		}
		return other.Drain(ctx, func(context.Context, Pending) error {
			t.Error("two drains ran")
			return nil
		})
	})
	if err != nil || count != 20 || leftovers(dir) != nil {
		t.Errorf("Drain = %v, ran %d, left %v, want all 20 run and nothing left", err, count, leftovers(dir))
	}
}

// A drain that is stopped leaves the current hook and the rest for the next drain.
func TestDrainStops(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	for i := range 4 {
		run(t, s, event(fmt.Sprint(i)), "h")
	}
	away := errors.New("the machine goes down")
	ctx, cancel := context.WithCancelCause(t.Context())
	var got []string
	err := s.Drain(ctx, func(ctx context.Context, p Pending) error {
		got = append(got, p.Event.ID)
		if p.Event.ID == "1" {
			cancel(away)
			return ctx.Err()
		}
		return nil
	})
	if !errors.Is(err, away) {
		t.Errorf("Drain = %v, want why it stopped", err)
	}
	if err := s.Drain(t.Context(), func(_ context.Context, p Pending) error { got = append(got, p.Event.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := strings.Fields("0 1 1 2 3"); !slices.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
}

// After any damage by a killed process or a full disk, the readable hooks run, and the others
// are in the log. A file that is being written is waited for.
func TestDrainDamage(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	run(t, s, event("0"), "h")
	for name, text := range map[string]string{
		"1.json": `{"id":"torn","hook":"h","event":{"kind":"tool.be`, "2.json": `{"id":"x","hook":"eventless"}`, "3.json": "[]", "4.json": "", "5.json": "{}", "other": "x",
	} {
		postText(t, dir, name, text)
		old := time.Now().Add(-2 * maxWriting)
		if err := os.Chtimes(filepath.Join(dir, outboxDir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	before := leftovers(dir)
	run(t, s, event("1"), "h")
	whole := slices.DeleteFunc(leftovers(dir), func(name string) bool { return slices.Contains(before, name) })[0]
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(whole, content[:len(content)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = os.WriteFile(whole, content, 0o600) })
	if err := s.Drain(t.Context(), note(dir)); err != nil {
		t.Fatal(err)
	}
	if got, want := ran(t, dir), []string{"0", "1"}; !slices.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
	entries, _ := read(t, dir)
	var texts []string
	for _, e := range entries {
		text := e.Error
		for _, h := range e.Hooks {
			text += h.Name + " " + h.Error
		}
		texts = append(texts, text)
	}
	all := strings.Join(texts, "\n")
	if len(entries) != 7 || strings.Count(all, "torn line") != 4 || !strings.Contains(all, "eventless the event is missing") {
		t.Errorf("the log says:\n%s\nwant each hook that could not run", all)
	}
	if left := leftovers(dir); len(left) != 1 || filepath.Base(left[0]) != "other" {
		t.Errorf("left are %v", left)
	}
}

func appendText(t testing.TB, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// If a hook cannot be queued, Run says so.
func TestRunFails(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	observe(t, s, record("a"))
	put(t, dir, outboxDir, []byte("no directory"))
	if err := s.Run(t.Context(), event("0"), hooks("h")); err == nil || s.Queued() {
		t.Errorf("Run = %v, queued: %v", err, s.Queued())
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "observing hooks will not run") {
		t.Errorf("Err = %v", err)
	}
}

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

// A drain that is stopped while a hook is postponed loses none, and each hook keeps its ID.
func TestDrainLaterStopped(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	run(t, s, event("x"), "a", "b")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := s.Drain(ctx, func(context.Context, Pending) error {
		cancel(errors.New("killed"))
		return ErrLater
	})
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatal(err)
	}
	ids := map[string]string{}
	var seen []string
	for _, failed := range []error{ErrLater, nil} {
		err := s.Drain(t.Context(), func(_ context.Context, p Pending) error {
			if ids[p.Hook] != "" && ids[p.Hook] != p.ID {
				t.Errorf("%s has two IDs", p.Hook)
			}
			ids[p.Hook] = p.ID
			seen = append(seen, p.Hook)
			return failed
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "a", "b"}, seen); diff != "" || s.Later() {
		t.Errorf("later %v, ran (-want +got):\n%s", s.Later(), diff)
	}
}

// A hook is not postponed forever: after a week, or with an invalid time, the error is its
// result.
func TestDrainLaterEnds(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	for i, at := range []string{"2020-01-02T03:04:05Z", "2920-01-02T03:04:05Z"} {
		postText(t, dir, fmt.Sprint(i, waits), fmt.Sprintf(`{"id":"p%d","time":%q,"hook":"h","event":{"kind":"tool.before"}}`, i, at))
		if err := s.Drain(t.Context(), func(context.Context, Pending) error { return fmt.Errorf("%w: the disk is full", ErrLater) }); err != nil || s.Later() {
			t.Fatal(err, s.Later())
		}
	}
	entries, _ := read(t, dir)
	if len(entries) != 2 || !strings.Contains(entries[1].Hooks[0].Error, "the disk is full") {
		t.Errorf("%+v", entries)
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

// until waits for a condition that depends on another process.
func until(t *testing.T, met func() bool) {
	t.Helper()
	await.Until(t, "another process does its part", met)
}
