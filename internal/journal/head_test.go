package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/journal"
)

func TestParseHead(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 64)
	for _, h := range []journal.Head{{}, {Segment: 1}, {Segment: 7, Offset: 1 << 40, Hash: journal.Hash{1, 255}}} {
		text, err := h.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got journal.Head
		if err := got.UnmarshalText(text); err != nil || got != h || string(text) != h.String() {
			t.Errorf("%v: %v, %v", h, got, err)
		}
	}
	for _, bad := range []string{
		"", "1:2", "1:2:3", "-1:2:" + zeros, "1:-2:" + zeros, "x:2:" + zeros, "1:x:" + zeros, "01:2:" + zeros, "1:+2:" + zeros,
		"0:1:" + zeros, "1:2:" + zeros + "0", "1:2:" + zeros[:62] + "AB", "1:2:" + zeros + "\n", "1:2:3:" + zeros,
	} {
		if h, err := journal.ParseHead(bad); err == nil || h != (journal.Head{}) {
			t.Errorf("%q is %v", bad, h)
		}
	}
}

// A head can be compared after more lines, after its segment was sealed, and after later removals. When its
// segment is removed, it is unknown.
func TestHeadStaysComparable(t *testing.T) {
	t.Parallel()
	w := small(t.TempDir())
	k := &journal.HeadKeeper{Dir: w.Dir}
	opts := journal.VerifyOptions{Limits: journal.Limits{MaxRecords: 4}}
	for i := range 12 {
		addMany(t, w, (i+1)%3)
		saved := save(t, k)
		if r := sound(t, w.Dir, opts); r.Head != saved || r.Saved == nil || *r.Saved != saved {
			t.Fatalf("Verify has head %v, saved %v, want %v", r.Head, r.Saved, saved)
		}
		opts.Heads = append(opts.Heads, saved)
		if i == 7 {
			retire(t, w.Dir, journal.Limits{MaxRecords: 4}, time.Now())
		}
	}
	if r := sound(t, w.Dir, opts); len(r.Unknown) == 0 || len(r.Unknown) >= len(opts.Heads) {
		t.Errorf("%d of %d heads are unknown", len(r.Unknown), len(opts.Heads))
	}
	seal(t, w.Dir)
	other := small(t.TempDir())
	addMany(t, other, 30)
	seal(t, other.Dir)
	for _, h := range opts.Heads {
		found(t, verify(t, other.Dir, journal.VerifyOptions{Heads: []journal.Head{h}}), "the head "+h.String())
	}
}

// A process of the same user can seal changed segments again. A head that was stored elsewhere shows it.
func TestHeadElsewhere(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, string){
		"an earlier segment": func(t *testing.T, dir string) {
			t.Helper()
			data := read(t, file(dir, 1))
			write(t, file(dir, 1), bytes.Replace(data, []byte("id1"), []byte("id2"), 1))
		},
		"the open segment": func(t *testing.T, dir string) {
			t.Helper()
			numbers, err := journal.Numbers(dir)
			if err != nil {
				t.Fatal(err)
			}
			last := file(dir, numbers[len(numbers)-1])
			write(t, last, bytes.Replace(read(t, last), []byte("id"), []byte("xy"), 1))
		},
		"nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := small(t.TempDir())
			addMany(t, w, 13)
			h := save(t, &journal.HeadKeeper{Dir: w.Dir})
			if change != nil {
				change(t, w.Dir)
			}
			for _, name := range []string{manifest, head} {
				if err := os.Remove(filepath.Join(w.Dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			addMany(t, w, 1)
			save(t, &journal.HeadKeeper{Dir: w.Dir})
			sound(t, w.Dir, journal.VerifyOptions{})
			r := verify(t, w.Dir, journal.VerifyOptions{Heads: []journal.Head{h}})
			if change == nil {
				sound(t, w.Dir, journal.VerifyOptions{Heads: []journal.Head{h}})
			} else {
				found(t, r, h.String()+" does not match")
			}
		})
	}
}

// A head that does not match is evidence: a new process does not replace it.
func TestHeadIsKept(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: t.TempDir()}
	addMany(t, w, 5)
	running := &journal.HeadKeeper{Dir: w.Dir}
	h := save(t, running)
	data := read(t, file(w.Dir, 1))
	for name, changed := range map[string][]byte{
		"cut":     data[:len(data)-40],
		"changed": bytes.Replace(data, []byte("id"), []byte("xy"), 1),
	} {
		write(t, file(w.Dir, 1), changed)
		if err := (&journal.HeadKeeper{Dir: w.Dir}).Save(); err == nil || !strings.Contains(err.Error(), "does not match it") {
			t.Errorf("%s: error %v", name, err)
		}
		if saved, err := journal.ReadHead(w.Dir); err != nil || saved != h {
			t.Errorf("%s: the saved head is %v, %v", name, saved, err)
		}
		if verify(t, w.Dir, journal.VerifyOptions{}).Findings == nil {
			t.Errorf("%s: no finding", name)
		}
	}
	write(t, file(w.Dir, 1), data[:len(data)-40])
	if err := running.Save(); err == nil || !strings.Contains(err.Error(), "was replaced or cut") {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(filepath.Join(w.Dir, head)); err != nil {
		t.Fatal(err)
	}
	save(t, &journal.HeadKeeper{Dir: w.Dir})
	sound(t, w.Dir, journal.VerifyOptions{})
}

// A HeadKeeper reads only new bytes: what was changed before cannot get into the saved head.
func TestHeadKeeperReadsOnce(t *testing.T) {
	t.Parallel()
	w := &journal.Writer{Dir: t.TempDir()}
	addMany(t, w, 5)
	k := &journal.HeadKeeper{Dir: w.Dir}
	save(t, k)
	f, err := os.OpenFile(file(w.Dir, 1), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 130); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	add(t, w, "more")
	save(t, k)
	found(t, verify(t, w.Dir, journal.VerifyOptions{}), "does not match: the first")
}

func TestHeadOfNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	k := &journal.HeadKeeper{Dir: dir}
	if err := k.Save(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a log was made: %v", err)
	}
	add(t, &journal.Writer{Dir: dir}, "a")
	if h := save(t, k); h.Segment != 1 || h.Offset == 0 {
		t.Errorf("%v", h)
	}
}
