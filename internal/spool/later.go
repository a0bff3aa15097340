package spool

import (
	"bytes"
	"errors"
	"os"
	"time"
)

// ErrLater is the error that the function of [Spool.Drain] returns for a hook that must be run by
// a later drain: its line is kept, and the lines after it are run. If a line is written twice,
// the hook runs twice with the same ID. A hook that has waited for a week is not kept any longer,
// and ends with this error.
var ErrLater = errors.New("postponed to a later drain")

const (
	laterFile = "later.jsonl"
	maxLater  = 7 * 24 * time.Hour
)

// Later reports whether a drain has left hooks for a later drain.
func (s *Spool) Later() bool {
	_, err := os.Lstat(s.path(laterFile))
	return err == nil
}

// putOff keeps a line for a later drain. Only the one running drain calls it.
func (s *Spool) putOff(line []byte) error {
	f, err := openAppend(s.path(laterFile))
	if err != nil {
		return err
	}
	return errors.Join(appendLines(f, append(bytes.TrimSuffix(line, []byte{'\n'}), '\n'), s.opts.Sync), f.Close())
}

// takeLater takes the lines that earlier drains have left. No other taken file may exist.
func (s *Spool) takeLater() error {
	if err := os.Rename(s.path(laterFile), s.path(takenFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Waiting returns since when at least one hook has waited for a drain; zero = no hook waits.
func (s *Spool) Waiting() time.Time {
	var since time.Time
	for _, name := range []string{takenFile, pendingFile} {
		if info, err := os.Lstat(s.path(name)); err == nil && (since.IsZero() || info.ModTime().Before(since)) {
			since = info.ModTime()
		}
	}
	return since
}
