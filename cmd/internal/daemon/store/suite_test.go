package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store/storetest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	storetest.Queue(t, func(t storetest.TB) storetest.Opened {
		dir, err := os.MkdirTemp("", "store") //nolint:usetesting // a case of a property has no t.TempDir
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.OpenUnsafe(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		})
		return storetest.Opened{Queue: s, Put: func(ctx context.Context, jobs ...delivery.Job) error {
			return s.Put(ctx, store.Item{Jobs: jobs})
		}}
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	storetest.Run(t, func(t *testing.T, name string) storetest.Store {
		t.Helper()
		s, err := store.Open(filepath.Join(root, name), &store.Options{Limits: store.Limits{MaxAge: 24 * 60 * 60, MaxRecords: 100}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
