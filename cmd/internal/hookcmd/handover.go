package hookcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// errBeyond says that the policies want more than this program has.
var errBeyond = errors.New("the policies load files in the words of other systems")

const (
	// handoverTime is what the other program takes beside the hooks, which keep their time
	// themselves: only of one that hangs it is ever over.
	handoverTime = time.Second

	// handoverGrace is how long it may take to end its own programs, and what it has to say.
	handoverGrace = 1500 * time.Millisecond

	// handoverMark begins what it says, and its exit code follows: what says anything else is
	// not the program that was meant, and must not be taken for one that lets pass.
	handoverMark = "grapnel answers 1 "
)

// handOver lets the program grapnel beside this one answer an event. It is the same
// program but for what reads the hook files of other systems, which would make every
// start of grapnel-hook slower and is wanted by few.
func handOver(ctx context.Context, inv invocation, got dialect.Received, input dialect.Input) (dialect.Reply, error) {
	reply, err := runGrapnel(ctx, inv, got, input)
	if err != nil {
		err = fmt.Errorf("%w, which the program grapnel reads: %w", errBeyond, err)
	}
	return reply, err
}

func runGrapnel(ctx context.Context, inv invocation, got dialect.Received, input dialect.Input) (dialect.Reply, error) {
	if input.Err != nil {
		return dialect.Reply{}, input.Err
	}
	program, err := handoverProgram()
	if err != nil {
		return dialect.Reply{}, err
	}
	timeout := got.Event.Budget + handoverTime
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
	defer cancel()
	inv.watch.listen() // an agent that ends us ends what we started
	// It is in the place of this one: in its directory, with its variables, and in its
	// group, so that whoever ends that ends both.
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, append([]string{"hook", "--over"}, inv.words()...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input.Payload), &stdout, &stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return terminate(cmd.Process) }, handoverGrace
	err = cmd.Run()
	if ctx.Err() != nil {
		return dialect.Reply{}, context.Cause(ctx)
	}
	mark, said, ok := bytes.Cut(stdout.Bytes(), []byte("\n"))
	code, marked := strings.CutPrefix(string(mark), handoverMark)
	exit, noCode := strconv.Atoi(code)
	switch {
	case ok && marked && noCode == nil:
		return dialect.Reply{Stdout: said, Stderr: stderr.Bytes(), Exit: exit}, nil
	case err == nil || cmd.ProcessState != nil && cmd.ProcessState.Exited():
		text, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(stderr.String()), "grapnel: error: "), "\n")
		err = fmt.Errorf("it does not answer as it should, exit code %d, %.200q", cmd.ProcessState.ExitCode(), text)
	}
	return dialect.Reply{}, fmt.Errorf("%s: %w (install grapnel and grapnel-hook of one version into the same directory)", program, err)
}

// terminate asks a program to end, or ends it where none can be asked.
func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err == nil || errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Kill()
}

// markHandover says an answer to the program that handed an event over.
func (inv *invocation) markHandover(reply *dialect.Reply) {
	if inv.handover {
		reply.Stdout = append(fmt.Appendf(nil, "%s%d\n", handoverMark, reply.Exit), reply.Stdout...)
	}
}

// orphanCheck is how often a process looks whether the one that started it is there.
const orphanCheck = 100 * time.Millisecond

// WithParent returns a context that ends with the process that started this one: killed,
// it cannot end us, and nobody reads the answer any more. Where a parent cannot be lost
// sight of, as on Windows, the timeout ends it.
func WithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(orphanCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if now := os.Getppid(); now != parent {
					cancel(fmt.Errorf("whoever asked is gone: %w", context.Canceled))
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// handoverProgram returns the program grapnel beside this one, unless this is it.
func handoverProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if isHandoverProgram(self) {
		return "", errors.New("it is this one, and cannot")
	}
	program, err := beside(self)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(program); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no program (install grapnel and grapnel-hook into the same directory)", program)
	}
	return program, nil
}

// isHandoverProgram reports whether a program is grapnel, of which "grapnel hook" is this one.
func isHandoverProgram(program string) bool {
	name, _, _ := strings.Cut(filepath.Base(program), ".")
	return name == "grapnel"
}

// words is the command line of an invocation, for another program that answers the same
// events.
func (inv *invocation) words() []string {
	var words []string
	if inv.agent != "" || inv.event != "" {
		words = append(words, inv.agent)
	}
	if inv.event != "" {
		words = append(words, inv.event)
	}
	switch {
	case inv.root != "":
		words = append(words, "--root", inv.root)
	case inv.id != "":
		words = append(words, "--id", inv.id)
	}
	for _, file := range inv.policies {
		words = append(words, "--policy", file)
	}
	return words
}
