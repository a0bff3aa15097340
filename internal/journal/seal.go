package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// Seal adds a line to the manifest for each closed segment that has none, in order, and saves the head. It
// reads each segment once, after a flush. The result is the number of new lines, also after an error:
// [ErrBusy], [ErrManifest], or of the file system. A process that appends can ignore all of them, because
// a later call continues.
//
// The last closed segment is sealed when the segment behind it has a header.
func Seal(dir string) (n int, err error) {
	if numbers, err := Numbers(dir); len(numbers) == 0 || err != nil {
		return 0, err
	}
	l, err := openLedger(dir)
	if err != nil {
		return 0, fmt.Errorf("cannot seal the journal: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if n, err = l.seal(); err == nil {
		err = l.ended()
	}
	if err != nil {
		return n, fmt.Errorf("cannot seal the journal: %w", err)
	}
	return n, nil
}

// ended saves the head, so that it covers the new lines of the manifest.
func (l *ledger) ended() error {
	if !l.changed {
		return nil
	}
	return (&HeadKeeper{Dir: l.dir}).save(l.Manifest)
}

// closed is a segment that has a successor, and when it was made.
type closed struct {
	number int
	ended  time.Time
}

// toSeal returns the closed segments without a line. A segment behind that has no header says nothing about
// the time, so the next one that has a header does.
func (l *ledger) toSeal() (list []closed, err error) {
	numbers, err := Numbers(l.dir)
	if len(numbers) == 0 || err != nil {
		return nil, err
	}
	if newest := numbers[len(numbers)-1]; newest <= l.sealedTo() {
		return nil, fmt.Errorf("%w: it has segments up to %d, and the log ends with segment %d: segments were removed", ErrManifest, l.sealedTo(), newest)
	}
	var ended time.Time
	for i := len(numbers) - 1; i >= 0 && numbers[i] > l.sealedTo(); i-- {
		if !ended.IsZero() {
			list = append(list, closed{numbers[i], ended})
		}
		f, err := files.OpenRegular(segment(l.dir, numbers[i]), os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		h, err := headerOf(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if !h.time.IsZero() {
			ended = h.time
		}
	}
	slices.Reverse(list)
	return list, nil
}

func (l *ledger) seal() (n int, err error) {
	list, err := l.toSeal()
	if err != nil {
		return 0, err
	}
	for _, c := range list {
		s, err := sealedOf(l.dir, c)
		if err == nil {
			err = l.state(statement{Sealed: s})
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// sealedOf reads a closed segment.
func sealedOf(dir string, c closed) (s *Sealed, err error) {
	f, err := files.OpenRegular(segment(dir, c.number), os.O_RDWR) // Windows does not flush a file that is only read
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := final(f); err != nil {
		return nil, err
	}
	if err := files.Flush(f); err != nil {
		return nil, err
	}
	h, err := headerOf(f)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	n, err := count(f.Name(), io.TeeReader(f, sum), true)
	if err != nil {
		return nil, err
	}
	return &Sealed{
		Segment: c.number, Key: h.key, Lines: n.lines, Torn: n.torn, Bytes: n.bytes,
		Begun: h.time.UTC(), Ended: c.ended.UTC(), SHA256: Hash(sum.Sum(nil)),
	}, nil
}

// final returns [ErrBusy] if a process may still write to a segment that has a successor: it looked for the
// successor before, and was stopped while it held the shared lock. If an exclusive lock is held, no process
// holds the shared one, and all later ones see the successor.
func final(f *os.File) error {
	for _, kind := range []files.LockKind{files.Exclusive, files.Shared} {
		lock, err := files.TryLock(f, kind)
		if err == nil {
			err = lock.Unlock()
			if kind == files.Shared && err == nil {
				err = fmt.Errorf("%w: it is about to write to %s", ErrBusy, f.Name())
			}
			return err
		}
		if !errors.Is(err, files.ErrLocked) {
			return err
		}
	}
	return nil
}

// counts is what a segment contains.
type counts struct {
	lines, torn, bytes int64

	firstTorn int64 // where the first torn line begins
}

// count reads a segment to its end. It does not count an incomplete last line of an open one, as [Segment.Lines].
func count(name string, r io.Reader, closed bool) (n counts, err error) {
	for line, err := range lines(name, r, 0, closed) {
		if err != nil {
			return n, err
		}
		n.bytes = line.End
		switch {
		case line.Torn != nil:
			if n.torn++; n.torn == 1 {
				n.firstTorn = line.Begin
			}
		case line.Text != nil:
			n.lines++
		}
	}
	return n, nil
}
