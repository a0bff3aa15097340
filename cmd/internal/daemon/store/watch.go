package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settle    = 10 * time.Millisecond  // after news: more may come, and be taken together
	watchPoll = 5 * time.Second        // how often a directory is looked at that is watched
	blindPoll = 250 * time.Millisecond // the same, where the system says nothing of it
)

// A watch tells when files of a directory change whose names begin with a prefix. It needs
// no directory to begin with, and finds one that comes in its place. Without the help of
// the system it does nothing but wait.
type watch struct {
	dir, prefix string

	notes *fsnotify.Watcher // nil = the system gives none
	on    os.FileInfo       // the directory that is watched; nil = none
}

func newWatch(dir, prefix string) *watch {
	w := &watch{dir: dir, prefix: prefix}
	w.notes, _ = fsnotify.NewWatcher() // there is the other way
	return w
}

func (w *watch) close() {
	if w.notes != nil {
		_ = w.notes.Close()
	}
}

// find watches the directory that there is now. It reports whether that is another one.
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

// wait returns after news, or when it is time to look without, or when ctx is done.
func (w *watch) wait(ctx context.Context) {
	if w.find() {
		return // nobody knows what came before
	}
	poll := watchPoll
	var events <-chan fsnotify.Event
	var lost <-chan error
	if w.on == nil {
		poll = blindPoll
	} else {
		events, lost = w.notes.Events, w.notes.Errors
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for news := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-lost: //nolint:errcheck // what was lost is found by looking
			return
		case ev := <-events:
			if !news && strings.HasPrefix(filepath.Base(ev.Name), w.prefix) {
				news = true
				timer.Reset(settle)
			}
		}
	}
}
