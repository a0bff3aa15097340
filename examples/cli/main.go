// Command cli runs one shell command if the rules of a policy file permit it. For a rule with ask,
// it asks on the terminal, and runs the command only after the answer y:
//
//	printf 'version: 1\nhooks: [{name: ask, on: tool.before, match: {command: rm}, ask: Delete this?}]\n' > policy.yaml
//	go run ./examples/cli -policy policy.yaml 'rm old.txt'
//
// The policies of the user and of the project apply, too. The exit code is 1 if the command failed
// or did not run. It shows local.Open, host.Tool and host.Approver.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/local"
)

// terminal asks the person at a terminal. Only the line y is a yes.
func terminal(in io.Reader, out io.Writer) host.Approver {
	lines := bufio.NewReader(in)
	return host.ApproverFunc(func(_ context.Context, q *host.Question) (host.Consent, error) {
		fmt.Fprintf(out, "%s\n  %s\n[y/n] ", q.Reason, q.Event.Command())
		line, err := lines.ReadString('\n')
		return host.Consent{Yes: strings.TrimSpace(line) == "y", Reason: "The person said no."}, err
	})
}

// run judges and runs a shell line with the function shell. It returns the tool's result.
func run(ctx context.Context, opts *local.Options, ask host.Approver, line string, shell host.ToolFunc) (host.Result, error) {
	engine, err := local.Open(ctx, opts)
	if err != nil {
		return host.Result{}, err
	}
	defer engine.Close(ctx) //nolint:errcheck // the rules run nothing that could be left
	h := host.New(engine.Engine, &host.Options{Tools: []host.ToolInfo{{Name: "shell", Class: grapnel.ClassShell}}, Approve: ask})
	ctx, session, _, err := h.Start(ctx, grapnel.Session{ID: "cli", CWD: opts.CWD, Root: engine.Root}, "startup")
	if err != nil {
		return host.Result{}, err
	}
	defer session.End(ctx, "exit")
	input, _ := host.JSON(map[string]string{"command": line})
	return host.Tool(ctx, host.Call{ID: "1", Name: "shell", Input: input}, shell)
}

func sh(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	var in struct{ Command string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	output, err := exec.CommandContext(ctx, "sh", "-c", in.Command).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s%w", output, err)
	}
	return output, err
}

func main() {
	file := flag.String("policy", "grapnel.yaml", "policy `file`")
	flag.Parse()
	dir, _ := os.Getwd()
	r, err := run(context.Background(), &local.Options{CWD: dir, Policies: []string{*file}}, terminal(os.Stdin, os.Stderr), flag.Arg(0), sh)
	if err != nil || r.Failed {
		log.Fatal(r.Text(), err)
	}
	fmt.Print(r.Text())
}
