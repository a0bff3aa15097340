package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// An Executor runs the programs of Commands and Workers: [System] on this machine, one
// of your own in a sandbox.
//
// Run starts a program and returns when it has ended. It ends the program when ctx is
// done, and says so in the Ending; how long that may take is what its Grace says, if
// it is [grapnel.Graceful]. An error means that the program did not run. Run is called
// by many goroutines at once, and p is its own to change, except for the Event.
type Executor interface {
	Run(ctx context.Context, p *Program) (*Ending, error)
}

// ExecutorFunc lets a function be an Executor that changes a program and has System
// run what has become of it.
type ExecutorFunc func(ctx context.Context, p *Program) (*Ending, error)

// Run calls f.
func (f ExecutorFunc) Run(ctx context.Context, p *Program) (*Ending, error) { return f(ctx, p) }

// Grace is that of System.
func (f ExecutorFunc) Grace() time.Duration { return system{}.Grace() }

// A Program is one start of a Command or a Worker, with all that it shall see.
type Program struct {
	Args      []string // a path, or a name to look up on the PATH of Env, and arguments; a Line is an argument of the shell
	Env       []string // all of its variables; of two equal names the last counts
	Dir       string   // its working directory
	Stdin     []byte
	MaxOutput int // bytes of stdout, and of stderr, that an Ending keeps

	// A program that is kept running hears and is heard while it runs: a Worker sets
	// these in place of Stdin and of the Outputs of the Ending. Run closes Input when
	// the program has ended, so that a Read that waits for more returns. Output and
	// Errors take all that they are given, and never fail.
	Input          io.ReadCloser
	Output, Errors io.Writer

	Hook    string         // whose program it is
	Inherit Inherit        // what Env was made of: InheritMinimal is for programs of strangers
	Event   *grapnel.Event // what is happening; nil = the program is kept running for many events
}

// An Ending is how a program ended, and what it had said by then.
type Ending struct {
	Exit    int    // its exit code; -1 = it was ended by a signal
	Signal  string // which one, in words; empty = none
	Stopped error  // not nil: it was ended because ctx was done, and why that was
	Stdout  Output
	Stderr  Output
}

// An Output is the beginning of what a program said.
type Output struct {
	Head []byte
	Cut  int // how many bytes followed
}

// System runs programs on this machine, with the rights of this process.
var System Executor = system{}

type system struct{}

const (
	// interruptGrace is how long a program may clean up after it was asked to end.
	interruptGrace = 200 * time.Millisecond

	// outputGrace is how long output is awaited from children of a program that
	// has ended: long enough for the tee of "exec > >(tee log)", short enough for
	// a child that keeps the pipe for ever. What the program itself had written is
	// always read.
	outputGrace = 100 * time.Millisecond
)

// Grace is how long it takes at most to end a program after its deadline.
func (system) Grace() time.Duration { return interruptGrace + outputGrace + 200*time.Millisecond }

// Run runs a program in a process group of its own.
func (system) Run(ctx context.Context, p *Program) (*Ending, error) { return run(ctx, p, nil) }

// run runs a program, held to rules if there are any.
func run(ctx context.Context, p *Program, held *rules) (*Ending, error) {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return nil, errors.New("there is no program: Args is empty")
	}
	path, err := lookPath(p.Args[0], p.Env)
	if err != nil {
		return nil, startError(p, err)
	}
	cmd := &exec.Cmd{Path: path, Args: p.Args, Env: p.Env, Dir: p.Dir}
	var box *shim
	if held != nil {
		if box, err = newShim(cmd, held); err != nil {
			return nil, startError(p, err)
		}
	}
	stdout, stderr := head{limit: p.MaxOutput}, head{limit: p.MaxOutput}
	input, output, errout := p.Input, p.Output, p.Errors
	if input == nil {
		input = io.NopCloser(bytes.NewReader(p.Stdin))
	}
	if output == nil {
		output = &stdout
	}
	if errout == nil {
		errout = &stderr
	}
	pipes, err := connect(cmd, input, output, errout)
	if err != nil {
		box.close()
		return nil, startError(p, err)
	}
	group, err := startGroup(cmd)
	pipes.started()
	if err != nil {
		box.close()
		pipes.settle(0)
		return nil, startError(p, err)
	}
	box.started()
	defer group.close()

	end := &Ending{}
	ended, stopped := make(chan struct{}), make(chan bool, 1)
	go func() { stopped <- stopLate(ctx, group, ended) }()
	// The exit code decides. The errors of Wait say no more than that.
	_ = cmd.Wait()
	pipes.settle(outputGrace)
	close(ended)
	if <-stopped {
		end.Stopped = reason(ctx)
	}
	end.Exit, end.Signal = cmd.ProcessState.ExitCode(), signalOf(cmd.ProcessState)
	end.Stdout, end.Stderr = Output{stdout.kept, stdout.cut}, Output{stderr.kept, stderr.cut}
	if box != nil {
		if err := box.became(p, end); err != nil {
			return nil, err
		}
	}
	return end, nil
}

// stopLate ends the group when ctx is done before the program has ended, and
// reports whether it had to.
func stopLate(ctx context.Context, group *group, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	case <-ctx.Done():
	}
	if !group.interrupt() {
		return false // it had ended by itself, and only its output was awaited
	}
	grace := time.NewTimer(interruptGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	}
	group.kill() // also after the program itself has ended: its children may not have
	return true
}

// reason is why ctx is done. A bare deadline is a timeout like any other.
func reason(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, grapnel.ErrTimeout) {
		return fmt.Errorf("%w: %w", grapnel.ErrTimeout, cause)
	}
	return cause
}

// A head keeps the first bytes of what is written to it and counts the others.
type head struct {
	kept  []byte
	limit int
	cut   int
}

// Write never fails: a program that says too much is read to its end, or it would
// block on the pipe.
func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.limit-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.cut += len(p) - n
	return len(p), nil
}
