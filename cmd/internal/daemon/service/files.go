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

// NoteName is where a daemon writes down which process it is.
const NoteName = "daemon.json"

// File is a file that a daemon has beside its socket.
func File(place local.Place, name string) string {
	return filepath.Join(filepath.Dir(client.Socket(place.State)), name)
}

// storeWait is longer than a drain may have the store, or a daemon that is about to end.
const storeWait = 45 * time.Second

// OpenStore opens a store, and waits for so long while another process has it: a daemon
// takes as long to let go of it as it may take to end.
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
