package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

const (
	manifestFile = "manifest.jsonl"
	lockFile     = "manifest.lock"
)

// Errors of [Seal], [Retire] and [HeadKeeper].
var (
	// ErrBusy means that another process works on the manifest, or is about to write to a closed segment.
	// Try again later.
	ErrBusy = errors.New("another process works on the manifest of the journal")
	// ErrManifest means that a line of the manifest was changed, or does not match the segments. Nothing is
	// sealed or removed from then on. The log itself continues. Verify reports the reason.
	ErrManifest = errors.New("the manifest of the journal is damaged")
)

// A Hash is a SHA-256 hash.
type Hash [sha256.Size]byte

// String returns the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the hash in hex.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText parses the output of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(h) {
		return fmt.Errorf("%q is not a hash (want %d hexadecimal digits)", text, 2*len(h))
	}
	copy(h[:], raw)
	return nil
}

// A Sealed is the statement of the manifest about a closed segment.
type Sealed struct {
	Segment int       `json:"segment"`
	Key     string    `json:"key"`
	Lines   int64     `json:"lines"` // complete ones, without the header
	Torn    int64     `json:"torn,omitempty"`
	Bytes   int64     `json:"bytes"`
	Begun   time.Time `json:"begun"` // time in its header; zero = it has none
	// Ended is the time in the header of the next segment that has one. All lines were written before. An
	// exception is the copy of a line that a process wrote after it was stopped: the line is in a later
	// segment, too.
	Ended  time.Time `json:"ended"`
	SHA256 Hash      `json:"sha256"` // of the file
}

// A Removal states that retention removed the oldest segments.
type Removal struct {
	First  int       `json:"first"`  // the first removed segment
	Last   int       `json:"last"`   // the last one
	Lines  int64     `json:"lines"`  // in them
	Reason string    `json:"reason"` // "age", "number" or "size"
	Time   time.Time `json:"time"`

	Limits // that were in force
}

// A LimitChange states limits of retention that differ from the ones before.
type LimitChange struct {
	Time time.Time `json:"time"`
	Limits
}

// A Manifest is the content of the manifest of a log.
type Manifest struct {
	Segments []Sealed // also removed ones, in order
	Removals []Removal
	Limits   []LimitChange
	Last     Hash // of the newest line; zero = the manifest is empty

	statements []statement // all lines
}

// A statement is one line of the manifest. One of the pointers is set.
//
// In the file, the line has one more member at its end, "hash": the SHA-256 of the line without this member,
// in lower-case hex.
type statement struct {
	Sealed  *Sealed      `json:"sealed,omitempty"`
	Removed *Removal     `json:"removed,omitempty"`
	Limits  *LimitChange `json:"limits,omitempty"`
	Prev    Hash         `json:"prev"` // hash of the line before; zero = this is the first line

	hash Hash
	line int // number in the file
}

const (
	hashBegin  = `,"hash":"`
	hashLength = len(hashBegin) + 2*sha256.Size + len(`"}`)
)

// encode returns the line with its newline, and sets the hash.
func (s *statement) encode() ([]byte, error) {
	object, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	s.hash = sha256.Sum256(object)
	return append(appendHash(object[:len(object)-1], s.hash), '\n'), nil
}

func appendHash(body []byte, h Hash) []byte {
	return append(hex.AppendEncode(append(body, hashBegin...), h[:]), `"}`...)
}

// parseStatement parses a line without its newline. If the line was changed, the error says so, and the
// statement has the hash that the line should have.
func parseStatement(line []byte) (s statement, err error) {
	n := len(line) - hashLength
	if n < 1 {
		return s, errors.New("it is not a line of a manifest")
	}
	object := append(bytes.Clone(line[:n]), '}')
	s.hash = sha256.Sum256(object)
	if !bytes.Equal(appendHash(object[:n:n], s.hash), line) {
		return s, errors.New("its hash is wrong: the line was changed")
	}
	if err := json.Unmarshal(object, &s); err != nil {
		return s, fmt.Errorf("it cannot be read: %w", err)
	}
	known := 0
	for _, is := range []bool{s.Sealed != nil, s.Removed != nil, s.Limits != nil} {
		if is {
			known++
		}
	}
	if known != 1 {
		return s, errors.New("this program does not know its statement")
	}
	return s, nil
}

// parseManifest parses the complete lines. It calls damaged for each line that does not continue the lines
// before, and leaves out what it cannot use. A last line without a newline is the rest of a killed process.
func parseManifest(data []byte, damaged func(line int, err error)) *Manifest {
	m := &Manifest{}
	for number := 1; ; number++ {
		line, rest, complete := bytes.Cut(data, []byte{'\n'})
		if !complete {
			return m
		}
		data = rest
		s, err := parseStatement(line)
		s.line = number
		switch {
		case err != nil:
			damaged(number, err)
		case s.Prev != m.Last:
			damaged(number, errors.New("it does not continue the line before: lines were removed, inserted or swapped"))
		}
		if err == nil && s.Sealed != nil && s.Sealed.Segment <= m.sealedTo() {
			err = fmt.Errorf("it is about segment %d, and an earlier line is about segment %d", s.Sealed.Segment, m.sealedTo())
			damaged(number, err)
		}
		if err == nil {
			m.add(s)
		}
		m.Last = s.hash
	}
}

func (m *Manifest) add(s statement) {
	m.statements = append(m.statements, s)
	m.Last = s.hash
	switch {
	case s.Sealed != nil:
		m.Segments = append(m.Segments, *s.Sealed)
	case s.Removed != nil:
		m.Removals = append(m.Removals, *s.Removed)
	default:
		m.Limits = append(m.Limits, *s.Limits)
	}
}

// sealedTo returns the number of the last sealed segment, or 0.
func (m *Manifest) sealedTo() int {
	if len(m.Segments) == 0 {
		return 0
	}
	return m.Segments[len(m.Segments)-1].Segment
}

// RemovedTo returns the number of the last segment that retention removed, or 0.
func (m *Manifest) RemovedTo() int {
	if len(m.Removals) == 0 {
		return 0
	}
	return m.Removals[len(m.Removals)-1].Last
}

// sealed returns the statement about a segment, or nil.
func (m *Manifest) sealed(number int) *Sealed {
	i, ok := slices.BinarySearchFunc(m.Segments, number, func(s Sealed, n int) int { return s.Segment - n })
	if !ok {
		return nil
	}
	return &m.Segments[i]
}

// ReadManifest reads the manifest of a log. A missing one is empty. If a line was changed, the error is
// [ErrManifest] and names the line, and the result has the lines that can be used.
func ReadManifest(dir string) (*Manifest, error) {
	f, err := files.OpenRegular(filepath.Join(dir, manifestFile), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return &Manifest{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest of the journal: %w", err)
	}
	defer f.Close()
	_, m, err := readManifest(f)
	return m, err
}

// readManifest also returns the number of bytes that complete lines have.
func readManifest(f *os.File) (size int64, m *Manifest, err error) {
	data, err := content(f)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot read the manifest of the journal: %w", err)
	}
	m = parseManifest(data, func(line int, problem error) {
		if err == nil {
			err = fmt.Errorf("%w: %s:%d: %w", ErrManifest, f.Name(), line, problem)
		}
	})
	return int64(bytes.LastIndexByte(data, '\n') + 1), m, err
}

// content reads a manifest in one go: if a reader looked for more later, it could read the rest of a torn line
// and then, in its place, a part of another line.
func content(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// A ledger is the manifest, locked for one process that adds to it.
type ledger struct {
	*Manifest

	dir     string
	lock    *files.Lock
	file    *os.File
	size    int64
	changed bool // a statement was added
}

// openLedger locks the manifest and the saved head, and reads the manifest. It removes what a killed process left of
// both. The error is [ErrBusy] or [ErrManifest].
func openLedger(dir string) (*ledger, error) {
	lock, err := files.OpenLock(filepath.Join(dir, lockFile))
	if errors.Is(err, files.ErrLocked) {
		err = ErrBusy
	}
	if err != nil {
		return nil, err
	}
	_ = os.Remove(filepath.Join(dir, newHeadFile))
	l := &ledger{dir: dir, lock: lock}
	if err := l.read(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *ledger) read() (err error) {
	if l.file, err = files.OpenRegular(filepath.Join(l.dir, manifestFile), os.O_RDWR|os.O_APPEND|os.O_CREATE); err != nil {
		return err
	}
	if l.size, l.Manifest, err = readManifest(l.file); err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err == nil && info.Size() > l.size {
		err = l.file.Truncate(l.size)
	}
	if err == nil { // the process that wrote the last line may have been killed before it flushed it
		err = files.Flush(l.file)
	}
	if err == nil && l.size == 0 {
		err = files.FlushDir(l.dir)
	}
	return err
}

func (l *ledger) close() error {
	err := l.lock.Close()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return err
}

// state adds a statement, and flushes it. The saved head exists before the first one, so that Verify misses it
// if it was removed.
func (l *ledger) state(s statement) error {
	if len(l.statements) == 0 && !files.Exists(filepath.Join(l.dir, headFile)) {
		if err := (&HeadKeeper{Dir: l.dir}).save(l.Manifest); err != nil {
			return err
		}
	}
	s.Prev, s.line = l.Last, len(l.statements)+1
	line, err := s.encode()
	if err != nil {
		return err
	}
	step("before the manifest line")
	if err := files.WriteOnce(l.file, line); err != nil {
		return errors.Join(err, l.file.Truncate(l.size)) // a part that fit on a full disk
	}
	l.size += int64(len(line))
	step("after the manifest line")
	l.changed = true
	l.add(s)
	return files.Flush(l.file)
}
