package journal

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// A Writer appends to the log of a directory. The zero values of its options are the defaults. It is safe
// for concurrent use, also in many processes.
type Writer struct {
	Dir     string        // is created if it is missing, and must be private, see [files.PrivateDir]
	MaxSize int64         // bytes from which a segment gets a successor; 0 = 8 MiB
	MaxAge  time.Duration // age from which a segment gets one; 0 = a day
	Sync    bool          // flush each line to the disk

	waiting sync.Mutex
	batch   *batch // of the callers that wait for their turn; nil = none

	mu     sync.Mutex  // held by the caller that writes; guards what follows
	file   *os.File    // the newest segment that this Writer knows; nil = none is open
	info   fs.FileInfo // of file, when it was opened
	number int         // of file, or of the segment to open next; 0 = unknown
	begun  time.Time   // of file
	named  bool        // the name of file is on disk
	made   int         // number of the newest segment that this Writer made and has not reported; 0 = none
}

// MaxLine is the maximum length of a line in bytes. Longer ones are refused.
const MaxLine = 1 << 20

const (
	blocked  = 100 * time.Millisecond // after which another process makes the segment that one is stopped at
	maxTries = 10                     // segments that end, or have no header, while a line is appended
)

// Close closes the open segment. The Writer can be used again.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.letGo()
}

func (w *Writer) letGo() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return f.Close()
}

// Append appends one line: a JSON object without a line break. begun is the number of a segment that the Writer
// has made since the last call; 0 = none. After an error, nothing or a part was written, and readers never take a
// part for a line.
func (w *Writer) Append(object []byte) (begun int, err error) { return w.AppendAll(w.Sync, object) }

// AppendAll appends lines, one after the other. With sync, it flushes them to the disk. Callers that wait at
// the same time share one write, and one flush.
func (w *Writer) AppendAll(sync bool, objects ...[]byte) (begun int, err error) {
	size := 0
	for _, object := range objects {
		if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' || len(object) > MaxLine-sumLength {
			return 0, fmt.Errorf("cannot append to the journal: %d bytes are no object of at most %d", len(object), MaxLine-sumLength)
		}
		size += len(object) + sumLength + 2
	}
	lines := make([]byte, 0, size)
	for _, object := range objects {
		lines = append(appendSealed(append(lines, '\n'), object), '\n')
	}
	b, first := w.join(lines, sync)
	if !first {
		<-b.done
		return b.begun, b.err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.take(b)
	b.err = w.append(b.lines, b.sync)
	b.begun, w.made = w.made, 0
	close(b.done)
	return b.begun, b.err
}

// Try writes an empty line, which means nothing, to find out whether lines can be appended now.
func (w *Writer) Try() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.append([]byte{'\n'}, false)
}

// A batch are the lines of callers that share a write.
type batch struct {
	lines []byte
	sync  bool
	done  chan struct{} // closed after the write

	begun int
	err   error
}

// maxBatch is the size in bytes from which a batch gets no more lines.
const maxBatch = 1 << 20

// join adds lines to the batch that waits for its turn. The first caller of a batch writes it.
func (w *Writer) join(lines []byte, sync bool) (b *batch, first bool) {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	if w.batch == nil || len(w.batch.lines) >= maxBatch {
		w.batch = &batch{lines: lines, sync: sync, done: make(chan struct{})}
		return w.batch, true
	}
	w.batch.lines, w.batch.sync = append(w.batch.lines, lines...), w.batch.sync || sync
	return w.batch, false
}

// take ends a batch: later callers begin another.
func (w *Writer) take(b *batch) {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	if w.batch == b {
		w.batch = nil
	}
}

// append writes complete lines in one write.
func (w *Writer) append(lines []byte, sync bool) error {
	for range maxTries {
		if err := w.newest(); err != nil {
			return err
		}
		if done, err := w.write(lines, sync); done || err != nil {
			return err
		}
		w.number++ // it has a successor, or was removed
		if err := w.letGo(); err != nil {
			return err
		}
	}
	return fmt.Errorf("cannot append to the journal: %d segments ended meanwhile", maxTries)
}

// Next makes a successor of the newest segment, so that the newest is closed. If a process is writing, it
// does nothing.
func (w *Writer) Next() (made bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = 0
	if err = w.newest(); err == nil && w.made == 0 {
		err = w.next(0)
	}
	return w.made > 0, err
}

// newest opens the newest segment, unless it is open. If it is too large or too old, or does not exist,
// it makes the next one.
func (w *Writer) newest() error {
	size := int64(0)
	if w.file == nil {
		if err := w.find(); err != nil {
			return err
		}
		size = w.info.Size()
	} else if info, err := w.file.Stat(); err == nil {
		size = info.Size()
	}
	if size < w.maxSize() && time.Since(w.begun) <= cmp.Or(w.MaxAge, 24*time.Hour) {
		return nil
	}
	return w.next(size)
}

// find opens the newest segment. It makes the first one, and the next one if the newest has no header.
func (w *Writer) find() error {
	if err := files.PrivateDir(w.Dir); err != nil {
		return err
	}
	number := max(w.number, hint(w.Dir))
	for range maxTries {
		if number > 0 {
			err := w.open(number)
			switch {
			case errors.Is(err, errNoHeader):
				number++
			case errors.Is(err, fs.ErrNotExist):
				number = 0 // it was removed, or the hint is old
			default:
				return err
			}
		}
		if number == 0 {
			numbers, err := Numbers(w.Dir)
			if err != nil {
				return err
			}
			if len(numbers) > 0 {
				number = numbers[len(numbers)-1]
				continue
			}
			number = 1
		}
		if err := w.create(number); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("cannot append to the journal: %d segments have no header", maxTries)
}

// hintFile is a link to the newest segment, so that a new process need not read the directory. It may be
// missing or old.
const hintFile = "newest"

// hint returns the number of the segment that was made last, or 0.
func hint(dir string) int {
	name, err := os.Readlink(filepath.Join(dir, hintFile))
	if err != nil {
		return 0
	}
	return numberOf(name)
}

// errNoHeader means that the process that made a segment was killed before it wrote the header, or that the
// header was changed.
var errNoHeader = errors.New("it has no header")

// open opens a segment. If the header is missing, it waits a moment for the process that makes the segment.
func (w *Writer) open(number int) error {
	f, err := files.OpenRegular(segment(w.Dir, number), os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	h, err := headerOf(f)
	for begun := time.Now(); err == nil && h.time.IsZero() && time.Since(begun) < blocked; h, err = headerOf(f) {
		time.Sleep(50 * time.Microsecond)
	}
	info, failed := f.Stat()
	if err = errors.Join(err, failed); err == nil && h.time.IsZero() {
		err = errNoHeader
		if at, gone := os.Lstat(f.Name()); gone != nil || !os.SameFile(at, info) { // its process could not write the header, and has removed the file
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	w.file, w.info, w.number, w.begun, w.named = f, info, number, h.time, false
	return nil
}

// flushName flushes the name of the open segment, once: a flushed line is safe only if the name of its file is.
func (w *Writer) flushName() error {
	if w.named {
		return nil
	}
	if err := files.FlushDir(w.Dir); err != nil {
		return err
	}
	if w.number == 1 { // the directory and the one above can be new, too
		state := filepath.Dir(w.Dir)
		if err := files.FlushDir(state); err != nil {
			return err
		}
		if err := files.FlushDir(filepath.Dir(state)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	w.named = true
	return nil
}

func (w *Writer) maxSize() int64 { return cmp.Or(w.MaxSize, fault.Less(int64(8<<20))) }

// next makes the successor of the open segment and opens it. If other processes write, it does nothing:
// a later call tries again. Above a quarter more than the maximum, it waits for a gap between writes.
func (w *Writer) next(size int64) error {
	patience := time.Duration(0)
	if size > w.maxSize()*5/4 {
		patience = 2 * time.Millisecond
	}
	lock, err := w.lock(files.Exclusive, patience)
	if errors.Is(err, files.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	failed := w.create(w.number + 1)
	if err := lock.Unlock(); err != nil {
		return err
	}
	if failed != nil && !errors.Is(failed, fs.ErrExist) {
		return nil // a full disk: the open segment may have room for a line, and a later call tries again
	}
	w.number++
	if err := w.letGo(); err != nil {
		return err
	}
	return w.find()
}

// create makes a segment with its header. It returns [fs.ErrExist] if the segment exists. Other processes do
// not write to it before it has its header.
func (w *Writer) create(number int) error {
	name := segment(w.Dir, number)
	f, err := files.OpenRegular(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	step("created")
	err = files.WriteOnce(f, header{version: version, key: rand.Text(), time: time.Now()}.line())
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name) // a full disk would fill the directory with segments without a header
	}
	if err == nil {
		w.made = number
		link := filepath.Join(w.Dir, hintFile)
		_ = os.Remove(link)
		_ = os.Symlink(filepath.Base(name), link)
	}
	step("made")
	return err
}

// write writes lines to the open segment, unless the segment has a successor.
func (w *Writer) write(lines []byte, sync bool) (done bool, err error) {
	lock, err := w.lock(files.Shared, blocked)
	switch {
	case errors.Is(err, files.ErrLocked): // a process was stopped while it made the successor
		if err := w.create(w.number + 1); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
		return false, nil
	case err != nil:
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if ends, err := w.ended(); ends || err != nil {
		return false, err
	}
	at, err := os.Lstat(segment(w.Dir, w.number))
	if err != nil || !os.SameFile(at, w.info) {
		return false, nil // the segment was removed or replaced
	}
	step("locked")
	if err := files.WriteOnce(w.file, lines); err != nil {
		return false, err
	}
	step("written")
	if sync {
		if err := w.flushName(); err != nil {
			return false, err
		}
		if err := files.Flush(w.file); err != nil {
			return false, err
		}
	}
	// Between the failed lock of a process that makes the successor for a stopped one and the successor, the
	// stopped one can have ended. Then this line may be in a closed segment, where readers do not look.
	ends, err := w.ended()
	return !ends && err == nil, err
}

// ended reports whether the open segment has a successor.
func (w *Writer) ended() (bool, error) {
	_, err := os.Lstat(segment(w.Dir, w.number+1))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lock locks the open segment. It tries again until patience ends, then returns [files.ErrLocked].
func (w *Writer) lock(kind files.LockKind, patience time.Duration) (*files.Lock, error) {
	for begun := time.Now(); ; time.Sleep(50 * time.Microsecond) {
		lock, err := files.TryLock(w.file, kind)
		if !errors.Is(err, files.ErrLocked) || time.Since(begun) >= patience {
			return lock, err
		}
	}
}

// segment returns the name of a segment.
func segment(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%08d", number)+suffix)
}

const suffix = ".jsonl"

// numberOf returns the number of a segment from its name, or 0 for any other file.
func numberOf(name string) int {
	digits, ok := strings.CutSuffix(name, suffix)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || filepath.Base(segment("", n)) != name {
		return 0
	}
	return n
}
