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

// errBeyond is the error for policies that need more than this program supports.
var errBeyond = errors.New("the policies load hook files of other systems")

const (
	// handoverTime is the time of the other program in addition to the hooks, which have their
	// own timeouts. Only a program that hangs exceeds it.
	handoverTime = time.Second

	// handoverGrace is how long the other program may take to end its own programs and write its
	// output.
	handoverGrace = 1500 * time.Millisecond

	// handoverMark begins the output of the other program, followed by its exit code. Output
	// without it is from a wrong program and must not be read as permission.
	handoverMark = "grapnel answers 1 "
)

// handOver lets the program grapnel in the same directory reply to an event. That program also
// reads the hook files of other systems. Few users need them, and they would slow down each start
// of grapnel-hook.
func handOver(ctx context.Context, inv invocation, got dialect.Received, input dialect.Input) (dialect.Reply, error) {
	reply, err := runGrapnel(ctx, inv, got, input)
	if err != nil {
		err = fmt.Errorf("%w, which need the program grapnel: %w", errBeyond, err)
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
	inv.watch.listen() // if the agent ends this process, it must end the other program too
	// The other program gets the same directory, environment and process group, so a signal to
	// the group ends both.
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, append([]string{"hook", "--over"}, inv.words()...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input.Payload), &stdout, &stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return terminate(cmd.Process) }, handoverGrace
	err = cmd.Run()
	if ctx.Err() != nil {
		return dialect.Reply{}, context.Cause(ctx)
	}
	mark, output, ok := bytes.Cut(stdout.Bytes(), []byte("\n"))
	code, marked := strings.CutPrefix(string(mark), handoverMark)
	exit, noCode := strconv.Atoi(code)
	switch {
	case ok && marked && noCode == nil:
		return dialect.Reply{Stdout: output, Stderr: stderr.Bytes(), Exit: exit}, nil
	case err == nil || cmd.ProcessState != nil && cmd.ProcessState.Exited():
		text, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(stderr.String()), "grapnel: error: "), "\n")
		err = fmt.Errorf("invalid output, exit code %d, %.200q", cmd.ProcessState.ExitCode(), text)
	}
	return dialect.Reply{}, fmt.Errorf("%s: %w (install grapnel and grapnel-hook of the same version into the same directory)", program, err)
}

// terminate sends SIGTERM to a process, or kills it if the system has no such signal.
func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err == nil || errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Kill()
}

// markHandover adds the mark and the exit code to the reply, for the program that handed the
// event over.
func (inv *invocation) markHandover(reply *dialect.Reply) {
	if inv.handover {
		reply.Stdout = append(fmt.Appendf(nil, "%s%d\n", handoverMark, reply.Exit), reply.Stdout...)
	}
}

// orphanCheck is how often a process checks whether its parent still exists.
const orphanCheck = 100 * time.Millisecond

// WithParent returns a context that is canceled when the parent process ends. A killed parent
// cannot end this process, and no process reads the reply any more. On systems that do not report
// the loss of a parent, such as Windows, only the timeout ends the context.
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
					cancel(fmt.Errorf("the process that sent the event has ended: %w", context.Canceled))
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// handoverProgram returns the path of the program grapnel in the directory of this program. It
// fails if this program is grapnel itself.
func handoverProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if isHandoverProgram(self) {
		return "", errors.New("the program grapnel cannot hand an event over to itself")
	}
	program, err := beside(self)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(program); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a program (install grapnel and grapnel-hook into the same directory)", program)
	}
	return program, nil
}

// isHandoverProgram reports whether a program is grapnel, which contains grapnel-hook as "grapnel
// hook".
func isHandoverProgram(program string) bool {
	name, _, _ := strings.Cut(filepath.Base(program), ".")
	return name == "grapnel"
}

// words returns the command line arguments of an invocation, for another program that replies to
// the same event.
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
