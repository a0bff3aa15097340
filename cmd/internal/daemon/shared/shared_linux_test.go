package shared

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/internal/home"
)

// Above a number of users, and of waiting connections of one user, more are refused.
func TestLimits(t *testing.T) {
	t.Parallel()
	d := &daemon{log: slog.New(slog.DiscardHandler), users: map[int]*user{}}
	for uid := range maxUsers {
		d.users[uid] = &user{daemon: d, uid: uid, conns: make(chan *net.UnixConn, maxQueue)}
	}
	if u := d.userOf(t.Context(), maxUsers); u != nil {
		t.Errorf("user %d", u.uid)
	}
	(*user)(nil).take(nil)
	for range maxQueue + 1 {
		near, far, err := server.NewChannel()
		if err != nil {
			t.Fatal(err)
		}
		_ = far.Close()
		d.users[7].take(near)
	}
	if n := len(d.users[7].conns); n != maxQueue {
		t.Errorf("%d connections wait", n)
	}
	d.users[7].drop()
	if n := len(d.users[7].conns); n != 0 {
		t.Errorf("%d connections still wait", n)
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	a := account{Account: home.Account{Name: "ann", UID: 7, GID: 8, Dir: "/home/ann"}, groups: []int{8, 9}}
	if got := a.String(); got != "7:8:8:9" {
		t.Error(got)
	}
	got := a.env([]string{"PATH=/bin", "SECRET=x", "HOME=/root", "LC_ALL=C", "OTEL_SERVICE_NAME=g", "XDG_STATE_HOME=/evil", "PGPASSWORD=y", "LD_PRELOAD=z"})
	if diff := cmp.Diff([]string{"HOME=/home/ann", "USER=ann", "LOGNAME=ann", "PATH=/bin", "LC_ALL=C", "OTEL_SERVICE_NAME=g"}, got); diff != "" {
		t.Error(diff)
	}
}

// A command line that Run has not made changes nothing.
func TestBecome(t *testing.T) {
	t.Parallel()
	uid := os.Getuid()
	for _, text := range []string{"", "0", "1001:1001", "1001:1001:x", "1001:1001:-1", "1001:1001:4294967295", " 1:1:1"} {
		if err := become(text); err == nil || !strings.Contains(err.Error(), "invalid account") {
			t.Errorf("become(%q): %v", text, err)
		}
	}
	if os.Getuid() != uid {
		t.Fatalf("the user is %d", os.Getuid())
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	var o output
	for _, text := range []string{"a\x1b[31mb\n", strings.Repeat("x", 5000), "y"} {
		if n, err := o.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if len(o.text) > 1<<10 || strings.ContainsAny(o.text, "\x1b\n") || !strings.HasPrefix(o.text, "a") {
		t.Errorf("%d bytes: %.20q", len(o.text), o.text)
	}
}
