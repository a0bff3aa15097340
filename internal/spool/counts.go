package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/grapnel-dev/grapnel/internal/digest"
	"github.com/grapnel-dev/grapnel/internal/filelock"
)

// Counts are small files, one per key. The modification time of a file is its expiry time.
const (
	countsDir   = "counts"
	countsLock  = "counts.lock"
	countsFresh = "counts.new" // temporary file that is renamed to the file of a key
)

// The limits for counts, here and in other implementations of Count.
const (
	MaxCount    = 64 << 10 // bytes of one count
	MaxCounts   = 10_000   // keys; above that, the counts that expire first are removed
	MaxCountAge = 32 * 24 * time.Hour
)

// Count calls change with the value of a key, or nil if the key has none, and stores the result
// at least for the duration that change returns, at most 32 days. If change returns nil, the
// value stays. No other process counts at the same time.
//
// An error means that nothing was stored. An unreadable value is an error once, and is then
// removed, so that it does not block the key forever.
func (s *Spool) Count(key string, change func(kept []byte) (now []byte, keep time.Duration)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot update a counter: %w", err)
		}
	}()
	dir := s.path(countsDir)
	if err := ready(s.dir); err != nil {
		return err
	}
	if err := ready(dir); err != nil {
		return err
	}
	lock, err := waitLock(s.path(countsLock), filelock.Exclusive, lockWait)
	if err != nil {
		return err
	}
	defer lock.Close()
	kept, err := s.Counted(key)
	if err != nil {
		return errors.Join(err, os.Remove(s.countFile(key)))
	}
	data, keep := change(kept)
	switch {
	case data == nil:
		return nil
	case len(data) > MaxCount:
		return fmt.Errorf("%d bytes exceed the maximum of %d", len(data), MaxCount)
	case kept == nil:
		sweepCounts(dir, time.Now())
	}
	return s.writeCount(key, data, time.Now().Add(min(keep, MaxCountAge)))
}

// Counted returns the value that [Spool.Count] has stored for a key, or nil. It changes nothing.
func (s *Spool) Counted(key string) ([]byte, error) {
	f, err := openRegular(s.countFile(key), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxCount+1))
	if err == nil && len(data) > MaxCount {
		err = fmt.Errorf("%s is larger than %d bytes", f.Name(), MaxCount)
	}
	return data, err
}

func (s *Spool) countFile(key string) string {
	return filepath.Join(s.dir, countsDir, digest.Of([]byte(key))[:32])
}

// writeCount replaces the file of a key with a rename, so that a killed process leaves the old
// count or the new one.
func (s *Spool) writeCount(key string, data []byte, until time.Time) error {
	fresh := s.path(countsFresh)
	_ = os.Remove(fresh) // left by a process that was killed
	f, err := openRegular(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Chtimes(fresh, until, until)
	}
	if err == nil {
		err = os.Rename(fresh, s.countFile(key))
	}
	if err != nil {
		_ = os.Remove(fresh)
	}
	return err
}

// sweepCounts removes expired counts, and counts with an expiry that is too far away because a
// clock was wrong. Files that cannot be removed now are tried again later.
func sweepCounts(dir string, now time.Time) {
	type count struct {
		name  string
		until time.Time
	}
	var left []count
	files, _ := os.ReadDir(dir) // an error still returns the entries that were read
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			continue
		}
		c := count{filepath.Join(dir, file.Name()), info.ModTime()}
		if c.until.Before(now) || c.until.After(now.Add(MaxCountAge)) {
			_ = os.Remove(c.name)
		} else {
			left = append(left, c)
		}
	}
	if len(left) < MaxCounts {
		return
	}
	slices.SortStableFunc(left, func(a, b count) int { return a.until.Compare(b.until) })
	for _, c := range left[:len(left)-MaxCounts*9/10] { // remove a tenth, so that this is not needed each time
		_ = os.Remove(c.name)
	}
}

// stopsAge is how long the stop count of a session is stored after its last change.
const stopsAge = 24 * time.Hour

// Blocked counts how many times in a row a session was kept from stopping, across all processes
// that reply to its events: see grapnel.Options.
func (s *Spool) Blocked(key string, again bool) (inARow int, err error) {
	err = s.Count("stop\x00"+key, func(kept []byte) ([]byte, time.Duration) {
		if again {
			inARow, _ = strconv.Atoi(string(kept))
			inARow = min(max(inARow, 0), 1_000_000) // a missing or damaged count starts at 0
		}
		inARow++
		return strconv.AppendInt(nil, int64(inARow), 10), stopsAge
	})
	if err != nil {
		return 0, fmt.Errorf("cannot count the prevented stops: %w", err)
	}
	return inARow, nil
}
