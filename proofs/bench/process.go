package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A program is a command line with its stdin. It is started with as little work in this
// process as possible: no goroutine, no copying, no shell.
type program struct {
	name    string
	argv    []string
	dir     string
	env     []string
	payload *payload // nil = an empty stdin
	null    *os.File // its stdout while it is measured
}

// usage is the cost of one or several runs.
type usage struct {
	wall time.Duration // from before the first fork to after the last exit
	cpu  time.Duration // user and system, of the children
}

// run runs the program once on its own.
func (p *program) run() (usage, error) { return p.runMany(1) }

// runMany starts the program n times at once and waits for all.
func (p *program) runMany(n int) (usage, error) {
	var u usage
	stdins := make([]*os.File, n)
	defer func() {
		for _, f := range stdins {
			if f != nil {
				_ = f.Close() // read-only
			}
		}
	}()
	for i := range stdins {
		f, err := p.payload.open()
		if err != nil {
			return u, err
		}
		stdins[i] = f
	}
	procs := make([]*os.Process, 0, n)
	var failure error
	begin := time.Now()
	for i := range n {
		proc, err := os.StartProcess(p.argv[0], p.argv, &os.ProcAttr{
			Dir: p.dir, Env: p.env, Files: []*os.File{stdins[i], p.null, os.Stderr},
		})
		if err != nil {
			failure = err
			break
		}
		procs = append(procs, proc)
	}
	for _, proc := range procs { // also after a failure: wait for all that were started
		state, err := proc.Wait()
		switch {
		case err != nil:
			failure = errors.Join(failure, err)
		case !state.Success():
			failure = errors.Join(failure, fmt.Errorf("%s: %s", strings.Join(p.argv, " "), state))
		default:
			u.cpu += state.UserTime() + state.SystemTime()
		}
	}
	u.wall = time.Since(begin)
	return u, failure
}

// output runs the program without measuring it and returns its stdout, to show that it does
// its work.
func (p *program) output(ctx context.Context) (string, error) {
	stdin, err := p.payload.open()
	if err != nil {
		return "", err
	}
	defer stdin.Close()
	var out, diag bytes.Buffer
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.dir, p.env, stdin, &out, &diag
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s%s", strings.Join(p.argv, " "), err, out.String(), diag.String())
	}
	return out.String(), nil
}

// wall measures the program by the time from fork to exit, in milliseconds.
func (p *program) wall() *series {
	return newSeries(p.name, func() (float64, error) {
		u, err := p.run()
		return inMilliseconds(u.wall), err
	})
}

// together measures the CPU time of n programs at once, in milliseconds.
func (p *program) together(n int) *series {
	return newSeries(fmt.Sprintf("%d at once", n), func() (float64, error) {
		u, err := p.runMany(n)
		return inMilliseconds(u.cpu), err
	})
}

// inTurn measures the CPU time of n programs one after the other, in milliseconds.
func (p *program) inTurn(n int) *series {
	return newSeries(fmt.Sprintf("%d in turn", n), func() (float64, error) {
		var total time.Duration
		for range n {
			u, err := p.run()
			if err != nil {
				return 0, err
			}
			total += u.cpu
		}
		return inMilliseconds(total), nil
	})
}

func inMilliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// pipeSize is the number of bytes that a pipe holds on every system without a reader.
const pipeSize = 4 << 10

// A payload is an event in the format of an agent. Every run gets a new ID, as every tool call
// does, because Grapnel records each ID only once.
type payload struct {
	data []byte
	ids  []int // where in data the digits of the ID begin
	next int
	file string // holds a payload that does not fit into a pipe
}

const idDigits = 8

// newPayload makes a payload from an event that contains mark in place of the ID. Without a mark
// the payload has no ID. A payload that does not fit into a pipe is written to a file in dir.
func newPayload(data []byte, mark, dir string) (*payload, error) {
	p := &payload{data: bytes.Clone(data)}
	if mark != "" {
		if len(mark) != idDigits || !bytes.Contains(data, []byte(mark)) {
			return nil, fmt.Errorf("payload: want %d digits %q", idDigits, mark)
		}
		for from := 0; ; {
			at := bytes.Index(data[from:], []byte(mark))
			if at < 0 {
				break
			}
			p.ids = append(p.ids, from+at)
			from += at + idDigits
		}
	}
	if len(data) <= pipeSize {
		return p, nil
	}
	f, err := os.CreateTemp(dir, "event-*.json")
	if err != nil {
		return nil, err
	}
	p.file = f.Name()
	_, err = f.Write(data)
	return p, errors.Join(err, f.Close())
}

// open returns the next event as a file that is ready to be read. The file is a
// pipe that holds the whole event and is closed for writing, as from an agent, or a regular file.
func (p *payload) open() (*os.File, error) {
	if p == nil {
		return os.Open(os.DevNull)
	}
	p.next++
	digits := fmt.Appendf(nil, "%0*d", idDigits, p.next)
	if p.file == "" {
		for _, at := range p.ids {
			copy(p.data[at:], digits)
		}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		_, err = w.Write(p.data)
		if err := errors.Join(err, w.Close()); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		return r, nil
	}
	f, err := os.OpenFile(p.file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for _, at := range p.ids {
		if _, err := f.WriteAt(digits, int64(at)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}
