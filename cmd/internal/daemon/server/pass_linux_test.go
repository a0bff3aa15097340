package server

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// channel returns the sender of connections and their receiver.
func channel(t *testing.T) (*net.UnixConn, *Passed) {
	t.Helper()
	near, far, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(far)
	if err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	p := &Passed{channel: conn.(*net.UnixConn), ended: make(chan struct{}), closed: make(chan struct{})}
	t.Cleanup(func() { _, _ = near.Close(), p.Close() })
	return near, p
}

// pair returns the two ends of a connection over a socket.
func pair(t *testing.T) (client net.Conn, server *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// Connections arrive in order, and work after the sender has closed its copy.
func TestPass(t *testing.T) {
	t.Parallel()
	to, from := channel(t)
	words := []string{"one", "two", "six"}
	for _, word := range words {
		client, server := pair(t)
		if err := Pass(to, server); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, word); err != nil {
			t.Fatal(err)
		}
	}
	for _, word := range words {
		conn, err := from.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(word))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != word {
			t.Errorf("%q, %v, want %q", got, err, word)
		}
		_ = conn.Close()
	}
}

// A message without a connection is ignored. After the last message the receiver says so, and waits.
func TestPassedEnds(t *testing.T) {
	t.Parallel()
	to, from := channel(t)
	if _, err := to.Write([]byte("xyz")); err != nil {
		t.Fatal(err)
	}
	_, server := pair(t)
	if err := Pass(to, server); err != nil {
		t.Fatal(err)
	}
	if conn, err := from.Accept(); err != nil {
		t.Fatal(err)
	} else {
		_ = conn.Close()
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := from.Accept()
		accepted <- err
	}()
	_ = to.Close()
	<-from.Ended()
	select {
	case err := <-accepted:
		t.Errorf("Accept has returned before Close: %v", err)
	default:
	}
	_ = from.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	if (*Passed)(nil).Ended() != nil {
		t.Error("no receiver ends")
	}
}

// If the receiver takes nothing, the sender does not wait, and the client sees the end.
func TestPassNeverWaits(t *testing.T) {
	t.Parallel()
	to, _ := channel(t)
	await.Until(t, "the channel is full", func() bool {
		client, server := pair(t)
		if Pass(to, server) == nil {
			return false
		}
		n, err := client.Read(make([]byte, 1))
		if n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("the client reads %d, %v", n, err)
		}
		return true
	})
}
