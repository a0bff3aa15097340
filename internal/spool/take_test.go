package spool

import (
	"bytes"
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

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// lineOf returns a line of the log without its newline.
func lineOf(id string) string {
	return fmt.Sprintf(`{"id":%q,"time":"2026-03-04T05:06:07Z","agent":"a","session":"s","event":"tool.before","decision":"none","hooks":[],"ms":1}`, id)
}

func openLog(t testing.TB, dir string) *Log {
	t.Helper()
	l, err := OpenLog(dir, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// only returns the only file of a log.
func only(t testing.TB, dir string) *LogFile {
	t.Helper()
	files := openLog(t, dir).Files()
	if len(files) != 1 {
		t.Fatalf("%d files, want 1", len(files))
	}
	return files[0]
}

func lines(t testing.TB, f *LogFile, from int64, final bool) []Line {
	t.Helper()
	var lines []Line
	for line, err := range f.Lines(from, final) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// describeLines describes lines: IDs, "torn", and "-" for a line without text.
func describeLines(lines []Line) string {
	var words []string
	for _, line := range lines {
		switch {
		case line.Torn != nil:
			words = append(words, "torn")
		case line.Text == nil:
			words = append(words, "-")
		default:
			words = append(words, line.Entry.ID)
		}
	}
	return strings.Join(words, " ")
}

func TestLines(t *testing.T) {
	t.Parallel()
	a, b := lineOf("a"), lineOf("b")
	tests := map[string]struct{ text, open, final string }{
		"empty":              {"", "", ""},
		"two":                {a + "\n" + b + "\n", "a b", "a b"},
		"no end":             {a + "\n" + b, "a", "a b"},
		"torn end":           {a + "\n" + b[:40], "a", "a torn"},
		"empty lines":        {"\n\r\n" + a + "\n\n\n", "a -", "a -"},
		"nothing but ends":   {"\n\n", "-", "-"},
		"torn between":       {a + "\n" + b[:40] + "\n" + b + "\n", "a torn b", "a torn b"},
		"glued":              {a[:40] + b + "\n" + a + "\n", "torn b a", "torn b a"},
		"no object":          {"[]\n{}\nnull\n" + a + "\n", "torn torn torn a", "torn torn torn a"},
		"zeros":              {strings.Repeat("\x00", 5000) + "\n" + a + "\n", "torn a", "torn a"},
		"too long":           {a + "\n" + strings.Repeat("x", maxPiece+100) + "\n" + b + "\n", "a torn torn b", "a torn torn b"},
		"glued to too long":  {strings.Repeat("x", maxPiece-60) + a + "\n" + b + "\n", "torn a b", "torn a b"},
		"too long, no end":   {strings.Repeat("x", 2*maxPiece) + a, "torn torn", "torn torn a"},
		"whole but too long": {`{"id":"l","x":"` + strings.Repeat("x", maxPiece) + `",` + a[8:] + "\n" + b + "\n", "torn torn b", "torn torn b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, recordsFile, []byte(tt.text))
			f := only(t, dir)
			if got := describeLines(lines(t, f, 0, false)); got != tt.open {
				t.Errorf("Lines = %q, want %q", got, tt.open)
			}
			if got := describeLines(lines(t, f, 0, true)); got != tt.final {
				t.Errorf("final Lines = %q, want %q", got, tt.final)
			}
		})
	}
}

// A reader that stops after any line and continues from its End gets the same lines, for any
// content, and nothing between two lines is skipped.
func TestLinesGoOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"\n", "\n\n", " \r\n", "x", "{}\n", "\x00\x00", `{"id":"`, lineOf("torn")[:50]}),
		rapid.Map(rapid.StringMatching(`[a-z]{4}`), lineOf),
		rapid.Map(rapid.StringMatching(`[a-z]{4}`), func(id string) string { return lineOf(id) + "\n" }),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		final := rapid.Bool().Draw(t, "final")
		if err := os.WriteFile(filepath.Join(dir, recordsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLog(dir, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f := l.Files()[0]
		var whole []Line
		for line, err := range f.Lines(0, final) {
			if err != nil {
				t.Fatal(err)
			}
			if n := len(whole); n > 0 && line.Begin < whole[n-1].End || line.End <= line.Begin {
				t.Fatalf("%q: a line from %d to %d", text, line.Begin, line.End)
			}
			whole = append(whole, line)
		}
		var parts []Line
		at := int64(0)
		for more := true; more; {
			more = false
			for line, err := range f.Lines(at, final) {
				if err != nil {
					t.Fatal(err)
				}
				parts, at, more = append(parts, line), line.End, true
				break
			}
		}
		same := func(a, b Line) bool { return a.Entry.ID == b.Entry.ID && a.End == b.End && bytes.Equal(a.Text, b.Text) }
		if !slices.EqualFunc(whole, parts, same) {
			t.Fatalf("%q: at once %s, line by line %s", text, describeLines(whole), describeLines(parts))
		}
		if final && at != int64(len(text)) {
			t.Fatalf("%q: read to %d of %d", text, at, len(text))
		}
	})
}

// FuzzLines: taking lines from a log gives the same lines as reading it.
func FuzzLines(f *testing.F) {
	a := lineOf("a")
	f.Add([]byte(a + "\n" + a[:50] + lineOf("b") + "\n\n" + a))
	f.Add([]byte(a[:20] + a[:20] + a + a + "\n"))
	f.Add([]byte("\x00\xff\n{}\n" + a))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) > maxPiece/2 {
			t.Skip("what is too long is another thing")
		}
		put(t, dir, recordsFile, log)
		shown, _ := read(t, dir)
		l, err := OpenLog(dir, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		file := l.Files()[0]
		var taken []Line
		for _, line := range lines(t, file, 0, true) {
			data, err := file.Take(&line)
			if line.Text == nil {
				continue
			}
			if err != nil {
				t.Fatalf("Take(%q): %v", line.Text, err)
			}
			if e, _, err := decode(data); err != nil || e.ID != line.Entry.ID {
				t.Fatalf("of %q was taken %q: %v", line.Text, data, err)
			}
			if line.Torn == nil {
				taken = append(taken, line)
			}
		}
		if !slices.EqualFunc(shown, taken, func(e Entry, l Line) bool { return e.ID == l.Entry.ID && e.Time.Equal(l.Entry.Time) }) {
			t.Fatalf("%q: shown are %d, taken %q", log, len(shown), describeLines(taken))
		}
	})
}

func TestKey(t *testing.T) {
	t.Parallel()
	key := func(dir string, final bool) string {
		t.Helper()
		l, err := OpenLog(dir, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		k, err := l.Files()[0].Key(final)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, b := lineOf("a"), lineOf("b")
	dir := t.TempDir()
	put(t, dir, recordsFile, []byte(a[:30]))
	if k := key(dir, false); k != "" {
		t.Errorf("a line that is not whole has the key %q", k)
	}
	put(t, dir, recordsFile, []byte(a+"\n"))
	first := key(dir, false)
	put(t, dir, recordsFile, []byte(a+"\n"+b+"\n"))
	if k := key(dir, false); first == "" || k != first {
		t.Errorf("it has grown: %q, before %q", k, first)
	}
	if err := os.Rename(filepath.Join(dir, recordsFile), filepath.Join(dir, "records-20260304T050607.000000000Z.jsonl")); err != nil {
		t.Fatal(err)
	}
	if k := key(dir, false); k != first {
		t.Errorf("renamed: %q, before %q", k, first)
	}
	put(t, dir, "records-20260304T050607.000000000Z.jsonl", []byte(b+"\n"))
	if k := key(dir, false); k == first || k == "" {
		t.Errorf("another file of that name has the key %q", k)
	}

	// After a power failure, many files begin with the same bytes. The first Record
	// distinguishes them.
	zeros := strings.Repeat("\x00", 4096) + "\n"
	one, two := t.TempDir(), t.TempDir()
	put(t, one, recordsFile, []byte(zeros+a+"\n"))
	put(t, two, recordsFile, []byte(zeros+b+"\n"))
	if k, l := key(one, false), key(two, false); k == l || k == "" {
		t.Errorf("two files behind zeros: %q and %q", k, l)
	}

	// If the end of a line is written later, the key of the file stays the same.
	late := t.TempDir()
	put(t, late, recordsFile, []byte(a))
	if k := key(late, true); k == "" {
		t.Error("what has no end has no key, although nobody writes any more")
	} else if put(t, late, recordsFile, []byte(a+"\n"+b+"\n")); key(late, false) != k {
		t.Error("an end makes another key")
	}
}

// Every case in which a file is left unchanged or removed.
func TestRemove(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	observe(t, s, record("a"))
	f := only(t, dir)
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(size); err == nil || !strings.Contains(err.Error(), "it is the current file") {
		t.Errorf("Remove of the current file: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.PutAside(); err != nil {
		t.Fatal(err)
	}
	f = only(t, dir)
	if f.Current() || asideTime(f.Name()).IsZero() {
		t.Fatalf("after PutAside it is %s", f.Name())
	}
	if err := f.Remove(size - 1); !errors.Is(err, ErrBusy) {
		t.Errorf("Remove of one that has grown: %v, want ErrBusy", err)
	}
	lock, err := tryLock(filepath.Join(dir, recordsLock), files.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(size); !errors.Is(err, ErrBusy) {
		t.Errorf("Remove while another rotates: %v, want ErrBusy", err)
	}
	_ = lock.Close()
	if runtime.GOOS == "linux" {
		writer, err := os.OpenFile(filepath.Join(dir, f.Name()), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Remove(size); !errors.Is(err, ErrBusy) {
			t.Errorf("Remove of one that is open for writing: %v, want ErrBusy", err)
		}
		_ = writer.Close()
	}
	observe(t, s, record("b")) // into the next file
	if err := f.Remove(size); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if err := f.Remove(size); err != nil {
		t.Errorf("Remove of what is gone: %v", err)
	}
	entries, problems := read(t, dir)
	if len(entries) != 1 || entries[0].ID != "b" || problems != nil {
		t.Errorf("left are %v, %v, want b", entries, problems)
	}
}

// PutAside does nothing for a file that another process has already rotated: the new file stays
// unchanged.
func TestPutAsideOnce(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	observe(t, s, record("a"))
	_ = s.Close()
	one, two := only(t, dir), only(t, dir)
	if err := one.PutAside(); err != nil {
		t.Fatal(err)
	}
	observe(t, s, record("b"))
	if err := two.PutAside(); err != nil {
		t.Fatal(err)
	}
	if files := openLog(t, dir).Files(); len(files) != 2 || !files[1].Current() {
		t.Errorf("%d files", len(files))
	}
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
	appendText(t, filepath.Join(dir, recordsFile), "torn <here>\n")
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
	for _, line := range lines(t, f, 0, false) {
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
			if !strings.Contains(e.Error, "torn line") || !strings.Contains(e.Error, "torn <here>") || !strings.Contains(e.Error, "records.jsonl, byte ") || e.Time.IsZero() || e.Decision != grapnel.None {
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
	put(t, dir, recordsFile, []byte(strings.Repeat("\xff\"\\", maxShown)+"\n"))
	f := only(t, dir)
	line := lines(t, f, 0, false)[0]
	data, err := f.Take(&line)
	if err != nil || !json.Valid(data) || len(data) > 8*maxShown {
		t.Errorf("%d bytes, %v: %.200q", len(data), err, data)
	}
	again := lines(t, only(t, dir), 0, false)[0]
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

// A side file is removed when the files that could name it are removed, and not earlier.
func TestRemoveSweeps(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Records: Full})
	rec := record("big")
	rec.Time = time.Now().Add(-2 * time.Hour)
	rec.Input.Tool.Content = strings.Repeat("x", maxLine)
	observe(t, s, rec)
	_ = s.Close()
	sides, err := filepath.Glob(filepath.Join(dir, sideDir, "*"))
	if err != nil || len(sides) != 1 {
		t.Fatal(sides, err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(sides[0], old, old); err != nil {
		t.Fatal(err)
	}
	f := only(t, dir)
	if err := f.PutAside(); err != nil {
		t.Fatal(err)
	}
	f = only(t, dir)
	size, _ := f.Size()
	if !exists(sides[0]) {
		t.Fatal("the side file is gone before the line")
	}
	if err := f.Remove(size); err != nil {
		t.Fatal(err)
	}
	if exists(sides[0]) {
		t.Error("the side file of a removed line is left")
	}
}
