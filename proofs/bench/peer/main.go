// Peer is the other side of the benchmark's connections, with as little work as possible:
//
//	peer worker                      a worker of Grapnel that has no opinion
//	peer echo                        returns each line of stdin on stdout
//	peer serve SOCKET [FILE [sync]]  answers each line on a unix socket
//
// With FILE, serve first appends the line to the file. With sync, it also waits until the
// disk has the line; lines that arrive meanwhile share the next wait.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"

	"github.com/grapnel-dev/grapnel/cmd/proofs/bench/disk"
)

func main() {
	if err := run(os.Args[1:]); !errors.Is(err, io.EOF) {
		_, _ = os.Stderr.WriteString("peer: " + err.Error() + "\n")
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "worker":
		return worker(os.Stdin, os.Stdout)
	case len(args) == 1 && args[0] == "echo":
		return echo(os.Stdin, os.Stdout)
	case len(args) > 1 && args[0] == "serve":
		return serve(args[1], args[2:])
	}
	return errors.New("want worker, echo or serve")
}

// worker finds the ID of each event and answers that it has no opinion.
func worker(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, 64<<10) // an event of the benchmark fits
	if _, err := io.WriteString(w, `{"grapnel":1,"type":"hello","name":"echo","concurrency":8}`+"\n"); err != nil {
		return err
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if rest, ok := bytes.CutPrefix(line, []byte(`{"type":"event","id":"`)); ok {
			id, _, _ := bytes.Cut(rest, []byte(`"`))
			if _, err := io.WriteString(w, `{"type":"answer","id":"`+string(id)+`","outcome":{}}`+"\n"); err != nil {
				return err
			}
		}
	}
}

func echo(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
}

// keep stores a line; nil stores nothing.
type keep func(line []byte) error

func serve(socket string, args []string) error {
	var k keep
	if len(args) > 0 {
		f, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		k = func(line []byte) error { _, err := f.Write(line); return err }
		if len(args) > 1 {
			k = grouped(f)
		}
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := answer(conn, k); !errors.Is(err, io.EOF) {
				_, _ = os.Stderr.WriteString("peer: " + err.Error() + "\n")
			}
		}()
	}
}

func answer(conn net.Conn, k keep) error {
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if k != nil {
			if err := k(line); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(conn, `{"hookSpecificOutput":{}}`+"\n"); err != nil {
			return err
		}
	}
}

// grouped returns a function that returns after its line is on disk. Callers that wait at the
// same time share one write and one sync.
func grouped(f *os.File) keep {
	type entry struct {
		line []byte
		done chan error
	}
	queue := make(chan entry, 1024)
	go func() {
		for first := range queue {
			lines, waiting := first.line, []chan error{first.done}
			for n := len(queue); n > 0; n-- {
				e := <-queue
				lines, waiting = append(lines, e.line...), append(waiting, e.done)
			}
			_, err := f.Write(lines)
			if err == nil {
				err = disk.Sync(f)
			}
			for _, done := range waiting {
				done <- err
			}
		}
	}()
	return func(line []byte) error {
		e := entry{bytes.Clone(line), make(chan error, 1)}
		queue <- e
		return <-e.done
	}
}
