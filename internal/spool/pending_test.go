package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
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
	var found []string
	for _, name := range []string{pendingFile, takenFile, takenDone} {
		if exists(filepath.Join(dir, name)) {
			found = append(found, name)
		}
	}
	return found
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
	if side, err := os.ReadDir(filepath.Join(dir, sideDir)); err != nil || len(side) != 1 {
		t.Errorf("side files = %v, %v, want one for both hooks", side, err)
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
// are in the log.
func TestDrainDamage(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	run(t, s, event("0"), "h")
	pending := filepath.Join(dir, pendingFile)
	appendText(t, pending, `{"id":"torn","hook":"h","event":{"kind":"tool.be`)
	run(t, s, event("1"), "h")
	appendText(t, pending, "{\"id\":\"x\",\"hook\":\"eventless\"}\n{\"id\":\"y\",\"hook\":\"sideless\",\"event_at\":\""+rep("a", 64)+"\"}\n\n[]\nlast")
	// A note that no drain wrote, or that a power failure damaged.
	appendText(t, filepath.Join(dir, takenDone), "00000000000000000400\n")
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
	if len(entries) != 7 || strings.Count(all, "torn line") != 3 || !strings.Contains(all, "eventless the event is missing") || !strings.Contains(all, "sideless cannot read its event") {
		t.Errorf("the log says:\n%s\nwant each line that could not run", all)
	}

	for name, text := range map[string]string{"garbage": "x", "far": "99999999999999999999\n", "beyond": "00000000000000099999\n", "negative": "-5", "empty": ""} {
		run(t, s, event(name), "h")
		if err := os.Rename(pending, filepath.Join(dir, takenFile)); err != nil {
			t.Fatal(err)
		}
		appendText(t, filepath.Join(dir, takenDone), text)
		if err := s.Drain(t.Context(), note(dir)); err != nil || !slices.Contains(ran(t, dir), name) {
			t.Errorf("with a note that is %s: %v, ran %v", name, err, ran(t, dir))
		}
	}
}

// If a drain was killed just before it removed its note, the lines of the next file must not be
// skipped.
func TestDrainStaleNote(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	run(t, s, event("0"), "h")
	appendText(t, filepath.Join(dir, takenDone), fmt.Sprintf(noteFormat, 100))
	if err := s.Drain(t.Context(), note(dir)); err != nil || len(ran(t, dir)) != 1 {
		t.Errorf("Drain = %v, ran %v, want the one hook", err, ran(t, dir))
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

// If a process was stopped while it held the lock, Run gives up and does not hang.
func TestRunDoesNotHang(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	observe(t, s, record("a"))
	lock, err := tryLock(filepath.Join(dir, pendingLock), files.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), event("0"), hooks("h")); !errors.Is(err, files.ErrLocked) {
		t.Errorf("Run = %v, want %v", err, files.ErrLocked)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "observing hooks will not run") {
		t.Errorf("Err = %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, s, event("1"), "h")
}

// until waits for a condition that depends on another process.
func until(t *testing.T, met func() bool) {
	t.Helper()
	await.Until(t, "another process does its part", met)
}
