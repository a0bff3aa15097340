package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// append writes one line to the log.
func (s *Spool) append(line []byte) error {
	begun, err := s.records.Append(line)
	if begun > 0 {
		_ = ReserveLosses(s.dir) // without the file, the reply alone reports lost Records
	}
	if begun > 1 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
	}
	return err
}

// aside stores content in a side file and returns its name: the SHA-256 in hex. Equal contents
// share a file.
func (s *Spool) aside(content []byte) (string, error) {
	for _, dir := range []string{JournalDir, sideDir} {
		if err := files.PrivateDir(s.path(dir)); err != nil {
			return "", err
		}
	}
	sum := files.Digest(content)
	name := sideFile(s.dir, sum)
	now := time.Now()
	if info, err := os.Lstat(name); err == nil && info.Size() == int64(len(content)) {
		_ = os.Chtimes(name, now, now) // as for a new file, because sweep uses this time
		return sum, nil
	}
	f, err := os.CreateTemp(s.path(sideDir), "new-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err == nil && s.opts.Sync {
		err = files.Flush(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return sum, os.Rename(f.Name(), name)
}

func sideFile(dir, sum string) string { return filepath.Join(dir, sideDir, sum+".json") }

// readAside decodes a side file into v, after it has checked the digest in the name.
func readAside(dir, sum string, v any) error {
	if !files.IsDigest(sum) {
		return fmt.Errorf("%q is not a digest", sum)
	}
	content, err := os.ReadFile(sideFile(dir, sum))
	if err != nil {
		return err
	}
	if files.Digest(content) != sum {
		return fmt.Errorf("side file %s: the content does not match the digest in the name", sum)
	}
	return json.Unmarshal(content, v)
}

// Seal seals the closed segments of the log, see [journal.Seal].
func (s *Spool) Seal() error {
	_, err := journal.Seal(s.path(JournalDir))
	return err
}

// Retire seals the closed segments of the log. It removes the oldest ones that exceed the limits, and side files
// that only they referred to. If another process does that now, it returns [journal.ErrBusy].
//
// It closes a segment that is more than a day old, so that the last Records of a machine that is not used any more
// are removed, too.
func (s *Spool) Retire(limits journal.Limits, now time.Time) ([]journal.Removal, error) {
	if err := s.closeOld(now); err != nil {
		return nil, err
	}
	removed, err := journal.Retire(s.path(JournalDir), limits, now)
	return removed, errors.Join(err, s.sweep())
}

// closeOld closes the open segment if it has lines and is more than a day old.
func (s *Spool) closeOld(now time.Time) (err error) {
	log, err := journal.Open(s.path(JournalDir), time.Time{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	list := log.Segments()
	if len(list) == 0 {
		return nil
	}
	open := list[len(list)-1]
	if size, err := open.Size(); err != nil || size <= open.HeaderLength()+1 || now.Sub(open.Begun()) <= 24*time.Hour {
		return err
	}
	_, err = s.records.Next()
	return err
}

// sweep removes side files that are older than the oldest segment: no line refers to them any more. It allows an
// hour for a line that was written long after its side file. If the age of a segment is unknown, all side files stay.
func (s *Spool) sweep() error {
	oldest := time.Now()
	log, err := journal.Open(s.path(JournalDir), time.Time{})
	if err != nil {
		return err
	}
	for _, segment := range log.Segments() {
		if begun := segment.Begun(); begun.Before(oldest) {
			oldest = begun
		}
	}
	if err := log.Close(); err != nil || oldest.IsZero() {
		return err
	}
	entries, err := os.ReadDir(s.path(sideDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(oldest.Add(-time.Hour)) {
			errs = append(errs, os.Remove(s.path(filepath.Join(sideDir, e.Name()))))
		}
	}
	return errors.Join(append(errs, err)...)
}
