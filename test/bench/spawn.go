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

// A program is a command line with what it reads from stdin. It is started with
// as little work in this process as possible: no goroutine, no copying, no shell.
type program struct {
	name    string
	argv    []string
	dir     string
	env     []string
	payload *payload // nil = an empty stdin
	null    *os.File // where its stdout goes while the clock runs
}

// usage is what one or several runs cost.
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
	for _, proc := range procs { // also after a failure: whoever was started is waited for
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

// output runs the program without a clock and returns its stdout, so that what
// is measured can be shown to do its work.
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

// wallSide measures a program by the time from fork to exit, in seconds.
func (p *program) wallSide() *side {
	return newSide(p.name, func() (float64, error) {
		u, err := p.run()
		return u.wall.Seconds(), err
	})
}

// pipeSize is how much every system takes into a pipe that nobody reads yet.
const pipeSize = 4 << 10

// A payload is an event as an agent would write it. Every run gets an ID of its
// own, as every call of a tool has one: whoever counts calls by ID counts them all.
type payload struct {
	data []byte
	id   int // where in data the ID's digits begin; -1 = nowhere
	next int
	file string // where a payload lies that a pipe cannot hold
}

const idDigits = 8

// newPayload makes a payload of an event in which mark stands where the ID's
// digits go; without a mark it has no ID. What a pipe cannot hold is kept in dir.
func newPayload(data []byte, mark, dir string) (*payload, error) {
	p := &payload{data: bytes.Clone(data), id: -1}
	if mark != "" {
		if len(mark) != idDigits || bytes.Count(data, []byte(mark)) != 1 {
			return nil, fmt.Errorf("payload: want %d digits %q exactly once", idDigits, mark)
		}
		p.id = bytes.Index(data, []byte(mark))
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

// open returns the next event, ready to be read: from a pipe that holds it whole
// and is closed, as from an agent, or from a file.
func (p *payload) open() (*os.File, error) {
	if p == nil {
		return os.Open(os.DevNull)
	}
	p.next++
	digits := fmt.Appendf(nil, "%0*d", idDigits, p.next)
	if p.file == "" {
		if p.id >= 0 {
			copy(p.data[p.id:], digits)
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
	if p.id >= 0 {
		if _, err := f.WriteAt(digits, int64(p.id)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}
