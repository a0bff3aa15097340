package spool

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// put creates a file in a spool.
func put(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzRead: any log is read to its end, and a Record that is written after it can be read.
func FuzzRead(f *testing.F) {
	header := []byte(`{"journal":1,"key":"A","time":"2026-03-04T05:06:07Z","crc":"00000000"}`)
	f.Add(header)
	whole := []byte(`{"id":"0192","time":"2026-03-04T05:06:07Z","decision":"block","hooks":[],"input":{"kind":"tool.before","native":{"hook_event_name":"PreToolUse"}}}` + "\n")
	f.Add(whole)
	f.Add(whole[:60])
	f.Add(append(whole[:90:90], whole...))
	f.Add([]byte("\n\n{}\nnull\n[]\n\x00\xff\n"))
	f.Add([]byte(`{"id":"a","time":"2026-03-04T05:06:07Z","input_at":"../../../etc/passwd"}`))
	f.Add([]byte(`{"id":"a","time":"2026-03-04T05:06:07Z","late":true,"hooks":[{"name":"x","ms":1e9,"error":"no"}],"input":7}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, log []byte) {
		put(t, dir, filepath.Join(JournalDir, "00000001.jsonl"), log)
		before, problems := read(t, dir)
		for _, err := range problems {
			if errors.Is(err, os.ErrNotExist) {
				continue // a side file
			}
			if err.Error() == "" {
				t.Errorf("an error that says nothing")
			}
		}
		if lines := bytes.Count(log, []byte("\n")) + 1; len(before) > lines {
			t.Errorf("%d Records in %d lines", len(before), lines)
		}

		s, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		observe(t, s, record("behind"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		after, _ := read(t, dir)
		if len(after) != len(before)+1 || after[len(after)-1].ID != "behind" {
			t.Fatalf("behind %q a Record is not found: %d Records, before it %d", log, len(after), len(before))
		}
		if err := os.RemoveAll(filepath.Join(dir, JournalDir)); err != nil { // a log with a damaged header goes on in another segment
			t.Fatal(err)
		}
	})
}

// FuzzDrain: for any files in the outbox, the drain ends, removes all of them, and reports each hook that it could
// not run.
func FuzzDrain(f *testing.F) {
	one := []byte(`{"id":"0192","time":"2026-03-04T05:06:07Z","hook":"h","event":{"kind":"tool.before","tool":{"name":"Bash"}}}`)
	f.Add(one, one)
	f.Add(one[:40], append(one[:50:50], one...))
	f.Add([]byte(`{"id":"a","hook":"h"}`), []byte("null"))
	f.Add([]byte(`{"hook":"x","event":null}`), []byte(""))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, pending, later []byte) {
		put(t, dir, filepath.Join(outboxDir, "1"+waits), pending)
		old := time.Now().Add(-time.Hour) // otherwise the drain waits for the rest
		if err := os.Chtimes(filepath.Join(dir, outboxDir, "1"+waits), old, old); err != nil {
			t.Fatal(err)
		}
		put(t, dir, filepath.Join(outboxDir, "0"+postpone), later)
		_ = os.RemoveAll(filepath.Join(dir, JournalDir))
		s, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		if err := s.Drain(t.Context(), func(_ context.Context, p Pending) error {
			if ran++; p.Hook == "" || p.Event == nil {
				t.Errorf("runs %+v", p)
			}
			return nil
		}); err != nil {
			t.Fatalf("Drain: %v", err)
		}
		if s.Later() || !s.Waiting().IsZero() {
			t.Error("something still waits")
		}
		if err := errors.Join(s.Err(), s.Close()); err != nil {
			t.Errorf("what became of the hooks is not kept: %v", err)
		}
		entries, problems := read(t, dir)
		if len(entries) < ran || len(problems) > 0 {
			t.Errorf("%d hooks ran, %d are told of: %v", ran, len(entries), problems)
		}
	})
}

// FuzzBlocked: a damaged count can end a loop of blocked stops too early, but a loop always
// ends.
func FuzzBlocked(f *testing.F) {
	for _, text := range []string{"", "7", "-3", "1e9", "99999999999999999999", "\x00", " 8", "8\n", "٣"} {
		f.Add([]byte(text), "s1", true)
	}
	f.Add([]byte("3"), "../../../etc/passwd\x00", false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, count []byte, session string, active bool) {
		s, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Blocked(session, active); err != nil { // creates the file
			t.Fatal(err)
		}
		files := countFiles(t, dir)
		if len(files) != 1 {
			t.Fatalf("session %q has the files %v", session, files)
		}
		name := files[0]
		defer func() { _ = os.Remove(name) }()
		if err := os.WriteFile(name, count, 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := s.Blocked(session, active)
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.Blocked(session, true)
		if err != nil || first < 1 || second != first+1 && second <= grapnel.MaxStops {
			t.Errorf("with the count %q: %d, then %d, %v", count, first, second, err)
		}
		if !active && first != 1 {
			t.Errorf("with the count %q a new turn begins with %d", count, first)
		}
	})
}

// Found by FuzzDrain: the result was stored without an ID, so readers did not accept it as a
// Record.
func TestPendingWithoutID(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	put(t, dir, filepath.Join(outboxDir, "1"+waits), []byte(`{"hook":"h","event":{"kind":"tool.before"}}`))
	if err := s.Drain(t.Context(), func(context.Context, Pending) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if entries, problems := read(t, dir); len(entries) != 1 || entries[0].ID == "" || len(problems) > 0 {
		t.Errorf("%+v, %v, want one Record", entries, problems)
	}
}

// Found by FuzzBlocked: a negative count would have kept an agent from stopping until the count
// reached zero.
func TestBlockedBelowZero(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	if _, err := s.Blocked("s", false); err != nil {
		t.Fatal(err)
	}
	files := countFiles(t, dir)
	if len(files) != 1 {
		t.Fatalf("%v, want one count", files)
	}
	put(t, filepath.Dir(files[0]), filepath.Base(files[0]), []byte("-9999999"))
	if n, err := s.Blocked("s", true); n != 1 || err != nil {
		t.Errorf("Blocked = %d, %v, want 1", n, err)
	}
}
