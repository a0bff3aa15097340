package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// Counts are small files: counts/XX/OWNER/KEY, where XXOWNER and KEY are digests. The modification time of
// a file is its expiry time.
//
// Each owner has a share, which no other owner can take, see package counts. A new value looks only at
// the share of its owner, and a new owner only at a few others. A process that is killed leaves the old
// value or the new one.
const (
	countsDir    = "counts"
	countsLock   = countsDir + "/lock"
	countsFresh  = countsDir + "/new"     // temporary file that is renamed to the file of a key
	countsFull   = countsDir + "/refused" // see files.Refuse
	ownersPerDir = 256                    // 65,536 owners in total
)

// Count calls change with the value of a key of an owner, or nil if the key has none, and stores the
// result at least for the duration that change returns, at most [counts.MaxAge]. If change returns nil,
// the value stays. No other process counts at the same time.
//
// An error means that nothing was stored. It is a [files.ErrFull] if the share of the owner is full. An
// unreadable value is an error once, and is then removed, so that it does not block the key forever.
func (s *Spool) Count(owner, key string, change func(kept []byte) (now []byte, keep time.Duration)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot update a counter: %w", err)
		}
	}()
	if err := files.PrivateDir(s.path(countsDir)); err != nil {
		return err
	}
	lock, err := waitLock(s.path(countsLock), lockWait)
	if err != nil {
		return err
	}
	defer lock.Close()
	name := s.countFile(owner, key)
	kept, err := s.Counted(owner, key)
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	data, keep := change(kept)
	switch {
	case data == nil:
		return nil
	case len(data) > counts.MaxBytes:
		return fmt.Errorf("%d bytes exceed the maximum of %d", len(data), counts.MaxBytes)
	case kept == nil:
		now := time.Now()
		if err := countRoom(filepath.Dir(name), now); err != nil {
			if errors.Is(err, files.ErrFull) {
				files.Refuse(s.path(countsFull), now)
			}
			return err
		}
	}
	return s.writeCount(name, data, time.Now().Add(min(keep, counts.MaxAge)))
}

// CountsRefused returns how many values found no room in the last seven days, and the time of the last
// one, in the Spool of a directory.
func CountsRefused(dir string, now time.Time) (n int, last time.Time) {
	return files.Refusals(filepath.Join(dir, countsFull), now)
}

// Counted returns the value that [Spool.Count] has stored for a key, or nil. It changes nothing.
func (s *Spool) Counted(owner, key string) ([]byte, error) {
	f, err := files.OpenRegular(s.countFile(owner, key), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, counts.MaxBytes+1))
	if err == nil && len(data) > counts.MaxBytes {
		err = fmt.Errorf("%s is larger than %d bytes", f.Name(), counts.MaxBytes)
	}
	return data, err
}

func (s *Spool) countFile(owner, key string) string {
	share := files.Digest([]byte(owner))
	return filepath.Join(s.dir, countsDir, share[:2], share[2:32], files.Digest([]byte(key))[:32])
}

// writeCount replaces a file with a rename.
func (s *Spool) writeCount(name string, data []byte, until time.Time) error {
	fresh := s.path(countsFresh)
	_ = os.Remove(fresh) // left by a process that was killed
	f, err := files.OpenRegular(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Chtimes(fresh, until, until)
	}
	if err == nil {
		err = os.Rename(fresh, name)
	}
	if err != nil {
		_ = os.Remove(fresh)
	}
	return err
}

// countRoom makes room for one more value in a share, and makes the share if it is new.
func countRoom(share string, now time.Time) error {
	dir, err := os.Open(share)
	if errors.Is(err, fs.ErrNotExist) {
		all := filepath.Dir(share)
		if err := os.MkdirAll(all, 0o700); err != nil {
			return err
		}
		err := files.MakeRoom(all, ownersPerDir, func(name string, info fs.FileInfo) bool { return info.IsDir() && shareIsOver(name, info, now) })
		if err != nil {
			return err
		}
		return os.Mkdir(share, 0o700)
	}
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(counts.MaxKeys)
	_ = dir.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(names) == counts.MaxKeys {
		if left, _ := expireCounts(share, now); left >= counts.MaxKeys {
			return counts.Full()
		}
	}
	return nil
}

// shareIsOver removes the share of an owner whose values have all expired. A share has the time at which
// that may be so. Each new value sets it back to the present, which costs only another look.
func shareIsOver(share string, info fs.FileInfo, now time.Time) bool {
	if wait := info.ModTime().Sub(now); wait > 0 && wait <= counts.MaxAge {
		return false
	}
	left, until := expireCounts(share, now)
	if left == 0 {
		return os.Remove(share) == nil
	}
	_ = os.Chtimes(share, until, until)
	return false
}

// expireCounts removes the expired values of a share, and values with an expiry that is too far away
// because a clock was wrong. It returns how many are left, and when the last one expires.
func expireCounts(share string, now time.Time) (left int, until time.Time) {
	files, _ := os.ReadDir(share) // an error still returns the entries that were read
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			continue
		}
		over := info.ModTime()
		if over.Before(now) || over.After(now.Add(counts.MaxAge)) {
			if os.Remove(filepath.Join(share, file.Name())) == nil {
				continue
			}
		}
		left++
		if over.After(until) {
			until = over
		}
	}
	return left, until
}

// Blocked counts how many times in a row a session was kept from stopping, across all processes
// that reply to its events: see grapnel.Options.
func (s *Spool) Blocked(session string, again bool) (inARow int, err error) {
	return counts.Blocked(s, session, again)
}
