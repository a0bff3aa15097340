package spool

import (
	"bytes"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/journal"
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
	var flushed *LogFile
	for line, err := range l.Raw(after.At) {
		if err != nil {
			return Batch{}, err
		}
		if flushed != line.File {
			flushed = line.File
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

// Name returns the ID of the Record of a line, and whether the line is a late one. It decodes the line only if it is
// torn, or may be a late one or have its event in a side file: to decode a line takes longer than to read it.
func (l *Line) Name() (id string, late bool) {
	if l.Entry.ID == "" {
		plain := l.Torn == nil && !bytes.Contains(l.Text, []byte(`"late":true`)) && !bytes.Contains(l.Text, []byte(`"input_at":`))
		if id = idOf(l.Text); plain && id != "" {
			return id, false
		}
		l.Decode(time.Time{})
	}
	return l.Entry.ID, l.Entry.Late
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
	for _, f := range l.files {
		if f.Number == number {
			size, err := f.Size()
			return f.Key() == p.Key && size >= offset, err
		}
	}
	return slices.Contains(numbers, number), nil // segments with only older lines are not in the log, see OpenLog
}
