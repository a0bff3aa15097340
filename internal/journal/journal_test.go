package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/journal"
)

func add(t testing.TB, w *journal.Writer, ids ...string) (begun int) {
	t.Helper()
	for _, id := range ids {
		made, err := w.Append(fmt.Appendf(nil, `{"id":%q}`, id))
		if err != nil {
			t.Fatal(err)
		}
		if made > 0 {
			begun++
		}
	}
	return begun
}

func open(t testing.TB, dir string) *journal.Log {
	t.Helper()
	l, err := journal.Open(dir, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// content describes the lines of a log: IDs, "torn", and a stroke between segments.
func content(t testing.TB, l *journal.Log) string {
	t.Helper()
	var parts []string
	for _, s := range l.Segments() {
		parts = append(parts, segmentContent(t, s, 0))
	}
	return strings.Join(parts, "|")
}

func segmentContent(t testing.TB, s *journal.Segment, from int64) string {
	t.Helper()
	var words []string
	for line, err := range s.Lines(from) {
		switch {
		case err != nil:
			t.Fatal(err)
		case line.Torn != nil:
			words = append(words, "torn")
		case line.Text != nil:
			id, _ := strings.CutPrefix(string(line.Text), `{"id":"`)
			words = append(words, strings.TrimSuffix(id, `"}`))
		}
	}
	return strings.Join(words, " ")
}

func TestAppendAndRead(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: filepath.Join(t.TempDir(), "journal")}
	if n := add(t, w, "a", "b", `c\"d`); n != 1 {
		t.Errorf("%d segments began, want 1", n)
	}
	if got, want := content(t, open(t, w.Dir)), `a b c\\\"d`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, bad := range []string{"", "{", "[]", "{}x", strings.Repeat("x", journal.MaxLine), "{" + strings.Repeat(" ", journal.MaxLine) + "}"} {
		if _, err := w.Append([]byte(bad)); err == nil {
			t.Errorf("%.20q was appended", bad)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	add(t, w, "e")
	if got, want := content(t, open(t, w.Dir)), `a b c\\\"d e`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A segment that is full or old gets a successor, and is closed then.
func TestSegments(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*journal.Writer{"size": {MaxSize: 1}, "age": {MaxAge: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.Dir = t.TempDir()
			add(t, w, "a", "b")
			other := &journal.Writer{Dir: w.Dir, MaxSize: w.MaxSize, MaxAge: w.MaxAge}
			add(t, other, "c")
			add(t, w, "d")
			l := open(t, w.Dir)
			if got := strings.Join(strings.Fields(strings.ReplaceAll(content(t, l), "|", " ")), " "); got != "a b c d" {
				t.Errorf("the log has %s, want a b c d", got)
			}
			list := l.Segments()
			if len(list) < 4 {
				t.Fatalf("%d segments", len(list))
			}
			keys := map[string]bool{}
			for i, s := range list {
				keys[s.Key()] = true
				if s.Closed() != (i < len(list)-1) || s.Number != i+1 || s.Begun().IsZero() {
					t.Errorf("segment %d of %d: number %d, closed: %v, begun %v", i, len(list), s.Number, s.Closed(), s.Begun())
				}
			}
			if len(keys) != len(list) {
				t.Errorf("%d keys of %d segments", len(keys), len(list))
			}
		})
	}
}

// Lines that were cut or changed are torn, and damage no other line.
func TestTorn(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: t.TempDir()}
	add(t, w, "a", "b", "c")
	file := filepath.Join(w.Dir, "00000001.jsonl")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) int { return strings.Index(string(whole), text) }
	for name, c := range map[string]struct{ text, want, after string }{
		"cut at the end":     {string(whole[:len(whole)-2]), "a b", "a b torn d"},
		"cut in the middle":  {string(whole[:at(`{"id":"c`)+10]), "a b", "a b torn d"},
		"a newline":          {string(whole) + "\n", "a b c", "a b c d"},
		"without its end":    {string(whole[:len(whole)-1]), "a b c", "a b c d"},
		"only a newline":     {string(whole[:at(`{"id":"c`)]), "a b", "a b d"},
		"changed":            {strings.Replace(string(whole), `"b"`, `"x"`, 1), "a torn c", "a torn c d"},
		"a line from a hand": {string(whole) + "\n{\"id\":\"x\"}\n", "a b c torn", "a b c torn d"},
		"zeros":              {string(whole) + strings.Repeat("\x00", 5000), "a b c", "a b c torn d"},
		"no header":          {string(whole[at("\n")+1:]), "b c", "b c|d"},
		"a changed header":   {"x" + string(whole[1:]), "torn a b c", "torn a b c|d"},
		"empty":              {"", "", "|d"},
		"a very long line":   {string(whole) + "\n" + strings.Repeat("x", 2*journal.MaxLine+9), "a b c torn torn", "a b c torn torn torn d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &journal.Writer{Dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(w.Dir, "00000001.jsonl"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := content(t, open(t, w.Dir)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			add(t, w, "d")
			if got := content(t, open(t, w.Dir)); got != c.after {
				t.Errorf("after a line more %q, want %q", got, c.after)
			}
		})
	}
}

// A reader that stops after any line, and continues there, gets the rest. It sees lines and segments that
// are added, and reads a segment that was removed.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: t.TempDir(), MaxSize: 400}
	l := open(t, w.Dir)
	done := map[string]int64{}
	var got, want []string
	for i := range 40 {
		id := fmt.Sprint(i)
		add(t, w, id)
		want = append(want, id)
		if i%3 == 0 {
			if numbers, err := journal.Numbers(w.Dir); err != nil || len(numbers) > 2 && os.Remove(filepath.Join(w.Dir, fmt.Sprintf("%08d.jsonl", numbers[0]))) != nil {
				t.Fatal(err)
			}
		}
		if err := l.Refresh(); err != nil {
			t.Fatal(err)
		}
		for _, s := range l.Segments() {
			for line, err := range s.Lines(done[s.Key()]) {
				if err != nil {
					t.Fatal(err)
				}
				done[s.Key()] = line.End
				if line.Text != nil {
					got = append(got, strings.Trim(strings.TrimPrefix(string(line.Text), `{"id":`), `"}`))
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Many writers at once: each line is there once, in a segment that was open for all that time.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const writers, count = 8, 200
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			w := &journal.Writer{Dir: dir, MaxSize: 4 << 10}
			for i := range count {
				if _, err := w.Append(fmt.Appendf(nil, `{"id":"%d.%d"}`, n, i)); err != nil {
					t.Error(err)
				}
			}
			_ = w.Close()
		})
	}
	all.Wait()
	l := open(t, dir)
	lines := strings.FieldsFunc(content(t, l), func(r rune) bool { return r == ' ' || r == '|' })
	seen := map[string]int{}
	for _, id := range lines {
		seen[id]++
	}
	if len(lines) != writers*count || len(seen) != writers*count {
		t.Errorf("%d lines, %d different, want %d", len(lines), len(seen), writers*count)
	}
	if n := len(l.Segments()); n < 10 {
		t.Errorf("only %d segments", n)
	}
	left, err := filepath.Glob(filepath.Join(dir, "new-*"))
	if err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A removed or replaced segment is noticed by the next append, also if the whole directory is gone.
func TestRemoved(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: filepath.Join(t.TempDir(), "journal")}
	add(t, w, "a")
	if err := os.RemoveAll(w.Dir); err != nil {
		t.Fatal(err)
	}
	add(t, w, "b")
	if got := content(t, open(t, w.Dir)); got != "b" {
		t.Errorf("%q, want b", got)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, "new"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(w.Dir, "new"), filepath.Join(w.Dir, "00000001.jsonl")); err != nil {
		t.Fatal(err)
	}
	add(t, w, "c")
	if got := content(t, open(t, w.Dir)); got != "torn|c" {
		t.Errorf("%q, want torn|c", got)
	}
}

// What is not a file is refused, and what has another version, too.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(file string) error{
		"directory": func(file string) error { return os.Mkdir(file, 0o700) },
		"link":      func(file string) error { return os.Symlink("/dev/null", file) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &journal.Writer{Dir: t.TempDir()}
			if err := put(filepath.Join(w.Dir, "00000001.jsonl")); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Append([]byte(`{}`)); err == nil {
				t.Error("it was accepted")
			}
			if _, err := journal.Open(w.Dir, time.Time{}); err == nil {
				t.Error("it was read")
			}
		})
	}
}

// Segments from before a time are left out.
func TestSince(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: t.TempDir(), MaxSize: 1}
	add(t, w, "a", "b", "c")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(w.Dir, "00000002.jsonl"), old, old); err != nil {
		t.Fatal(err)
	}
	l, err := journal.Open(w.Dir, old.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, s := range l.Segments() {
		if s.Number == 2 {
			t.Error("segment 2 was not left out")
		}
	}
}

// A reader that finds a segment before its header was written knows the right key later.
func TestHeaderLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := journal.Writer{Dir: dir}
	add(t, &w, "a")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "00000002.jsonl")
	log := open(t, dir)
	for _, n := range []int{0, 1, 40, len(whole)} {
		if err := os.WriteFile(name, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := log.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
	list := log.Segments()
	if len(list) != 2 || list[1].Key() != list[0].Key() || !list[0].Closed() {
		t.Errorf("%d segments, the last has the key %s", len(list), list[len(list)-1].Key())
	}
}

// A segment that another program moves away and back is the same segment again, and open again.
func TestSegmentComesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &journal.Writer{Dir: dir}
	defer w.Close()
	add(t, w, "a")
	l := open(t, dir)
	name := filepath.Join(dir, "00000001.jsonl")
	for _, removed := range []bool{true, false, false} {
		from, to := name, name+".away"
		if !removed {
			from, to = to, from
		}
		if err := os.Rename(from, to); err != nil && (removed || !os.IsNotExist(err)) {
			t.Fatal(err)
		}
		if err := l.Refresh(); err != nil {
			t.Fatal(err)
		}
		if s := l.Segments()[0]; s.Removed() != removed || s.Closed() != removed {
			t.Errorf("removed = %v, closed = %v, want %v", s.Removed(), s.Closed(), removed)
		}
	}
	if got := content(t, l); got != "a" {
		t.Errorf("content = %q", got)
	}
}
