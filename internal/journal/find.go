package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// A Finder reads single lines by their position. The zero value, with a directory, is ready. It is safe for
// concurrent use.
type Finder struct {
	Dir string

	mu   sync.Mutex
	open map[int]*os.File // by the number of the segment
}

// maxOpen is how many segments a Finder keeps open.
const maxOpen = 32

// ErrNoLine is the error of a Finder if no line ends at a position.
var ErrNoLine = errors.New("no line ends at this position")

// Line reads the line that ends at a position. length is its length; 0 = unknown. It returns [fs.ErrNotExist]
// if the segment was removed, and [ErrNoLine] if there is no such line. A line that cannot be read has Torn set.
func (f *Finder) Line(end int64, length int) (Line, error) {
	number, offset := At(end)
	text, err := f.text(number, offset, length)
	if err != nil {
		return Line{}, fmt.Errorf("cannot read the journal at position %d: %w", end, err)
	}
	line, _ := read(text, false)
	line.Begin, line.End = offset-int64(len(text)), offset
	return line, nil
}

// text returns a line with its newline.
func (f *Finder) text(number int, offset int64, length int) ([]byte, error) {
	known := length > 0
	for size := int64(4 << 10); ; size *= 4 {
		if known {
			size = int64(length)
		}
		size = min(size, offset)
		text := make([]byte, size)
		if err := f.read(number, text, offset-size); err != nil {
			return nil, err
		}
		n := len(text)
		switch begin := bytes.LastIndexByte(text[:max(0, n-1)], '\n') + 1; {
		case n < 2 || text[n-1] != '\n' || known && begin > 0:
			return nil, ErrNoLine
		case known || begin > 0 || size == offset:
			return text[begin:], nil
		case size > 2*MaxLine:
			return nil, ErrNoLine
		}
	}
}

// read reads bytes of a segment. The lock is held meanwhile, so that the segment stays open.
func (f *Finder) read(number int, b []byte, at int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.open[number]
	if file == nil {
		var err error
		if file, err = files.OpenRegular(segment(f.Dir, number), os.O_RDONLY); err != nil {
			return err
		}
		if len(f.open) >= maxOpen {
			_ = f.close()
		}
		if f.open == nil {
			f.open = map[int]*os.File{}
		}
		f.open[number] = file
	}
	_, err := file.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %s is shorter", ErrNoLine, file.Name())
	}
	return err
}

// Close closes the segments. The Finder can be used again.
func (f *Finder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.close()
}

func (f *Finder) close() error {
	var errs []error
	for _, file := range f.open {
		errs = append(errs, file.Close())
	}
	f.open = nil
	return errors.Join(errs...)
}
