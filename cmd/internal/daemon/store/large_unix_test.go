//go:build system && unix

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// If an open database is truncated, its rows are lost. They are counted, and Verify names them.
func TestFilesTruncated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var reported notes
	s := openTest(t, dir, &Options{Note: reported.add})
	fill(t, s, 300)
	err := s.write(t.Context(), 0, func(*change) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.turn.Lock()
	for _, pragma := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA cache_size=1", "PRAGMA shrink_memory"} {
		err = errors.Join(err, s.base.exec(pragma))
	}
	err = errors.Join(err, s.base.files.changed(dir)) // stores the current size of the database
	s.turn.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, baseFile), 0); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the loss is noticed", func() bool { return s.Condition().Lost > 0 })
	fill(t, s, 3)
	if got, want := s.Condition(), (Condition{Lost: 300}); got != want {
		t.Errorf("Condition = %+v, want %+v; told: %s", got, want, &reported)
	}
	report, err := s.Verify(t.Context())
	if err != nil || report.Rows != 3 || report.First != 301 || !strings.Contains(fmt.Sprint(report.Findings), "rows 1 to 300 are missing") {
		t.Errorf("Verify = %+v, %v, want 300 missing rows", report, err)
	}
	closeTest(t, s)
	s = openTest(t, dir, nil)
	if got := s.Condition(); got != (Condition{}) {
		t.Errorf("opened again: Condition = %+v, want none", got)
	}
	if report, err := s.Verify(t.Context()); err != nil || report.OK() {
		t.Errorf("opened again: Verify = %+v, %v, want that the gap stays", report, err)
	}
}
