//go:build linux || darwin

package service

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
)

// shortPlace returns a place with a socket path that is short enough.
func shortPlace(t *testing.T) local.Place {
	t.Helper()
	root, err := os.MkdirTemp("", "gr") //nolint:usetesting // a socket path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// The daemon answers while it runs, prevents a second daemon, and leaves no files.
func TestRun(t *testing.T) {
	t.Parallel()
	place := shortPlace(t)
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, place, log, Options{}) }()
	socket := client.Socket(place.State)
	await.Until(t, "the daemon is well and has said which it is", func() bool {
		found, err := server.Look(t.Context(), socket)
		_, noted := os.Stat(File(place, NoteName))
		return err == nil && found.Well && found.PID == os.Getpid() && noted == nil
	})
	if err := Run(t.Context(), place, log, Options{}); err == nil {
		t.Error("two daemons run at one place")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if _, err := os.Stat(File(place, NoteName)); err == nil || server.Busy(socket) {
		t.Errorf("it has left %s (%v), or still listens", NoteName, err)
	}
}

// A drain creates no queue if there was never a delivery.
func TestDrainNothing(t *testing.T) {
	t.Parallel()
	place := shortPlace(t)
	done, err := Drain(t.Context(), place, 0)
	if err != nil || done.Kept+done.Delivered+done.Waiting > 0 || done.Busy || len(done.Missed()) > 0 {
		t.Errorf("Drain = %+v, %v", done, err)
	}
	if _, err := os.Stat(place.Queue()); err == nil {
		t.Error("a queue was made")
	}
}
