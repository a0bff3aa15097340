package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// append writes one line, with its newline, to the log. If the line is the first of a segment, it also
// removes segments that are too old or too many. That error loses nothing.
func (s *Spool) append(line []byte) error {
	if err := s.check(); err != nil {
		return err
	}
	begun, err := s.records.Append(bytes.TrimSuffix(line, []byte{'\n'}))
	if err != nil || !begun {
		return err
	}
	_ = ReserveLosses(s.dir) // without the file, the reply alone reports lost Records
	if err := s.prune(time.Now()); err != nil {
		return fmt.Errorf("cannot remove old records: %w", err)
	}
	return nil
}

// check checks the directory, once. The journal checks its own below it.
func (s *Spool) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checked {
		return nil
	}
	err := files.PrivateDir(s.dir)
	s.checked = err == nil
	return err
}

// firstTime returns the time of the first Record of a file, or zero.
func firstTime(f *os.File) time.Time {
	var head [512]byte
	n, _ := f.ReadAt(head[:], 0)
	_, rest, ok := strings.Cut(string(head[:n]), `"time":"`)
	text, _, ended := strings.Cut(rest, `"`)
	if !ok || !ended {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// prune removes closed segments that are too old or too many, and side files that only they referred to.
// If another process does it, it does nothing.
func (s *Spool) prune(now time.Time) error {
	lock, err := tryLock(s.path(pruneLock), files.Exclusive)
	if errors.Is(err, files.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	log, err := journal.Open(s.path(JournalDir), time.Time{})
	if err != nil {
		return err
	}
	defer log.Close()
	var failed error
	list := log.Segments()
	for i, segment := range list {
		ended, err := segment.Ended()
		if err != nil || !segment.Closed() || i >= len(list)-1-s.opts.KeepFiles && now.Sub(ended) <= s.opts.MaxAge {
			break
		}
		if failed = log.Remove(segment); failed != nil {
			break // a segment goes only after all older ones: see journal.Log.Remove
		}
	}
	return errors.Join(failed, s.sweep())
}

// aside stores content in a side file and returns its name: the SHA-256 in hex. Equal contents
// share a file.
func (s *Spool) aside(content []byte) (string, error) {
	if err := files.PrivateDir(s.dir); err != nil {
		return "", err
	}
	if err := files.PrivateDir(s.path(sideDir)); err != nil {
		return "", err
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

// sweep removes side files that are older than the oldest segment and the first waiting hook: no line refers to them
// any more. It allows an hour for a line that was written long after its side file. If the age of
// any remaining file is unknown, all side files stay.
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
	for _, name := range []string{pendingFile, takenFile, laterFile} {
		f, err := files.OpenRegular(s.path(name), os.O_RDONLY)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		first := firstTime(f)
		_ = f.Close()
		if first.IsZero() {
			return nil
		}
		if first.Before(oldest) {
			oldest = first
		}
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
