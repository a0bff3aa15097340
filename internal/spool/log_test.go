package spool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

func openLog(t testing.TB, dir string) *Log {
	t.Helper()
	l, err := OpenLog(dir, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Side files are removed together with the lines that name them, and not before.
func TestTake(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Records: Full})
	big := record("big")
	big.Input.Tool.Content = strings.Repeat("a<b>", maxLine/4)
	huge := record("huge")
	huge.Input.Tool.Content = strings.Repeat("x", 3*maxTaken)
	lost := record("lost")
	lost.Input.Tool.Content = strings.Repeat("y", maxLine)
	observe(t, s, record("small"), big, huge, lost)
	appendText(t, logFile(dir), "\ntorn <here>\n")
	var at string
	for e, err := range Read(dir, Filter{}) {
		if err == nil && e.ID == "lost" {
			at = e.InputAt
		}
	}
	if err := os.Remove(sideFile(dir, at)); err != nil {
		t.Fatal(err)
	}
	got := map[string]Entry{}
	for _, line := range lines(t, dir) {
		data, err := line.Whole(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 1<<20 || bytes.ContainsRune(data, '\n') {
			t.Errorf("taken is no line: %q", data[max(0, len(data)-80):])
		}
		var e Entry
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatalf("taken of %.200q: %v", line.Text, err)
		}
		got[line.Entry.ID] = e
	}
	if e := got["small"]; e.Input == nil || e.InputAt != "" {
		t.Errorf("small: %v", e.Input)
	}
	if e := got["big"]; e.Input == nil || e.Input.Tool.Content != big.Input.Tool.Content || e.InputAt == "" {
		t.Errorf("big: %.300v, want its event and where it was", e.Input)
	}
	if e := got["huge"]; e.Input == nil || len(e.Input.Tool.Content) > maxTaken || !strings.Contains(e.Input.Tool.Content, "more bytes cut") {
		t.Error("huge: its event was not cut")
	}
	if e := got["lost"]; e.Input != nil || e.InputAt != at {
		t.Errorf("lost: %v at %q, want only where it was", e.Input, e.InputAt)
	}
	found := false
	for _, e := range got {
		if e.Event == Torn {
			found = true
			if !strings.Contains(e.Error, "torn line") || !strings.Contains(e.Error, "torn <here>") || !strings.Contains(e.Error, "00000001.jsonl, byte ") || e.Time.IsZero() || e.Decision != grapnel.None {
				t.Errorf("torn: %+v", e)
			}
		}
	}
	if !found {
		t.Error("the torn line was not taken")
	}
}

// A torn line is only partly shown, and is valid JSON for any content.
func TestTakeTorn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	putLines(t, dir, "\n"+strings.Repeat("\xff\"\\", maxShown)+"\n")
	line := lines(t, dir)[0]
	data, err := line.Whole(dir)
	if err != nil || !json.Valid(data) || len(data) > 8*maxShown {
		t.Errorf("%d bytes, %v: %.200q", len(data), err, data)
	}
	again := lines(t, dir)[0]
	if again.Entry.ID != line.Entry.ID {
		t.Errorf("its ID is %q, and then %q", line.Entry.ID, again.Entry.ID)
	}
}

func lines(t testing.TB, dir string) (lines []Line) {
	t.Helper()
	for line, err := range openLog(t, dir).From(0) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// Side files are removed with the last segment that could name them, and not earlier.
func TestRetire(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Records: Full})
	rec := record("big")
	rec.Input.Tool.Content = strings.Repeat("x", maxLine)
	observe(t, s, rec)
	sides, err := filepath.Glob(filepath.Join(dir, sideDir, "*"))
	if err != nil || len(sides) != 1 {
		t.Fatal(sides, err)
	}
	for step, removed := range []int{0, 0, 1, 0} {
		got, err := s.Retire(journal.Limits{MaxRecords: 1}, time.Now())
		if err != nil || len(got) != removed {
			t.Errorf("step %d: %+v, %v, want %d removals", step, got, err, removed)
		}
		if exists(sides[0]) != (step < 2) {
			t.Errorf("step %d: the side file is there: %v", step, exists(sides[0]))
		}
		switch step {
		case 0:
			endLog(t, dir)
		case 1:
			observe(t, s, record("b"))
			endLog(t, dir)
			old := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(sides[0], old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, problems := read(t, dir)
	if len(entries) != 1 || entries[0].ID != "b" || problems != nil {
		t.Errorf("left are %v, %v, want b", entries, problems)
	}
}

// A torn line is the same for a reader that begins with it.
func TestTornTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tear := func() {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, JournalDir, "00000001.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("\n{\"id\":\"cut\",\n"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for i := range 3 {
		if err := s.Store(&grapnel.Record{ID: fmt.Sprint(i), Time: at.Add(time.Duration(i) * time.Second), Event: grapnel.ToolBefore}); err != nil {
			t.Fatal(err)
		}
		tear()
		tear()
	}
	log, err := OpenLog(dir, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var lines []Line
	from := []int64{0}
	for line, err := range log.From(0) {
		if err != nil {
			t.Fatal(err)
		}
		lines, from = append(lines, line), append(from, line.At)
	}
	if ids, err := log.IDs(0); len(ids) != 3 || err != nil {
		t.Errorf("IDs = %v, %v, want those of Records", ids, err)
	}
	for n := range 2 * len(lines) {
		i := min(n, 2*len(lines)-1-n) // forward, and then backward
		for line, err := range log.From(from[i]) {
			if err != nil || line.Entry.ID != lines[i].Entry.ID || !line.Entry.Time.Equal(lines[i].Entry.Time) {
				t.Errorf("line %d is %s at %v, and read alone %s at %v", i, lines[i].Entry.ID, lines[i].Entry.Time, line.Entry.ID, line.Entry.Time)
			}
			break
		}
	}
}
