package local

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// Workers are running workers. A policy that is loaded again gets the workers that already run. The
// zero value has no workers. Workers is safe for concurrent use.
type Workers struct {
	mu     sync.Mutex
	byKey  map[string]*process.Worker
	used   map[string]bool // since the last call of Unused
	closed bool
}

// Hook returns the hook of a program, see [Runner]. A worker runs until Close.
func (w *Workers) Hook(place Place, c policyfile.Command) grapnel.Hook {
	hook := Runner(place)(c)
	made, ok := hook.(*process.Command)
	if !ok || !c.Worker {
		return hook
	}
	key := fmt.Sprintf("%q %q %q %q %q %q %v", c.Name, made.Dir, made.Line, made.Args, made.Env, made.Allow, c.Sandbox)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey == nil {
		w.byKey, w.used = map[string]*process.Worker{}, map[string]bool{}
	}
	w.used[key] = true
	worker := w.byKey[key]
	if worker == nil {
		worker = &process.Worker{Command: *made}
		if worker.Vars = nil; made.Dialect != nil { // a worker gets no variables of events
			worker.Dialect = made.Dialect.OfWorker()
		}
		w.byKey[key] = worker
		if w.closed {
			_ = worker.Close(context.Background()) // it never ran
		}
	}
	return worker
}

// Unused removes the workers that Hook has not returned since the last call of Unused, and returns
// them. The caller must close them when no event uses them any more.
func (w *Workers) Unused() []*process.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	var unused []*process.Worker
	for key, worker := range w.byKey {
		if !w.used[key] {
			unused = append(unused, worker)
			delete(w.byKey, key)
		}
	}
	clear(w.used)
	return unused
}

// Close ends the workers, and waits for them until ctx is done.
func (w *Workers) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	workers := w.byKey
	w.byKey, w.used = nil, nil
	w.mu.Unlock()
	var errs []error
	for _, worker := range workers {
		errs = append(errs, worker.Close(ctx))
	}
	return errors.Join(errs...)
}
