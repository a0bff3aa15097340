//go:build system && linux

package shared

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// A user who does not exist gets no process, and the connection ends at once.
func TestUnknownUser(t *testing.T) {
	t.Parallel()
	d := &daemon{log: slog.New(slog.DiscardHandler), users: map[int]*user{}}
	defer d.running.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	near, far, err := server.NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	conn, err := net.FileConn(far)
	if err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	d.userOf(ctx, 1<<30+4711).take(conn.(*net.UnixConn))
	if n, err := near.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d, %v", n, err)
	}
	await.Until(t, "the user is forgotten", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.users) == 0
	})
}

// The account of a user has the groups of a login, and its text gives the same IDs back.
func TestFind(t *testing.T) {
	t.Parallel()
	self, err := find(t.Context(), os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := numbers(strings.Split(self.String(), ":"))
	if err != nil || !slices.Contains(self.groups, self.GID) || !slices.Equal(ids, append([]int{self.UID, self.GID}, self.groups...)) {
		t.Errorf("%+v, %v, %v", self, ids, err)
	}
}
