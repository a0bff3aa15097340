package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/answer"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/spool"
)

// explanation is what "grapnel explain --json" prints.
type explanation struct {
	Agent   string            `json:"agent"`
	Event   grapnel.Kind      `json:"event"`
	Plan    []grapnel.Planned `json:"plan"`
	Verdict explainedVerdict  `json:"verdict"`
	Reply   explainedReply    `json:"reply"`
	NotYet  []notYet          `json:"not_yet,omitempty"` // hooks that wait for something to happen first
	NotRun  []string          `json:"not_run,omitempty"` // programs and servers that would have been asked
	Error   string            `json:"error,omitempty"`   // the event could not be read
	Notices []string          `json:"notices,omitempty"`

	Policies []policy.Loaded `json:"policies"` // that there are

	tool    string
	servers []string // hooks that ask one
}

// kindOf says why a hook was left out.
func (x *explanation) kindOf(hook string) string {
	if slices.Contains(x.servers, hook) {
		return "server: explain does not ask it"
	}
	return "program: explain does not run it"
}

// notYet is a hook that would listen, had something happened before.
type notYet struct {
	Hook   string `json:"hook"`
	Source string `json:"source"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Why    string `json:"why"`
}

type explainedVerdict struct {
	Decision grapnel.Decision                  `json:"decision"`
	Reasons  []grapnel.Reason                  `json:"reasons"`
	Context  []string                          `json:"context"`
	Changes  map[grapnel.Field]json.RawMessage `json:"changes"`
	Halt     string                            `json:"halt"`
	Lost     []string                          `json:"lost"`
}

type explainedReply struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Exit   int    `json:"exit"`
}

func newExplain(c *console) *cobra.Command {
	var event string
	var policies []string
	cmd := &cobra.Command{
		Use:   "explain [AGENT] [--event FILE|-]",
		Short: "Say how an event would be answered, and why",
		Long:  "Reads an event as an agent would send it and prints who would run, what comes of\nit, and the bytes that the agent would get. Nothing is recorded and no program of\na hook is run; those that would be asked are listed.",
		Example: `  grapnel explain claude-code --event event.json
  echo '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm -rf /"}}' | grapnel explain`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			var named *dialect.Dialect
			if len(args) > 0 {
				var ok bool
				if named, ok = dialect.FindAgent(args[0]); !ok {
					return usageError{withHint(fmt.Errorf("unknown agent %q", args[0]), "known are "+strings.Join(dialect.Names(), ", "))}
				}
			}
			place, err := c.place()
			if err != nil {
				return err
			}
			payload, err := c.readEvent(event)
			if err != nil {
				return err
			}
			x, err := explain(place, policies, named, payload)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(x)
			}
			c.printExplanation(x)
			return nil
		},
	}
	cmd.Flags().StringVar(&event, "event", "-", "file with the event, - for standard input")
	cmd.Flags().StringArrayVar(&policies, "policy", nil, "one more policy `FILE`; may be repeated")
	return c.jsonFlag(cmd)
}

func (c *console) readEvent(name string) ([]byte, error) {
	if name != "-" {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the event: %w", err)
		}
		return data, nil
	}
	if terminal(c.in) {
		fmt.Fprintln(c.err, "grapnel: reading the event from standard input")
	}
	return io.ReadAll(io.LimitReader(c.in, dialect.MaxPayload+1))
}

// explain answers an event with nothing kept and no program run.
func explain(place answer.Place, policies []string, named *dialect.Dialect, payload []byte) (*explanation, error) {
	x := &explanation{Plan: []grapnel.Planned{}}
	notRun := func(cmd policy.Command) grapnel.Hook {
		return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			x.NotRun = append(x.NotRun, cmd.Name)
			return grapnel.Outcome{}, nil
		})
	}
	askNobody := func(h policy.HTTP) (grapnel.Hook, error) {
		x.servers = append(x.servers, h.Name)
		return notRun(policy.Command{Name: h.Name}), nil
	}
	var verdict grapnel.Verdict
	d := named
	if d == nil {
		if d = dialect.Detect(payload); d == nil {
			d = dialect.ClaudeCode
		}
	}
	got := dialect.Receive(d, dialect.Input{Payload: payload})
	ev := got.Event // what is wrong with it is in the Record
	dirs := place.Dirs(ev, false)
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return nil, err
	}
	engine, set, err := answer.Open(place, place.Files(policies, dirs), &answer.Options{
		Command: notRun, HTTP: askNobody,
		Webhook: func(policy.Webhook) (grapnel.Hook, error) { return grapnel.Func(nil), nil }, // an observer, and none is run
		Notify:  func(policy.HTTP) (grapnel.Hook, error) { return grapnel.Func(nil), nil },    // likewise
		Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
			verdict = *rec.Verdict
			x.Error = rec.Error
		})},
		Counter: looking{sp},
		Background: listed(func(s grapnel.Spec) {
			if !policy.WritesLine(s.Hook) {
				x.NotRun = append(x.NotRun, s.Name)
			}
		}),
	})
	if err != nil {
		return nil, err
	}
	x.Agent, x.Event = ev.Agent.Name, ev.Kind
	if ev.Tool != nil {
		x.tool = ev.Tool.Name
	}
	x.Plan = engine.Plan(ev).Entries
	for i := range x.Plan { // it is shown to others, and what was looked for is not told
		if p := &x.Plan[i]; set.Hide != nil {
			p.Matched = set.Hide(spool.Mask(p.Matched))
		} else {
			p.Matched = spool.Mask(p.Matched)
		}
	}
	for _, s := range engine.List(ev.Kind) {
		if why := policy.NotYet(&s, ev); why != "" {
			x.NotYet = append(x.NotYet, notYet{s.Name, s.Source.Name, s.Source.File, s.Line, why})
		}
	}
	reply := got.Answer(context.Background(), engine)
	x.Reply = explainedReply{Stdout: string(reply.Stdout), Stderr: string(reply.Stderr), Exit: reply.Exit}
	x.Verdict = explainedVerdict{
		Decision: verdict.Decision, Reasons: notNil(verdict.Reasons), Context: notNil(verdict.Context),
		Changes: verdict.Changes, Halt: verdict.Halt, Lost: notNil(verdict.Lost),
	}
	if x.Verdict.Changes == nil {
		x.Verdict.Changes = map[grapnel.Field]json.RawMessage{}
	}
	x.Policies = set.Files
	for _, file := range set.Files {
		if file.Notice != "" {
			x.Notices = append(x.Notices, file.Notice)
		}
		if file.RunBy != "" && file.RunBy == x.Agent {
			x.Notices = append(x.Notices, fmt.Sprintf("grapnel: %s runs the hooks of %s by itself, so none of them listens here", file.RunBy, file.File))
		}
	}
	if pause, ok := policy.ReadPause(place.Pause(), time.Now()); ok {
		x.Notices = append(x.Notices, pause.Notice())
	}
	return x, nil
}

// looking is a Counter that keeps nothing, so that looking at a limit uses none of it.
type looking struct{ spool *spool.Spool }

// Count shows change what is kept.
func (l looking) Count(key string, change func([]byte) ([]byte, time.Duration)) error {
	kept, err := l.spool.Counted(key)
	if err == nil {
		change(kept)
	}
	return err
}

// listed is a Background that runs nothing.
type listed func(grapnel.Spec)

// Run calls l for each hook.
func (l listed) Run(_ context.Context, _ *grapnel.Event, hooks []grapnel.Spec) error {
	for _, h := range hooks {
		l(h)
	}
	return nil
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (c *console) printExplanation(x *explanation) {
	section := func(name string) { fmt.Fprintln(c.out, c.paint(bold, name)) }
	for _, notice := range x.Notices {
		fmt.Fprintln(c.out, c.paint(yellow, plain(notice)))
	}
	fmt.Fprintf(c.out, "%s %s %s (%s)\n", c.paint(bold, "event"), plain(string(x.Event)), plain(x.tool), x.Agent)
	if x.Error != "" {
		fmt.Fprintf(c.out, "  %s\n", c.paint(red, plain(x.Error)))
	}
	if slices.ContainsFunc(x.Policies, policy.Loaded.OfProject) {
		section("policies")
		c.printPolicies(x.Policies)
	}
	section("plan")
	if len(x.Plan) == 0 {
		fmt.Fprintln(c.out, "  nobody listens")
	}
	for _, p := range x.Plan {
		at := p.File
		if p.Line > 0 {
			at = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		if pack, ok := strings.CutPrefix(p.Source, p.File+"#"); ok {
			at += " (pack " + pack + ")"
		} else if format, ok := strings.CutSuffix(p.Source, ":"+p.File); ok {
			at += " (" + format + ")"
		}
		fmt.Fprintf(c.out, "  %d %-7s %s  %s\n", p.Step, p.Phase, inLine(p.Hook), c.paint(dim, inLine(at)))
		if p.Matched != "" {
			fmt.Fprintf(c.out, "            %s\n", plain(p.Matched))
		}
		if p.Error != "" {
			fmt.Fprintf(c.out, "            %s\n", c.paint(red, plain(p.Error)))
		}
		if slices.Contains(x.NotRun, p.Hook) {
			fmt.Fprintf(c.out, "            %s\n", c.paint(yellow, "a "+x.kindOf(p.Hook)))
		}
	}
	for _, n := range x.NotYet {
		fmt.Fprintf(c.out, "  - %-7s %s  %s\n            %s\n", "waits", inLine(n.Hook), c.paint(dim, inLine(fmt.Sprintf("%s:%d", n.File, n.Line))), plain(n.Why))
	}
	fmt.Fprintf(c.out, "%s %s\n", c.paint(bold, "verdict"), c.decision(x.Verdict.Decision.String()))
	for _, r := range x.Verdict.Reasons {
		fmt.Fprintf(c.out, "  %s\n", indent(r.Text, "  ")[2:])
	}
	for _, field := range slices.Sorted(maps.Keys(x.Verdict.Changes)) {
		fmt.Fprintf(c.out, "  %s is now %s\n", field, plain(string(x.Verdict.Changes[field])))
	}
	for _, text := range x.Verdict.Context {
		fmt.Fprintf(c.out, "  context: %s\n", indent(text, "    ")[4:])
	}
	if x.Verdict.Halt != "" {
		fmt.Fprintf(c.out, "  halt: %s\n", plain(x.Verdict.Halt))
	}
	for _, lost := range x.Verdict.Lost {
		fmt.Fprintf(c.out, "  %s\n", c.paint(yellow, "lost: "+plain(lost)))
	}
	fmt.Fprintf(c.out, "%s exit %d\n", c.paint(bold, "reply"), x.Reply.Exit)
	for _, out := range []struct{ name, text string }{{"stdout", x.Reply.Stdout}, {"stderr", x.Reply.Stderr}} {
		if out.text != "" {
			fmt.Fprintf(c.out, "  %s: %s\n", out.name, indent(out.text, "    ")[4:])
		}
	}
	if x.Reply.Stdout == "" && x.Reply.Stderr == "" {
		fmt.Fprintln(c.out, "  nothing: the agent goes on as if nobody had been asked")
	}
}
