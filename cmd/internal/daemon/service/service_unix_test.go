//go:build unix

package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/local"
)

// If a part of the daemon ends too early, the health report contains it.
func TestHealth(t *testing.T) {
	t.Parallel()
	d := &daemon{log: slog.New(slog.DiscardHandler), begun: time.Now(), records: openTestIndex(t, shortPlace(t)), queue: openTestQueue(t)}
	server := httptest.NewServer(server.Handler(server.Options{Health: d.health}))
	defer server.Close()
	ask := func() (status int, failed map[string]string) {
		resp, err := server.Client().Get(server.URL + "/v1/health")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var report struct {
			PID    int
			Failed map[string]string
		}
		if err := json.NewDecoder(resp.Body).Decode(&report); err != nil || report.PID != os.Getpid() {
			t.Errorf("it says of itself %+v, %v", report, err)
		}
		return resp.StatusCode, report.Failed
	}
	if status, failed := ask(); status != http.StatusOK || failed != nil {
		t.Errorf("a daemon whose parts all work says %d, %v", status, failed)
	}
	d.partFailed("index", errors.New("no room"))
	if status, failed := ask(); status != http.StatusServiceUnavailable || failed["index"] != "no room" {
		t.Errorf("a daemon without its index says %d, %v", status, failed)
	}
}

// The health report says that waiting deliveries were lost. A drain without a daemon reports it, too.
func TestHealthOfQueue(t *testing.T) {
	t.Parallel()
	place, err := local.Locate(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(place.Queue(), nil)
	if err != nil {
		t.Fatal(err)
	}
	lose := func() {
		t.Helper()
		if err := errors.Join(q.Close(), os.Remove(filepath.Join(place.Queue(), "queue.db"))); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	if q, err = queue.Open(place.Queue(), nil); err != nil {
		t.Fatal(err)
	}
	d := &daemon{place: place, log: slog.New(slog.DiscardHandler), begun: time.Now(), records: openTestIndex(t, place), queue: q}
	if report, well := d.health(); well || !strings.Contains(d.storeHealth().Problem(), "waiting deliveries were lost") {
		t.Errorf("health = %v, %v", report, well)
	}
	lose()
	done, err := Drain(t.Context(), place, 0)
	if err != nil || len(done.Warnings) != 1 || !strings.Contains(done.Warnings[0], "waiting deliveries are lost") {
		t.Errorf("Drain = %+v, %v", done, err)
	}
}

// openTestIndex returns the index of a place.
func openTestIndex(t *testing.T, place local.Place) *index.Index {
	t.Helper()
	x, err := records.Log(place).Keep(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// OpenIndex waits for a process that closes the index, but not longer than its own time limit.
func TestOpenIndex(t *testing.T) {
	t.Parallel()
	place := shortPlace(t)
	before, err := records.Log(place).Keep(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // must fire: the index is open
	defer cancel()
	if x, err := OpenIndex(ctx, place, time.Hour, nil); !errors.Is(err, index.ErrLocked) {
		t.Errorf("OpenIndex = %v, %v, want %v", x, err, index.ErrLocked)
	}
	closed := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() { closed <- before.Close() })
	x, err := OpenIndex(t.Context(), place, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-closed, x.Close()); err != nil {
		t.Error(err)
	}
}
