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

// An Executor runs the programs of Commands and Workers. [System] runs them on this machine; your
// own Executor can run them in a sandbox.
//
// Run starts a program and returns when it has ended. If ctx is done, Run ends the program and
// sets Stopped in the Ending. If the Executor has a method Grace() time.Duration, that is the maximum
// time for that. An error means that the program did not run. Run is called concurrently. It may
// modify p, except for the Event.
type Executor interface {
	Run(ctx context.Context, p *Program) (*Ending, error)
}

// ExecutorFunc adapts a function to an Executor, for example one that changes a program and calls
// System.Run.
type ExecutorFunc func(ctx context.Context, p *Program) (*Ending, error)

// Run calls f.
func (f ExecutorFunc) Run(ctx context.Context, p *Program) (*Ending, error) { return f(ctx, p) }

// Grace returns the grace period of System.
func (f ExecutorFunc) Grace() time.Duration { return system{}.Grace() }

// A Program holds the start parameters of a Command or a Worker.
type Program struct {
	Args      []string // a path, or a name to look up on the PATH of Env, followed by arguments; a Line is an argument of the shell
	Env       []string // the complete environment; of several equal names the last one wins
	Dir       string   // working directory
	Stdin     []byte
	MaxOutput int // limit in bytes for stdout and for stderr in the Ending

	// A Worker sets these fields instead of Stdin, because it exchanges messages with its running
	// program; the Outputs of the Ending are then empty. Run closes Input when the program has
	// ended, so that a waiting Read returns. Output and Errors accept all data and never return
	// an error.
	Input          io.ReadCloser
	Output, Errors io.Writer

	Hook    string         // name of the hook
	Inherit Inherit        // the mode that was used for Env: InheritMinimal is for untrusted programs
	Event   *grapnel.Event // the event; nil = the program is a worker that handles many events
}

// An Ending describes how a program ended, and contains its output.
type Ending struct {
	Exit    int    // exit code; -1 = the program was ended by a signal
	Signal  string // name of the signal; empty = no signal
	Stopped error  // non-nil: the program was ended because ctx was done, with the cause
	Stdout  Output
	Stderr  Output
}

// An Output is the beginning of a program's output.
type Output struct {
	Head []byte
	Cut  int // number of bytes after Head
}

// System runs programs on this machine, with the rights of this process.
var System Executor = system{}

type system struct{}

const (
	// interruptGrace is the time that a program has to clean up after the interrupt.
	interruptGrace = 200 * time.Millisecond

	// outputGrace is how long Run waits for output from children of a program that has ended. It
	// is long enough for the tee in "exec > >(tee log)", and short enough for a child that never
	// closes the pipe. Output of the program itself is always read completely.
	outputGrace = 100 * time.Millisecond
)

// Grace returns the maximum time to end a program after its deadline.
func (system) Grace() time.Duration { return interruptGrace + outputGrace + 200*time.Millisecond }

// Run runs a program in a new process group.
func (system) Run(ctx context.Context, p *Program) (*Ending, error) { return run(ctx, p, nil) }

// run runs a program. If held is not nil, the program is sandboxed by these rules.
func run(ctx context.Context, p *Program, held *rules) (*Ending, error) {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return nil, errors.New("no program is set: Args is empty")
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
	// The exit code decides; the errors of Wait add no information.
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

// stopLate ends the group if ctx is done before the program has ended, and reports whether it
// ended it.
func stopLate(ctx context.Context, group *group, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	case <-ctx.Done():
	}
	if !group.interrupt() {
		return false // the program had ended by itself, and Run only waited for output
	}
	grace := time.NewTimer(interruptGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	}
	group.kill() // also after the program itself has ended, because its children may still run
	return true
}

// reason returns the cause of ctx. A deadline without a cause is treated as a timeout.
func reason(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, grapnel.ErrTimeout) {
		return fmt.Errorf("%w: %w", grapnel.ErrTimeout, cause)
	}
	return cause
}

// A head keeps the first bytes of its input and counts the others.
type head struct {
	kept  []byte
	limit int
	cut   int
}

// Write never fails: all output is read, because the program would otherwise block on the pipe.
func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.limit-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.cut += len(p) - n
	return len(p), nil
}
