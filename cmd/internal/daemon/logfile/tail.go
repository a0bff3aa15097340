package logfile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

// A Tail prints the end of a log.
type Tail struct {
	name string
	out  io.Writer
	file *os.File // the current log; nil = it does not exist yet
}

// NewTail returns a Tail that prints the log name to out.
func NewTail(name string, out io.Writer) *Tail { return &Tail{name: name, out: out} }

// Close closes the log.
func (t *Tail) Close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

// Last prints the last n lines of the old and the current log.
func (t *Tail) Last(n int) error {
	old, err := os.ReadFile(Old(t.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var now []byte
	if t.file, err = os.Open(t.name); err == nil {
		now, err = io.ReadAll(t.file)
	}
	if err != nil && (len(old) == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	lines := slices.Collect(bytes.Lines(slices.Concat(old, now)))
	return t.print(bytes.Join(lines[max(0, len(lines)-n):], nil))
}

// print prints text without characters that could control the terminal.
func (t *Tail) print(text []byte) error {
	_, err := io.WriteString(t.out, printable.Text(strings.ToValidUTF8(string(text), "\uFFFD")))
	return err
}

// logPause is the time between two checks for new text.
const logPause = 200 * time.Millisecond

// Follow prints new text until ctx is done. It follows the log when it is rotated.
func (t *Tail) Follow(ctx context.Context) error {
	for {
		next := t.next()
		if t.file != nil { // read to the end: after a rotation the old file does not change
			text, err := io.ReadAll(t.file)
			if err == nil && len(text) > 0 {
				err = t.print(text)
			}
			if err != nil {
				return err
			}
		}
		if next != nil {
			t.Close()
			t.file = next
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPause):
		}
	}
}

// next opens the log if it was replaced by another file, or returns nil. If the current file was
// truncated, next continues at its beginning.
func (t *Tail) next() *os.File {
	info, err := os.Stat(t.name)
	if err != nil {
		return nil // not yet
	}
	if t.file != nil {
		have, err := t.file.Stat()
		if err == nil && os.SameFile(info, have) {
			if at, err := t.file.Seek(0, io.SeekCurrent); err == nil && at > have.Size() {
				_, _ = t.file.Seek(0, io.SeekStart)
			}
			return nil
		}
	}
	f, err := os.Open(t.name)
	if err != nil {
		return nil
	}
	return f
}
