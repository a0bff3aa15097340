package index

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

//go:embed schema.sql
var schema string

// version is the version of the schema. An index of another version is made again.
const version = 1

func options(dir string) database.Options {
	return database.Options{Dir: dir, Name: "index", Schema: schema, Version: version, Discard: true}
}

// ErrLocked is the error of Open if another process keeps the index.
var ErrLocked = database.ErrLocked

// An Index follows the journal. It has all methods of a Reader, and is safe for concurrent use.
type Index struct {
	*Reader
	opts Options
	file *database.DB

	wake    chan struct{} // signals that lines were appended
	reached atomic.Int64  // position of the index
	live    hub

	conditions sync.Mutex // guards condition
	condition  Condition

	changed bool // another program has changed the journal; used only by Run

	// What follows is of the last commit of Run, and used only by Run.
	committed int64 // the position; -1 = unknown
	counts    summarizer
	numbers   map[[3]string]int64 // of hooks and labels, by table and texts
}

// Options are the settings of an Index. Nil is fine.
type Options struct {
	// Note is called with problems that the operator should know and that no caller gets as an error. It must
	// not call the Index. Nil = not called.
	Note func(error)

	// Own reports whether this process has appended a line. It is called once for each new line. Nil = it has
	// appended none.
	Own func(text []byte) bool

	// Other is called for each new line of another process, in the order of the journal. Nil = not called.
	Other func(*spool.Line)
}

// Keep opens the index of a Log for writing, or makes it. Only one process at a time can do that; for others
// it returns ErrLocked. The index changes only while Run runs.
func (l Log) Keep(opts *Options) (*Index, error) {
	x := &Index{Reader: l.Open(), wake: make(chan struct{}, 1), committed: -1}
	if opts != nil {
		x.opts = *opts
	}
	if x.opts.Note == nil {
		x.opts.Note = func(error) {}
	}
	o := options(l.Index)
	o.Note = x.opts.Note
	o.Created = func() { x.reached.Store(0) }
	var err error
	if x.file, err = database.Open(o); err != nil {
		return nil, fmt.Errorf("cannot open the index: %w", err)
	}
	x.Reader.mend = func(ctx context.Context, why error) error {
		reported := false
		return x.file.Write(ctx, func(*database.Tx) error {
			if reported {
				return nil
			}
			reported = true
			return why
		})
	}
	return x, nil
}

// Close ends the subscriptions and closes the files.
func (x *Index) Close() error {
	x.live.close()
	return errors.Join(x.Reader.Close(), x.file.Close())
}

// Wake says that this process has appended lines, so that Run need not find that out.
func (x *Index) Wake() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

const (
	// settle is how long Run waits after a line, because more follow.
	settle = 10 * time.Millisecond

	// lookEvery is how often Run looks for lines of other processes.
	lookEvery = time.Second

	// lookIndex is how often Run looks whether the index is still there.
	lookIndex = 3 * time.Second

	// quiet is how long no line must arrive before the index is updated.
	quiet = 100 * time.Millisecond

	// flushEvery is how often new lines are flushed to the disk.
	flushEvery = 100 * time.Millisecond

	// maxBehind is how far the index may be behind, in bytes, while lines arrive. A reader reads that much in
	// about a second.
	maxBehind = 32 << 20

	// A batch has at most this many lines, or ends after the line that reaches batchBytes.
	batchLines = 256
	batchBytes = 1 << 20
)

// Run follows the journal until ctx is done: it passes new lines on, flushes them, and updates the index while
// no line arrives.
func (x *Index) Run(ctx context.Context) error {
	t := &tail{Index: x}
	defer t.close()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-x.wake:
			select {
			case <-ctx.Done():
			case <-time.After(settle):
			}
		case <-tick.C:
		case <-next.C:
		}
		err := t.read()
		wait := time.Duration(-1)
		if err == nil {
			wait, err = t.update(ctx)
		}
		t.report(ctx, err)
		switch {
		case err != nil:
			next.Reset(time.Second) // a full disk is not tried for each line
		case wait >= 0:
			next.Reset(wait)
		}
	}
}

// update updates the index by a batch, if that is due. It returns when to look again; negative = at the next line.
func (t *tail) update(ctx context.Context) (wait time.Duration, err error) {
	if err := t.look(ctx); err != nil {
		return -1, err
	}
	behind, err := t.log.After(t.reached.Load())
	if err != nil || behind == 0 && !t.due {
		return -1, err
	}
	if wait := quiet - time.Since(t.last); wait > 0 && behind <= maxBehind {
		return wait, nil
	}
	if t.changed { // the index is made again, without the segments that were removed
		if err := t.log.Refresh(); err != nil {
			return -1, err
		}
	}
	more, err := t.batch(ctx, t.log)
	if err != nil {
		return -1, err
	}
	if t.due = more; !more {
		return -1, nil
	}
	return 0, nil
}
