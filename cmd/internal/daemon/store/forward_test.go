package store

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

// TestForwardSource reads rows as a forwarder does, before and after retention.
func TestForwardSource(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := Open(t.TempDir(), &Options{Limits: Limits{MaxRecords: 4}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if lines, err := s.Lines(ctx, 0, 10); err != nil || lines != nil || s.Newest() != 0 {
		t.Errorf("of an empty store: %v, %v", lines, err)
	}
	now := time.Now()
	text := func(n int) []byte {
		return fmt.Appendf(nil, `{"id":"%d","time":%q,"agent":"","session":"","event":"tool.before","decision":"none","hooks":[],"ms":0}`, n, now.Add(time.Duration(n)*time.Second).Format(time.RFC3339))
	}
	for n := range 10 {
		if err := s.Put(ctx, Item{Line: text(n)}); err != nil {
			t.Fatal(err)
		}
	}
	late := []byte(`{"id":"9","time":"2026-01-01T00:00:00Z","agent":"","session":"","event":"tool.before","hooks":[],"ms":0,"late":true}`)
	if err := s.Put(ctx, Item{Line: late}); err != nil {
		t.Fatal(err)
	}
	lines, err := s.Lines(ctx, 8, 100)
	if err != nil || len(lines) != 3 || lines[0].Seq != 9 || lines[0].ID != "8" || string(lines[0].Text) != string(text(8)) || lines[0].Digest != sha256.Sum256(text(8)) || lines[0].Late || !lines[2].Late {
		t.Errorf("after row 8: %+v, %v", lines, err)
	}
	if lines, err := s.Lines(ctx, 2, 3); err != nil || len(lines) != 3 || lines[2].Seq != 5 {
		t.Errorf("three after row 2: %+v, %v", lines, err)
	}
	if h, found, err := s.DigestAt(ctx, 9); err != nil || !found || h != lines[0].Digest {
		t.Errorf("digest of row 9: %x, %v, %v", h, found, err)
	}
	if n, oldest, err := s.Behind(ctx, 8); err != nil || n != 3 || oldest.Unix() != now.Add(8*time.Second).Unix() {
		t.Errorf("behind row 8: %d, %v, %v", n, oldest, err)
	}
	if err := s.Prune(ctx, now); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.DigestAt(ctx, 1); err != nil || found {
		t.Errorf("digest of a removed row: %v, %v", found, err)
	}
	kept, err := s.Lines(ctx, 0, 100)
	if err != nil || len(kept) == 0 {
		t.Fatalf("after retention: %v, %v", kept, err)
	}
	removed := kept[0].Seq - 1
	for _, after := range []int64{0, 2, removed, 100} {
		if n, err := s.RemovedAfter(ctx, after); err != nil || n != max(0, removed-after) {
			t.Errorf("removed after row %d: %d, %v, want %d", after, n, err, max(0, removed-after))
		}
	}
}
