package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// The backlog shows the waiting lines of a spool with their age, and is empty after an intake.
func TestBacklog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	s, err := store.Open(filepath.Join(t.TempDir(), "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if b, err := s.Backlog(t.Context(), dir); err != nil || b != (store.Backlog{}) {
		t.Errorf("of no spool: %+v, %v", b, err)
	}
	sp, err := spool.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sp.Close()
	old := time.Now().Add(-time.Hour).UTC()
	for i := range 3 {
		sp.Observe(t.Context(), &grapnel.Record{ID: spool.NewID(old), Time: old.Add(time.Duration(i) * time.Minute), Event: grapnel.ToolBefore})
	}
	if b, err := s.Backlog(t.Context(), dir); err != nil || b.Bytes == 0 || !b.Since.Equal(old) {
		t.Errorf("with three lines: %+v, %v, want them since %v", b, err, old)
	}
	if n, err := (&store.Intake{Spool: dir, Store: s}).Once(t.Context()); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if b, err := s.Backlog(t.Context(), dir); err != nil || b != (store.Backlog{}) {
		t.Errorf("after they were taken in: %+v, %v", b, err)
	}
}
