package answer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/process"
)

// errBeyond says that the policies want more than this program has.
var errBeyond = errors.New("the policies load files in the words of other systems")

// handOver lets the program grapnel beside this one answer an event. It is the same
// program but for what reads the hook files of other systems, which would make every
// start of grapnel-hook slower and is wanted by few.
func handOver(ctx context.Context, inv invocation, input dialect.Input) (dialect.Reply, error) {
	fail := func(err error) (dialect.Reply, error) {
		return dialect.Reply{}, fmt.Errorf("%w, which the program grapnel reads: %w", errBeyond, err)
	}
	if input.Err != nil {
		return fail(input.Err)
	}
	program, err := fuller()
	if err != nil {
		return fail(err)
	}
	args := append([]string{program, "hook"}, inv.words()...)
	end, err := process.System.Run(ctx, &process.Program{Args: args, Env: os.Environ(), Stdin: input.Payload, MaxOutput: dialect.MaxPayload})
	switch {
	case err != nil:
		return fail(err)
	case end.Stopped != nil:
		return fail(end.Stopped)
	case end.Signal != "":
		return fail(fmt.Errorf("it was ended by %s", end.Signal))
	}
	return dialect.Reply{Stdout: end.Stdout.Head, Stderr: end.Stderr.Head, Exit: end.Exit}, nil
}

// fuller returns the program grapnel beside this one, unless this is it.
func fuller() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if isFuller(self) {
		return "", errors.New("it is this one, and cannot")
	}
	return beside(self)
}

// isFuller reports whether a program is grapnel, of which "grapnel hook" is this one.
func isFuller(program string) bool {
	name, _, _ := strings.Cut(filepath.Base(program), ".")
	return name == "grapnel"
}

// words is the command line of an invocation, for another program that answers the same
// events.
func (inv *invocation) words() []string {
	var words []string
	if inv.agent != "" {
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
