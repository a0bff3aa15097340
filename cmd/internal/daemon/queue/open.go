package queue

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
)

var _ delivery.Queue = (*Queue)(nil)

var (
	// ErrLocked is the error of Open if another process writes to the queue.
	ErrLocked = database.ErrLocked

	// ErrNoTarget is the error of SwitchOn for an unknown target.
	ErrNoTarget = errors.New("unknown target")
)

// Options are a Queue's settings. The zero value is the default, and nil is fine.
type Options struct {
	// Note is called with problems that the operator should know and that no caller gets as an
	// error, such as a damaged database. It must not call the Queue. Nil = not called.
	Note func(error)

	// Due is called when Put, Retry or SwitchOn may have made jobs due. It must return at once.
	// Nil = not called.
	Due func()
}

// A Queue changes deliveries, and has all methods of a Reader. It is safe for concurrent use.
type Queue struct {
	*Reader
	db     *database.DB
	opts   Options
	known  bool      // the database existed before; used in a write only
	leased time.Time // time of the last lease; used in a write only

	mu        sync.Mutex
	condition Condition // guarded by mu
}

// A Condition is the state of a Queue.
type Condition struct {
	Lost int64 // how often a new database had to be created, because the old one was removed, replaced or damaged
	Err  error // why the last write failed; nil = it succeeded
}

//go:embed schema.sql
var schema string

const name = "queue"

func options(dir string) database.Options {
	return database.Options{Dir: dir, Name: name, Schema: schema, Version: 1}
}

// Open opens the queue in a directory, or creates it. Only one process at a time can open it; for
// others Open returns ErrLocked. If the database is damaged, Open renames it, creates a new one, and
// calls Options.Note.
func Open(dir string, opts *Options) (_ *Queue, err error) {
	q := &Queue{}
	if opts != nil {
		q.opts = *opts
	}
	if q.opts.Note == nil {
		q.opts.Note = func(error) {}
	}
	if q.opts.Due == nil {
		q.opts.Due = func() {}
	}
	// The lock is created before the database, and never removed.
	_, err = os.Lstat(filepath.Join(dir, name+".lock"))
	q.known = err == nil
	o := options(dir)
	o.Note, o.Created = q.opts.Note, q.created
	if q.db, err = database.Open(o); err != nil {
		return nil, fmt.Errorf("cannot open the deliveries: %w", err)
	}
	q.Reader, q.known = &Reader{q.db.Reader}, true
	return q, nil
}

// created counts the loss of an earlier database.
func (q *Queue) created() {
	if !q.known {
		return
	}
	q.mu.Lock()
	q.condition.Lost++
	q.mu.Unlock()
	q.opts.Note(errors.New("the waiting deliveries are lost: their database was removed, replaced or damaged, and is new now"))
}

// Condition returns the state of the Queue.
func (q *Queue) Condition() Condition {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.condition
}

// Flush waits until all earlier changes are on disk.
func (q *Queue) Flush() error { return q.db.Flush() }

// Close closes the database.
func (q *Queue) Close() error { return q.db.Close() }

// write runs do in a transaction. An error of ctx means that nothing was written.
func (q *Queue) write(ctx context.Context, do func(*change) error) error {
	var c *change
	err := q.db.Write(ctx, func(tx *database.Tx) error {
		c = &change{Tx: tx}
		return do(c)
	})
	if err == nil || ctx.Err() == nil && !errors.Is(err, ErrNoTarget) {
		q.mu.Lock()
		q.condition.Err = err
		q.mu.Unlock()
	}
	if err == nil && c.due {
		q.opts.Due()
	}
	return err
}

// A change is the content of one transaction.
type change struct {
	*database.Tx
	due bool // there may be new jobs to deliver
}

// A Reader reads a queue, with or without a process that writes to it. It is safe for concurrent use.
type Reader struct{ db *database.Reader }

// OpenReader opens the queue in a directory for reading. It returns fs.ErrNotExist if the queue does
// not exist or is being created, and [database.ErrVersion] if this version cannot read it.
func OpenReader(dir string) (*Reader, error) {
	r, err := database.OpenReader(options(dir))
	if err != nil {
		return nil, fmt.Errorf("cannot open the deliveries: %w", err)
	}
	return &Reader{r}, nil
}

// Close closes the database. The Reader can be used again.
func (r *Reader) Close() error { return r.db.Close() }
