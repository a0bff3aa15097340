package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// The reasons of a Removal.
const (
	byAge    = "age"
	byNumber = "number"
	bySize   = "size"
)

// reasons returns them in the order in which Retire applies them.
func reasons() []string { return []string{byAge, byNumber, bySize} }

// Limits are the limits of retention. For each, 0 is the default.
type Limits struct {
	MaxAge     int64 `json:"max_age_seconds"`
	MaxRecords int   `json:"max_records"`
	MaxBytes   int64 `json:"max_bytes,omitempty"` // of the segments; negative = no limit
}

// DefaultLimits are the limits if no policy sets others.
var DefaultLimits = Limits{MaxAge: 90 * 24 * 60 * 60, MaxRecords: 1_000_000, MaxBytes: 1e9}

// OrDefault returns the limits with the defaults of those that are not set.
func (l Limits) OrDefault() Limits {
	if l.MaxAge <= 0 {
		l.MaxAge = DefaultLimits.MaxAge
	}
	if l.MaxRecords <= 0 {
		l.MaxRecords = DefaultLimits.MaxRecords
	}
	if l.MaxBytes == 0 {
		l.MaxBytes = DefaultLimits.MaxBytes
	}
	return l
}

// Age returns the maximum age of a Record.
func (l Limits) Age() time.Duration { return time.Duration(l.MaxAge) * time.Second }

// String returns the limits for people.
func (l Limits) String() string {
	l = l.OrDefault()
	text := plural(l.MaxAge/(24*60*60), "day") + ", " + plural(int64(l.MaxRecords), "Record")
	switch {
	case l.MaxBytes < 0:
		return text
	case l.MaxBytes%1e9 == 0:
		return text + fmt.Sprintf(", %d GB", l.MaxBytes/1e9)
	}
	return text + fmt.Sprintf(", %d MB", l.MaxBytes/1e6)
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// stricter returns how these limits remove more for a reason than others do, or "".
func (l Limits) stricter(reason string, than Limits) string {
	switch {
	case reason == byAge && l.MaxAge < than.MaxAge:
		return fmt.Sprintf("it states a retention of %v, but the limit is %v", l.Age(), than.Age())
	case reason == byNumber && l.MaxRecords < than.MaxRecords:
		return fmt.Sprintf("it states a retention of %d records, but the limit is %d", l.MaxRecords, than.MaxRecords)
	case reason == bySize && than.MaxBytes < 0:
		return fmt.Sprintf("it states a retention of %d bytes, but the policies set no such limit", l.MaxBytes)
	case reason == bySize && l.MaxBytes < than.MaxBytes:
		return fmt.Sprintf("it states a retention of %d bytes, but the limit is %d", l.MaxBytes, than.MaxBytes)
	}
	return ""
}

// maxAhead is how far the time of a segment or a removal may be in the future. Clocks of one machine do not
// differ by more.
const maxAhead = time.Hour

// due returns how many of the oldest segments exceed a limit. A segment exceeds the limit of the number or the
// size if the sealed segments behind it alone reach the limit. The open segment is not counted: so up to two
// segments more than the limit stay, and Verify can check each removal later.
//
// A segment with a time in the future has no usable age: it is due together with the next one that has an age.
func due(list []Sealed, reason string, l Limits, now time.Time) (n int) {
	var lines, bytes int64 // behind the segment
	for i := range list {
		lines, bytes = lines+list[i].Lines, bytes+list[i].Bytes
	}
	for i := range list {
		lines, bytes = lines-list[i].Lines, bytes-list[i].Bytes
		switch {
		case reason == byAge && list[i].Ended.After(now.Add(maxAhead)):
			continue
		case reason == byAge && list[i].Ended.Before(now.Add(-l.Age())),
			reason == byNumber && lines >= int64(l.MaxRecords),
			reason == bySize && l.MaxBytes > 0 && bytes >= l.MaxBytes:
			n = i + 1
		default:
			return n
		}
	}
	return n
}

// kept returns the sealed segments that retention has not removed.
func (m *Manifest) kept() []Sealed {
	for i := range m.Segments {
		if m.Segments[i].Segment > m.RemovedTo() {
			return m.Segments[i:]
		}
	}
	return nil
}

// Retire seals the closed segments, and removes the oldest ones that exceed a limit, for the reasons age,
// number, size, in this order. For each reason it states the removal in the manifest before it removes a
// file. If the limits are new, it states them first. If the process is killed, the next call removes the
// files that are left. The result is what was stated, also after an error, which can be [ErrBusy] or
// [ErrManifest]. Readers that have a removed file open can still read it.
//
// The caller decides whether now can be trusted.
func Retire(dir string, limits Limits, now time.Time) (removed []Removal, err error) {
	if numbers, err := Numbers(dir); len(numbers) == 0 || err != nil {
		return nil, err
	}
	l, err := openLedger(dir)
	if err == nil {
		removed, err = l.retire(limits.OrDefault(), now.Round(0).UTC())
		err = errors.Join(err, l.close())
	}
	if err != nil {
		return removed, fmt.Errorf("cannot remove old records: %w", err)
	}
	return removed, nil
}

// Due reports whether [Retire] has something to do at once: a closed segment is not sealed, or the limits are new.
// closed is when the newest closed segment was last written.
func Due(dir string, limits Limits) (due bool, closed time.Time, err error) {
	numbers, err := Numbers(dir)
	if len(numbers) < 2 || err != nil {
		return false, closed, err
	}
	newest := numbers[len(numbers)-2]
	m, err := ReadManifest(dir)
	if err != nil {
		return false, closed, err
	}
	info, err := os.Lstat(segment(dir, newest))
	if errors.Is(err, fs.ErrNotExist) { // another process removes segments
		return false, closed, nil
	}
	if err != nil {
		return false, closed, err
	}
	return m.sealedTo() < newest || m.limits() != limits.OrDefault(), info.ModTime(), nil
}

func (l *ledger) retire(limits Limits, now time.Time) (removed []Removal, err error) {
	if _, err := l.seal(); err != nil {
		return nil, err
	}
	if err := l.stateLimits(limits, now); err != nil {
		return nil, err
	}
	if err := l.removeFiles(); err != nil { // that a killed process has left
		return nil, err
	}
	for _, reason := range reasons() {
		list := l.kept()
		n := due(list, reason, limits, now)
		if n == 0 {
			continue
		}
		r := Removal{First: l.RemovedTo() + 1, Last: list[n-1].Segment, Reason: reason, Time: now, Limits: limits}
		for i := range list[:n] {
			r.Lines += list[i].Lines
		}
		if err := l.state(statement{Removed: &r}); err != nil {
			return removed, err
		}
		removed = append(removed, r)
		if err := l.removeFiles(); err != nil {
			return removed, err
		}
	}
	return removed, l.ended()
}

// stateLimits adds a line that states the limits, unless they are in force already.
func (l *ledger) stateLimits(limits Limits, now time.Time) error {
	if l.limits() == limits {
		return nil
	}
	return l.state(statement{Limits: &LimitChange{Time: now, Limits: limits}})
}

// limits returns the limits that the manifest states.
func (m *Manifest) limits() Limits {
	if n := len(m.Limits); n > 0 {
		return m.Limits[n-1].Limits
	}
	return DefaultLimits
}

// removeFiles removes the files of segments that the manifest states as removed, the oldest first.
func (l *ledger) removeFiles() error {
	numbers, err := Numbers(l.dir)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if left, err := l.left(l.dir, n); err != nil {
			return err
		} else if !left {
			continue
		}
		step("before a file is removed")
		if err := os.Remove(segment(l.dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// left reports whether the file of a segment is one that the manifest states as removed. A file with another
// key is not: its number was used again after the log was removed by hand.
func (m *Manifest) left(dir string, number int) (bool, error) {
	s := m.sealed(number)
	if s == nil || number > m.RemovedTo() {
		return false, nil
	}
	f, err := files.OpenRegular(segment(dir, number), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	h, err := headerOf(f)
	return h.key == s.Key || s.Bytes == 0, errors.Join(err, f.Close())
}
