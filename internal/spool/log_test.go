package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
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
	f := only(t, dir)
	got := map[string]Entry{}
	for _, line := range lines(t, f) {
		data, err := f.Take(&line)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 1<<20 || data[len(data)-1] != '\n' || bytes.Count(data, []byte("\n")) != 1 {
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
	f := only(t, dir)
	line := lines(t, f)[0]
	data, err := f.Take(&line)
	if err != nil || !json.Valid(data) || len(data) > 8*maxShown {
		t.Errorf("%d bytes, %v: %.200q", len(data), err, data)
	}
	again := lines(t, only(t, dir))[0]
	if again.Entry.ID != line.Entry.ID {
		t.Errorf("its ID is %q, and then %q", line.Entry.ID, again.Entry.ID)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	lock, err := LockIntake(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockIntake(dir); !errors.Is(err, ErrBusy) {
		t.Errorf("a second Lock: %v, want ErrBusy", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := LockIntake(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// only returns the only segment of a log.
func only(t testing.TB, dir string) *LogFile {
	t.Helper()
	files := openLog(t, dir).Files()
	if len(files) != 1 {
		t.Fatalf("%d segments, want 1", len(files))
	}
	return files[0]
}

func lines(t testing.TB, f *LogFile) (lines []Line) {
	t.Helper()
	for line, err := range f.Lines(0) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// Only closed segments can be removed, and not while another process removes some. Side files are removed
// with the last segment that could name them, and not earlier.
func TestRemove(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Records: Full})
	rec := record("big")
	rec.Input.Tool.Content = strings.Repeat("x", maxLine)
	observe(t, s, rec)
	sides, err := filepath.Glob(filepath.Join(dir, sideDir, "*"))
	if err != nil || len(sides) != 1 {
		t.Fatal(sides, err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(sides[0], old, old); err != nil {
		t.Fatal(err)
	}
	if f := only(t, dir); f.Closed() || f.Remove() == nil {
		t.Error("the open segment was removed")
	}
	endLog(t, dir)
	l := openLog(t, dir)
	f := l.Files()[0]
	if len(l.Files()) != 2 || !f.Closed() || l.Files()[1].Closed() {
		t.Fatalf("%d segments", len(l.Files()))
	}
	lock, err := tryLock(filepath.Join(dir, pruneLock), files.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(); !errors.Is(err, ErrBusy) {
		t.Errorf("Remove while another does: %v, want ErrBusy", err)
	}
	_ = lock.Close()
	observe(t, s, record("b"))
	if !exists(sides[0]) {
		t.Fatal("the side file is gone before the line")
	}
	for range 2 { // the second finds it gone
		if err := f.Remove(); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	if exists(sides[0]) {
		t.Error("the side file of a removed line is left")
	}
	entries, problems := read(t, dir)
	if len(entries) != 1 || entries[0].ID != "b" || problems != nil {
		t.Errorf("left are %v, %v, want b", entries, problems)
	}
}
