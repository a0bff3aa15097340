package spool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// The files of the drain. Writers append lines to pending.jsonl with a shared lock on
// pending.lock; the drain renames the file with an exclusive lock, so the file that it takes is
// complete. taken.done stores the position of the drain in that file.
const (
	pendingFile = "pending.jsonl"
	pendingLock = "pending.lock"
	takenFile   = "taken.jsonl"
	takenDone   = "taken.done"
	drainLock   = "drain.lock"
)

// A Pending is an observing hook that waits to be run.
type Pending struct {
	ID      string         `json:"id"`
	Time    time.Time      `json:"time"`
	Hook    string         `json:"hook"`
	Source  string         `json:"source,omitempty"`
	Digest  string         `json:"digest,omitempty"` // of the source when the hook was queued
	File    string         `json:"file,omitempty"`   // file of the source
	Scope   string         `json:"scope,omitempty"`  // scope of the source
	EventAt string         `json:"event_at,omitempty"`
	Origin  *wire.Origin   `json:"origin,omitempty"` // of the event, when it was judged; nil = unknown
	Event   *grapnel.Event `json:"-"`                // with its Verdict
}

// pendingLine is the JSON form of a Pending.
type pendingLine struct {
	Pending
	Event *wire.Event `json:"event,omitempty"`
}

// Run queues the observing hooks of a firing for the drain. It does not mask or cut the event,
// because the hooks need it unchanged. ctx has the origin of the event, see [wire.WithOrigin].
func (s *Spool) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	err := s.enqueue(ctx, ev, hooks)
	s.mu.Lock()
	s.queued = s.queued || err == nil && len(hooks) > 0
	s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("cannot queue the hooks: %w", err)
		s.fail(fmt.Errorf("observing hooks will not run: %w", err))
	}
	return err
}

// Queued reports whether a drain should start: Run has queued a hook, or a segment of the log was closed and
// can be sealed.
func (s *Spool) Queued() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued || s.closed
}

func (s *Spool) enqueue(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	if len(hooks) == 0 {
		return nil
	}
	if err := files.PrivateDir(s.dir); err != nil {
		return err
	}
	event, err := rawjson.Marshal(wire.Of(ev))
	if err != nil {
		return err
	}
	name, value := "event", event
	if len(event) > maxLine-4<<10 {
		at, err := s.aside(event)
		if err != nil {
			return err
		}
		name, value = "event_at", fmt.Appendf(nil, "%q", at)
	}
	now := time.Now()
	var lines []byte
	for i := range hooks {
		h := &hooks[i]
		head, err := rawjson.Marshal(newPending(ctx, now, h, ev))
		if err != nil {
			return err
		}
		lines = append(append(lines, join(head, name, value)...), '\n')
	}
	lock, err := waitLock(s.path(pendingLock), files.Shared, lockWait)
	if err != nil {
		return err
	}
	defer lock.Close()
	f, err := openAppend(s.path(pendingFile))
	if err != nil {
		return err
	}
	return errors.Join(appendLines(f, lines, s.opts.Sync), f.Close())
}

func newPending(ctx context.Context, now time.Time, h *grapnel.Spec, ev *grapnel.Event) Pending {
	return Pending{
		ID: pendingID(now, h, ev), Time: now.UTC(), Hook: h.Name, Source: h.Source.Name, Digest: h.Source.Digest, File: h.Source.File, Scope: h.Source.Scope.String(),
		Origin: wire.OriginFrom(ctx).For(h.Name, h.Source.Name, ev.Verdict()),
	}
}

// NewPending returns a pending hook with its event, for callers that store it in another place. ctx has
// the origin of the event.
func NewPending(ctx context.Context, h *grapnel.Spec, ev *grapnel.Event) Pending {
	p := newPending(ctx, time.Now(), h, ev)
	p.Event = ev
	return p
}

// pendingID returns the ID of a hook run. The ID stays the same if another process replies to the
// same firing again: a daemon can be killed after it has stored the notice and before it replies,
// and a server that gets the notice twice can recognize it.
func pendingID(now time.Time, h *grapnel.Spec, ev *grapnel.Event) string {
	if ev.ID == "" {
		return NewID(now)
	}
	decision := grapnel.None
	if v := ev.Verdict(); v != nil {
		decision = v.Decision
	}
	parts := []string{ev.ID, ev.Session.ID, decision.String(), h.Source.Name, h.Source.File, h.Name}
	return files.Digest([]byte(strings.Join(parts, "\x00")))[:28]
}

// tryLock locks a file of this name, or returns [files.ErrLocked].
func tryLock(name string, kind files.LockKind) (*files.Lock, error) {
	f, err := files.OpenRegular(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	lock, err := files.TryLock(f, kind)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return lock, nil
}

// lockWait is how long a hook waits for another process before it gives up a hook run or a count.
// Such a process needs a lock for microseconds. But on a busy machine it can hold the lock while it
// waits for a processor.
const lockWait = 2 * time.Second

// waitLock tries to get a lock until limit has passed. Processes hold a lock only briefly, unless
// they are stopped while holding it.
func waitLock(name string, kind files.LockKind, limit time.Duration) (*files.Lock, error) {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		lock, err := tryLock(name, kind)
		if !errors.Is(err, files.ErrLocked) {
			return lock, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s: %w for %v", name, files.ErrLocked, limit)
		}
	}
}

// Drain runs pending hooks one after the other, in the order in which they were queued, until
// none is left or ctx is done. Only one drain runs at a time; another returns at once, and the
// running drain does its work.
//
// Drain records the result of each hook as an Entry with Late, including the error of run. It
// does not run a hook again, except after [ErrLater]. A drain that was killed is continued by the
// next one, which runs the interrupted hook again. The same holds for a hook that ended because
// ctx was done.
func (s *Spool) Drain(ctx context.Context, run func(ctx context.Context, p Pending) error) error {
	return s.drainAll(ctx, run, true)
}

// DrainNew is like Drain, but leaves the hooks that an earlier drain has postponed with [ErrLater].
func (s *Spool) DrainNew(ctx context.Context, run func(ctx context.Context, p Pending) error) error {
	return s.drainAll(ctx, run, false)
}

func (s *Spool) drainAll(ctx context.Context, run func(ctx context.Context, p Pending) error, later bool) error {
	if _, err := os.Lstat(s.dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := files.PrivateDir(s.dir); err != nil {
		return fmt.Errorf("cannot run pending hooks: %w", err)
	}
	for {
		lock, err := tryLock(s.path(drainLock), files.Exclusive)
		if errors.Is(err, files.ErrLocked) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot run pending hooks: %w", err)
		}
		err = s.drain(ctx, run, later)
		_ = lock.Close()
		if err != nil {
			return fmt.Errorf("cannot run pending hooks: %w", err)
		}
		// A writer that found the lock held relies on this drain to run its line.
		if !s.waiting() {
			return nil
		}
	}
}

// waiting reports whether there are lines to take.
func (s *Spool) waiting() bool {
	for _, name := range []string{takenFile, pendingFile} {
		if _, err := os.Lstat(s.path(name)); err == nil {
			return true
		}
	}
	return false
}

// drain runs hooks until no line is left, with the postponed lines if later is set.
func (s *Spool) drain(ctx context.Context, run func(context.Context, Pending) error, later bool) error {
	if err := s.work(ctx, run); err != nil {
		return err
	}
	if later {
		if err := s.takeLater(); err != nil {
			return err
		}
	}
	for {
		if err := s.work(ctx, run); err != nil {
			return err
		}
		lock, err := waitLock(s.path(pendingLock), files.Exclusive, 5*time.Second)
		if err != nil {
			return err
		}
		err = os.Rename(s.path(pendingFile), s.path(takenFile))
		_ = lock.Close()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// work runs the taken lines, from the position where an earlier drain may have stopped. When it
// returns nil, the taken file and its position file are removed: a position that stayed would be
// used for the wrong file.
func (s *Spool) work(ctx context.Context, run func(context.Context, Pending) error) error {
	f, err := files.OpenRegular(s.path(takenFile), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return removeAll(s.path(takenDone))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	note, err := files.OpenRegular(s.path(takenDone), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer note.Close()
	done, err := readNote(note, f)
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(f, maxLine)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 0 {
			if err := s.runLine(ctx, line, run); err != nil {
				return err
			}
			done += int64(len(line))
			if err := writeNote(note, done); err != nil {
				return err
			}
		}
		if err != nil {
			break
		}
	}
	_, _ = f.Close(), note.Close() // Windows cannot remove an open file
	return removeAll(s.path(takenFile), s.path(takenDone))
}

// removeAll removes files in this order. Missing files are not an error.
func removeAll(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// The note has the number of bytes that are done, with a fixed number of digits: a single write
// replaces it completely.
const noteFormat = "%020d\n"

func readNote(note, taken *os.File) (int64, error) {
	text, err := io.ReadAll(note)
	if err != nil {
		return 0, err
	}
	done, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if info, statErr := taken.Stat(); err != nil || statErr != nil || done < 0 || done > info.Size() {
		done = 0 // missing or damaged: running a hook twice is better than never
	}
	_, err = taken.Seek(done, io.SeekStart)
	return done, err
}

func writeNote(note *os.File, done int64) error {
	_, err := note.WriteAt(fmt.Appendf(nil, noteFormat, done), 0)
	return err
}

// runLine runs one hook and records its result. An error means that the drain must stop and the
// line is not done.
func (s *Spool) runLine(ctx context.Context, line []byte, run func(context.Context, Pending) error) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	begun := time.Now()
	p, err := s.decodePending(line)
	if err == nil {
		if err = call(ctx, p, run); err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, ErrLater) && begun.Sub(p.Time).Abs() < maxLater {
			return s.putOff(line)
		}
	}
	if err := s.Ran(p, begun, err); err != nil {
		s.fail(fmt.Errorf("cannot store the result of hook %q: %w", p.Hook, err))
	}
	return nil
}

// Ran records the result of an observing hook as an Entry with Late. err is the error of the hook.
func (s *Spool) Ran(p Pending, begun time.Time, err error) error {
	took := time.Since(begun)
	e := Entry{Late: true, Record: grapnel.Record{ID: p.ID, Time: begun.UTC(), Hooks: []grapnel.HookRun{}, MS: float64(took.Microseconds()) / 1000}}
	if o := p.Origin; o != nil {
		e.Host, e.User, e.Machine, e.PolicyDigest, e.PolicyRevision = o.Host, o.User, o.Machine, o.PolicyDigest, o.PolicyRevision
	}
	if ev := p.Event; ev != nil {
		e.Agent, e.Session, e.Event = ev.Agent.Name, ev.Session.ID, ev.Kind
		if ev.ID != "" {
			e.ID = ev.ID
		}
		if ev.Tool != nil {
			e.Tool = ev.Tool.Name
		}
	}
	if p.Hook == "" {
		e.Error = err.Error()
	} else {
		h := grapnel.HookRun{Name: p.Hook, Source: p.Source, Async: true, MS: e.MS}
		if err != nil {
			h.Error, h.Cause = err.Error(), grapnel.CauseError
			if errors.Is(err, grapnel.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
				h.Cause = grapnel.CauseTimeout
			}
		}
		e.Hooks = append(e.Hooks, h)
	}
	return s.keep(e)
}

// decodePending decodes a line. With an error it also returns the fields that it could read;
// without a Hook, nothing could be read.
func (s *Spool) decodePending(line []byte) (Pending, error) {
	var p pendingLine
	if err := json.Unmarshal(line, &p); err != nil || p.Hook == "" {
		return Pending{ID: NewID(time.Now())}, fmt.Errorf("%w of observing hooks; its hook did not run", ErrTorn)
	}
	if p.ID == "" {
		p.ID = NewID(time.Now()) // the result of the hook is still recorded
	}
	if p.EventAt != "" {
		p.Event = new(wire.Event)
		if err := readAside(s.dir, p.EventAt, p.Event); err != nil {
			return p.Pending, fmt.Errorf("cannot read its event: %w", err)
		}
	}
	if p.Event == nil || p.Event.Event == nil {
		return p.Pending, errors.New("the event is missing")
	}
	p.Pending.Event = p.Event.Add(p.Event.Event)
	return p.Pending, nil
}

// call recovers from panics: one broken hook must not stop the others.
func call(ctx context.Context, p Pending, run func(context.Context, Pending) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", grapnel.ErrPanic, r)
		}
	}()
	return run(ctx, p)
}

// StartDrain starts a program that drains, and does not wait for it. The program continues after
// the caller ends: it has its own session, the root directory as working directory, and none of
// the caller's files, so that no agent waits for it. A long-running caller gets no zombie
// process.
func StartDrain(program string, args []string) error {
	if !filepath.IsAbs(program) {
		return fmt.Errorf("cannot start the drain of observing hooks: %q is not an absolute path", program)
	}
	cmd := exec.Command(program, args...) //nolint:noctx // it outlives every context
	cmd.Dir = rootDir(program)
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the drain of observing hooks: %w", err)
	}
	go func() { _ = cmd.Wait() }() // the result is in the log
	return nil
}
