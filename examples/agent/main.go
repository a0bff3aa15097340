// Program agent is a small agent for the terminal, with a model behind an OpenAI-compatible endpoint,
// the tools shell, read, write, fetch and task, and the hooks of grapnel.yaml for all of its events.
// See README.md in this directory.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/local/server"
	"github.com/grapnel-dev/grapnel/outbound"
)

const usage = `usage: agent [FLAGS] ["TASK"]

An agent that follows the rules of grapnel.yaml. Without a task it reads prompts from the terminal.
Shell, write and fetch need approval: by a rule with allow, or by you at the terminal.

Exit code 0: the model answered. 1: no answer. 3: hooks ended the turn. 64: invalid command line.
130: the user canceled the turn.

`

// Exit codes.
const (
	exitFailed    = 1
	exitBlocked   = 3
	exitUsage     = 64
	exitCancelled = 130
)

// name is the name of this agent in Records.
const name = "example-agent"

// observers get each Record.
var observers []grapnel.Observer

// An agent is one session at a terminal.
type agent struct {
	*terminal

	// The parsed command line.
	base, model, keyEnv, system, root, prompt string
	timeout                                   time.Duration
	incremental                               bool
	parallel                                  int
	policies                                  []string
	reachable                                 outbound.Guard // private networks and names that fetch may reach

	cwd      string
	endpoint *provider
	guards   *server.Engine
	host     *host.Host
	loop     *host.Loop
}

func (a *agent) parse(args []string) error {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // start prints errors
	flags.StringVar(&a.base, "base-url", cmp.Or(os.Getenv("OPENAI_BASE_URL"), "https://api.openai.com/v1"), "`URL` of the endpoint (OPENAI_BASE_URL)")
	flags.StringVar(&a.model, "model", os.Getenv("OPENAI_MODEL"), "`NAME` of the model (OPENAI_MODEL)")
	flags.StringVar(&a.keyEnv, "key-env", "OPENAI_API_KEY", "`NAME` of the variable that contains the key")
	flags.StringVar(&a.system, "system", "", "`TEXT` that replaces the agent's own system prompt")
	flags.StringVar(&a.root, "root", "", "`DIR` of the user's policy and state")
	flags.DurationVar(&a.timeout, "timeout", 10*time.Minute, "`TIME` limit for one answer of the model")
	flags.BoolVar(&a.incremental, "incremental", false, "judge and show each piece of an answer")
	flags.IntVar(&a.parallel, "parallel", 4, "maximum `NUMBER` of concurrent tool calls")
	flags.Func("policy", "additional policy `FILE`, which needs no trust; may be repeated", func(file string) error { a.policies = append(a.policies, file); return nil })
	flags.Func("network", "private `NETWORK` or name that fetch may reach, such as 10.1.2.0/24 or *.corp.internal; may be repeated", func(network string) error {
		opened, err := outbound.ParseGuard([]string{network})
		a.reachable.Networks = append(a.reachable.Networks, opened.Networks...)
		a.reachable.Names = append(a.reachable.Names, opened.Names...)
		return err
	})
	err := flags.Parse(args)
	a.prompt = strings.Join(flags.Args(), " ")
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(a.out)
		fmt.Fprint(a.out, usage)
		flags.PrintDefaults()
	case err != nil:
	case flags.NArg() > 1:
		return fmt.Errorf("%s is after the task: put flags first, and the task in quotes", flags.Arg(1))
	case a.model == "":
		return errors.New("no model is set: use --model NAME, or set OPENAI_MODEL")
	case a.prompt == "" && !a.person:
		return errors.New("no task: pass one as an argument, or start the agent at a terminal")
	}
	return err
}

func main() { os.Exit(start(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// start runs the program and returns its exit code.
func start(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &agent{terminal: newTerminal(stdin, stdout, stderr)}
	switch err := a.parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		a.printf("agent: error: %v\nagent: hint: run \"agent --help\"", err)
		return exitUsage
	}
	if err := a.open(); err != nil {
		a.printf("agent: error: %v", err)
		return exitFailed
	}
	return a.run()
}

// open creates everything that a session needs.
func (a *agent) open() (err error) {
	if a.cwd, err = os.Getwd(); err != nil {
		return err
	}
	a.guards, err = server.Open(context.Background(), &server.Options{Root: a.root, CWD: a.cwd, Policies: a.policies, Agent: name, Observers: observers})
	if err != nil {
		return err
	}
	a.endpoint = &provider{base: a.base, key: os.Getenv(a.keyEnv), limit: a.timeout}
	tools := newToolbox(a.keyEnv, a.reachable, a.printf).tools()
	a.loop = a.newLoop(append(tools, task(func() *host.Loop { return a.newLoop(tools) }, a.printf)))
	a.loop.Show, a.loop.Deliver = a.show, a.deliver
	a.loop.Provider = host.ProviderFunc(func(ctx context.Context, r *host.Request, yield func(string) error) (*host.Response, error) {
		a.endLine()
		return a.endpoint.Generate(ctx, r, yield)
	})
	a.host = host.New(a.guards.Engine, &host.Options{
		Agent: grapnel.Agent{Name: name}, Tools: host.Infos(a.loop.Tools), Approve: a.terminal, Incremental: a.incremental,
		ShowMessage: func(_ context.Context, message string) { a.printf("%s", message) },
	})
	return nil
}

// newLoop returns the loop for the agent and for its sub-agents.
func (a *agent) newLoop(tools []host.AgentTool) *host.Loop {
	system := cmp.Or(a.system, fmt.Sprintf("You help a person with their files and programs. Use your tools, report your findings and actions, and be brief. Do not retry a blocked call in another way.\nYou are in %s on %s.", a.cwd, runtime.GOOS))
	return &host.Loop{Provider: a.endpoint, Name: a.model, System: system, Tools: tools, Parallel: a.parallel}
}

// run runs the session from its start to its end and returns the exit code.
func (a *agent) run() (exit int) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := errors.Join(a.host.Close(ctx), a.guards.Close(ctx)); err != nil {
			a.printf("agent: error: %v", err)
			exit = max(exit, exitFailed)
		}
	}()
	a.host.Open(ctx)
	info := grapnel.Session{ID: rand.Text(), CWD: a.cwd, Root: a.guards.Root, Model: a.model, Channel: channel}
	ctx, session, added, err := a.host.Start(ctx, info, "startup")
	if err != nil {
		a.printf("agent: %v", err)
		return exitBlocked
	}
	a.loop.Context = added
	cause := "exit"
	if a.prompt == "" {
		exit = a.talk(ctx)
	} else {
		exit = a.turn(ctx, a.prompt)
		cause = cmp.Or(map[int]string{0: "completed", exitCancelled: "cancelled"}[exit], "error")
	}
	session.End(context.WithoutCancel(ctx), cause)
	return exit
}

// turn processes a prompt and returns the exit code. Ctrl-C cancels it.
func (a *agent) turn(ctx context.Context, prompt string) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	a.shown, a.sent = "", false
	var answer *host.Answer
	err := host.SessionFromContext(ctx).Received(ctx, grapnel.Message{Role: "user", Channel: channel, Content: prompt})
	if err == nil {
		answer, err = a.loop.Run(ctx, host.Text("user", prompt))
	}
	switch {
	case err == nil && answer.Status == host.StatusBlocked:
		return exitBlocked
	case err == nil:
		return 0
	case host.Refused(err) != nil: // of the message, because the loop returns its refusals as answers
		a.printf("agent: %v", err)
		return exitBlocked
	case ctx.Err() != nil:
		a.printf("agent: cancelled")
		return exitCancelled
	}
	a.endLine()
	a.printf("agent: error: %v", err)
	return exitFailed
}

// talk runs the conversation at a terminal. Ctrl-C at the prompt ends it.
func (a *agent) talk(ctx context.Context) int {
	for {
		fmt.Fprint(a.err, "> ")
		waiting, stop := signal.NotifyContext(ctx, os.Interrupt)
		text, ok := a.line(waiting)
		canceled := waiting.Err() != nil
		stop()
		switch text = strings.TrimSpace(text); {
		case canceled:
			return exitCancelled
		case !ok || text == "/exit":
			return 0
		case text != "":
			a.turn(ctx, text)
		}
	}
}
