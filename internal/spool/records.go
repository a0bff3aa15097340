package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// append writes one line to the current records file.
func (s *Spool) append(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rotation, err := s.current()
	if err != nil {
		return err
	}
	if err := appendLines(s.records, line, s.opts.Sync); err != nil {
		return err
	}
	return rotation
}

// current opens the current records file as s.records. The first error means that a file that is
// too large could not be renamed, which loses nothing.
//
// Another process may rename the file between this and the write. The line is then in the renamed
// file, where readers find it.
func (s *Spool) current() (rotation, err error) {
	name := s.path(recordsFile)
	if s.records != nil {
		now, errNow := os.Lstat(name)
		have, errHave := s.records.Stat()
		if errNow != nil || errHave != nil || !os.SameFile(now, have) {
			_ = s.records.Close()
			s.records = nil
		}
	}
	if s.records == nil {
		if err := files.PrivateDir(s.dir); err != nil {
			return nil, err
		}
		if s.records, err = openAppend(name); err != nil {
			return nil, err
		}
	}
	if info, err := s.records.Stat(); err == nil && info.Size() == 0 {
		_ = ReserveLosses(s.dir) // without the file, the reply alone reports lost Records
	}
	if !s.due(s.records) {
		return nil, nil
	}
	_ = s.records.Close() // Windows cannot rename an open file
	s.records = nil
	if rotation = s.rotate(); rotation != nil {
		rotation = fmt.Errorf("cannot rename %s: %w", recordsFile, rotation)
	}
	s.records, err = openAppend(name)
	return rotation, err
}

// due reports whether a records file has to be renamed, because it is too large or its first
// Record is too old.
func (s *Spool) due(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	if info.Size() > s.opts.MaxSize {
		return true
	}
	begun := firstTime(f)
	return !begun.IsZero() && time.Since(begun) > s.opts.MaxAge/4
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

// asideFormat is the time in the name of a renamed records file. The names sort by it.
const asideFormat = "20060102T150405.000000000Z"

// rotate renames the current file and removes files that are too old or too many. If another
// process is rotating, it does nothing.
func (s *Spool) rotate() error {
	lock, err := tryLock(s.path(recordsLock), files.Exclusive)
	if errors.Is(err, files.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	f, err := files.OpenRegular(s.path(recordsFile), os.O_RDONLY)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	due := s.due(f)
	_ = f.Close()
	if !due {
		return nil
	}
	now := time.Now().UTC()
	name := s.path(recordsPrefix + now.Format(asideFormat) + recordsSuffix)
	if _, err := os.Lstat(name); err == nil {
		return nil // the same clock tick as the last rotation: next time
	}
	if err := os.Rename(s.path(recordsFile), name); err != nil {
		if inUse(err) {
			return nil // a later line tries again
		}
		return err
	}
	return s.prune(now)
}

// prune removes renamed files that are too old, and side files that only they referred to.
func (s *Spool) prune(now time.Time) error {
	names, err := asideFiles(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for i, name := range names {
		if i >= len(names)-s.opts.KeepFiles && now.Sub(asideTime(name)) <= s.opts.MaxAge {
			break
		}
		errs = append(errs, os.Remove(s.path(name)))
	}
	return errors.Join(append(errs, s.sweep())...)
}

// asideFiles lists the renamed records files, oldest first.
func asideFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !asideTime(e.Name()).IsZero() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// asideTime returns when a file was renamed, or zero for any other file.
func asideTime(name string) time.Time {
	text, begins := strings.CutPrefix(name, recordsPrefix)
	text, ends := strings.CutSuffix(text, recordsSuffix)
	at, err := time.Parse(asideFormat, text)
	if !begins || !ends || err != nil {
		return time.Time{}
	}
	return at
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

// sweep removes side files that are older than the first remaining line: no line refers to them
// any more. It allows an hour for a line that was written long after its side file. If the age of
// any remaining file is unknown, all side files stay.
func (s *Spool) sweep() error {
	names, err := asideFiles(s.dir)
	if err != nil {
		return err
	}
	oldest := time.Now()
	for _, name := range append(names, recordsFile, pendingFile, takenFile, laterFile) {
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
