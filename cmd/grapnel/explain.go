package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// explanation is what "grapnel explain --json" prints.
type explanation struct {
	Agent   string            `json:"agent"`
	Event   grapnel.Kind      `json:"event"`
	Record  string            `json:"record,omitempty"` // the event is that of this Record, as it was kept
	Plan    []grapnel.Planned `json:"plan"`
	Hooks   []hookPart        `json:"hooks"` // in the order in which they were asked, then those of the plan that were not
	Merge   []string          `json:"merge,omitempty"`
	Verdict explainedVerdict  `json:"verdict"`
	Reply   explainedReply    `json:"reply"`
	NotYet  []notYet          `json:"not_yet,omitempty"` // hooks that wait for something to happen first
	Others  []other           `json:"others,omitempty"`  // hooks that do not listen: those that nearly would, or all
	Why     []whyHook         `json:"why,omitempty"`     // of the hook that was asked about
	NotRun  []string          `json:"not_run,omitempty"` // programs and servers that would have been asked
	Error   string            `json:"error,omitempty"`   // the event could not be read
	Notices []string          `json:"notices,omitempty"`
	MS      float64           `json:"ms"` // that the firing took

	Policies []policy.Loaded `json:"policies"` // that there are

	about   []string // the event in words, a line each
	timed   bool     // it shows how long each took
	more    int      // hooks that listen to such events and are not among Others
	servers []string // hooks that ask one
	sent    *grapnel.Event
	mask    func(string) string
}

// hookPart is a hook's part in a firing.
type hookPart struct {
	Step   int            `json:"step,omitempty"` // hooks of one step see the same event
	Round  int            `json:"round,omitempty"`
	Phase  grapnel.Phase  `json:"phase"`
	Hook   string         `json:"hook"`
	Source string         `json:"source"`
	File   string         `json:"file,omitempty"`
	Line   int            `json:"line,omitempty"`
	Why    []policy.Check `json:"why,omitempty"` // its conditions
	Part   part           `json:"part"`
	Reason string         `json:"because,omitempty"` // of the part, in words

	Saw      map[grapnel.Field]json.RawMessage `json:"saw,omitempty"` // what it saw otherwise than as it came
	Said     *grapnel.Outcome                  `json:"said,omitempty"`
	Decision grapnel.Decision                  `json:"decision"`
	Cause    grapnel.Cause                     `json:"cause,omitempty"`
	Error    string                            `json:"error,omitempty"`
	Wrote    *wrote                            `json:"wrote,omitempty"` // of a program that was run
	MS       float64                           `json:"ms"`

	matched string
	saw     *grapnel.Event
	run     grapnel.HookRun
}

// A part is what became of a hook's answer.
type part string

// The parts.
const (
	partNone     part = "none"     // it has no opinion
	partDecides  part = "decides"  // the verdict is what it said
	partOutvoted part = "outvoted" // a stronger decision counts
	partExpired  part = "expired"  // its allow does not count
	partObserves part = "observes" // its mode is observe
	partFailed   part = "failed"   // it could not answer, which counts as no opinion
	partAdds     part = "adds"     // it decides nothing, and changes the event or tells something
	partNotAsked part = "not_asked"
	partLater    part = "later" // it runs after the answer
)

// wrote is what a program left.
type wrote struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Exit   int    `json:"exit"`
	Signal string `json:"signal,omitempty"`
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
	Decision    grapnel.Decision                  `json:"decision"`
	Reasons     []grapnel.Reason                  `json:"reasons"`
	Messages    []string                          `json:"messages,omitempty"`
	Context     []string                          `json:"context"`
	Changes     map[grapnel.Field]json.RawMessage `json:"changes"`
	Halt        string                            `json:"halt"`
	Unsupported []string                          `json:"unsupported"`
}

type explainedReply struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Exit   int    `json:"exit"`
}

// explaining is what somebody wants explained.
type explaining struct {
	event    string   // file of a payload
	short    short    // or the event in few words
	record   string   // or the ID of the Record that has it
	policies []string // beside those in force
	why      string   // a hook
	all      bool
	run      bool // programs
}

func newExplain(c *console) *cobra.Command {
	var e explaining
	cmd := &cobra.Command{
		Use:   "explain [AGENT] [--event FILE|- | --command LINE | --tool NAME ... | --prompt TEXT | --record ID]",
		Short: "Say how an event would be answered, and why",
		Long: `Draws what becomes of an event: who listens and why, what each hook saw and said,
how that became one verdict, and the bytes that the agent would get. Hooks that
nearly listened stand below, with what kept them from it.

The event is what an agent sends (--event, or standard input), or is said in few
words (--command, --tool, --path, --prompt ...), or is that of a Record (--record),
which is masked as it was kept.

Nothing is recorded, and programs and servers are named and not asked. With --run
they are, and what a program wrote is shown. --why NAME says of one hook why it
did or did not act, whether it listens to the event or not.`,
		Example: `  grapnel explain --command 'git push -f origin main'
  grapnel explain --tool write --path deploy/prod/app.yaml --why keep-out-of-prod
  grapnel explain gemini-cli --prompt 'my key is sk-...'
  grapnel explain claude-code --event event.json --all
  grapnel explain --record 01a2004139ad3849aea55a914b56 --json
  echo '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm -rf /"}}' | grapnel explain`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var named *dialect.Dialect
			if len(args) > 0 {
				var ok bool
				if named, ok = dialect.FindAgent(args[0]); !ok {
					return cli.UnknownAgent(args[0])
				}
			}
			e.short.read(cmd.Flags())
			place, err := c.Place()
			if err != nil {
				return err
			}
			subject, err := c.subject(cmd.Context(), place, named, &e)
			if err != nil {
				return err
			}
			x, err := explain(cmd.Context(), place, subject, &e)
			if err != nil {
				return err
			}
			switch {
			case c.JSON:
				return c.PrintJSON(x)
			case e.why != "":
				c.printWhy(x)
			default:
				c.printExplanation(x)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&e.event, "event", "-", "`FILE` with the event as the agent sends it, - for standard input")
	flags.StringVar(&e.record, "record", "", "the event of the Record with this `ID`; see \"grapnel log --json\"")
	e.short.flags(flags)
	flags.StringArrayVar(&e.policies, "policy", nil, "one more policy `FILE`; may be repeated")
	flags.StringVar(&e.why, "why", "", "why the hook of this `NAME` did or did not act")
	flags.BoolVar(&e.all, "all", false, "show all hooks, also those that do not listen")
	flags.BoolVar(&e.run, "run", false, "really run the programs, and ask the servers, of hooks")
	return c.jsonFlag(cmd)
}

// A subject is the event that is explained, and how the agent gets its answer.
type subject struct {
	event  *grapnel.Event
	unread bool // what is wrong with it is in the Record
	record string
	answer func(context.Context, *grapnel.Engine) dialect.Reply
}

// subject finds the event.
func (c *console) subject(ctx context.Context, place local.Place, named *dialect.Dialect, e *explaining) (*subject, error) {
	ways := 0
	for _, given := range []bool{e.event != "-", e.record != "", e.short.given()} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, cli.Usage(cli.WithHint(errors.New("there are several events"), "name one: --event, --record, or --command and its like"))
	case e.record != "" && named != nil:
		return nil, cli.Usage(cli.WithHint(errors.New("a Record knows its agent"), "leave the agent out"))
	case e.record != "":
		return recorded(ctx, place, e.record)
	case e.short.given():
		return e.short.subject(cmp.Or(named, dialect.ClaudeCode()))
	}
	payload, err := c.readEvent(e.event)
	if err != nil {
		return nil, err
	}
	d := named
	if d == nil {
		d = cmp.Or(dialect.Detect(payload), dialect.ClaudeCode())
	}
	got := dialect.Receive(d, dialect.Input{Payload: payload})
	return &subject{event: got.Event, unread: got.Err != nil, answer: got.Answer}, nil
}

func (c *console) readEvent(name string) ([]byte, error) {
	if name != "-" {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the event: %w", err)
		}
		return data, nil
	}
	if cli.Terminal(c.In) {
		fmt.Fprintln(c.Err, "grapnel: reading the event from standard input")
	}
	return io.ReadAll(io.LimitReader(c.In, dialect.MaxPayload+1))
}

// explain answers an event with nothing kept, and no program run unless that is wanted.
func explain(ctx context.Context, place local.Place, s *subject, e *explaining) (*explanation, error) {
	ev := s.event
	x := &explanation{Agent: ev.Agent.Name, Event: ev.Kind, Record: s.record, Plan: []grapnel.Planned{}, Hooks: []hookPart{}, sent: ev, timed: e.all || e.why != ""}
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sp.Close() }()
	trial := &trial{place: place, run: e.run, counter: looking{sp}}
	opts := trial.options()
	opts.Unread = s.unread
	opts.Place, opts.Files = &place, place.Files(e.policies, place.Dirs(ev, false))
	opened, err := local.Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	engine, set := opened.Engine, opened.Set
	trial.networks = set.Networks
	x.mask = masker(&set)
	x.about = eventWords(ev, x.mask)

	plan := engine.Plan(ev)
	reply := s.answer(ctx, engine)
	trial.runLater(ctx)
	x.NotRun, x.servers = trial.notRun, trial.servers
	x.Reply = explainedReply{Stdout: string(reply.Stdout), Stderr: string(reply.Stderr), Exit: reply.Exit}
	rec := &trial.record
	x.Error, x.MS = rec.Error, rec.MS
	verdict := rec.Verdict
	x.Verdict = explainedVerdict{
		Decision: verdict.Decision, Reasons: notNil(verdict.Reasons), Messages: verdict.Messages, Context: notNil(verdict.Context),
		Changes: verdict.Changes, Halt: verdict.Halt, Unsupported: notNil(verdict.Unsupported),
	}
	if x.Verdict.Changes == nil {
		x.Verdict.Changes = map[grapnel.Field]json.RawMessage{}
	}
	for _, p := range plan.Entries { // it is shown to others, and what was looked for is not told
		p.Matched = x.mask(p.Matched)
		x.Plan = append(x.Plan, p)
	}

	t := telling{x: x, engine: engine, specs: engine.List(""), trial: trial, rec: rec, plan: plan}
	t.hooks()
	t.merge()
	t.others(e.all)
	if e.why != "" {
		if err := t.why(e.why, place, &set); err != nil {
			return nil, err
		}
	}
	x.notices(place, &set)
	return x, nil
}

// notices says what a person should know of the policies.
func (x *explanation) notices(place local.Place, set *policy.Set) {
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
}

// masker hides secrets as Records do, and by the rules of the policies.
func masker(set *policy.Set) func(string) string {
	return func(text string) string {
		text = spool.Mask(text)
		if set.Hide != nil {
			text = set.Hide(text)
		}
		return text
	}
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
