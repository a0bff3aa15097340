package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Position is how far a reader has read a log. A reader stores it together with the result of the lines before.
// The zero Position is the beginning.
type Position struct {
	At  int64  // behind the last line, see package journal
	Key string // of the segment of this line
}

// A Batch is lines that follow each other in a log. They are on disk: after a power cut, the log does not end before
// a line that a reader has.
type Batch struct {
	Lines    []Line
	Position // behind the lines
	More     bool
}

// Next returns the lines after a Position: at most n, and it ends after the line that reaches a number of bytes. The
// lines are not decoded: see [Line.Decode] and [Line.Name].
func (l *Log) Next(after Position, n, bytes int) (Batch, error) {
	b := Batch{Position: after}
	var flushed *journal.Segment
	for line, err := range l.Raw(after.At) {
		if err != nil {
			return Batch{}, err
		}
		if flushed != line.Segment {
			flushed = line.Segment
			if err := flushed.Flush(); err != nil {
				return Batch{}, err
			}
		}
		b.Position = Position{line.At, flushed.Key()}
		if line.Text == nil {
			continue
		}
		b.Lines = append(b.Lines, line)
		bytes -= len(line.Text)
		if b.More = len(b.Lines) >= n || bytes <= 0; b.More {
			break
		}
	}
	return b, nil
}

// A Name is equal for two lines if readers show only the first: a firing has a Record for each decision, and any number
// of late lines. It has two decisions if an agent reports it twice, and says more the second time.
type Name struct {
	ID       string
	Decision grapnel.Decision
	Digest   string // of a late line: the first 16 bytes of its SHA-256
}

// Part tells the lines of a firing apart.
func (n Name) Part() string {
	if n.Digest != "" {
		return hex.EncodeToString([]byte(n.Digest))
	}
	return n.Decision.String()
}

// Name returns the name of a line. It decodes the line only if it is torn, or may be a late one or have its event in a
// side file: to decode a line takes longer than to read it.
func (l *Line) Name() Name {
	if l.Entry.ID == "" {
		if name, ok := l.plainName(); ok {
			return name
		}
		l.Decode()
	}
	name := Name{ID: l.Entry.ID, Decision: l.Entry.Decision}
	if l.Entry.Late {
		sum := sha256.Sum256(l.Text)
		name.Digest = string(sum[:16])
	}
	return name
}

// plainName returns the name of a line that it need not decode for that.
func (l *Line) plainName() (name Name, ok bool) {
	if l.Torn != nil || bytes.Contains(l.Text, []byte(`"late":true`)) || bytes.Contains(l.Text, []byte(`"input_at":`)) {
		return name, false
	}
	if name.ID = idOf(l.Text); name.ID == "" {
		return name, false
	}
	rawjson.Inside(l.Text, 0, func(member []byte, begin int) int {
		end := rawjson.SkipValue(l.Text, begin)
		if string(member) != `"decision"` || end < 0 {
			return end
		}
		ok = name.Decision.UnmarshalText(bytes.Trim(l.Text[begin:end], `"`)) == nil
		return -1
	})
	return name, ok
}

// Has reports whether the log has a Position, or had it before its segment was removed by retention. Otherwise the
// files are of another time, for example from a backup, and a reader has to begin again.
func (l *Log) Has(p Position) (bool, error) {
	number, offset := journal.At(p.At)
	numbers, err := l.Numbers()
	if err != nil || p.At == 0 {
		return err == nil, err
	}
	if len(numbers) > 0 && number < numbers[0] {
		return true, nil
	}
	for _, s := range l.Segments() {
		if s.Number == number {
			size, err := s.Size()
			return s.Key() == p.Key && size >= offset, err
		}
	}
	return slices.Contains(numbers, number), nil // segments with only older lines are not in the log, see OpenLog
}
