// Package records reads Records for commands, from the log of a place or from files, counts them,
// and makes tests from them.
package records

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// maxRecordLine is the maximum length of a line in a file of Records. It has room for the largest
// event and its Record.
const maxRecordLine = 40 << 20

// A Source is the origin of Records: the log of a place, or files with the output of "grapnel log
// --json".
type Source struct {
	Console *cli.Console
	Place   local.Place
	Files   []string // - is standard input; empty = the log of the place
	Filter  spool.Filter
	Text    string // search text, for the log only
	Last    int    // only the newest Last Records; 0 = all

	done atomic.Uint64 // share of the input that was read, in thousandths; 0 = unknown
	bar  bool          // a progress bar is visible
}

// Open opens the Source. The Records come in the order of time. Call end afterwards.
func (r *Source) Open(ctx context.Context) (records iter.Seq2[replay.Record, error], end func(), err error) {
	end = func() {}
	if len(r.Files) == 0 {
		return r.ofLog(ctx), end, nil
	}
	var lists []iter.Seq2[replay.Record, error]
	var open []*os.File
	end = func() {
		for _, f := range open {
			_ = f.Close()
		}
	}
	for _, name := range r.Files {
		in := r.Console.In
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				end()
				return nil, nil, cli.WithHint(fmt.Errorf("cannot read the Records: %w", err), "create the file with: grapnel log --json > FILE")
			}
			open = append(open, f)
			in = f
			switch info, err := f.Stat(); {
			case err == nil && info.IsDir():
				end()
				return nil, nil, cli.WithHint(fmt.Errorf("cannot read the Records: %s is a directory", name), "create a file with: grapnel log --json > FILE")
			case err == nil && len(r.Files) == 1 && info.Mode().IsRegular():
				in = &countingReader{f, info.Size(), 0, &r.done}
			}
		} else if cli.Terminal(r.Console.In) {
			fmt.Fprintln(r.Console.Err, "grapnel: reading Records from standard input")
		}
		lists = append(lists, linesOf(name, in))
	}
	records = lists[0]
	if len(lists) > 1 {
		records = inTime(lists)
	}
	if r.Last > 0 {
		records = r.youngest(records)
	}
	return records, end, nil
}

// ofLog reads the log of the place.
func (r *Source) ofLog(ctx context.Context) iter.Seq2[replay.Record, error] {
	log, query := Log(r.Place), index.Query{Filter: r.Filter, Text: r.Text}
	return func(yield func(replay.Record, error) bool) {
		left := r.leftOut(ctx, log, query)
		var first time.Time
		end := time.Now()
		for k, err := range log.Read(ctx, query) {
			if err == nil {
				if first.IsZero() {
					first = k.Time
				}
				if span := end.Sub(first); span > 0 {
					r.done.Store(uint64(max(0, 1000*k.Time.Sub(first)/span)))
				}
				if !k.Late && left > 0 {
					left--
					continue
				}
			}
			if err != nil && !errors.Is(err, spool.ErrTorn) {
				r.erase()
				r.Console.Warn(err)
				continue
			}
			kept := k
			if !yield(replay.Record{Entry: kept.Entry, Load: func(e *spool.Entry) error {
				err := kept.Event()
				e.Input = kept.Input
				return err
			}}, err) {
				return
			}
		}
	}
}

// leftOut returns how many Records come before the newest ones that are wanted.
func (r *Source) leftOut(ctx context.Context, log index.Log, query index.Query) int {
	if r.Last == 0 {
		return 0
	}
	n := -r.Last
	for k, err := range log.Read(ctx, query) {
		if err == nil && !k.Late {
			n++
		}
	}
	return n
}

// linesOf reads the lines of a file. They are decoded later. The file may be a segment of the log, whose first
// line is a header.
func linesOf(name string, in io.Reader) iter.Seq2[replay.Record, error] {
	return func(yield func(replay.Record, error) bool) {
		lines := bufio.NewReaderSize(in, 1<<20)
		for n := 1; ; n++ {
			line, err := readRecordLine(lines)
			if len(strings.TrimSpace(string(line[:min(len(line), 64)]))) > 0 && !bytes.HasPrefix(line, []byte(`{"journal":`)) {
				if !yield(replay.Record{Load: func(e *spool.Entry) error { return decodeRecord(line, e) }}, nil) {
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(replay.Record{}, fmt.Errorf("%s:%d: %w", name, n, err))
				return
			}
		}
	}
}

func readRecordLine(lines *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxRecordLine:
			return nil, fmt.Errorf("the line is longer than %d bytes", maxRecordLine)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// decodeRecord decodes a line of "grapnel log --json". On an error, the ID stays empty.
func decodeRecord(line []byte, e *spool.Entry) error {
	err := json.Unmarshal(line, e)
	if err == nil && (e.ID == "" || e.Time.IsZero()) {
		err = errors.New("it has no id or no time")
	}
	if err != nil {
		*e = spool.Entry{}
	}
	return err
}

// withEntry loads the Entry of a Record. If the line is torn, it keeps Load, which returns the
// error.
func withEntry(r replay.Record) replay.Record {
	if r.Load != nil && r.ID == "" && r.Load(&r.Entry) == nil {
		r.Load = nil
	}
	return r
}

// inTime merges lists that are each in the order of time.
func inTime(lists []iter.Seq2[replay.Record, error]) iter.Seq2[replay.Record, error] {
	type head struct {
		record replay.Record
		err    error
		next   func() (replay.Record, error, bool)
	}
	return func(yield func(replay.Record, error) bool) {
		var heads []*head
		advance := func(h *head) bool {
			var ok bool
			h.record, h.err, ok = h.next()
			h.record = withEntry(h.record)
			return ok
		}
		for _, list := range lists {
			next, stop := iter.Pull2(list)
			defer stop()
			if h := (&head{next: next}); advance(h) {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i, h := range heads {
				if h.record.Time.Before(heads[first].record.Time) {
					first = i
				}
			}
			h := heads[first]
			if !yield(h.record, h.err) {
				return
			}
			if !advance(h) {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

// youngest yields the newest Records of a list, at most Last.
func (r *Source) youngest(records iter.Seq2[replay.Record, error]) iter.Seq2[replay.Record, error] {
	return func(yield func(replay.Record, error) bool) {
		ring := make([]replay.Record, 0, min(r.Last, 1<<10))
		at := 0
		for record, err := range records {
			if err != nil {
				if !yield(record, err) {
					return
				}
				continue
			}
			if record = withEntry(record); record.ID == "" {
				if !yield(record, nil) {
					return
				}
				continue
			}
			switch {
			case record.Late || !r.Filter.Wants(&record.Entry):
			case len(ring) < r.Last:
				ring = append(ring, record)
			default:
				ring[at] = record
				at = (at + 1) % r.Last
			}
		}
		for i := range ring {
			if !yield(ring[(at+i)%len(ring)], nil) {
				return
			}
		}
	}
}

// countingReader stores which share of a file was read.
type countingReader struct {
	io.Reader
	size, read int64
	share      *atomic.Uint64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if c.read += int64(n); c.size > 0 {
		c.share.Store(uint64(1000 * c.read / c.size)) // not negative
	}
	return n, err
}

// Progress draws a progress bar if stderr is a terminal. It returns a function to report progress,
// nil without a bar, and a function that removes the bar.
func (r *Source) Progress(what string) (report func(records int), end func()) {
	if !cli.Terminal(r.Console.Err) || r.Console.JSON || os.Getenv("TERM") == "dumb" {
		return nil, func() {}
	}
	const bar = 30
	begun := time.Now()
	var shown time.Time
	report = func(records int) {
		now := time.Now()
		if now.Sub(shown) < 100*time.Millisecond {
			return
		}
		shown = now
		text := what
		if done := r.done.Load(); done > 0 { // the total size of a pipe is unknown
			full := int(min(done, 1000)) * bar / 1000
			text += " [" + strings.Repeat("=", full) + strings.Repeat(" ", bar-full) + "]"
		}
		text += fmt.Sprintf(" %s Records, %.0f /s", printable.Number(records), float64(records)/max(now.Sub(begun).Seconds(), 0.001))
		if width := cli.Width(r.Console.Err); len(text) >= width { // a line that wraps cannot be erased
			text = text[:max(0, width-1)]
		}
		r.erase()
		fmt.Fprint(r.Console.Err, text)
		r.bar = true
	}
	return report, r.erase
}

// erase removes the progress bar, if it is visible.
func (r *Source) erase() {
	if r.bar {
		fmt.Fprint(r.Console.Err, "\r\x1b[K")
		r.bar = false
	}
}

// Log returns the log of a place.
func Log(place local.Place) index.Log {
	return index.Log{State: place.State, Index: place.Index()}
}
