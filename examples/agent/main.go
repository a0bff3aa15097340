// Agent is a small agent for a terminal. It uses a model at any endpoint with OpenAI's chat
// completions API, tools for the shell, files, pages and sub-agents, and the hooks of
// grapnel.yaml for all of its events. See README.md in this directory.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
)

const usage = `usage: agent [FLAGS] ["TASK"]

An agent that follows the rules of grapnel.yaml. Without a task it reads prompts from
the terminal (/help shows commands) or standard input. It needs an endpoint and a model:

  OPENAI_BASE_URL=http://127.0.0.1:11434/v1 agent --model qwen3 "List the files in this directory"

Shell, write and fetch need approval: by a rule with allow, or by you at the terminal.

  --base-url URL      URL of the endpoint (OPENAI_BASE_URL, https://api.openai.com/v1)
  --model NAME        name of the model (OPENAI_MODEL)
  --key-env NAME      the variable that contains the key (OPENAI_API_KEY)
  --params JSON       additional parameters of each request, such as {"temperature": 0}
  --system TEXT       replaces the agent's own system prompt
  --timeout TIME      time limit for one answer of the model (10m)
  --whole             request answers in one piece, without streaming
  --incremental       judge and show each piece of an answer; without it, hooks judge
                      the complete answer first
  --parallel N        maximum number of concurrent tool calls (4)
  --compact-at N      shorten conversations with more messages (60; 0 = never)
  --policy FILE       an additional policy, which needs no trust; may be repeated
  --root DIR          directory of the user's policy and state
  --network CIDR      private network that fetch may reach; may be repeated
  --transcript FILE   append the conversation to FILE, one message per line
  --trace             print every event and the results of its hooks to standard error
  --json              the same as lines of JSON

Exit code 0: the model answered. 1: no answer. 3: hooks ended the turn.
64: invalid command line. 130: the user canceled the turn.
`

// Exit codes.
const (
	exitFailed    = 1
	exitBlocked   = 3
	exitUsage     = 64
	exitCancelled = 130
)

const maxPrompt = 1 << 20 // bytes of standard input

var errCancelled = errors.New("cancelled")

// settings are the parsed command line.
type settings struct {
	base, model, key, keyEnv, params, system string
	root, transcript                         string
	timeout                                  time.Duration
	whole, incremental, trace, json          bool
	parallel, compactAt                      int
	policies                                 []string
	reachable                                []netip.Prefix // networks that fetch may reach
	prompt                                   string
}

func parse(args []string) (*settings, error) {
	s := &settings{}
	var networks []string
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	env := func(name, otherwise string) string {
		if value := os.Getenv(name); value != "" {
			return value
		}
		return otherwise
	}
	list := func(into *[]string) func(string) error {
		return func(value string) error { *into = append(*into, value); return nil }
	}
	flags.StringVar(&s.base, "base-url", env("OPENAI_BASE_URL", "https://api.openai.com/v1"), "")
	flags.StringVar(&s.model, "model", os.Getenv("OPENAI_MODEL"), "")
	flags.StringVar(&s.keyEnv, "key-env", "OPENAI_API_KEY", "")
	flags.StringVar(&s.params, "params", "", "")
	flags.StringVar(&s.system, "system", "", "")
	flags.StringVar(&s.root, "root", "", "")
	flags.StringVar(&s.transcript, "transcript", "", "")
	flags.DurationVar(&s.timeout, "timeout", 10*time.Minute, "")
	flags.BoolVar(&s.whole, "whole", false, "")
	flags.BoolVar(&s.incremental, "incremental", false, "")
	flags.BoolVar(&s.trace, "trace", false, "")
	flags.BoolVar(&s.json, "json", false, "")
	flags.IntVar(&s.parallel, "parallel", 4, "")
	flags.IntVar(&s.compactAt, "compact-at", 60, "")
	flags.Func("policy", "", list(&s.policies))
	flags.Func("network", "", list(&networks))
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	words := flags.Args()
	for i, word := range words {
		if strings.HasPrefix(word, "-") && i > 0 {
			return nil, fmt.Errorf("%s is after the task: put flags first, and the task in quotes", word)
		}
	}
	var object map[string]any
	switch {
	case s.model == "":
		return nil, errors.New("no model is set: use --model NAME, or set OPENAI_MODEL")
	case s.params != "" && json.Unmarshal([]byte(s.params), &object) != nil:
		return nil, fmt.Errorf("--params %s is not a JSON object", s.params)
	case s.timeout <= 0:
		return nil, errors.New("--timeout must be more than 0")
	case !strings.HasPrefix(s.base, "http://") && !strings.HasPrefix(s.base, "https://"):
		return nil, fmt.Errorf("--base-url %s must begin with http:// or https://", s.base)
	}
	var err error
	if s.reachable, err = outbound.ParseNetworks(networks); err != nil {
		return nil, fmt.Errorf("--network: %w", err)
	}
	s.prompt, s.key = strings.Join(words, " "), os.Getenv(s.keyEnv)
	return s, nil
}

func main() { os.Exit(start(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// start runs the program and returns its exit code.
func start(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "agent: error: %v\nagent: hint: run \"agent --help\"\n", err)
		return exitUsage
	}
	a := &agent{settings: s, terminal: newTerminal(stdin, stdout, stderr)}
	if s.prompt == "" && !a.person {
		text, err := io.ReadAll(io.LimitReader(stdin, maxPrompt))
		if s.prompt = strings.TrimSpace(string(text)); s.prompt == "" {
			a.printf("%v\nagent: hint: run \"agent --help\"", errors.Join(errors.New("agent: error: no task: pass one as an argument or on standard input"), err))
			return exitUsage
		}
	}
	if err := a.open(stderr); err != nil {
		a.printf("agent: error: %v", err)
		return exitFailed
	}
	return a.run()
}

// An agent is one session at a terminal.
type agent struct {
	*settings
	*terminal
	cwd      string
	endpoint *provider
	guards   *local.Engine
	servers  *outbound.Client
	host     *host.Host
	loop     *host.Loop
	kept     *os.File // the transcript file; nil = not stored

	mu     sync.Mutex
	cancel context.CancelCauseFunc // cancels the turn; nil = no turn is running, or it is being canceled
}

// open creates everything that a session needs.
func (a *agent) open(stderr io.Writer) (err error) {
	if a.cwd, err = os.Getwd(); err != nil {
		return err
	}
	var observers []grapnel.Observer
	if a.trace || a.json {
		colour := isTerminal(stderr) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		observers = append(observers, &trace{out: stderr, json: a.json, colour: colour})
	}
	opts := &local.Options{Root: a.root, CWD: a.cwd, Policies: a.policies, Observers: observers}
	if a.guards, a.servers, err = openGuards(context.Background(), opts); err != nil {
		return err
	}
	if a.transcript != "" {
		if !filepath.IsAbs(a.transcript) {
			a.transcript = filepath.Join(a.cwd, a.transcript)
		}
		if a.kept, err = os.OpenFile(a.transcript, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	note := a.printf
	if len(observers) > 0 {
		note = func(string, ...any) {} // the trace already shows it
	}
	a.endpoint = &provider{base: a.base, key: a.key, whole: a.whole, limit: a.timeout, client: &http.Client{}}
	tools := newToolbox(a.cwd, a.keyEnv, outbound.Guard{Networks: a.reachable}, note).tools()
	a.loop = a.newLoop(append(tools, task(func() *host.Loop { return a.newLoop(tools) }, note)))
	a.loop.Show, a.loop.Deliver = a.show, a.deliver
	a.loop.Provider = host.ProviderFunc(func(ctx context.Context, r *host.Request, yield func(string) error) (*host.Response, error) {
		if err := a.endLine(); err != nil {
			return nil, err
		}
		return a.endpoint.Generate(ctx, r, yield)
	})
	if a.kept != nil {
		a.loop.Store = a.store
	}
	a.host = host.New(a.guards.Engine, &host.Options{
		Agent: grapnel.Agent{Name: "example-agent"}, Tools: host.Infos(a.loop.Tools), Approve: a.terminal, Incremental: a.incremental,
		ShowMessage: func(_ context.Context, message string) { a.printf("%s", message) },
	})
	return nil
}

// newLoop returns the loop for the agent and for its sub-agents.
func (a *agent) newLoop(tools []host.AgentTool) *host.Loop {
	system := a.system
	if system == "" {
		system = fmt.Sprintf("You help a person with their files and programs. Use your tools, report your findings and actions, and be brief. Do not retry a blocked call in another way.\nYou are in %s on %s.", a.cwd, runtime.GOOS)
	}
	loop := &host.Loop{
		Provider: a.endpoint, Name: a.model, System: system, Tools: tools, Parallel: a.parallel, CompactAt: a.compactAt,
		Summarize: func(ctx context.Context, messages []host.ChatMessage, instructions string) (string, error) {
			return a.summarize(ctx, messages, instructions)
		},
	}
	if a.params != "" {
		loop.Params = json.RawMessage(a.params)
	}
	return loop
}

// summarize calls the model to shorten a conversation.
func (a *agent) summarize(ctx context.Context, messages []host.ChatMessage, instructions string) (string, error) {
	var talk strings.Builder
	for i := range messages {
		m := &messages[i]
		fmt.Fprintf(&talk, "%s: %s\n", m.Role, m.Text())
		for _, call := range m.ToolCalls {
			fmt.Fprintf(&talk, "%s calls %s %s\n", m.Role, call.Name, call.Args)
		}
	}
	request := host.Request{Model: a.model, Messages: []host.ChatMessage{
		host.Text("system", strings.TrimSpace("Summarize this conversation of an agent, so that the agent can continue with the summary only: goals, actions, findings, open tasks. Name files and commands.\n"+instructions)),
		host.Text("user", talk.String()),
	}}
	response, err := host.Model(ctx, request, func(ctx context.Context, request host.Request) (host.Response, error) {
		response, err := a.endpoint.Generate(ctx, &request, func(string) error { return nil })
		if err != nil {
			return host.Response{}, err
		}
		return *response, nil
	})
	if err != nil {
		return "", fmt.Errorf("cannot shorten the conversation: %w", err)
	}
	summary := host.ChatMessage{Content: response.Content}
	if response.FinishReason == host.FinishIncomplete || summary.Text() == "" {
		return "", errors.New("cannot shorten the conversation: the summary was cut off")
	}
	return summary.Text(), nil
}

func (a *agent) store(_ context.Context, m host.ChatMessage) error {
	_, err := a.kept.Write(append(toJSON(m), '\n'))
	return err
}

// run runs the session from its start to its end and returns the exit code.
func (a *agent) run() (exit int) {
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	defer a.watch(end)()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := errors.Join(a.host.Close(ctx), a.guards.Close(ctx), a.servers.Close(ctx))
		if a.kept != nil {
			err = errors.Join(err, a.kept.Close())
		}
		if err != nil {
			a.printf("agent: error: %v", err)
			exit = max(exit, exitFailed)
		}
	}()
	a.host.Open(ctx)
	info := grapnel.Session{ID: rand.Text(), CWD: a.cwd, Root: a.guards.Root, Model: a.model, Channel: channel, Transcript: a.transcript}
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
	session.End(ctx, cause)
	return exit
}

// watch handles signals: the first Ctrl-C cancels the turn. A second one, or any other signal,
// cancels the session. The next one ends the program immediately.
func (a *agent) watch(end context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range signals {
			a.mu.Lock()
			cancel := a.cancel
			a.cancel = nil
			a.mu.Unlock()
			if cancel != nil && s == os.Interrupt {
				cancel(errCancelled)
				continue
			}
			signal.Stop(signals)
			end(errCancelled)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// cancellable runs f with a context that Ctrl-C cancels.
func (a *agent) cancellable(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	set := func(cancel context.CancelCauseFunc) {
		a.mu.Lock()
		a.cancel = cancel
		a.mu.Unlock()
	}
	set(cancel)
	defer set(nil)
	return f(ctx)
}

// turn processes a prompt and returns the exit code.
func (a *agent) turn(ctx context.Context, prompt string) int {
	a.beginAnswer()
	var answer *host.Answer
	err := a.cancellable(ctx, func(ctx context.Context) (err error) {
		if err := host.SessionFromContext(ctx).Received(ctx, grapnel.Message{Role: "user", Channel: channel, Content: prompt}); err != nil {
			return err
		}
		answer, err = a.loop.Run(ctx, host.Text("user", prompt))
		return err
	})
	switch {
	case host.Refused(err) != nil: // of the message, because the loop returns its refusals as answers
		a.printf("agent: %v", err)
		return exitBlocked
	case err != nil:
		return a.failed(errors.Join(err, a.endLine()))
	case answer.Status == host.StatusBlocked:
		return exitBlocked
	}
	return 0
}

// failed reports an error and returns its exit code.
func (a *agent) failed(err error) int {
	if errors.Is(err, errCancelled) {
		a.printf("agent: cancelled")
		return exitCancelled
	}
	a.printf("agent: error: %v", err)
	return exitFailed
}

// talk runs the conversation at a terminal. Commands to the agent are not prompts, so hooks do
// not get them.
func (a *agent) talk(ctx context.Context) int {
	for {
		fmt.Fprint(a.err, "> ")
		text, ok := a.line(ctx)
		if !ok {
			if ctx.Err() != nil {
				return exitCancelled
			}
			return 0
		}
		text = strings.TrimSpace(text)
		command, rest, _ := strings.Cut(text, " ")
		switch {
		case text == "":
		case command == "/exit":
			return 0
		case command == "/compact":
			err := a.cancellable(ctx, func(ctx context.Context) error { return a.loop.Compact(ctx, "manual", rest) })
			if err != nil {
				a.failed(err)
				continue
			}
			a.printf("agent: the conversation has %d messages", len(a.loop.Messages))
		case strings.HasPrefix(text, "/"):
			a.printf("/compact [TOPICS]  shorten the conversation, but keep these topics\n/exit              end the conversation\nCtrl-C cancels the running turn; without a running turn, it ends the session.")
		default:
			a.turn(ctx, text)
		}
	}
}
