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

// pipes connect this process to the program's standard streams.
//
// The pipes of os/exec are closed some time after the program has ended if a child still holds
// them, even if they have unread data. On a busy machine that loses an answer, and with exit code
// 0 a lost Block stays unnoticed.
type pipes struct {
	input   io.ReadCloser // data for stdin
	stdin   *os.File
	outputs []*output
	theirs  []*os.File // the program's ends of the pipes
	writing sync.WaitGroup
	reading sync.WaitGroup
}

// An output is the reading end of a pipe and its destination.
type output struct {
	file *os.File
	to   io.Writer
}

// connect creates the pipes for a program. settle closes them.
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
		_, _ = io.Copy(p.stdin, p.input) // the program does not have to read its input
		_ = p.stdin.Close()
	})
	return p, nil
}

// started closes the program's ends. Call it after the program was started, or after the start
// failed.
func (p *pipes) started() {
	for _, file := range p.theirs {
		_ = file.Close()
	}
}

// settle reads the remaining output after the program has ended. It waits at most grace for more
// output from children, then closes the pipes.
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

// rest reads the data in the pipe without waiting for more. The previous reader may have reached
// its deadline before it could read them.
func (o *output) rest() {
	raw, err := o.file.SyscallConn()
	if err != nil || o.file.SetReadDeadline(time.Time{}) != nil {
		return
	}
	buf := make([]byte, 64<<10)
	_ = raw.Read(func(fd uintptr) bool {
		// The limit stops a child that writes as fast as this loop reads. It is larger than any
		// pipe buffer.
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
