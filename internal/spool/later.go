package spool

import (
	"bytes"
	"errors"
	"os"
	"time"
)

// ErrLater is what the function that [Spool.Drain] calls returns of a hook that cannot be
// run now and shall be run by a later drain: its line is kept, and those behind it are run.
// Who writes a line twice gets it twice; its ID stays the same. Where a hook has waited for
// a week nobody keeps it any longer: how it ended is then that error.
var ErrLater = errors.New("it is left for later")

const (
	laterFile = "later.jsonl"
	maxLater  = 7 * 24 * time.Hour
)

// Later reports whether hooks wait that a drain has left for later.
func (s *Spool) Later() bool {
	_, err := os.Lstat(s.path(laterFile))
	return err == nil
}

// putOff keeps a line for a later drain. Only a drain calls it, and there is one at a time.
func (s *Spool) putOff(line []byte) error {
	f, err := openAppend(s.path(laterFile))
	if err != nil {
		return err
	}
	return errors.Join(appendLines(f, append(bytes.TrimSuffix(line, []byte{'\n'}), '\n'), s.opts.Sync), f.Close())
}

// takeLater takes what drains before have left. It wants that nothing is taken.
func (s *Spool) takeLater() error {
	if err := os.Rename(s.path(laterFile), s.path(takenFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Waiting is since when hooks have waited for a drain at least; zero = none does.
func (s *Spool) Waiting() time.Time {
	var since time.Time
	for _, name := range []string{takenFile, pendingFile} {
		if info, err := os.Lstat(s.path(name)); err == nil && (since.IsZero() || info.ModTime().Before(since)) {
			since = info.ModTime()
		}
	}
	return since
}
