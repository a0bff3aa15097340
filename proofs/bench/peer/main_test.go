package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestWorker(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := worker(strings.NewReader(`{"type":"event","id":"7","event":{}}`+"\n"+`{"type":"ping"}`+"\n"), &out)
	want := `{"grapnel":1,"type":"hello","name":"echo","concurrency":8}` + "\n" + `{"type":"answer","id":"7","outcome":{}}` + "\n"
	if !errors.Is(err, io.EOF) || out.String() != want {
		t.Errorf("worker wrote %q, %v; want %q", &out, err, want)
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := echo(strings.NewReader("a\nb\n"), &out); !errors.Is(err, io.EOF) || out.String() != "a\nb\n" {
		t.Errorf("echo wrote %q, %v", &out, err)
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "lines"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := grouped(f)
	var wait sync.WaitGroup
	for range 8 {
		client, server := net.Pipe()
		wait.Go(func() { _ = answer(server, k) }) // ends with the connection
		wait.Go(func() {
			defer client.Close()
			in := bufio.NewReader(client)
			for range 10 {
				if _, err := io.WriteString(client, "line\n"); err != nil {
					t.Error(err)
				}
				if reply, err := in.ReadString('\n'); err != nil || reply != `{"hookSpecificOutput":{}}`+"\n" {
					t.Errorf("reply %q, %v", reply, err)
				}
			}
		})
	}
	wait.Wait()
	if data, err := os.ReadFile(f.Name()); err != nil || string(data) != strings.Repeat("line\n", 80) {
		t.Errorf("the file has %d bytes, %v; want 80 lines", len(data), err)
	}
}
