package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

func TestMakeRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	stays := func(string, fs.FileInfo) bool { asked++; return false }
	if err := files.MakeRoom(dir, 21, stays); err != nil || asked == 0 || asked >= 20 {
		t.Errorf("%v, %d of 20 entries were asked about, want a few", err, asked)
	}
	asked = 0
	if err := files.MakeRoom(dir, 20, stays); !errors.Is(err, files.ErrFull) || asked != 20 {
		t.Errorf("%v, %d of 20 entries were asked about, want all and no room", err, asked)
	}
	if err := files.MakeRoom(dir, 20, func(name string, _ fs.FileInfo) bool { return filepath.Base(name) == "7" && os.Remove(name) == nil }); err != nil {
		t.Errorf("one is over: %v", err)
	}
	if err := files.MakeRoom(filepath.Join(dir, "none"), 20, stays); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v for a directory that does not exist", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	file, now := filepath.Join(t.TempDir(), "refused"), time.Now()
	want := func(n int, at time.Time) {
		t.Helper()
		if got, last := files.Refusals(file, at); got != n || last.IsZero() != (n == 0) {
			t.Errorf("%d refusals, the last at %v, want %d", got, last, n)
		}
	}
	want(0, now)
	files.Refuse(file, now)
	files.Refuse(file, now)
	want(2, now)
	later := now.Add(8 * 24 * time.Hour)
	want(0, later)
	files.Refuse(file, later)
	want(1, now)

	dir := t.TempDir()
	files.Refuse(dir, now) // no file: it is left alone
	if n, _ := files.Refusals(dir, now); n != 0 {
		t.Errorf("%d refusals in a directory", n)
	}
}
