package index

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/journal"
)

// A damaged part of a segment does not take so long that a forwarder gives up.
func TestForwardTorn(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.put(entries(5000)...)
	p.raw("\n" + strings.Repeat("torn\n", 4000))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lines, err := p.Open().Lines(ctx, 0, 10_000)
	if err != nil || len(lines) != 9000 || !strings.Contains(string(lines[8999].Text), `"time":"`+epoch.Add(4999*time.Second).Format(time.RFC3339)) {
		t.Errorf("%d lines, %v, want 9000", len(lines), err)
	}
}

// A forwarder gets each line of the journal in order, whatever the index has, before and after retention.
func TestForwardSource(t *testing.T) {
	t.Parallel()
	empty := begin(t).Open()
	if lines, err := empty.Lines(t.Context(), 0, 10); err != nil || lines != nil {
		t.Errorf("of an empty log: %v, %v", lines, err)
	}
	if keys, err := empty.Keys(t.Context(), 1<<40); err != nil || keys != nil {
		t.Errorf("keys of an empty log: %v, %v", keys, err)
	}
	if n, oldest, err := empty.Behind(t.Context(), 0); n != 0 || !oldest.IsZero() || err != nil {
		t.Errorf("behind an empty log: %d, %v, %v", n, oldest, err)
	}
	if lag, err := empty.Lag(t.Context()); err != nil || lag != (Lag{}) {
		t.Errorf("lag of an empty log: %+v, %v", lag, err)
	}
	list := entries(10)
	late := list[9]
	late.Late = true
	list = append(list, late)
	states(t, list, func(t *testing.T, p *place) {
		ctx := t.Context()
		r := p.Open()
		defer r.Close()
		all := p.rows(Query{Oldest: true})
		lines, err := r.Lines(ctx, all[7].Seq, 100)
		if err != nil || len(lines) != 3 || lines[0].Seq != all[8].Seq || lines[0].ID != "008" || string(lines[0].Text) != string(lineOf(list[8])) ||
			lines[0].Digest != sha256.Sum256(lineOf(list[8])) || lines[0].Part != "block" || lines[2].Part != fmt.Sprintf("%x", lines[2].Digest[:16]) {
			t.Errorf("after row 8: %+v, %v", lines, err)
		}
		if some, err := r.Lines(ctx, all[1].Seq, 3); err != nil || len(some) != 3 || some[2].Seq != all[4].Seq {
			t.Errorf("three after row 2: %+v, %v", some, err)
		}
		if keys, err := r.Keys(ctx, all[9].Seq); err != nil || len(keys) != 10 || keys[9] != "009-block" {
			t.Errorf("keys up to row 10: %q, %v", keys, err)
		}
		if h, found, err := r.DigestAt(ctx, all[8].Seq); err != nil || !found || h != lines[0].Digest {
			t.Errorf("digest of row 9: %x, %v, %v", h, found, err)
		}
		for _, seq := range []int64{0, 1, all[8].Seq + 1, all[8].Seq - 1, 1 << 40} {
			if _, found, err := r.DigestAt(ctx, seq); err != nil || found {
				t.Errorf("digest at %d: %v, %v", seq, found, err)
			}
		}
		for i := range all {
			n, oldest, err := r.Behind(ctx, all[i].Seq)
			var want time.Time
			if i+1 < len(all) {
				want = all[i+1].Time
			}
			if err != nil || n != int64(len(all)-1-i) || !oldest.Equal(want) {
				t.Errorf("behind row %d: %d, %v, %v, want %v", i, n, oldest, err, want)
			}
		}
		if size, err := r.Size(ctx); err != nil || size.Records != 11 || size.Bytes < 3000 {
			t.Errorf("Size = %+v, %v", size, err)
		}
		p.next()
		p.put(at("x", 11), at("y", 12))
		p.next()
		p.put(at("z", 13))
		if keys, err := r.Keys(ctx, journal.Position(3, 1<<20)); err != nil || !slices.Equal(keys, []string{"x-block", "y-block", "z-block"}) {
			t.Errorf("keys of two segments: %q, %v", keys, err)
		}
		if n, err := r.RemovedAfter(ctx, 0); n != 0 || err != nil {
			t.Errorf("removed before retention: %d, %v", n, err)
		}
		p.retire(1)
		if n, err := r.RemovedAfter(ctx, 0); n != 11 || err != nil {
			t.Errorf("removed: %d, %v, want 11", n, err)
		}
		if n, err := r.RemovedAfter(ctx, all[10].Seq-1); n != 1 || err != nil {
			t.Errorf("removed after the last row of the segment: %d, %v, want about 1", n, err)
		}
		if _, found, err := p.Open().DigestAt(ctx, all[0].Seq); err != nil || found {
			t.Errorf("digest of a removed row: %v, %v", found, err)
		}
		lines, err = r.Lines(ctx, 0, 100)
		var ids []string
		for _, line := range lines {
			ids = append(ids, line.ID)
		}
		if diff := cmp.Diff([]string{"x", "y", "z"}, ids); diff != "" || err != nil {
			t.Errorf("after retention: %v\n%s", err, diff)
		}
		if n, _, err := r.Behind(ctx, 0); n != 3 || err != nil {
			t.Errorf("behind after retention: %d, %v, want 3", n, err)
		}
	})
}
