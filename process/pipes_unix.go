//go:build unix

package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// pipes carry the event to a program and its output back.
//
// Those that os/exec makes are closed some time after the program has ended, if a
// child still holds them, whether they were read by then or not. On a busy machine
// that loses an answer, and with exit code 0 nobody sees that a block was lost.
type pipes struct {
	input   io.ReadCloser // what goes into stdin
	stdin   *os.File
	outputs []*output
	theirs  []*os.File // the program's ends
	writing sync.WaitGroup
	reading sync.WaitGroup
}

// An output is a pipe that we read, and where it goes.
type output struct {
	file *os.File
	to   io.Writer
}

// connect gives a program its pipes. They are closed by settle.
func connect(cmd *exec.Cmd, input io.ReadCloser, stdout, stderr io.Writer) (*pipes, error) {
	p := &pipes{input: input}
	theirs, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, p.stdin, p.theirs = theirs, stdin, append(p.theirs, theirs)
	for _, out := range []struct {
		theirs *io.Writer
		to     io.Writer
	}{{&cmd.Stdout, stdout}, {&cmd.Stderr, stderr}} {
		file, theirs, err := os.Pipe()
		if err != nil {
			p.started()
			p.settle(0)
			return nil, err
		}
		*out.theirs = theirs
		p.theirs, p.outputs = append(p.theirs, theirs), append(p.outputs, &output{file, out.to})
	}
	for _, out := range p.outputs {
		p.reading.Go(func() { _, _ = io.Copy(out.to, out.file) })
	}
	p.writing.Go(func() {
		_, _ = io.Copy(p.stdin, p.input) // nobody has to read it
		_ = p.stdin.Close()
	})
	return p, nil
}

// started closes the ends that are the program's, once it has them or never will.
func (p *pipes) started() {
	for _, file := range p.theirs {
		_ = file.Close()
	}
}

// settle reads what there is after the program has ended, waits for its children
// to say more for as long as grace, and closes the pipes.
func (p *pipes) settle(grace time.Duration) {
	_ = p.input.Close()
	_ = p.stdin.Close()
	p.writing.Wait()
	silent := make(chan struct{})
	go func() {
		p.reading.Wait()
		close(silent)
	}()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-silent:
	case <-late.C:
		for _, out := range p.outputs {
			_ = out.file.SetReadDeadline(time.Unix(1, 0))
		}
		<-silent
	}
	for _, out := range p.outputs {
		out.rest()
		_ = out.file.Close()
	}
}

// rest reads what is in the pipe without waiting for more. The reader before may
// have met its deadline without having had a chance.
func (o *output) rest() {
	raw, err := o.file.SyscallConn()
	if err != nil || o.file.SetReadDeadline(time.Time{}) != nil {
		return
	}
	buf := make([]byte, 64<<10)
	_ = raw.Read(func(fd uintptr) bool {
		// The bound is for a child that writes as fast as we read. No pipe holds more.
		for read := 0; read < 1<<20; {
			n, err := syscall.Read(int(fd), buf)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if n <= 0 {
				break
			}
			_, _ = o.to.Write(buf[:n])
			read += n
		}
		return true
	})
}
