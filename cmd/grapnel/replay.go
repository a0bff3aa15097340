package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// replayed is what "grapnel replay --json" prints.
type replayed struct {
	Policy  string `json:"policy"`
	Against string `json:"against,omitempty"` // empty = what was recorded
	*replay.Report
}

func newReplay(c *console) *cobra.Command {
	var wanted wantedFlags
	var last int
	var file, against, format string
	var run bool
	var ask, failOn []string
	cmd := &cobra.Command{
		Use:   "replay [FILE...]",
		Short: "Play what happened against a policy, and say what would be otherwise",
		Long: "Reads Records, of what was kept here or of files that \"grapnel log --json\" wrote\n" +
			"(- is standard input), and asks the policy of today about each event: what is newly\n" +
			"blocked, asked about or let through, by which rule, and what it costs. Sessions are\n" +
			"played in their order, with the time as it was, and with limits that count from nothing.\n\n" +
			"No program and no server of a hook is asked: what the Record tells of its answer counts.\n" +
			"--run runs programs, and --ask NAME asks the server of a hook.\n\n" +
			"--policy FILE is played in the place of your own policy. --against compares with another\n" +
			"policy instead of with what was recorded: with a file, or with one in a revision of git.\n\n" +
			"Exit code 0; 1 where --fail-on finds what it names: " + classNames() + ".",
		Example: "  grapnel replay --since 168h\n" +
			"  grapnel replay --policy draft.yaml --session 8f2c\n" +
			"  grapnel replay records.jsonl --policy grapnel.yaml --against main:grapnel.yaml --format markdown\n" +
			"  grapnel log --json | grapnel replay - --fail-on newly-allowed,newly-blocked",
		RunE: func(cmd *cobra.Command, files []string) error {
			filter, err := wanted.filter()
			if err != nil {
				return err
			}
			for _, class := range failOn {
				if !slices.Contains(replay.Classes(), replay.Class(class)) {
					return cli.Usage(cli.WithHint(fmt.Errorf("--fail-on: there is no %q", class), "name some of "+classNames()))
				}
			}
			if c.JSON && cmd.Flags().Changed("format") {
				return cli.Usage(errors.New("--json and --format exclude each other"))
			}
			if format != "text" && format != "markdown" {
				return cli.Usage(cli.WithHint(fmt.Errorf("there is no format %q", format), "--format text or --format markdown, or --json"))
			}
			if last < 0 {
				return cli.Usage(fmt.Errorf("--last %d is no number of Records", last))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if run { // what was started is ended with us; else there is nothing to end
				var stop context.CancelFunc
				ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
				defer stop()
			}
			from := &recordsFrom{console: c, place: place, files: files, filter: filter, last: last}
			now := &staged{place: place, run: run, ask: ask, servers: &serverNames{}}
			opts := replay.Options{Wants: filter.Wants}
			if file != "" {
				if now, err = now.with(ctx, file, file); err != nil {
					return err
				}
			}
			result := replayed{Policy: now.place.Policy, Against: against}
			if len(files) > 0 || file != "" || against != "" {
				opts.StandIn = now.place.Policy
			}
			if opts.Policy, err = now.policy(c, &opts); err != nil {
				return err
			}
			if against != "" {
				old, err := now.with(ctx, against, now.place.Policy)
				if err != nil {
					return err
				}
				if opts.Against, err = old.policy(c, &opts); err != nil {
					return err
				}
			}
			if result.Report, err = from.play(ctx, opts); errors.Is(err, errTogether) {
				opts.Workers = 1
				if slices.Contains(files, "-") {
					return cli.WithHint(err, "write the Records to a file, and name that")
				}
				result.Report, err = from.play(ctx, opts)
			}
			if err != nil {
				return err
			}
			if err := now.servers.all(ask); err != nil {
				return err
			}
			switch {
			case c.JSON:
				err = c.PrintJSON(result)
			case format == "markdown":
				err = c.printReplayMarkdown(&result)
			default:
				err = c.printReplay(&result)
			}
			if err != nil {
				return err
			}
			if result.Played == 0 && len(result.Skipped) == 0 {
				fmt.Fprintln(c.Err, "grapnel: hint: \"grapnel log\" lists what was kept")
			}
			for _, class := range failOn {
				if result.Counts[replay.Class(class)] > 0 {
					return cli.ErrFailed
				}
			}
			return nil
		},
	}
	wanted.add(cmd)
	cmd.Flags().IntVar(&last, "last", 0, "only the youngest `N` Records")
	cmd.Flags().StringVar(&file, "policy", "", "this `FILE` in the place of your own policy")
	cmd.Flags().StringVar(&against, "against", "", "compare with this policy: a `FILE`, or REVISION:PATH as git has it")
	cmd.Flags().BoolVar(&run, "run", false, "run the programs of hooks, in the place of their recorded answers")
	cmd.Flags().StringArrayVar(&ask, "ask", nil, "ask the server of the hook with this `NAME`; may be repeated")
	cmd.Flags().StringVar(&format, "format", "text", "text, or markdown for a pull request")
	cmd.Flags().StringSliceVar(&failOn, "fail-on", nil, "exit 1 if there is any of these `CLASSES`")
	return c.jsonFlag(cmd)
}

func classNames() string {
	var names []string
	for _, class := range replay.Classes() {
		names = append(names, string(class))
	}
	return strings.Join(names, ", ")
}

// staged is a policy that is played: what is in force at a place, or a content in the place
// of the user's own file there.
type staged struct {
	place   local.Place
	content map[string][]byte
	run     bool     // programs
	ask     []string // servers, by the names of their hooks
	servers *serverNames
}

// serverNames are those of the hooks that ask one, in all policies that were played.
type serverNames struct {
	mu    sync.Mutex
	names map[string]bool
}

func (s *serverNames) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

// all wants there to be hooks of these names. It is asked in the end: the policy of a project
// is read when the first event comes from there.
func (s *serverNames) all(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.names[name] {
			continue
		}
		hint := "no policy that was played has one"
		if known := slices.Sorted(maps.Keys(s.names)); len(known) > 0 {
			hint = "those that do are " + printable.Line(strings.Join(known, ", "))
		}
		return cli.Usage(cli.WithHint(fmt.Errorf("--ask %s: no hook of that name asks a server", printable.Line(name)), hint))
	}
	return nil
}

// with is the same with what a policy says, as if it stood at a path.
func (s *staged) with(ctx context.Context, named, at string) (*staged, error) {
	abs, err := filepath.Abs(at)
	if err != nil {
		return nil, err
	}
	content, err := readPolicy(ctx, named)
	if err != nil {
		return nil, err
	}
	if _, errs := policy.Parse(named, content); len(errs) > 0 {
		return nil, cli.WithHint(fmt.Errorf("%d mistakes in the policy, the first: %w", len(errs), errs[0]), fmt.Sprintf("grapnel check %s", named))
	}
	other := *s
	other.place.Policy, other.content = abs, map[string][]byte{abs: content}
	return &other, nil
}

// readPolicy reads a file, or one in a revision of git.
func readPolicy(ctx context.Context, named string) ([]byte, error) {
	content, err := os.ReadFile(named)
	if err == nil {
		return append([]byte{}, content...), nil // not nil
	}
	if _, _, revision := strings.Cut(named, ":"); !revision || !errors.Is(err, os.ErrNotExist) {
		return nil, cli.WithHint(fmt.Errorf("cannot read the policy: %w", err), "name a file, or REVISION:PATH as git has it")
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", "show", "--no-textconv", "--end-of-options", named)
	cmd.Stderr = &said
	if content, err = cmd.Output(); err != nil {
		return nil, cli.WithHint(fmt.Errorf("there is no file %s, and git does not have it: %s", named, cmpText(said.String(), err)), "name a file, or REVISION:PATH as git has it: main:grapnel.yaml, HEAD~3:./grapnel.yaml")
	}
	return append([]byte{}, content...), nil
}

func cmpText(said string, err error) string {
	if said = printable.Line(strings.TrimSpace(said)); said != "" {
		return said
	}
	return err.Error()
}

// policy makes what opens the policy. Where it counts what happens in several sessions
// together, no two of them are played at once.
func (s *staged) policy(c *console, opts *replay.Options) (replay.Policy, error) {
	_, set, err := s.open(nil, &replay.Stage{})
	if err != nil {
		return nil, err
	}
	for _, file := range set.Files {
		if file.Notice != "" {
			c.Warn(errors.New(file.Notice))
		}
	}
	if policy.AcrossSessions(set.Specs) {
		opts.Workers = 1
	}
	return func(stage *replay.Stage) func(*grapnel.Event) (*grapnel.Engine, error) {
		return (&projects{staged: s, opts: opts, stage: stage, engines: map[string]*grapnel.Engine{}, places: map[string]project{}}).judge
	}, nil
}

// errTogether says that a policy of a project counts what happens in several sessions, which
// only shows when its first event comes.
var errTogether = errors.New("a project's policy counts what happens in several sessions together, so that these have to be played in turn")

// play plays the Records.
func (r *recordsFrom) play(ctx context.Context, opts replay.Options) (*replay.Report, error) {
	records, end, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var erase func()
	opts.Progress, erase = r.progress("replaying")
	defer erase()
	return replay.Play(ctx, records, opts)
}

// open loads the policies for who works in some directories.
func (s *staged) open(dirs []local.Dir, stage *replay.Stage) (*grapnel.Engine, *policy.Set, error) {
	run := local.Runner(s.place)
	var set policy.Set
	opts := &local.Options{
		Command: func(cmd policy.Command) grapnel.Hook {
			if s.run && !cmd.Async {
				return run(cmd)
			}
			return stage.Told(cmd.Name)
		},
		HTTP: func(h policy.HTTP) (grapnel.Hook, error) {
			if s.servers != nil {
				s.servers.add(h.Name)
			}
			if slices.Contains(s.ask, h.Name) && !h.Async {
				return hookcmd.Asker(stage.Counter(), h, func() []string { return set.Networks }), nil
			}
			return stage.Told(h.Name), nil
		},
		Webhook:   func(policy.Webhook) (grapnel.Hook, error) { return grapnel.Func(nil), nil }, // an observer, and none is run
		Notify:    func(policy.HTTP) (grapnel.Hook, error) { return grapnel.Func(nil), nil },    // likewise
		Observers: []grapnel.Observer{stage}, Background: stage,
		Counter: stage.Counter(), Now: stage.Now, Content: s.content, Unpaused: true,
	}
	opts.Place, opts.Files = &s.place, s.place.Files(nil, dirs)
	opened, err := local.Open(context.Background(), opts)
	if err != nil {
		return nil, nil, err
	}
	set = opened.Set
	for _, file := range set.Files {
		if s.content[file.File] != nil && file.State != policy.Valid {
			return nil, nil, cli.WithHint(fmt.Errorf("the policy cannot be played: %w", file.Errors[0]), "grapnel check "+file.File)
		}
	}
	return opened.Engine, &set, nil
}

// projects are the engines of one Stage, by what projects add to the policy.
type projects struct {
	*staged
	opts    *replay.Options
	stage   *replay.Stage
	engines map[string]*grapnel.Engine
	places  map[string]project
}

// project is where an agent works.
type project struct {
	root   string
	engine *grapnel.Engine
}

// How many are known at once.
const (
	maxEngines = 64
	maxPlaces  = 4096
)

// judge is the engine for an event.
func (p *projects) judge(ev *grapnel.Event) (*grapnel.Engine, error) {
	cwd := ev.Session.CWD
	key := ev.Agent.Name + "\x00" + ev.Session.ID + "\x00" + cwd
	at, known := p.places[key]
	if !known {
		var dirs []local.Dir
		was := ev.Session.Root
		if filepath.IsAbs(cwd) { // else nobody knows any more where it worked
			dirs = p.place.Dirs(ev, false)
			at.root = ev.Session.Root
		}
		ev.Session.Root = was
		dirs = slices.DeleteFunc(dirs, func(dir local.Dir) bool {
			name := filepath.Join(dir.Path, local.ProjectPolicy)
			if _, err := os.Lstat(name); err == nil {
				return false
			}
			trust, err := p.place.Trusts().Of(name)
			return err == nil && trust == nil // what was trusted and is gone stays in force
		})
		var err error
		if at.engine, err = p.engine(dirs); err != nil {
			return nil, err
		}
		if len(p.places) >= maxPlaces {
			clear(p.places)
		}
		p.places[key] = at
	}
	if ev.Session.Root == "" {
		ev.Session.Root = at.root
	}
	return at.engine, nil
}

func (p *projects) engine(dirs []local.Dir) (*grapnel.Engine, error) {
	key := fmt.Sprintf("%+v", dirs)
	if e := p.engines[key]; e != nil {
		return e, nil
	}
	e, set, err := p.open(dirs, p.stage)
	if err != nil {
		return nil, err
	}
	if p.opts.Workers != 1 && policy.AcrossSessions(set.Specs) {
		return nil, errTogether
	}
	if len(p.engines) >= maxEngines {
		clear(p.engines)
		clear(p.places)
	}
	p.engines[key] = e
	return e, nil
}

// ruleAt is a rule and where it stands.
func ruleAt(r replay.Rule) string {
	text := r.Name
	if r.Source != "" {
		text += " (" + r.Source
		if r.Line > 0 {
			text += fmt.Sprintf(":%d", r.Line)
		}
		text += ")"
	}
	return printable.Line(text)
}

// rulesOf are the rules that a difference is about: those that decide now, or else those that
// did.
func rulesOf(d *replay.Difference, name func(replay.Rule) string) string {
	rules := d.By
	if d.Now < d.Then || len(rules) == 0 {
		rules = d.Was
	}
	const most = 4
	var names []string
	for _, r := range rules[:min(len(rules), most)] {
		names = append(names, name(r))
	}
	if more := len(rules) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) == 0 {
		return "no rule"
	}
	return strings.Join(names, ", ")
}

func arrow(d *replay.Difference) string {
	if d.Then == d.Now {
		return d.Now.String()
	}
	return d.Then.String() + " -> " + d.Now.String()
}

// className is a word of a report as people write it.
func className[T ~string](class T) string { return strings.ReplaceAll(string(class), "-", " ") }

const dayFormat = "2006-01-02 15:04"

func (c *console) printReplay(r *replayed) error {
	var b strings.Builder
	skipped := 0
	for _, s := range r.Skipped {
		skipped += s.Count
	}
	fmt.Fprintf(&b, "%s %s Records", c.Paint(cli.Bold, "played"), count(r.Played))
	if !r.From.IsZero() {
		fmt.Fprintf(&b, ", %s to %s", r.From.Local().Format(dayFormat), r.To.Local().Format(dayFormat))
	}
	fmt.Fprintf(&b, "; to the same come %s\n", count(r.Same))
	if skipped > 0 {
		fmt.Fprintf(&b, "%s %s Records\n", c.Paint(cli.Yellow, "not played"), count(skipped))
		for _, s := range r.Skipped {
			fmt.Fprintf(&b, "  %7s  %s", count(s.Count), s.Cause)
			if s.ID != "" {
				fmt.Fprintf(&b, ": %s", printable.Line(s.ID))
			}
			b.WriteByte('\n')
		}
	}
	switch {
	case r.Played == 0:
		b.WriteString(nothingPlayed + "\n")
	case r.Same == r.Played:
		b.WriteString(nothingOtherwise + "\n")
	}
	last := replay.Class("")
	for i := range r.Differences {
		d := &r.Differences[i]
		if d.Class != last {
			last = d.Class
			fmt.Fprintf(&b, "%s %s", c.Paint(cli.Bold, className(d.Class)), count(r.Counts[d.Class]))
			if d.Class == replay.Unsure {
				b.WriteString(c.Paint(cli.Dim, "  less strict now, perhaps only because a Record was masked or cut, or a program was not asked then"))
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %7s  %s  %s\n", count(d.Count), c.Decision(arrow(d)), rulesOf(d, ruleAt))
		for _, ex := range d.Examples {
			fmt.Fprintf(&b, "           %s  %s  %s %s  %s\n", printable.Line(ex.ID), ex.Time.Local().Format(dayFormat), printable.Line(ex.Agent), printable.Line(string(ex.Event)+" "+ex.Tool), printable.Line(ex.About))
			if ex.Then != ex.Now {
				fmt.Fprintf(&b, "             then: %s\n             now:  %s\n", printable.Line(ex.Then), printable.Line(ex.Now))
			}
		}
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "  %s more differ in further ways\n", count(r.More))
	}
	if r.Played > 0 {
		without := ""
		if len(r.Told) > 0 {
			without = c.Paint(cli.Dim, "  without what was not run")
		}
		fmt.Fprintf(&b, "%s then %s, now %s%s\n", c.Paint(cli.Bold, "time per event"), costOf(r.Then), costOf(r.Now), without)
	}
	for _, t := range r.Told {
		fmt.Fprintf(&b, "%s %s was not run: %s recorded answers", c.Paint(cli.Bold, "hook"), printable.Line(t.Name), count(t.Answers))
		if t.Unknown > 0 {
			fmt.Fprintf(&b, ", and %s times none, which counts as no opinion", count(t.Unknown))
		}
		if t.Changes > 0 {
			fmt.Fprintf(&b, "; what %s of them changed is not played", count(t.Changes))
		}
		b.WriteByte('\n')
	}
	for _, g := range r.Gone {
		fmt.Fprintf(&b, "%s %s had a part %s times, and is not in force\n", c.Paint(cli.Bold, "policy"), printable.Line(g.Source), count(g.Count))
	}
	_, err := c.Out.Write([]byte(b.String()))
	return err
}

func costOf(t replay.Cost) string {
	return fmt.Sprintf("%s (p95 %s)", shortTime(t.Mean), shortTime(t.P95))
}

func shortTime(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// maxMarkdown is how much of a text a comment shows. GitHub takes comments of 65,536 characters.
const maxMarkdown = 160

// inMarkdown is a text from outside in Markdown, as code: nobody is called by it, nothing is
// linked or drawn, and it ends no table. A bar is written as \|, and a backslash before it
// would be read as that of the backslash by some and of the bar by others: they stand apart.
func inMarkdown(text string) string {
	text = strings.NewReplacer("`", "'", "\uFFFD", " ").Replace(printable.Line(text))
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\|`, `\ |`), "|", `\|`)
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	if len(text) > maxMarkdown {
		text = strings.TrimRight(strings.ToValidUTF8(text[:maxMarkdown], ""), `\`) + "…"
	}
	return "`" + text + "`"
}

// What is said where there is nothing to list.
const (
	nothingPlayed    = "nothing was played"
	nothingOtherwise = "nothing would be otherwise"
)

// printReplayMarkdown writes a comment for a pull request.
func (c *console) printReplayMarkdown(r *replayed) error {
	var b strings.Builder
	var found []string
	for _, class := range replay.Classes() {
		if n := r.Counts[class]; n > 0 {
			found = append(found, count(n)+" "+className(class))
		}
	}
	switch {
	case r.Played == 0:
		found = []string{nothingPlayed}
	case len(found) == 0:
		found = []string{nothingOtherwise}
	}
	against := "what was recorded"
	if r.Against != "" {
		against = inMarkdown(r.Against)
	}
	fmt.Fprintf(&b, "### grapnel replay: %s\n\n", strings.Join(found, ", "))
	fmt.Fprintf(&b, "%s Records played against %s, compared with %s. To the same come %s.\n", count(r.Played), inMarkdown(filepath.Base(r.Policy)), against, count(r.Same))
	name := func(rule replay.Rule) string { return inMarkdown(rule.Name) }
	if len(r.Differences) > 0 {
		b.WriteString("\n| | Records | decision | rules |\n|---|---:|---|---|\n")
		const most = 20
		for i := range r.Differences[:min(len(r.Differences), most)] {
			d := &r.Differences[i]
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", className(d.Class), count(d.Count), strings.ReplaceAll(arrow(d), "->", "→"), rulesOf(d, name))
		}
		if more := len(r.Differences) - most; more > 0 {
			fmt.Fprintf(&b, "\n%d more kinds are not shown.\n", more)
		}
		b.WriteString("\n<details><summary>Examples</summary>\n\n| | rules | Record | |\n|---|---|---|---|\n")
		for i := range r.Differences[:min(len(r.Differences), most)] {
			d := &r.Differences[i]
			for _, ex := range d.Examples {
				fmt.Fprintf(&b, "| %s | %s | %s %s | %s |\n", className(d.Class), rulesOf(d, name), inMarkdown(ex.ID), inMarkdown(string(ex.Event)+" "+ex.Tool), inMarkdown(ex.About))
			}
		}
		b.WriteString("\n</details>\n")
	}
	b.WriteString("\n<details><summary>What this does not know</summary>\n\n")
	if r.Played > 0 {
		fmt.Fprintf(&b, "- Time per event: then %s, now %s, without what was not run.\n", costOf(r.Then), costOf(r.Now))
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "- %s Records were not played: %s.\n", count(s.Count), s.Cause)
	}
	for _, t := range r.Told {
		fmt.Fprintf(&b, "- The hook %s was not run: %s recorded answers, %s times none.\n", inMarkdown(t.Name), count(t.Answers), count(t.Unknown))
	}
	for _, g := range r.Gone {
		fmt.Fprintf(&b, "- The policy %s had a part %s times, and is not in force here.\n", inMarkdown(g.Source), count(g.Count))
	}
	b.WriteString("- What was masked in Records cannot be found in them.\n\n</details>\n")
	_, err := c.Out.Write([]byte(b.String()))
	return err
}
