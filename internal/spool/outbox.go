package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// The outbox is a directory with a file for each observing hook that waits to be run. The names of the files have
// the order in which the hooks were queued. A file stays until the result of the hook is in the log. It holds the
// event as the hook may see it, which is not masked.
const (
	outboxDir = "outbox"
	drainLock = "outbox.lock"

	waits    = ".json"  // the suffix of a hook that waits for the next drain
	postpone = ".later" // that a drain has postponed
)

// ErrLater is the error that the function of [Spool.Drain] returns for a hook that must be run by
// a later drain: it is kept, and the hooks after it are run. A hook that has waited for a week is not kept any
// longer, and ends with this error.
var ErrLater = errors.New("postponed to a later drain")

const (
	maxLater   = 7 * 24 * time.Hour
	maxPending = 128 << 20 // bytes; an event has at most 32 MiB

	// maxWriting is how old a file can be that is not complete yet. If it is older, its process was killed, or
	// the disk is full.
	maxWriting = 2 * time.Second
)

// A Pending is an observing hook that waits to be run.
type Pending struct {
	ID     string         `json:"id"`
	Time   time.Time      `json:"time"`
	Hook   string         `json:"hook"`
	Source string         `json:"source,omitempty"`
	Digest string         `json:"digest,omitempty"` // of the source when the hook was queued
	File   string         `json:"file,omitempty"`   // file of the source
	Scope  string         `json:"scope,omitempty"`  // scope of the source
	Origin *wire.Origin   `json:"origin,omitempty"` // of the event, when it was judged; nil = unknown
	Event  *grapnel.Event `json:"-"`                // with its Verdict
}

// pendingFile is the JSON form of a Pending.
type pendingFile struct {
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
	if err := files.PrivateDir(s.path(outboxDir)); err != nil {
		return err
	}
	event, err := rawjson.Marshal(wire.Of(ev))
	if err != nil {
		return err
	}
	now := time.Now()
	for i := range hooks {
		p := newPending(ctx, now, &hooks[i], ev)
		head, err := rawjson.Marshal(p)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%019d-%s%s", now.Add(time.Duration(i)).UnixNano(), p.ID, waits) // the hooks of an event keep their order
		if err := s.post(name, join(head, "event", event)); err != nil {
			return err
		}
	}
	if s.opts.Sync {
		return files.FlushDir(s.path(outboxDir))
	}
	return nil
}

// post writes a file of the outbox.
func (s *Spool) post(name string, content []byte) error {
	f, err := files.OpenRegular(s.path(filepath.Join(outboxDir, name)), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	err = files.WriteOnce(f, content)
	if err == nil && s.opts.Sync {
		err = files.Flush(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
	}
	return err
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

// posted returns the names of the hooks with one of the suffixes, in the order in which they were queued.
func (s *Spool) posted(suffixes ...string) ([]string, error) {
	entries, err := os.ReadDir(s.path(outboxDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if slices.Contains(suffixes, filepath.Ext(e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Later reports whether a drain has left hooks for a later drain.
func (s *Spool) Later() bool {
	names, _ := s.posted(postpone)
	return len(names) > 0
}

// Waiting returns since when at least one hook has waited for a drain; zero = no hook waits.
func (s *Spool) Waiting() (since time.Time) {
	names, _ := s.posted(waits)
	for _, name := range names {
		if info, err := os.Lstat(s.path(filepath.Join(outboxDir, name))); err == nil {
			return info.ModTime()
		}
	}
	return since
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
	return s.drainAll(ctx, run, waits, postpone)
}

// DrainNew is like Drain, but leaves the hooks that an earlier drain has postponed with [ErrLater].
func (s *Spool) DrainNew(ctx context.Context, run func(ctx context.Context, p Pending) error) error {
	return s.drainAll(ctx, run, waits)
}

func (s *Spool) drainAll(ctx context.Context, run func(ctx context.Context, p Pending) error, suffixes ...string) error {
	if _, err := os.Lstat(s.path(outboxDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for {
		lock, err := files.OpenLock(s.path(drainLock))
		if errors.Is(err, files.ErrLocked) {
			return nil
		}
		if err == nil {
			err = s.drain(ctx, run, suffixes)
			_ = lock.Close()
		}
		if err != nil {
			return fmt.Errorf("cannot run pending hooks: %w", err)
		}
		// A writer that found the lock held relies on this drain to run its hook.
		if s.Waiting().IsZero() {
			return nil
		}
		suffixes = []string{waits}
	}
}

// drain runs hooks until none is left. It runs postponed ones once.
func (s *Spool) drain(ctx context.Context, run func(context.Context, Pending) error, suffixes []string) error {
	for {
		names, err := s.posted(suffixes...)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := s.runFile(ctx, name, run)
			if errors.Is(err, errWriting) {
				time.Sleep(time.Millisecond)
				continue
			}
			if err != nil {
				return err
			}
		}
		suffixes = []string{waits}
	}
}

// errWriting means that a process is writing a file.
var errWriting = errors.New("it is not complete yet")

// runFile runs one hook, records its result, and removes its file. An error means that the drain must stop and the
// hook is not done.
func (s *Spool) runFile(ctx context.Context, name string, run func(context.Context, Pending) error) error {
	file := s.path(filepath.Join(outboxDir, name))
	begun := time.Now()
	p, err := readPending(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, ErrTorn) && filepath.Ext(name) == waits && writing(file, begun):
		return errWriting
	case err == nil:
		if err = call(ctx, p, run); err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, ErrLater) && begun.Sub(p.Time).Abs() < maxLater {
			return os.Rename(file, strings.TrimSuffix(file, filepath.Ext(file))+postpone)
		}
	}
	if err := s.Ran(p, begun, err); err != nil {
		s.fail(fmt.Errorf("cannot store the result of hook %q: %w", p.Hook, err))
	}
	return os.Remove(file)
}

// writing reports whether a process may be writing a file now.
func writing(name string, now time.Time) bool {
	info, err := os.Lstat(name)
	return err == nil && now.Sub(info.ModTime()).Abs() < maxWriting
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

// readPending reads a file of the outbox. With an error it also returns the fields that it could read;
// without a Hook, nothing could be read.
func readPending(name string) (Pending, error) {
	var p pendingFile
	content, err := files.Read(name, maxPending) // not a pipe, which could block
	if errors.Is(err, fs.ErrNotExist) {
		return p.Pending, err
	}
	if err == nil {
		err = json.Unmarshal(content, &p)
	}
	if err == nil && p.Hook == "" {
		err = errors.New("it names no hook")
	}
	if err != nil {
		return Pending{ID: NewID(time.Now())}, fmt.Errorf("%w of an observing hook, which did not run: %w", ErrTorn, err)
	}
	if p.ID == "" {
		p.ID = NewID(time.Now()) // the result of the hook is still recorded
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
