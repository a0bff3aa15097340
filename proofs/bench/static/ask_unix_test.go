//go:build unix

package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "static") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lines := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		line, _ := bufio.NewReader(conn).ReadString('\n')
		lines <- line
		_, _ = io.WriteString(conn, "yes\n")
	}()
	if reply, err := ask(socket, []byte("event\n")); err != nil || string(reply) != "yes\n" {
		t.Errorf("ask = %q, %v", reply, err)
	}
	if line := <-lines; line != "event\n" {
		t.Errorf("the server read %q", line)
	}
	if _, err := ask(filepath.Join(dir, "nothing"), []byte("event\n")); err == nil {
		t.Error("no server answered")
	}
}
