package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// The file of lost Records has a fixed size and exists from the first Record on. Overwriting it
// needs no free space on most file systems, so it can be updated while the disk is full.
const (
	lossFile  = JournalDir + "/losses.json"
	lossSize  = 4 << 10
	lossError = 300                // maximum bytes of the error text
	lossAge   = 7 * 24 * time.Hour // how long after the last loss the file is valid
)

// Losses count the replies whose Record was not stored, or only in part.
type Losses struct {
	Replies int       `json:"replies"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Error   string    `json:"error"`          // of the last loss
	Shown   time.Time `json:"shown,omitzero"` // when a message to the user last reported the losses
}

// Unshown reports whether a loss has not been reported to the user yet.
func (l Losses) Unshown() bool { return l.Replies > 0 && !l.Shown.Equal(l.Last) }

// ReadLosses returns the losses of a directory, until seven days after the last one. A missing or
// unreadable file has none.
func ReadLosses(dir string, now time.Time) Losses {
	f, err := files.OpenRegular(filepath.Join(dir, lossFile), os.O_RDONLY)
	if err != nil {
		return Losses{}
	}
	defer f.Close()
	return readLosses(f, now)
}

// noLosses is the beginning of a file without losses. It makes the usual case cheap.
var noLosses = []byte(`{}`)

func readLosses(r io.Reader, now time.Time) (l Losses) {
	data, err := io.ReadAll(io.LimitReader(r, lossSize))
	if err != nil || bytes.HasPrefix(data, noLosses) || json.Unmarshal(data, &l) != nil || now.Sub(l.Last).Abs() > lossAge {
		return Losses{} // the time is in the future if the clock was set back
	}
	return l
}

// AddLoss counts a reply without a complete Record. It returns an error if the count cannot be
// stored either.
func AddLoss(dir string, why error, now time.Time) error {
	return changeLosses(dir, now, func(l *Losses) {
		if l.Replies == 0 {
			l.First = now.UTC()
		}
		l.Replies++
		l.Last, l.Error = now.UTC(), cutText(why.Error(), lossError, 0)
	})
}

// LossesShown stores that a message to the user reported these losses.
func LossesShown(dir string, shown Losses, now time.Time) error {
	return changeLosses(dir, now, func(l *Losses) { l.Shown = shown.Last })
}

func changeLosses(dir string, now time.Time, change func(*Losses)) error {
	if err := files.PrivateDir(filepath.Join(dir, JournalDir)); err != nil {
		return err
	}
	lock, err := waitLock(filepath.Join(dir, lossFile), lockWait)
	if err != nil {
		return err
	}
	defer lock.Close()
	l := readLosses(lock, now)
	change(&l)
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = lock.WriteAt(padLosses(data), 0)
	return err
}

// padLosses fills the content of the file up to its fixed size.
func padLosses(data []byte) []byte {
	return append(data, bytes.Repeat([]byte{' '}, max(0, lossSize-len(data)))...)
}

// ReserveLosses creates the file of lost Records, so that losses can be counted while the disk is
// full. It does nothing if the file exists.
func ReserveLosses(dir string) error {
	if err := files.PrivateDir(filepath.Join(dir, JournalDir)); err != nil {
		return err
	}
	f, err := files.OpenRegular(filepath.Join(dir, lossFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(padLosses(bytes.Clone(noLosses)))
	return errors.Join(err, f.Close())
}

// Unwritable returns why no Record can be stored in a directory now, as far as permissions show it,
// or nil. It changes nothing. For a missing directory it checks the directory above. It does not look at the newest segment,
// because without write access a new one begins.
func Unwritable(dir string) error {
	for dir = filepath.Join(dir, JournalDir); ; {
		err := access(dir, true)
		if above := filepath.Dir(dir); errors.Is(err, os.ErrNotExist) && above != dir {
			dir = above
			continue
		}
		return err
	}
}
