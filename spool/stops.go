package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/grapnel-dev/grapnel"
)

var _ grapnel.StopCounter = (*Spool)(nil)

// stopsDir holds a file per session that was kept from stopping: how often in a row.
const stopsDir = "stops"

// stopsAge is how long a count is kept after it was last raised.
const stopsAge = 24 * time.Hour

// Blocked counts how often in a row a session was kept from stopping, over all the
// processes that answer for it.
func (s *Spool) Blocked(ev *grapnel.Event) (inARow int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("counting how often the agent was kept from stopping: %w", err)
		}
	}()
	dir := s.path(stopsDir)
	if err := ready(s.dir); err != nil {
		return 0, err
	}
	if err := ready(dir); err != nil {
		return 0, err
	}
	sum := sha256.Sum256([]byte(grapnel.StopKey(ev)))
	f, err := waitLock(filepath.Join(dir, hex.EncodeToString(sum[:16])), exclusive, 100*time.Millisecond)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if ev.Stop != nil && ev.Stop.Active {
		text, err := io.ReadAll(io.LimitReader(f, 8))
		if err != nil {
			return 0, err
		}
		inARow, _ = strconv.Atoi(string(text))
		inARow = max(inARow, 0) // a new or a broken file begins anew
	} else {
		sweepStops(dir)
	}
	inARow++
	if err := f.Truncate(0); err != nil {
		return 0, err
	}
	_, err = f.WriteAt([]byte(strconv.Itoa(inARow)), 0)
	return inARow, err
}

// sweepStops removes the counts of sessions that are long over. What cannot be
// removed now is tried again.
func sweepStops(dir string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, file := range files {
		if info, err := file.Info(); err == nil && time.Since(info.ModTime()) > stopsAge {
			err = os.Remove(filepath.Join(dir, file.Name()))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return
			}
		}
	}
}
