package journal_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

const manifest, head = "manifest.jsonl", "head"

// small makes segments of two lines.
func small(dir string) *journal.Writer { return &journal.Writer{Dir: dir, MaxSize: 160} }

func addMany(t testing.TB, w *journal.Writer, n int) {
	t.Helper()
	for i := range n {
		add(t, w, fmt.Sprint("id", i))
	}
}

func seal(t testing.TB, dir string) int {
	t.Helper()
	n, err := journal.Seal(dir)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func retire(t testing.TB, dir string, l journal.Limits, now time.Time) []journal.Removal {
	t.Helper()
	removed, err := journal.Retire(dir, l, now)
	if err != nil {
		t.Fatal(err)
	}
	return removed
}

func save(t testing.TB, k *journal.HeadKeeper) journal.Head {
	t.Helper()
	if err := k.Save(); err != nil {
		t.Fatal(err)
	}
	h, err := journal.ReadHead(k.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func readManifest(t testing.TB, dir string) *journal.Manifest {
	t.Helper()
	m, err := journal.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func verify(t testing.TB, dir string, opts journal.VerifyOptions) journal.Report {
	t.Helper()
	r, err := journal.Verify(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sound fails if Verify has a finding.
func sound(t testing.TB, dir string, opts journal.VerifyOptions) journal.Report {
	t.Helper()
	r := verify(t, dir, opts)
	if !r.OK() {
		t.Errorf("findings: %v", r.Findings)
	}
	return r
}

// found fails if no finding contains want.
func found(t testing.TB, r journal.Report, want string) {
	t.Helper()
	for _, f := range r.Findings {
		if strings.Contains(f.String(), want) {
			return
		}
	}
	t.Errorf("findings %v, want %q", r.Findings, want)
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// write replaces the content of a file. It does not cut the file first: some file systems would write to the disk.
func write(t testing.TB, name string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Truncate(int64(len(data))), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func file(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%08d.jsonl", number))
}

func TestSeal(t *testing.T) {
	t.Parallel()
	w := small(filepath.Join(t.TempDir(), "journal"))
	if n := seal(t, w.Dir); n != 0 || files.Exists(w.Dir) {
		t.Errorf("%d segments of a missing log were sealed", n)
	}
	addMany(t, w, 8)
	numbers, err := journal.Numbers(w.Dir)
	if err != nil || len(numbers) < 3 {
		t.Fatalf("segments %v, %v", numbers, err)
	}
	if n := seal(t, w.Dir); n != len(numbers)-1 {
		t.Errorf("%d of %d segments were sealed", n, len(numbers))
	}
	before := read(t, filepath.Join(w.Dir, manifest))
	if n := seal(t, w.Dir); n != 0 || !bytes.Equal(before, read(t, filepath.Join(w.Dir, manifest))) {
		t.Errorf("%d segments were sealed again", n)
	}
	m, lines := readManifest(t, w.Dir), int64(0)
	for i, s := range m.Segments {
		data := read(t, file(w.Dir, s.Segment))
		if s.Segment != i+1 || s.Bytes != int64(len(data)) || s.SHA256 != sha256.Sum256(data) || !bytes.Contains(data, []byte(s.Key)) || s.Ended.Before(s.Begun) || s.Begun.IsZero() {
			t.Errorf("%+v", s)
		}
		if i > 0 && !s.Begun.Equal(m.Segments[i-1].Ended) {
			t.Errorf("segment %d begins at %v, and the one before ended at %v", s.Segment, s.Begun, m.Segments[i-1].Ended)
		}
		lines += s.Lines
	}
	r := sound(t, w.Dir, journal.VerifyOptions{})
	if r.Records != 8 || lines >= 8 || lines == 0 || r.Segments != len(numbers) || r.First != 1 || r.Last != len(numbers) || r.Torn != 0 {
		t.Errorf("%d lines are sealed, report %+v", lines, r)
	}
}

// Each line of the manifest has the hash of its other members, and the hash of the line before.
func TestFormatOfTheManifest(t *testing.T) {
	t.Parallel()
	w := small(t.TempDir())
	addMany(t, w, 9)
	seal(t, w.Dir)
	retire(t, w.Dir, journal.Limits{MaxRecords: 3}, time.Now())
	data := read(t, filepath.Join(w.Dir, manifest))
	var statements []string
	for line := range strings.Lines(string(data)) {
		body, _, _ := strings.Cut(line, `,"prev":"`)
		statements = append(statements, body+"}")
	}
	if got := chained(statements...); got != string(data) || len(statements) < 4 {
		t.Errorf("got  %s\nwant %s", data, got)
	}
}

// chained returns a valid manifest of statements.
func chained(statements ...string) string {
	var out strings.Builder
	var prev journal.Hash
	for _, s := range statements {
		line := fmt.Sprintf(`%s,"prev":"%s"}`, strings.TrimSuffix(s, "}"), prev)
		prev = sha256.Sum256([]byte(line))
		fmt.Fprintf(&out, "%s,\"hash\":\"%s\"}\n", strings.TrimSuffix(line, "}"), prev)
	}
	return out.String()
}

// A statement of a segment, for chained.
func sealedStatement(t testing.TB, s journal.Sealed) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"sealed": s})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Torn lines and segments without a header or lines are sealed, too, and are no findings.
func TestSealTorn(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: t.TempDir()}
	next := func() {
		t.Helper()
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
	}
	add(t, w, "a", "b")
	data := read(t, file(w.Dir, 1))
	write(t, file(w.Dir, 1), data[:len(data)-5])
	add(t, w, "c")
	next()
	next() // segment 2 has no lines
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, file(w.Dir, 4), nil) // its process was killed before it wrote the header
	if n := seal(t, w.Dir); n != 2 {
		t.Errorf("%d segments are sealed, want 2: no header says when segment 3 ended", n)
	}
	h := save(t, &journal.HeadKeeper{Dir: w.Dir})
	if h.Segment != 3 {
		t.Errorf("head %v, want segment 3", h)
	}
	sound(t, w.Dir, journal.VerifyOptions{})
	other := &journal.Writer{Dir: w.Dir}
	add(t, other, "d")
	if n := seal(t, w.Dir); n != 2 {
		t.Errorf("%d segments are sealed, want 2", n)
	}
	m := readManifest(t, w.Dir)
	if s := m.Segments[0]; s.Lines != 2 || s.Torn != 1 {
		t.Errorf("segment 1: %+v", s)
	}
	if s := m.Segments[3]; s.Bytes != 0 || s.Lines != 0 || !s.Begun.IsZero() || !s.Ended.Equal(m.Segments[2].Ended) {
		t.Errorf("segment 4: %+v", s)
	}
	if r := sound(t, w.Dir, journal.VerifyOptions{Heads: []journal.Head{h}}); r.Records != 3 || r.Torn != 1 {
		t.Errorf("%+v", r)
	}
	// The process that made segment 4 was only stopped.
	header, _, _ := bytes.Cut(data, []byte("\n"))
	write(t, file(w.Dir, 4), header)
	sound(t, w.Dir, journal.VerifyOptions{})
	write(t, file(w.Dir, 4), append(header, '\n'))
	found(t, verify(t, w.Dir, journal.VerifyOptions{}), "segment 4")
}

// What a killed process left of a line is cut off, and is no finding.
func TestTornManifest(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{1, 100, 1 << 20} {
		w := small(t.TempDir())
		addMany(t, w, 8)
		seal(t, w.Dir)
		name := filepath.Join(w.Dir, manifest)
		whole := read(t, name)
		lines := bytes.SplitAfter(whole, []byte("\n"))
		last := lines[len(lines)-2]
		write(t, name, whole[:len(whole)-len(last)+min(keep, len(last)-1)])
		if err := os.Remove(filepath.Join(w.Dir, head)); err != nil { // the process was killed before
			t.Fatal(err)
		}
		if n := seal(t, w.Dir); n != 1 || !bytes.Equal(read(t, name), whole) {
			t.Errorf("%d segments were sealed again", n)
		}
		sound(t, w.Dir, journal.VerifyOptions{})
	}
}

// A damaged manifest stops sealing and retention, with a message that names the line. It does not stop the log.
func TestDamagedManifest(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(text string) string{
		"changed":  func(s string) string { return strings.Replace(s, `"segment":2`, `"segment":9`, 1) },
		"not JSON": func(s string) string { return strings.Replace(s, "\n", "\nhello\n", 1) },
		"inserted": func(s string) string {
			first, rest, _ := strings.Cut(s, "\n")
			return first + "\n" + first + "\n" + rest
		},
		"an unknown statement": func(s string) string {
			first, _, _ := strings.Cut(s, `,"prev"`)
			return chained(first+"}", `{"x":1}`)
		},
		"a segment twice": func(s string) string {
			first, _, _ := strings.Cut(s, `,"prev"`)
			return chained(first+"}", first+"}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := small(t.TempDir())
			addMany(t, w, 8)
			seal(t, w.Dir)
			path := filepath.Join(w.Dir, manifest)
			changed := damage(string(read(t, path)))
			write(t, path, []byte(changed))
			addMany(t, w, 3)
			_, errSeal := journal.Seal(w.Dir)
			_, errRetire := journal.Retire(w.Dir, journal.Limits{MaxRecords: 1}, time.Now())
			errHead := (&journal.HeadKeeper{Dir: w.Dir}).Save()
			for _, err := range []error{errSeal, errRetire, errHead} {
				if !errors.Is(err, journal.ErrManifest) || !strings.Contains(err.Error(), path+":2:") {
					t.Errorf("error %v, want one that names line 2", err)
				}
			}
			if got := string(read(t, path)); got != changed {
				t.Errorf("the manifest was changed: %s", got)
			}
			if _, err := journal.ReadManifest(w.Dir); !errors.Is(err, journal.ErrManifest) {
				t.Errorf("error %v", err)
			}
			found(t, verify(t, w.Dir, journal.VerifyOptions{}), "manifest.jsonl, line 2: ")
		})
	}
}

// Processes that work on the manifest at the same time seal each segment once.
func TestSealAtOnce(t *testing.T) {
	t.Parallel()
	w := small(t.TempDir())
	addMany(t, w, 1)
	var all sync.WaitGroup
	ended := make(chan struct{})
	for i := range 6 {
		k := &journal.HeadKeeper{Dir: w.Dir}
		all.Go(func() {
			for last := false; !last; {
				select {
				case <-ended:
					last = true
				default:
				}
				var err error
				switch i % 3 {
				case 0:
					_, err = journal.Seal(w.Dir)
				case 1:
					err = k.Save()
				case 2:
					_, err = journal.Retire(w.Dir, journal.Limits{MaxRecords: 50}, time.Now())
				}
				if err != nil && !errors.Is(err, journal.ErrBusy) {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			sound(t, w.Dir, journal.VerifyOptions{Limits: journal.Limits{MaxRecords: 50}})
		}
	})
	addMany(t, w, 399)
	close(ended)
	all.Wait()
	seal(t, w.Dir)
	m := readManifest(t, w.Dir)
	for i, s := range m.Segments {
		if s.Segment != i+1 {
			t.Errorf("line %d is about segment %d", i+1, s.Segment)
		}
	}
	r := sound(t, w.Dir, journal.VerifyOptions{Limits: journal.Limits{MaxRecords: 50}})
	for _, removed := range m.Removals {
		r.Records += removed.Lines
	}
	if r.Records != 400 {
		t.Errorf("%d lines, want 400", r.Records)
	}
}

// A process that was stopped while it writes to a segment that has a successor delays the line about it.
func TestSealWaitsForAWriter(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: t.TempDir(), MaxSize: 1}
	add(t, w, "a", "b")
	f, err := os.Open(file(w.Dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := files.TryLock(f, files.Shared)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := journal.Seal(w.Dir); n != 0 || !errors.Is(err, journal.ErrBusy) {
		t.Errorf("sealed %d, %v", n, err)
	}
	if h := save(t, &journal.HeadKeeper{Dir: w.Dir}); h.Segment != 1 {
		t.Errorf("head %v", h)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if lock, err = files.TryLock(f, files.Exclusive); err != nil { // it makes the successor, which exists
		t.Fatal(err)
	}
	if n := seal(t, w.Dir); n != 2 {
		t.Errorf("sealed %d", n)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

// tampered is a log with removals, changed limits, sealed segments, an open one and a saved head.
func tampered(t *testing.T) (dir string, opts journal.VerifyOptions) {
	t.Helper()
	w := small(t.TempDir())
	opts.Limits = journal.Limits{MaxRecords: 4}
	addMany(t, w, 12)
	if len(retire(t, w.Dir, opts.Limits, time.Now())) == 0 {
		t.Fatal("nothing was removed")
	}
	addMany(t, w, 5)
	k := &journal.HeadKeeper{Dir: w.Dir}
	save(t, k)
	retire(t, w.Dir, journal.Limits{MaxRecords: 5}, time.Now())
	add(t, w, "last")
	save(t, k)
	sound(t, w.Dir, opts)
	return w.Dir, opts
}

// Each byte that is changed, removed or inserted is noticed, and each file that is removed. Exceptions are what
// a killed writer can leave: bytes behind the last line of the manifest and of the open segment.
func TestSomeBytes(t *testing.T) {
	t.Parallel()
	everyByte(t, 60)
}

// everyByte changes one byte of so many.
func everyByte(t *testing.T, many int) {
	t.Helper()
	dir, opts := tampered(t)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := journal.Numbers(dir)
	if err != nil {
		t.Fatal(err)
	}
	last := file(dir, numbers[len(numbers)-1])
	checked := 0
	for _, name := range names {
		if base := filepath.Base(name); base == "newest" || base == "manifest.lock" {
			continue
		}
		data := read(t, name)
		check := func(what string, changed []byte) {
			t.Helper()
			if changed == nil {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			} else {
				write(t, name, changed)
			}
			checked++
			r := verify(t, dir, opts)
			switch {
			case filepath.Base(name) == head && len(r.Unknown) == 1: // the number of a segment that was removed
			case (name == last || filepath.Base(name) == manifest) && bytes.HasPrefix(changed, data):
			case r.OK():
				t.Errorf("%s: %s was not noticed", filepath.Base(name), what)
			}
		}
		check("the removal", nil)
		check("an empty file", []byte{})
		for i := range data {
			if rand.IntN(many) > 0 {
				continue
			}
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << rand.IntN(8)
			check(fmt.Sprintf("a changed byte %d, %q", i, flipped[i]), flipped)
			check(fmt.Sprintf("the removal of byte %d", i), slices.Delete(bytes.Clone(data), i, i+1))
			check(fmt.Sprintf("the cut at byte %d", i), append([]byte{}, data[:i]...))
			b := []byte{'\n', ' ', 'x', data[i]}[rand.IntN(4)]
			check(fmt.Sprintf("the insertion of %q at byte %d", b, i), slices.Insert(bytes.Clone(data), i, b))
		}
		check("a byte behind the end", append(bytes.Clone(data), 'x'))
		check("two changes", append([]byte("x"), data[:len(data)-1]...))
		write(t, name, data)
	}
	sound(t, dir, opts)
	t.Logf("%d changes", checked)
}

// Each line of the manifest that is removed, repeated or swapped is noticed, also if many are.
func TestEveryStatement(t *testing.T) {
	t.Parallel()
	dir, opts := tampered(t)
	name := filepath.Join(dir, manifest)
	data := read(t, name)
	lines := slices.Collect(bytes.Lines(data))
	check := func(what string, changed [][]byte) {
		t.Helper()
		write(t, name, bytes.Join(changed, nil))
		if r := verify(t, dir, opts); r.OK() {
			t.Errorf("%s was not noticed", what)
		}
	}
	for i := range lines {
		check(fmt.Sprintf("the removal of line %d", i), slices.Delete(slices.Clone(lines), i, i+1))
		check(fmt.Sprintf("the cut at line %d", i), lines[:i])
		check(fmt.Sprintf("the removal of the lines before %d", i+1), lines[i+1:])
		for j := range lines {
			check(fmt.Sprintf("a copy of line %d at line %d", i, j), slices.Insert(slices.Clone(lines), j, lines[i]))
			if i < j {
				swapped := slices.Clone(lines)
				swapped[i], swapped[j] = lines[j], lines[i]
				check(fmt.Sprintf("the swap of line %d and %d", i, j), swapped)
			}
		}
	}
	write(t, name, data)
	sound(t, dir, opts)
}

// Segments that are missing, exchanged, or were not written by Grapnel.
func TestSegmentsOfOthers(t *testing.T) {
	t.Parallel()
	move := func(from, to int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Rename(file(dir, from), file(dir, to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		do   func(*testing.T, string)
		want string
	}{
		"exchanged": {func(t *testing.T, dir string) {
			t.Helper()
			move(2, 99)(t, dir)
			move(3, 2)(t, dir)
			move(99, 3)(t, dir)
		}, "segment 2: its header was changed, or it is another segment"},
		"one missing": {func(t *testing.T, dir string) { t.Helper(); write(t, file(dir, 2), nil); move(2, 99)(t, dir) }, "segment 2: it is missing"},
		"far away":    {func(t *testing.T, dir string) { t.Helper(); write(t, file(dir, 1<<40), nil) }, "it is missing, and all up to segment 1099511627775"},
		"a directory": {func(t *testing.T, dir string) {
			t.Helper()
			if err := errors.Join(os.Remove(file(dir, 2)), os.Mkdir(file(dir, 2), 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "segment 2: it cannot be read"},
		"all removed": {func(t *testing.T, dir string) {
			t.Helper()
			numbers, _ := journal.Numbers(dir)
			for _, n := range numbers {
				if err := os.Remove(file(dir, n)); err != nil {
					t.Fatal(err)
				}
			}
		}, "the log was removed: no segment exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := small(t.TempDir())
			addMany(t, w, 12)
			seal(t, w.Dir)
			c.do(t, w.Dir)
			found(t, verify(t, w.Dir, journal.VerifyOptions{}), c.want)
		})
	}
}

// A log that was removed by hand begins again with segment 1. Its lines are never taken for removed ones.
func TestNewLogWithOldManifest(t *testing.T) {
	t.Parallel()
	w := small(t.TempDir())
	addMany(t, w, 20)
	limits := journal.Limits{MaxRecords: 1}
	retire(t, w.Dir, limits, time.Now())
	numbers, err := journal.Numbers(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		if err := os.Remove(file(w.Dir, n)); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(w.Dir, "newest"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = small(w.Dir)
	addMany(t, w, 40)
	for range 3 {
		removed, err := journal.Retire(w.Dir, limits, time.Now())
		t.Log(removed, err)
	}
	now, err := journal.Numbers(w.Dir)
	if err != nil || len(now) == 0 || now[0] != 1 {
		t.Errorf("segments %v, %v", now, err)
	}
	if r := verify(t, w.Dir, journal.VerifyOptions{Limits: limits}); r.OK() {
		t.Error("no finding")
	}
}

func TestVerifyNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := journal.Verify(t.Context(), dir, journal.VerifyOptions{}); !errors.Is(err, journal.ErrNothing) {
		t.Errorf("error %v", err)
	}
	if _, err := journal.Verify(t.Context(), filepath.Join(dir, "none"), journal.VerifyOptions{Heads: []journal.Head{{}}}); !errors.Is(err, journal.ErrNothing) {
		t.Errorf("error %v", err)
	}
	h := journal.Head{Segment: 2, Offset: 7}
	found(t, verify(t, dir, journal.VerifyOptions{Heads: []journal.Head{h}}), "segment 2: it is missing, but the head 2:7:")
	write(t, filepath.Join(dir, head), []byte(h.String()+"\n"))
	found(t, verify(t, dir, journal.VerifyOptions{}), "the log was removed")
	write(t, filepath.Join(dir, head), []byte("hello\n"))
	found(t, verify(t, dir, journal.VerifyOptions{}), "is not the head of a log")
	if err := os.Remove(filepath.Join(dir, head)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, manifest), []byte("hello\n"))
	found(t, verify(t, dir, journal.VerifyOptions{}), "the log was removed")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	add(t, &journal.Writer{Dir: dir}, "a")
	if _, err := journal.Verify(ctx, dir, journal.VerifyOptions{}); err == nil || !strings.Contains(err.Error(), "no time") {
		t.Errorf("error %v", err)
	}
}

// The list of findings has a limit.
func TestManyFindings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add(t, &journal.Writer{Dir: dir}, "a")
	write(t, filepath.Join(dir, manifest), bytes.Repeat([]byte("x\n"), 1000))
	if r := verify(t, dir, journal.VerifyOptions{}); len(r.Findings) != 100 || r.More < 900 {
		t.Errorf("%d findings and %d more", len(r.Findings), r.More)
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	before := int64(-1)
	for _, c := range []struct {
		segment int
		offset  int64
	}{{0, 0}, {0, 1}, {1, 0}, {1, 1<<32 - 1}, {2, 0}, {1<<31 - 1, 1<<32 - 1}} {
		p := journal.Position(c.segment, c.offset)
		if segment, offset := journal.At(p); segment != c.segment || offset != c.offset || p <= before {
			t.Errorf("%v: position %d is %d, %d", c, p, segment, offset)
		}
		before = p
	}
}

func TestReadHeadMissing(t *testing.T) {
	t.Parallel()
	if _, err := journal.ReadHead(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
