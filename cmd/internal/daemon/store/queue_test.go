package store

import (
	"context"
	"os"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery/deliverytest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	deliverytest.Queue(t, func(t deliverytest.TB) deliverytest.Opened {
		dir, err := os.MkdirTemp("", "store") //nolint:usetesting // a case of a property has no t.TempDir
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, &Options{unsafe: true})
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
		return deliverytest.Opened{Queue: s, Put: func(ctx context.Context, jobs ...delivery.Job) error {
			return s.Put(ctx, Item{Jobs: jobs})
		}}
	})
}
