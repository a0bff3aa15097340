package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// An Item is written as a unit: a line of the log, and the position in the file that it came from.
// Each part is optional.
type Item struct {
	// Line is a line of the log as package spool writes it. A line that exists already is stored
	// once. If a firing has two different Records, the first is stored and the second only
	// counted.
	Line []byte

	// Entry is the decoded line without the event, if the caller has it; see [spool.Made]. Nil =
	// Put decodes the line.
	Entry *spool.Entry

	Mark *Mark
}

// A Mark is the position in a file up to which all lines were taken in, in bytes.
type Mark struct {
	File   string
	Offset int64
}

// MaxLine is the maximum size of a line in bytes.
const MaxLine = 1 << 20

// ErrLine is the error of Put for a line that is not a line of the log.
var ErrLine = errors.New("not a line of the log")

// An ItemError names the item of a Put that can never be stored. The other items were not stored
// either.
type ItemError struct {
	Item int // index, from 0
	Err  error
}

// Error returns the index of the item and the cause.
func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %v", e.Item, e.Err) }

// Unwrap returns the cause.
func (e *ItemError) Unwrap() error { return e.Err }

// line is a decoded line, with everything that Put needs before the commit.
type line struct {
	spool.Entry
	raw    []byte
	event  json.RawMessage // as it is in the line
	digest Hash
}

// read decodes the line of an item. It does not decode the event, which is stored unchanged.
func (item *Item) read() (line, error) {
	l := line{raw: bytes.TrimSpace(item.Line)}
	if item.Entry == nil {
		return parse(l.raw)
	}
	if err := short(l.raw); err != nil {
		return line{}, err
	}
	if !json.Valid(l.raw) { // the event is not decoded, so check it here
		return line{}, fmt.Errorf("%w: it is not valid JSON", ErrLine)
	}
	l.Entry, l.digest = *item.Entry, sha256.Sum256(l.raw)
	return l, l.named()
}

// parse decodes a line without its event.
func parse(raw []byte) (line, error) {
	raw = bytes.TrimSpace(raw)
	if err := short(raw); err != nil {
		return line{}, err
	}
	var wire struct {
		spool.Entry
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return line{}, fmt.Errorf("%w: %w", ErrLine, err)
	}
	l := line{Entry: wire.Entry, raw: raw, event: wire.Input, digest: sha256.Sum256(raw)}
	return l, l.named()
}

func short(raw []byte) error {
	if len(raw) > MaxLine {
		return fmt.Errorf("%w: it has %d bytes, the maximum is %d", ErrLine, len(raw), MaxLine)
	}
	return nil
}

func (l *line) named() error {
	if l.ID == "" || l.Time.IsZero() {
		return fmt.Errorf("%w: it has no id or no time", ErrLine)
	}
	return nil
}

// input decodes the event of a line into its Entry.
func (l *line) input() error {
	if l.event == nil {
		return nil
	}
	err := json.Unmarshal(l.event, &l.Input)
	if err != nil {
		l.Input = nil
	}
	return err
}

// Put stores all items or none. When it returns nil, they survive this process, and after
// [Store.Sync] has returned nil also a power cut. If ctx ends while Put waits for its turn,
// nothing is stored; if it ends later, Put continues to wait. The caller must not change the
// items until Put returns. An ItemError means that an item is invalid, and not that the disk
// failed.
func (s *Store) Put(ctx context.Context, items ...Item) error {
	_, err := s.put(ctx, false, items)
	return err
}

// put is Put. If want is set, it returns the rows that are new.
func (s *Store) put(ctx context.Context, want bool, items []Item) (rows []Row, err error) {
	lines := make([]*line, len(items))
	size := 0
	for i := range items {
		n := 0
		if lines[i], n, err = items[i].check(); err != nil {
			return nil, &ItemError{i, err}
		}
		size += n
	}
	if len(items) == 0 {
		return nil, nil
	}
	err = s.write(ctx, size, func(c *change) error {
		first := len(c.rows)
		for i := range items {
			if err := c.putItem(&items[i], lines[i], want || s.live.any()); err != nil {
				return err
			}
		}
		rows = c.rows[first:]
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot store a record: %w", err)
	}
	return rows, nil
}

// check returns an error for an item that cannot be stored. It returns the line of the item, nil
// if it has none, and its size in bytes.
func (item *Item) check() (l *line, size int, err error) {
	if item.Line != nil {
		read, err := item.read()
		if err != nil {
			return nil, 0, err
		}
		l, size = &read, len(read.raw)
	}
	if item.Mark != nil && (item.Mark.File == "" || item.Mark.Offset < 0) {
		return nil, 0, fmt.Errorf("cannot store the mark %+v: want a file and an offset of at least 0", *item.Mark)
	}
	return l, size, nil
}

func (c *change) putItem(item *Item, l *line, publish bool) error {
	if l != nil {
		if err := c.putLine(l, publish); err != nil {
			return err
		}
	}
	if item.Mark == nil {
		return nil
	}
	return c.run(`INSERT INTO mark(file, "offset") VALUES (?,?) ON CONFLICT DO UPDATE SET "offset" = excluded."offset"`, item.Mark.File, item.Mark.Offset)
}

// putLine adds a row to the chain. If publish is set, it also adds it to the rows for
// subscribers.
func (c *change) putLine(l *line, publish bool) error {
	head := c.head.next(c.head.Seq+1, stamp(l.Time), l.digest)
	n, err := c.change(`INSERT INTO record(seq, id, late, digest, hash, time, agent, session, event, tool, decision, would, error)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
		head.Seq, l.ID, l.Late, l.digest[:], head.Hash[:], stamp(l.Time), l.Agent, l.Session, string(l.Event), l.Tool,
		int64(l.Decision), int64(l.Would), l.Error)
	if err != nil {
		return err
	}
	if n == 0 {
		if l.Late {
			return nil // it was the same line
		}
		var same bool
		found, err := c.row("SELECT digest = ? FROM record WHERE id = ? AND late = 0", []any{l.digest[:], l.ID}, &same)
		if err != nil || same {
			return err
		}
		if !found {
			return fmt.Errorf("the database refused record %s, although no other record has number %d", l.ID, head.Seq)
		}
		return c.run("INSERT INTO again(id, digest) VALUES (?,?) ON CONFLICT DO NOTHING", l.ID, l.digest[:])
	}
	if err := c.run("INSERT INTO line(seq, line) VALUES (?,?)", head.Seq, l.raw); err != nil {
		return err
	}
	for i := range l.Hooks {
		run := &l.Hooks[i]
		err := c.run("INSERT INTO hook(seq, n, name, source, decision, cause, error, fail_open, async, ms) VALUES (?,?,?,?,?,?,?,?,?,?)",
			head.Seq, i, run.Name, run.Source, int64(run.Decision), string(run.Cause), run.Error, run.FailOpen, run.Async, run.MS)
		if err != nil {
			return err
		}
	}
	c.head = head
	if publish {
		c.rows = append(c.rows, Row{Seq: head.Seq, Entry: l.Entry, Line: bytes.Clone(l.raw)})
	}
	return nil
}

// Mark returns how far a file was taken in, in bytes; 0 for an unknown file.
func (s *Store) Mark(ctx context.Context, file string) (offset int64, err error) {
	err = s.read(ctx, func(v *view) error {
		_, err := v.row(`SELECT "offset" FROM mark WHERE file = ?`, []any{file}, &offset)
		return err
	})
	return offset, err
}

// ForgetMark deletes the mark of a file that was removed.
func (s *Store) ForgetMark(ctx context.Context, file string) error {
	return s.write(ctx, 0, func(c *change) error { return c.run("DELETE FROM mark WHERE file = ?", file) })
}

// hookWanted returns the SQL condition that a row of table hook matches the hook of a Filter: a
// name, or source::name.
func hookWanted(hook string) (cond string, args []any) {
	cond, args = "name = ?", []any{hook}
	for at := 0; ; {
		next := strings.Index(hook[at:], "::")
		if next < 0 {
			return "(" + cond + ")", args
		}
		at += next
		cond += " OR (name = ? AND source = ?)"
		args = append(args, hook[at+2:], hook[:at])
		at++
	}
}
