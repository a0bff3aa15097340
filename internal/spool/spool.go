// Package spool keeps Records, the observing hooks that have yet to run, and what is
// counted over many events, in plain files below one directory.
//
// A [Spool] is an observer of an engine and runs its hooks in the background:
//
//	s, err := spool.Open(dir, nil)
//	engine, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{s}, Background: s})
//	...                           // fire, answer
//	err = s.Err()                 // what could not be kept; the answer was given all the same
//
// What was kept is read by [Read], [Follow] and [Summarize]. What waits to run is
// run by [Spool.Drain], in a process of its own that [StartDrain] starts.
//
// Many processes may write at once. Each line is one write, so a process that is
// killed leaves whole lines; a power cut may take the last of them unless
// Options.Sync is set. The directory should be on a local disk: network file
// systems do not append atomically.
//
// The package decides nothing about hooks, and what it keeps is no proof against
// a process of the same user, which can change any of it.
package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/atomicfile"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Mode says how much of an event is kept with its Record.
type Mode uint8

// The modes.
const (
	Masked   Mode = iota // the event without what looks like a secret, cut to Options.MaxInput
	Metadata             // nothing of the event; the Record's own texts are masked
	Full                 // all of it, as it came
)

var modeNames = [...]string{Masked: "masked", Metadata: "metadata", Full: "full"}

// String returns masked, metadata or full.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", m)
}

// MarshalText writes the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the mode's name.
func (m *Mode) UnmarshalText(text []byte) error {
	for i, name := range modeNames {
		if string(text) == name {
			*m = Mode(i)
			return nil
		}
	}
	return fmt.Errorf("unknown mode of records %q (want metadata, masked or full)", text)
}

// Options are a Spool's settings. The zero value is the default, and nil is fine.
type Options struct {
	Records   Mode          // what is kept of events
	MaxInput  int           // bytes of a masked event; 0 = 16 KiB
	MaxSize   int64         // bytes after which records.jsonl is put aside; 0 = 16 MiB
	KeepFiles int           // files put aside that are kept; 0 = 8
	MaxAge    time.Duration // files with nothing younger are removed when the next is put aside; 0 = 30 days
	Edit      Edit          // changes what is kept; nil = nothing does
	Sync      bool          // every line reaches the disk before it counts as written
}

// An Edit changes JSON before it is masked, cut and kept: that of a Record without its
// event, or that of an event. The event is in words that are the same for every agent; the
// agent's own payload is not kept where there is an Edit. On an error nothing is kept of an
// event, and of a Record only what no text of a hook is in.
type Edit func(raw []byte, event bool) ([]byte, error)

// Keep sets the options Records, Edit and Sync, if they are only known after the Spool was
// opened. It must not be called while anything is kept.
func (s *Spool) Keep(records Mode, edit Edit, sync bool) {
	s.opts.Records, s.opts.Edit, s.opts.Sync = records, edit, sync
}

// maxLine is the size of the longest line. What is longer goes to a side file.
const maxLine = 64 << 10

// The files of a spool. Those of the drain are in pending.go.
const (
	recordsFile   = "records.jsonl"
	recordsPrefix = "records-" // and the time at which it was put aside
	recordsSuffix = ".jsonl"
	recordsLock   = "records.lock"
	sideDir       = "side"
)

// A Spool writes below one directory. It is safe for concurrent use.
type Spool struct {
	dir  string
	opts Options
	also func(string) string

	mu      sync.Mutex
	records *os.File // open for appending; nil = not yet
	err     error    // the first that went wrong
	lost    int      // how many Records and calls of Run it cost
	queued  bool
}

// Open returns a Spool that keeps its files in dir. It touches no file: the
// directory is made, and checked, when there is something to write.
func Open(dir string, opts *Options) (*Spool, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("spool: the directory %q is not an absolute path", dir)
	}
	s := &Spool{dir: filepath.Clean(dir)}
	if opts != nil {
		s.opts = *opts
	}
	if int(s.opts.Records) >= len(modeNames) {
		return nil, fmt.Errorf("spool: unknown %s of records", s.opts.Records)
	}
	if s.opts.MaxInput <= 0 {
		s.opts.MaxInput = 16 << 10
	}
	// Whatever is asked for, a line with a masked event has to stay a line.
	s.opts.MaxInput = min(s.opts.MaxInput, maxLine/2)
	if s.opts.MaxSize <= 0 {
		s.opts.MaxSize = 16 << 20
	}
	if s.opts.KeepFiles <= 0 {
		s.opts.KeepFiles = 8
	}
	if s.opts.MaxAge <= 0 {
		s.opts.MaxAge = 30 * 24 * time.Hour
	}
	return s, nil
}

// Err returns what could not be kept, or nil.
func (s *Spool) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > 1 {
		return fmt.Errorf("%w (and %d more)", s.err, s.lost-1)
	}
	return s.err
}

// Close closes what is open. The Spool can be used again.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		return nil
	}
	err := s.records.Close()
	s.records = nil
	return err
}

func (s *Spool) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost++
	if s.err == nil {
		s.err = err
	}
}

var (
	_ grapnel.Observer   = (*Spool)(nil)
	_ grapnel.Background = (*Spool)(nil)
)

func (s *Spool) path(name string) string { return filepath.Join(s.dir, name) }

// Observe appends a Record to the log. It never fails; see Err.
func (s *Spool) Observe(_ context.Context, rec *grapnel.Record) {
	if err := s.keep(Entry{Record: *rec}); err != nil {
		s.fail(fmt.Errorf("keeping the record of an event: %w", err))
	}
}

// An Entry is one line of the log.
type Entry struct {
	grapnel.Record

	// Late marks what is no firing of its own: it tells how the observing hooks of
	// the firing with this ID ended.
	Late bool `json:"late,omitempty"`

	// Context is what was added to what the model sees, and Changes are the fields of
	// Changed as they became. As much of them is kept as of the event.
	Context []string                          `json:"context,omitempty"`
	Changes map[grapnel.Field]json.RawMessage `json:"changes,omitempty"`

	// InputAt is the SHA-256 of the event, in hex, if it is kept in a side file.
	// Readers put the event back into Input.
	InputAt string `json:"input_at,omitempty"`
}

// Hide has Records masked by another function too, behind Mask: by the rules of a policy,
// for instance. It is called before the first Record is kept.
func (s *Spool) Hide(also func(text string) string) { s.also = also }

// keep appends an Entry. An error may also say that only a part was kept.
func (s *Spool) keep(e Entry) error {
	_, meta, input, partly, err := s.parts(&e)
	if err != nil {
		return err
	}
	line := join(meta, "input", input)
	if len(line) > maxLine {
		at, err := s.aside(input)
		if err != nil {
			partly = fmt.Errorf("the event is not kept with it: %w", err)
			line = join(meta, "", nil)
		} else {
			line = join(meta, "input_at", fmt.Appendf(nil, "%q", at))
		}
	}
	if err := s.append(line); err != nil {
		return err
	}
	return partly
}

// A Made is a line of the log for who keeps it elsewhere.
type Made struct {
	Text []byte // without the end of the line

	// Entry is what the line says, but for the event. It is nil where that may not be what
	// the Record said: something was masked or cut.
	Entry *Entry
}

// Line is what Observe appends to the log for a Record: masked, cut and edited as everything
// that is kept here, with its event. With a line an error says what of it could not be kept.
func (s *Spool) Line(rec *grapnel.Record) (Made, error) {
	e := &Entry{Record: *rec}
	said, meta, input, partly, err := s.parts(e)
	if err != nil {
		return Made{}, err
	}
	made := Made{Text: bytes.TrimSuffix(join(meta, "input", input), []byte("\n"))}
	// What is no text was replaced in the line.
	if bytes.Equal(said, meta) && !bytes.Contains(meta, []byte(`\ufffd`)) && !bytes.ContainsRune(meta, utf8.RuneError) {
		e.Input = nil
		made.Entry = e
	}
	return made, partly
}

// parts is an Entry without its event, as it was said and as it is kept, and what is kept
// of the event. It adds to the Entry what is kept of the Verdict. The first error says what
// could not be kept.
func (s *Spool) parts(e *Entry) (said, meta, input []byte, partly, err error) {
	ev := e.Input
	if v := e.Verdict; v != nil && s.opts.Records != Metadata {
		e.Context = v.Context
		e.Changes, partly = s.changes(v)
	}
	if said, err = e.meta(); err != nil {
		return nil, nil, nil, nil, err
	}
	meta = said
	if s.opts.Edit != nil {
		edited, err := s.opts.Edit(meta, false)
		if err != nil {
			partly = fmt.Errorf("the texts of its hooks are not kept with it: %w", err)
			if edited, err = bare(*e).meta(); err != nil {
				return nil, nil, nil, nil, err
			}
		}
		meta = edited
	}
	meta = limits{total: maxLine * 3 / 8, text: 8 << 10, mask: s.opts.Records != Full, also: s.also}.reduce(meta)
	if len(e.Changes) > 0 {
		changes := s.masked(s.opts.Records != Full).reduce(object(e.Changes))
		meta = bytes.TrimSuffix(join(meta, "changes", changes), []byte("\n"))
	}
	if ev != nil {
		var failed error
		if input, failed = s.input(ev); failed != nil {
			input, partly = nil, fmt.Errorf("the event is not kept with it: %w", failed)
		}
	}
	return said, meta, input, partly, nil
}

// bare is an Entry without a text that a hook wrote, or an error.
func bare(e Entry) *Entry {
	hooks := make([]grapnel.HookRun, len(e.Hooks))
	for i, run := range e.Hooks {
		if run.Error != "" {
			run.Error = "not kept"
		}
		hooks[i] = run
	}
	e.Hooks, e.Reasons, e.Halt, e.Unsupported, e.Conflicts, e.Error, e.Context = hooks, nil, "", nil, nil, "", nil
	return &e
}

// edited is an event as an Edit leaves it.
func (s *Spool) edited(ev *grapnel.Event) ([]byte, error) {
	raw, err := rawjson.Marshal(neutral(ev))
	if err == nil {
		raw, err = s.opts.Edit(raw, true)
	}
	if err != nil || len(raw) == 0 || s.opts.Records == Full {
		return raw, err
	}
	return s.masked(true).reduce(raw), nil
}

// changes are the fields that a Verdict changes, as they became and as the Edit leaves them.
func (s *Spool) changes(v *grapnel.Verdict) (map[grapnel.Field]json.RawMessage, error) {
	if s.opts.Edit == nil || len(v.Changes) == 0 {
		return v.Changes, nil
	}
	raw, err := rawjson.Marshal(neutral(v.Event))
	if err == nil {
		raw, err = s.opts.Edit(raw, true)
	}
	var ev grapnel.Event
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &ev)
	}
	if err != nil {
		return nil, fmt.Errorf("what was changed is not kept with it: %w", err)
	}
	changes := map[grapnel.Field]json.RawMessage{}
	for field := range v.Changes {
		if now, ok := ev.Get(field); ok {
			changes[field] = now
		}
	}
	return changes, nil
}

// masked are the limits of what is kept of an event.
func (s *Spool) masked(mask bool) limits {
	return limits{total: s.opts.MaxInput, text: s.opts.MaxInput / 8, mask: mask, also: s.also}
}

// neutral is an event without what only its agent understands.
func neutral(ev *grapnel.Event) *grapnel.Event {
	out := *ev
	out.Native, out.Verdict = nil, nil
	return &out
}

// input is what the mode keeps of an event.
func (s *Spool) input(ev *grapnel.Event) ([]byte, error) {
	if s.opts.Edit != nil && s.opts.Records != Metadata {
		return s.edited(ev)
	}
	switch s.opts.Records {
	case Metadata:
		return nil, nil
	case Full:
		return rawjson.Marshal(ev)
	default:
		l := s.masked(true)
		if len(ev.Native) > 0 {
			// What the agent sent says everything, and its dialect reads it again.
			return asSent(ev, l.reduce(ev.Native))
		}
		raw, err := rawjson.Marshal(l.slim(ev))
		if err != nil {
			return nil, err
		}
		return l.reduce(raw), nil
	}
}

// asSent is an event of which only the agent's own payload is kept.
func asSent(ev *grapnel.Event, native []byte) ([]byte, error) {
	if !json.Valid(native) {
		return nil, errors.New("the agent's payload is not valid JSON")
	}
	kind, err := rawjson.Marshal(ev.Kind)
	if err != nil {
		return nil, err
	}
	agent, err := rawjson.Marshal(ev.Agent.Name)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"kind":%s,"agent":{"name":%s},"native":%s}`, kind, agent, native), nil
}

// join adds a last member to an object, if there is a value, and ends the line.
func join(object []byte, name string, value []byte) []byte {
	line := make([]byte, 0, len(object)+len(name)+len(value)+8)
	line = append(line, object[:len(object)-1]...)
	if value != nil {
		line = append(line, `,"`+name+`":`...)
		line = append(line, value...)
	}
	return append(line, '}', '\n')
}

// NewID returns an identifier that sorts by time, like those of the engine.
func NewID(now time.Time) string {
	return fmt.Sprintf("%012x%016x", now.UnixMilli(), rand.Uint64()) //nolint:gosec // G404: it names a line and guards nothing
}

// errPlace says that a directory or file is not one to write into.
var errPlace = errors.New("will not write there")

// ready makes the directory, or checks the one that is there: nobody else may be
// able to put files or links into it.
func ready(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			info, err = os.Lstat(dir)
		}
	}
	switch {
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link, and who made it cannot be told", errPlace, dir)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a directory", errPlace, dir)
	}
	return checkOwner(dir, info)
}

// openAppend opens a file for appending, and for reading its last byte.
func openAppend(name string) (*os.File, error) {
	return openRegular(name, os.O_RDWR|os.O_APPEND|os.O_CREATE)
}

// openRegular opens a file that is one: a pipe in its place would keep an agent
// waiting until it goes on without its guards, and a link would lead elsewhere.
func openRegular(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|openNoFollow|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", errPlace, name)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// appendLines writes whole lines in one write. If the last line of the file is
// torn, because a disk was full or the power went, they begin with a newline: the
// torn line stays alone with its damage.
func appendLines(f *os.File, lines []byte, toDisk bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			lines = append([]byte("\n"), lines...)
		}
	}
	if _, err := f.Write(lines); err != nil {
		return err
	}
	if toDisk {
		return atomicfile.Flush(f)
	}
	return nil
}
