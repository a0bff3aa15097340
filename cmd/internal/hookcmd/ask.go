package hookcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// Asker returns the hook of an `http:` entry, which sends real requests. It stores its circuit
// breaker state in c. grapnel-hook makes no connections itself, because the network packages would
// slow down each start. It starts the program grapnel instead.
func Asker(c ask.Circuits, h policyfile.HTTP, reach func() policyfile.Reach) grapnel.Hook {
	return &ask.Hook{HTTP: h, Reach: reach, Circuits: c, Send: func(ctx context.Context, question []byte) (ask.Reply, error) {
		return deliver(ctx, h.Name, question)
	}}
}

// deliver asks the server of a hook by the program grapnel in the directory of this program.
func deliver(ctx context.Context, hook string, question []byte) (ask.Reply, error) {
	program, err := grapnelProgram()
	if err != nil {
		return ask.Reply{}, err
	}
	return runDeliver(ctx, program, hook, question)
}

// grapnelProgram returns the path of the program grapnel in the directory of this program.
func grapnelProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return beside(self)
}

// maxServerReply is the maximum size of an ask.Reply in bytes: the answer and its JSON wrapper.
const maxServerReply = process.DefaultMaxOutput + 64<<10

// runDeliver runs "grapnel deliver", which makes the connection. It passes no environment
// variables: an agent's project could set one that changes the trusted certificates or the proxy.
func runDeliver(ctx context.Context, program, hook string, stdin []byte) (ask.Reply, error) {
	end, err := process.System.Run(ctx, &process.Program{
		Args: []string{program, "deliver"}, Env: []string{}, Dir: filepath.Dir(program), Stdin: append(stdin, '\n'), MaxOutput: maxServerReply,
		Hook: hook, Inherit: process.InheritMinimal,
	})
	if err == nil && end.Stopped != nil {
		err = end.Stopped
	}
	if err != nil {
		return ask.Reply{}, fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	text := strings.TrimSpace(string(end.Stderr.Head))
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "grapnel: error: "), "\n")
	switch {
	case end.Signal != "":
		return ask.Reply{}, fmt.Errorf("%s was ended by signal %s", filepath.Base(program), end.Signal)
	case end.Exit != 0:
		return ask.Reply{}, fmt.Errorf("exit code %d: %s", end.Exit, text)
	case end.Stdout.Cut > 0:
		return ask.Reply{}, fmt.Errorf("the output of %s is larger than %d bytes", filepath.Base(program), maxServerReply)
	case len(end.Stdout.Head) == 0:
		return ask.Reply{}, nil // it delivered to a webhook, which has no answer
	}
	var reply ask.Reply
	if err := json.Unmarshal(end.Stdout.Head, &reply); err != nil {
		return ask.Reply{}, fmt.Errorf("cannot decode the output of %s (do both programs have the same version?): %w", filepath.Base(program), err)
	}
	return reply, nil
}
