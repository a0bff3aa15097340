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

	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
)

// A Tail prints the end of a log.
type Tail struct {
	name string
	out  io.Writer
	file *os.File // what it reads; nil = there is none yet
}

// NewTail prints the log of a name to out.
func NewTail(name string, out io.Writer) *Tail { return &Tail{name: name, out: out} }

// Close closes what is read.
func (t *Tail) Close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

// Last prints the last lines, those of the old log included.
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

// print prints what was written. Who wrote it does not steer the terminal.
func (t *Tail) print(text []byte) error {
	_, err := io.WriteString(t.out, printable.Text(strings.ToValidUTF8(string(text), "\uFFFD")))
	return err
}

// logPause is how long a reader waits before it looks for more.
const logPause = 200 * time.Millisecond

// Follow prints what is written until ctx is done, in whichever file.
func (t *Tail) Follow(ctx context.Context) error {
	for {
		next := t.next()
		if t.file != nil { // to its end: nobody writes to it once there is another
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

// next opens the log if it is another than the one that is read, and goes back to the
// beginning of one that was emptied.
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
