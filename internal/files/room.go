package files

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// ErrFull means that a directory, or the share of an owner, has as many entries as it may have. A guard
// that fails with it asks a person; see seam.Asking.
var ErrFull error = full{}

type full struct{}

func (full) Error() string { return "no room is left" }

// Asking implements seam.Asking.
func (full) Asking() {}

const (
	look     = 8 // entries that MakeRoom checks in a directory that is not full
	keep     = 7 * 24 * time.Hour
	maxCount = 1 << 20 // refusals
)

// MakeRoom removes entries that are over, and returns [ErrFull] if the directory still has most entries. It
// asks over for each entry of a full directory, and otherwise for a few, so that a new entry costs
// little. over removes the entry if it is over, and reports whether it did.
func MakeRoom(dir string, most int, over func(name string, info fs.FileInfo) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	left, checks := len(entries), len(entries)
	if left < most {
		checks = min(left, look)
	}
	if checks == 0 {
		return nil
	}
	first := rand.IntN(len(entries)) // a random start, so that all entries are checked over time
	for i := range checks {
		entry := entries[(first+i)%len(entries)]
		info, err := entry.Info()
		if err != nil || over(filepath.Join(dir, entry.Name()), info) { // another event removed it, or over did
			left--
		}
	}
	if left >= most {
		return ErrFull
	}
	return nil
}

// Refuse counts a refusal in a file, with one byte for each. The count restarts if the last refusal is
// older than seven days. A failure is ignored, because the event reports why the state cannot be written.
func Refuse(file string, now time.Time) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	info, err := os.Lstat(file)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return
	case err == nil && now.Sub(info.ModTime()) > keep:
		flags |= os.O_TRUNC
	case err == nil && info.Size() >= maxCount:
		_ = os.Chtimes(file, now, now)
		return
	}
	f, err := os.OpenFile(file, flags, 0o600)
	if err != nil {
		return
	}
	_, _ = f.Write([]byte{'x'})
	_ = f.Close()
}

// Refusals returns the number of refusals in the last seven days, and the time of the last one.
func Refusals(file string, now time.Time) (n int, last time.Time) {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || now.Sub(info.ModTime()) > keep {
		return 0, last
	}
	return int(info.Size()), info.ModTime()
}
