package store

import (
	"context"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settle    = 10 * time.Millisecond  // after a change: more changes may follow and be handled together
	watchPoll = 5 * time.Second        // how often a watched directory is read
	blindPoll = 250 * time.Millisecond // the same, if the system reports no changes
)

// A watch reports changes of files in a directory. The directory
// need not exist yet and may be replaced. If the system reports no changes, the watch only waits.
type watch struct {
	dir string

	notes *fsnotify.Watcher // nil = not supported by the system
	on    os.FileInfo       // the watched directory; nil = none
}

func newWatch(dir string) *watch {
	w := &watch{dir: dir}
	w.notes, _ = fsnotify.NewWatcher() // on an error, wait polls
	return w
}

func (w *watch) close() {
	if w.notes != nil {
		_ = w.notes.Close()
	}
}

// find watches the directory that exists now. It reports whether that is a different one.
func (w *watch) find() (other bool) {
	if w.notes == nil {
		return false
	}
	info, err := os.Stat(w.dir)
	if err != nil || w.on != nil && !os.SameFile(info, w.on) {
		_ = w.notes.Remove(w.dir)
		w.on = nil
	}
	if err == nil && w.on == nil && w.notes.Add(w.dir) == nil {
		w.on = info
		return true
	}
	return false
}

// wait returns after a change, when the next poll is due, or when ctx is done.
func (w *watch) wait(ctx context.Context) {
	if w.find() {
		return // changes before the watch are unknown
	}
	poll := watchPoll
	var events <-chan fsnotify.Event
	var errs <-chan error
	if w.on == nil {
		poll = blindPoll
	} else {
		events, errs = w.notes.Events, w.notes.Errors
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for news := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-errs: //nolint:errcheck // polling finds the lost changes
			return
		case <-events:
			if !news {
				news = true
				timer.Reset(settle)
			}
		}
	}
}
