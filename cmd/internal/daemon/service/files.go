package service

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/local"
)

// NoteName is the name of the daemon's status file.
const NoteName = "daemon.json"

// File returns the path of a file of the daemon, in the directory of its socket.
func File(place local.Place, name string) string {
	return filepath.Join(filepath.Dir(client.Socket(place.State)), name)
}

// storeWait is longer than a drain, or a daemon that is stopping, may hold the index or the queue.
const storeWait = 45 * time.Second

// OpenIndex opens the index of a place for writing. If another process has it open, OpenIndex waits for up to
// wait, because a daemon holds it until it has stopped.
func OpenIndex(ctx context.Context, place local.Place, wait time.Duration, opts *index.Options) (*index.Index, error) {
	return openUnlocked(ctx, wait, index.ErrLocked, func() (*index.Index, error) { return records.Log(place).Keep(opts) })
}

// OpenQueue opens the deliveries of a place as OpenIndex opens the index.
func OpenQueue(ctx context.Context, place local.Place, wait time.Duration, opts *queue.Options) (*queue.Queue, error) {
	return openUnlocked(ctx, wait, queue.ErrLocked, func() (*queue.Queue, error) { return queue.Open(place.Queue(), opts) })
}

// openUnlocked calls open until it does not return the error locked.
func openUnlocked[T any](ctx context.Context, wait time.Duration, locked error, open func() (T, error)) (T, error) {
	for limit := time.Now().Add(wait); ; {
		opened, err := open()
		if !errors.Is(err, locked) || time.Now().After(limit) {
			return opened, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return opened, err
		}
	}
}
