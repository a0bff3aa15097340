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

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/digest"
)

var _ grapnel.StopCounter = (*Spool)(nil)

// Counts are small files, one for each key. The time of a file is that at which it
// may go.
const (
	countsDir   = "counts"
	countsLock  = "counts.lock"
	countsFresh = "counts.new" // becomes the file of a key once it is whole

	countsWait = 2 * time.Second // for the others that are counting
)

// What is kept of counts at most, here and where others count as the Spool does.
const (
	MaxCount    = 64 << 10 // bytes of one
	MaxCounts   = 10_000   // keys; beyond, those go that would go next
	MaxCountAge = 32 * 24 * time.Hour
)

// Count hands change what is kept under a key, or nil where nothing is, and keeps
// what it returns at least for the time that it names, at most 32 days. When change
// returns nil everything stays as it is. No other process counts meanwhile.
//
// An error says that nothing was kept. What cannot be read is an error once, and
// then gone: it must not stand in the way for ever.
func (s *Spool) Count(key string, change func(kept []byte) (now []byte, keep time.Duration)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot count: %w", err)
		}
	}()
	dir := s.path(countsDir)
	if err := ready(s.dir); err != nil {
		return err
	}
	if err := ready(dir); err != nil {
		return err
	}
	lock, err := waitLock(s.path(countsLock), exclusive, countsWait)
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
		return fmt.Errorf("%d bytes are more than %d", len(data), MaxCount)
	case kept == nil:
		sweepCounts(dir, time.Now())
	}
	return s.writeCount(key, data, time.Now().Add(min(keep, MaxCountAge)))
}

// Counted returns what [Spool.Count] keeps under a key, or nil, and changes nothing.
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
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), MaxCount)
	}
	return data, err
}

func (s *Spool) countFile(key string) string {
	return filepath.Join(s.dir, countsDir, digest.Of([]byte(key))[:32])
}

// writeCount replaces the file of a key as a whole, so that a process which is
// killed leaves the old count or the new one.
func (s *Spool) writeCount(key string, data []byte, until time.Time) error {
	fresh := s.path(countsFresh)
	_ = os.Remove(fresh) // of a process that was killed
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

// sweepCounts removes the counts whose time is over, and those whose time a clock
// that went wrong has put too far away. What cannot be removed now is tried again.
func sweepCounts(dir string, now time.Time) {
	type count struct {
		name  string
		until time.Time
	}
	var left []count
	files, _ := os.ReadDir(dir) // what was read of it
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
	for _, c := range left[:len(left)-MaxCounts*9/10] { // not each time
		_ = os.Remove(c.name)
	}
}

// stopsAge is how long the count of a session's stops is kept after it was last
// raised.
const stopsAge = 24 * time.Hour

// Blocked counts how often in a row a session was kept from stopping, over all the
// processes that answer for it.
func (s *Spool) Blocked(ev *grapnel.Event) (inARow int, err error) {
	err = s.Count("stop\x00"+grapnel.StopKey(ev), func(kept []byte) ([]byte, time.Duration) {
		if ev.Stop != nil && ev.Stop.Active {
			inARow, _ = strconv.Atoi(string(kept))
			inARow = min(max(inARow, 0), 1_000_000) // a new or a broken one begins anew
		}
		inARow++
		return strconv.AppendInt(nil, int64(inARow), 10), stopsAge
	})
	if err != nil {
		return 0, fmt.Errorf("how often the agent was kept from stopping: %w", err)
	}
	return inARow, nil
}
