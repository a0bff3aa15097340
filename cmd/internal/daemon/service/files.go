package service

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/local"
)

// NoteName is the name of the daemon's status file.
const NoteName = "daemon.json"

// File returns the path of a file of the daemon, in the directory of its socket.
func File(place local.Place, name string) string {
	return filepath.Join(filepath.Dir(client.Socket(place.State)), name)
}

// storeWait is longer than a drain, or a daemon that is stopping, may hold the store.
const storeWait = 45 * time.Second

// OpenStore opens a store. If another process has it open, OpenStore waits for up to wait,
// because a daemon holds the store until it has stopped.
func OpenStore(ctx context.Context, dir string, wait time.Duration, opts *store.Options) (*store.Store, error) {
	for limit := time.Now().Add(wait); ; {
		s, err := store.Open(dir, opts)
		if !errors.Is(err, store.ErrLocked) || time.Now().After(limit) {
			return s, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}
