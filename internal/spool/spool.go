// Package spool stores Records, pending observing hooks, and counts over many events, in plain
// files in the directory of state.
//
// A [Spool] is an observer of an engine and runs its background hooks:
//
//	s, err := spool.Open(dir, nil)
//	engine, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{s}, Background: s.Run})
//	...                           // fire, answer
//	err = s.Err()                 // what could not be stored; the reply was given anyway
//
// [Read] and [OpenLog] read the Records. [Spool.Drain] runs the pending hooks, in a
// separate process that [StartDrain] starts.
//
// The Records are in the directory journal; package journal says what a kill and a power cut leave.
// Many processes may write at the same time. Without Options.Sync, a power cut may lose the last lines. The
// directory should be on a local disk: network file systems do not append atomically.
//
// The package makes no decisions about hooks. Its files do not protect against a process of the
// same user, which can change any of them.
package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Mode is how much of an event is stored with its Record.
type Mode uint8

// The modes.
const (
	Masked   Mode = iota // the event with secrets masked, cut to Options.MaxInput
	Metadata             // nothing of the event; the texts of the Record are masked
	Full                 // the complete event, unchanged
)

var modeNames = [...]string{Masked: "masked", Metadata: "metadata", Full: "full"}

// String returns masked, metadata or full.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", m)
}

// MarshalText returns the name of the mode.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText parses the name of a mode.
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
	Records  Mode  // how much of events is stored
	MaxInput int   // maximum bytes of a masked event; 0 = 16 KiB
	MaxSize  int64 // bytes after which a segment of the log is closed; 0 = see package journal
	Edit     Edit  // changes Records before they are stored; nil = no changes
	Sync     bool  // flush every line to the disk
}

// An Edit changes JSON before it is masked, cut and stored: a Record without its event, or an
// event. The event has the neutral fields of all agents; with an Edit, the agent's own payload is
// not stored. If it returns an error, nothing is stored of an event, and of a Record only the
// parts without texts of hooks.
type Edit func(raw []byte, event bool) ([]byte, error)

// Keep sets the options Records, Edit and Sync, for callers that know them only after Open. It
// must not be called concurrently with other methods.
func (s *Spool) Keep(records Mode, edit Edit, sync bool) {
	s.opts.Records, s.opts.Edit, s.opts.Sync, s.records.Sync = records, edit, sync, sync
}

// maxLine is the maximum size of a line in bytes. A larger event goes to a side file.
const maxLine = 64 << 10

// JournalDir is the directory of the Records in a directory of state.
const JournalDir = "journal"

// sideDir has the events that are too large for a line.
const sideDir = JournalDir + "/side"

// A Spool writes to files in the directory of state. It is safe for concurrent use.
type Spool struct {
	dir  string
	opts Options
	also func(string) string

	records journal.Writer

	mu     sync.Mutex
	err    error // the first error
	lost   int   // number of Records and calls of Run that were lost
	queued bool  // hooks wait for a drain
	closed bool  // a segment of the log was closed
}

// Open returns a Spool that stores its files in the directory of state. It touches no file: the directories
// in it are created and checked at the first write.
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
	// A line with a masked event must not exceed maxLine, independent of the options.
	s.opts.MaxInput = min(s.opts.MaxInput, maxLine/2)
	s.records = journal.Writer{Dir: s.path(JournalDir), MaxSize: s.opts.MaxSize, Sync: s.opts.Sync}
	return s, nil
}

// Dir returns the directory.
func (s *Spool) Dir() string { return s.dir }

// Err returns why something could not be stored, or nil.
func (s *Spool) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > 1 {
		return fmt.Errorf("%w (and %d more)", s.err, s.lost-1)
	}
	return s.err
}

// Close closes the open files. The Spool can be used again.
func (s *Spool) Close() error { return s.records.Close() }

func (s *Spool) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost++
	if s.err == nil {
		s.err = err
	}
}

var _ grapnel.Observer = (*Spool)(nil)

func (s *Spool) path(name string) string { return filepath.Join(s.dir, name) }

// Observe appends a Record to the log. Err returns its errors.
func (s *Spool) Observe(_ context.Context, rec *grapnel.Record) {
	if err := s.Store(rec); err != nil {
		s.fail(err)
	}
}

// Store appends a Record to the log. An error may also mean that only a part was stored.
func (s *Spool) Store(rec *grapnel.Record) error {
	if err := s.keep(Entry{Record: *rec}); err != nil {
		return fmt.Errorf("cannot store the record of an event: %w", err)
	}
	return nil
}

// Note appends a Record of Grapnel itself, such as the Record of a grant. It adds the ID, which it
// returns, the time and the agent "grapnel" to note.
func (s *Spool) Note(event grapnel.Kind, note grapnel.Record) (id string, err error) {
	now := time.Now()
	note.ID, note.Time, note.Agent, note.Event, note.Hooks = NewID(now), now.UTC(), "grapnel", event, []grapnel.HookRun{}
	return note.ID, s.Store(&note)
}

// An Entry is one line of the log.
type Entry struct {
	grapnel.Record

	// Late marks an Entry that is not a firing: it has the results of the observing hooks of the
	// firing with this ID. It has no decision.
	Late bool `json:"late,omitempty"`

	// Context is the text that was added for the model, and Changes are the new values of the
	// fields in Changed. They are stored in the same mode as the event.
	Context []string                          `json:"context,omitempty"`
	Changes map[grapnel.Field]json.RawMessage `json:"changes,omitempty"`

	// InputAt is the SHA-256 of the event, in hex, if the event is in a side file. Readers put
	// the event back into Input.
	InputAt string `json:"input_at,omitempty"`
}

// Hide sets another masking function that runs after Mask, for instance from the rules of a
// policy. It must be called before the first Record is stored.
func (s *Spool) Hide(also func(text string) string) { s.also = also }

// keep appends an Entry. An error may also mean that only a part was stored.
func (s *Spool) keep(e Entry) error {
	line, partly := s.line(&e)
	if line == nil {
		return partly
	}
	if err := s.append(line); err != nil {
		return err
	}
	return partly
}

// Line returns the line that Observe would append to the log for a Record: masked, cut and
// edited, with its event. A large event is stored in a side file. With a line, an error means that a part could
// not be stored.
func (s *Spool) Line(rec *grapnel.Record) ([]byte, error) { return s.line(&Entry{Record: *rec}) }

func (s *Spool) line(e *Entry) (line []byte, partly error) {
	meta, input, partly, err := s.parts(e)
	if err != nil {
		return nil, err
	}
	if line = join(meta, "input", input); len(line) <= maxLine {
		return line, partly
	}
	at, err := s.aside(input)
	if err != nil {
		return join(meta, "", nil), fmt.Errorf("the record was stored without its event: %w", err)
	}
	return join(meta, "input_at", fmt.Appendf(nil, "%q", at)), partly
}

// parts returns an Entry without its event (meta), and its event (input), both as they are stored. It sets the
// Entry's fields from the Verdict. partly is the error if a part could not be stored.
func (s *Spool) parts(e *Entry) (meta, input []byte, partly, err error) {
	ev := e.Input
	if v := e.Verdict; v != nil && s.opts.Records != Metadata {
		e.Context = v.Context
		e.Changes, partly = s.changes(v)
	}
	if meta, err = e.meta(); err != nil {
		return nil, nil, nil, err
	}
	if s.opts.Edit != nil {
		edited, err := s.opts.Edit(meta, false)
		if err != nil {
			partly = fmt.Errorf("the record was stored without the texts of its hooks: %w", err)
			if edited, err = bare(*e).meta(); err != nil {
				return nil, nil, nil, err
			}
		}
		meta = edited
	}
	meta = limits{total: maxLine * 3 / 8, text: 8 << 10, mask: s.opts.Records != Full, also: s.also}.reduce(meta)
	if len(e.Changes) > 0 {
		changes := s.masked(s.opts.Records != Full).reduce(object(e.Changes))
		meta = join(meta, "changes", changes)
	}
	if ev != nil {
		var failed error
		if input, failed = s.input(ev); failed != nil {
			input, partly = nil, fmt.Errorf("the record was stored without its event: %w", failed)
		}
	}
	return meta, input, partly, nil
}

// bare returns a copy of an Entry without texts from hooks, and without error texts.
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

// edited returns an event after the Edit.
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

// changes returns the fields that a Verdict changes, with their new values after the Edit.
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
		return nil, fmt.Errorf("the record was stored without the changes: %w", err)
	}
	changes := map[grapnel.Field]json.RawMessage{}
	for field := range v.Changes {
		if now, ok := ev.Get(field); ok {
			changes[field] = now
		}
	}
	return changes, nil
}

// masked returns the limits for a stored event.
func (s *Spool) masked(mask bool) limits {
	return limits{total: s.opts.MaxInput, text: s.opts.MaxInput / 8, mask: mask, also: s.also}
}

// neutral returns a copy of an event without the agent's own payload.
func neutral(ev *grapnel.Event) *grapnel.Event {
	out := *ev
	out.Native = nil
	return &out
}

// input returns the part of an event that the mode stores.
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
			// The agent's payload has all data, and its dialect can read it again.
			return asSent(ev, l.reduce(ev.Native))
		}
		raw, err := rawjson.Marshal(l.slim(ev))
		if err != nil {
			return nil, err
		}
		return l.reduce(raw), nil
	}
}

// asSent returns an event with only the agent's own payload.
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

// join adds a last member to an object, if there is a value.
func join(object []byte, name string, value []byte) []byte {
	line := make([]byte, 0, len(object)+len(name)+len(value)+8)
	line = append(line, object[:len(object)-1]...)
	if value != nil {
		line = append(line, `,"`+name+`":`...)
		line = append(line, value...)
	}
	return append(line, '}')
}

// NewID returns an identifier that sorts by time, like the IDs of the engine.
func NewID(now time.Time) string {
	return fmt.Sprintf("%012x%016x", now.UnixMilli(), rand.Uint64()) // it identifies a line and is not a secret
}
