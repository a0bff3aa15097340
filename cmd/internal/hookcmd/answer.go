// Package hookcmd implements the program that agents run for each event. It finds the
// configuration, loads the policy, and writes the one reply that dialect.Answer computes. [Main]
// is grapnel-hook and "grapnel hook".
package hookcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Exit codes in addition to the codes that dialects define.
const (
	exitFailure = 1
	exitBlocks  = 2 // several agents read it as a block; only for an answer that cannot be written
	exitUsage   = 64
)

// Version is the version of Grapnel.
const Version = "0.1.0"

const usage = `usage: grapnel-hook [AGENT [EVENT]] [--id T | --root DIR] [--policy FILE]... [--serve]

Reads one event of an AI agent on standard input, evaluates the policy, and writes the
reply in the agent's format. Agents run it after "grapnel install".

  AGENT          name of the agent; default: found from the payload. Known agents:
                 %s
  EVENT          the agent's name of the event, if the payload does not contain it
  --id T         use policy and state of the installation with this ID
  --root DIR     use policy and state below DIR instead
  --policy FILE  use one more policy file; repeatable
  --serve        answer events, one line of JSON each, until standard input ends: for plugins
  --version      print the version
  --help         print this help

To see a reply and its reasons: grapnel explain
To run a shell line in a sandbox: grapnel-hook contain --help
`

// agentLines lists the agents in lines of at most 100 columns, indented for the help.
func agentLines() string {
	const indent, width = 17, 100
	var lines strings.Builder
	column := indent
	for i, name := range dialect.Names() {
		switch {
		case i == 0:
		case column+len(", ")+len(name) < width:
			column += len(", ")
			lines.WriteString(", ")
		default:
			column = indent
			lines.WriteString(",\n" + strings.Repeat(" ", indent))
		}
		column += len(name)
		lines.WriteString(name)
	}
	return lines.String()
}

// invocation is a parsed command line.
type invocation struct {
	agent, event string
	root, id     string
	policies     []string
	help         bool
	version      bool
	drain        bool
	serve        bool

	firing string                        // the ID of the firing, if a daemon already received the event with it; empty = any
	outbox func(local.Place) late.Outbox // see Program
	look   WebhookCheck                  // see Program
	watch  *watchdog                     // of this event; nil = the caller has its own deadline
}

// parseArgs parses the command line. Flags may follow the arguments.
func parseArgs(args []string) (invocation, error) {
	var inv invocation
	flags := flag.NewFlagSet("grapnel-hook", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	text := func(name string, set func(value string)) {
		flags.Func(name, "", func(value string) error {
			if value == "" {
				return errors.New("it is empty")
			}
			set(value)
			return nil
		})
	}
	text("id", func(id string) { inv.id = id })
	text("root", func(dir string) { inv.root = dir })
	text("policy", func(file string) { inv.policies = append(inv.policies, file) })
	flags.BoolVar(&inv.help, "help", false, "")
	flags.BoolVar(&inv.help, "h", false, "")
	flags.BoolVar(&inv.version, "version", false, "")
	flags.BoolVar(&inv.drain, "drain", false, "")
	flags.BoolVar(&inv.serve, "serve", false, "")
	if slices.Contains(args, "--") { // package flag would skip it
		return inv, errors.New(`unknown option "--"`)
	}
	var words []string
	for {
		if err := flags.Parse(args); err != nil {
			return inv, err
		}
		if flags.NArg() == 0 {
			break
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	if inv.root != "" && inv.id != "" {
		return inv, errors.New("--id and --root cannot be used together")
	}
	if inv.root != "" {
		abs, err := filepath.Abs(inv.root) // the drain runs in another directory
		if err != nil {
			return inv, fmt.Errorf("--root %s: %w", inv.root, err)
		}
		inv.root = abs
	}
	switch len(words) {
	case 2:
		inv.event = words[1]
		fallthrough
	case 1:
		inv.agent = words[0]
	case 0:
	default:
		return inv, fmt.Errorf("too many arguments: %s", strings.Join(words[2:], " "))
	}
	return inv, nil
}

// A Program is grapnel-hook with the extra parts that "grapnel hook" has.
type Program struct {
	Outbox  func(local.Place) late.Outbox // stores the events of `notify:` hooks; nil = no outbox, and these hooks fail
	Webhook WebhookCheck                  // nil = the program grapnel checks webhooks, once for each content
}

// Main runs grapnel-hook and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return Program{}.Main(args, stdin, stdout, stderr)
}

// Main runs the program and returns its exit code. It recovers from panics.
func (p Program) Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (exit int) {
	defer func() {
		if r := recover(); r != nil { // even lastResort panicked
			fmt.Fprintf(stderr, "grapnel: error: internal error: %v\n", r)
			exit = exitFailure
		}
	}()
	if len(args) > 0 && args[0] == containWord {
		return contain(args[1:], stdin, stdout, stderr)
	}
	inv, err := parseArgs(args)
	inv.look = p.Webhook
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "grapnel: error: %v\ngrapnel: hint: run \"grapnel-hook --help\"\n", err)
		return exitUsage
	case inv.help:
		fmt.Fprintf(stdout, usage, agentLines())
		return 0
	case inv.version:
		fmt.Fprintf(stdout, "grapnel %s\n", Version)
		return 0
	case inv.drain:
		inv.outbox = p.Outbox
		return drain(inv, stderr)
	}
	var named *dialect.Dialect
	if inv.agent != "" {
		var ok bool
		if named, ok = agents(nil).find(inv.agent); !ok {
			fmt.Fprintf(stderr, "grapnel: error: unknown agent %q\ngrapnel: hint: known agents: %s\n", inv.agent, strings.Join(dialect.Names(), ", "))
			return exitUsage
		}
	}
	if inv.serve {
		return serve(inv, named, stdin, stdout, stderr)
	}
	inv.watch = newWatchdog(&inv, named, true)
	result := inv.watch.run(context.Background(), func(ctx context.Context) worked { return inv.work(ctx, named, stdin) })
	defer inv.watch.settle() // after the reply, which must not be delayed
	return inv.give(result.reply.Stdout, result.reply.Stderr, result.reply.Exit, result.pending, stdout, stderr)
}

// work reads the event and computes the reply.
func (inv *invocation) work(ctx context.Context, named *dialect.Dialect, stdin io.Reader) worked {
	place, err := local.Locate(inv.root, inv.id)
	inv.watch.found(place)
	input := readInput(inTime(stdin))
	input.Event = inv.event
	inv.watch.read(input)
	if err == nil {
		if a := inv.askDaemon(place, input); a != nil {
			return worked{dialect.Reply{Stdout: a.Stdout, Stderr: a.Stderr, Exit: a.Exit}, a.Drain}
		}
	}
	d := agents(nil).choose(named, input.Payload, place.Agent)
	reply, pending := answer(ctx, *inv, d, input, place, err)
	return worked{reply, pending}
}

// give writes the reply to the agent, and then starts the drain for pending observing hooks.
func (inv *invocation) give(stdoutText, stderrText []byte, exit int, pending bool, stdout, stderr io.Writer) int {
	if len(stdoutText) > 0 {
		_, err := stdout.Write(stdoutText)
		if err == nil && wasClosed(stdout) {
			err = errors.New("standard output is closed")
		}
		switch {
		case errors.Is(err, syscall.EPIPE): // the agent is gone
			return exitFailure
		case err != nil: // the agent may be there, and must not go on without the answer
			fmt.Fprintf(stderr, "grapnel: error: cannot write the answer: %v\n", err)
			exit = max(exit, exitBlocks)
		}
	}
	if len(stderrText) > 0 {
		_, _ = stderr.Write(stderrText)
	}
	if pending {
		if err := startDrain(*inv); err != nil {
			fmt.Fprintf(stderr, "grapnel: error: cannot start async hooks now; they run after the next event: %v\n", err)
		}
	}
	return exit
}

// choose returns the dialect of the reply: the dialect that the command line names, else the
// dialect that the payload certainly has, else the dialect of the settings file that contains the
// command. Only Claude Code's settings contain commands without an agent name.
func (a agents) choose(named *dialect.Dialect, payload []byte, installed string) *dialect.Dialect {
	if named != nil {
		return named
	}
	if d, ok := a.find(dialect.DetectName(payload)); ok {
		return d
	}
	if d, ok := a.find(installed); ok {
		return d
	}
	d, _ := a.find("claude-code")
	return d
}

// agents maps names to dialects. A daemon keeps one, so that it does not copy the dialect tables
// for each event. nil = copy them for each event.
type agents map[string]*dialect.Dialect

func newAgents() agents {
	a := agents{}
	for _, d := range dialect.All() {
		a[d.Name] = d
	}
	return a
}

// find returns the dialect of an agent by its name or alias.
func (a agents) find(name string) (*dialect.Dialect, bool) {
	if a == nil {
		return dialect.FindAgent(name)
	}
	full, _ := dialect.FullName(name)
	d, ok := a[full]
	return d, ok
}

// answer computes the reply. It turns every failure into a reply in the agent's dialect, as for a
// failed guard, and never panics.
func answer(ctx context.Context, inv invocation, d *dialect.Dialect, input dialect.Input, place local.Place, placeErr error) (reply dialect.Reply, pending bool) {
	defer func() {
		if r := recover(); r != nil {
			reply, pending = lastResort(ctx, d, input, fmt.Errorf("internal error: %v", r)), false
		}
	}()
	if placeErr != nil {
		return lastResort(ctx, d, input, placeErr), false
	}
	sp, err := spool.Open(place.State, nil)
	if err != nil {
		return lastResort(ctx, d, input, err), false
	}
	defer func() { _ = sp.Close() }() // where one process serves many events, others follow
	got := inv.receive(d, input)
	inv.watch.received(got.Event)
	f := &firing{spool: sp, keep: spooled{sp}, watch: inv.watch, approvals: approval.Approvals{Store: place.Approvals(), Retry: inv.firing}, identity: place.Identity()}
	f.policies = sync.OnceValue(func() string {
		if f.set == nil {
			return ""
		}
		return f.set.Digest()
	})
	f.approvals.Policy = f.policies
	run := local.Runner(place)
	dirs, rootless := place.SessionDirs(got.Event, true)
	f.rootless = rootless
	o := opening{place: place, spool: sp, judge: f, set: func() *load.Set { return f.set }, send: deliver, look: inv.look}
	o.program = func(c policyfile.Command) grapnel.Hook { f.programs = true; return run(c) }
	opts := o.options(place.Files(inv.policies, dirs), got.Err != nil)
	server := opts.HTTP
	opts.HTTP = func(h policyfile.HTTP) (grapnel.Hook, error) { f.programs = true; return server(h) }
	if got.Err == nil {
		opts.Event = got.Event
	}
	opts.Loaded = func(set *load.Set) error {
		f.set = set
		set.Specs = append(set.Specs, f.notices(got.Event.Kind)...)
		return nil
	}
	f.person = &person{place, got, &inv, f, opts}
	engine, err := local.Open(ctx, opts)
	if err != nil {
		return lastResort(ctx, d, input, err), false
	}
	late.KeepRecords(sp, f.set)
	reply, pending, err = inv.fire(ctx, engine.Engine, f, got, rootless)
	if err != nil {
		return lastResort(ctx, d, input, err), false
	}
	return reply, pending
}

// warn adds an error to the stderr of the reply, unless the reply must stay silent.
func warn(reply *dialect.Reply, err error) {
	if !reply.Silent {
		reply.Stderr = fmt.Appendf(reply.Stderr, "grapnel: error: %v\n", err)
	}
}

// lastResort returns the reply when no policy can be evaluated: the same as if a guard that fails
// closed had failed.
func lastResort(ctx context.Context, d *dialect.Dialect, input dialect.Input, err error) dialect.Reply {
	engine, newErr := grapnel.New(notice.Locked(err.Error()), nil)
	if newErr != nil {
		return dialect.Reply{Stderr: fmt.Appendf(nil, "grapnel: error: %v\n", errors.Join(err, newErr)), Exit: exitFailure}
	}
	reply := dialect.Answer(context.WithoutCancel(ctx), engine, d, input)
	warn(&reply, err)
	return reply
}
