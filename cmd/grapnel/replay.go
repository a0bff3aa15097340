package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/staging"
	"github.com/grapnel-dev/grapnel/internal/replay"
)

func newReplay(c *console) *cobra.Command {
	var wanted wantedFlags
	var last int
	var opts staging.Options
	var format string
	var failOn []string
	cmd := &cobra.Command{
		Use:   "replay [FILE...]",
		Short: "Re-evaluate recorded events against a policy and show what would change",
		Long: `Read Records from this machine, or from files that "grapnel log --json" wrote (- is standard
input), and evaluate the current policy for each event. The report shows which events would
now be blocked, asked about or allowed, by which rule, and the cost. Events of a session keep
their order and their times; limits count from zero.

Programs and servers of hooks are not called: their recorded answers are used. --run runs
programs, and --ask NAME calls the server of a hook.

--policy FILE replaces your own policy. --against compares with another policy instead of
the recorded decisions: a file, or a file in a revision of git.

Exit code 0; 1 if --fail-on finds one of these classes:
  ` + classNames(),
		Example: "  grapnel replay --since 168h\n" +
			"  grapnel replay --policy draft.yaml --session 8f2c\n" +
			"  grapnel replay records.jsonl --policy grapnel.yaml --against main:grapnel.yaml --format markdown\n" +
			"  grapnel log --json | grapnel replay - --fail-on newly-allowed,newly-blocked",
		RunE: func(cmd *cobra.Command, files []string) error {
			filter, err := wanted.filter()
			if err != nil {
				return err
			}
			if err := checkReplay(cmd, c.JSON, format, failOn, last); err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if opts.Run { // a signal must end the started programs; without --run, none start
				var stop context.CancelFunc
				ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
				defer stop()
			}
			opts.Place = place
			result, err := staging.Play(ctx, &records.Source{Console: &c.Console, Place: place, Files: files, Filter: filter, Last: last}, &opts)
			if err != nil {
				return err
			}
			switch {
			case c.JSON:
				err = c.PrintJSON(result)
			case format == "markdown":
				err = c.printReplayMarkdown(result)
			default:
				err = c.printReplay(result)
			}
			if err != nil {
				return err
			}
			if result.Played == 0 && len(result.Skipped) == 0 {
				fmt.Fprintln(c.Err, "grapnel: hint: \"grapnel log\" lists the records")
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
	cmd.Flags().IntVar(&last, "last", 0, "only the newest `N` records")
	cmd.Flags().StringVar(&opts.Policy, "policy", "", "use this policy `FILE` instead of your own")
	cmd.Flags().StringVar(&opts.Against, "against", "", "compare with this policy: a `FILE`, or REVISION:PATH of git")
	cmd.Flags().BoolVar(&opts.Run, "run", false, "run the programs of hooks instead of using their recorded answers")
	cmd.Flags().StringArrayVar(&opts.Ask, "ask", nil, "call the server of the hook with this `NAME`; repeatable")
	cmd.Flags().StringVar(&format, "format", "text", "output format: text, or markdown for a pull request")
	cmd.Flags().StringSliceVar(&failOn, "fail-on", nil, "exit with 1 if there is an event of these `CLASSES`")
	return c.jsonFlag(cmd)
}

// checkReplay returns an error for invalid flags of a replay.
func checkReplay(cmd *cobra.Command, asJSON bool, format string, failOn []string, last int) error {
	for _, class := range failOn {
		if !slices.Contains(replay.Classes(), replay.Class(class)) {
			return cli.Usage(cli.WithHint(fmt.Errorf("--fail-on: unknown class %q", class), "valid classes: "+classNames()))
		}
	}
	if asJSON && cmd.Flags().Changed("format") {
		return cli.Usage(errors.New("--json and --format cannot be used together"))
	}
	if format != "text" && format != "markdown" {
		return cli.Usage(cli.WithHint(fmt.Errorf("unknown format %q", format), "--format text or --format markdown, or --json"))
	}
	if last < 0 {
		return cli.Usage(fmt.Errorf("--last %d must not be negative", last))
	}
	return nil
}

func classNames() string {
	var names []string
	for _, class := range replay.Classes() {
		names = append(names, string(class))
	}
	return strings.Join(names, ", ")
}

// ruleAt returns the name of a rule and its position.
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

// rulesOf returns the rules that cause a difference: the rules that decide now, or the former
// ones if the decision is weaker or no rule decides now.
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

// className returns the name of a class as people write it.
func className[T ~string](class T) string { return strings.ReplaceAll(string(class), "-", " ") }

const dayFormat = "2006-01-02 15:04"

// printDifferences prints the Records that would be decided otherwise, with examples.
func (c *console) printDifferences(b *strings.Builder, r *staging.Replayed) {
	row := func(format string, args ...any) { // one line of a terminal
		line := fmt.Sprintf(format, args...)
		if width := c.Columns(); width > 0 {
			line = printable.Cut(line, width)
		}
		b.WriteString(line + "\n")
	}
	last := replay.Class("")
	for i := range r.Differences {
		d := &r.Differences[i]
		if d.Class != last {
			last = d.Class
			fmt.Fprintf(b, "%s %s", c.Paint(typeset.Bold, className(d.Class)), printable.Number(r.Counts[d.Class]))
			if d.Class == replay.Unsure {
				b.WriteString(c.Paint(typeset.Dim, "  less strict now, perhaps only because a record was masked or cut, or a program did not run then"))
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "  %7s  %s  %s\n", printable.Number(d.Count), c.Decision(arrow(d)), rulesOf(d, ruleAt))
		for _, ex := range d.Examples {
			row("           %s  %s  %s %s", printable.Line(ex.ID), ex.Time.Local().Format(dayFormat), printable.Line(ex.Agent), printable.Line(cmp.Or(ex.Tool, string(ex.Event))))
			row("             %s", printable.Line(ex.About))
			if ex.Then != ex.Now {
				row("             then: %s", printable.Line(ex.Then))
				row("             now:  %s", printable.Line(ex.Now))
			}
		}
	}
}

func (c *console) printReplay(r *staging.Replayed) error {
	var b strings.Builder
	skipped := 0
	for _, s := range r.Skipped {
		skipped += s.Count
	}
	fmt.Fprintf(&b, "%s %s Records", c.Paint(typeset.Bold, "played"), printable.Number(r.Played))
	if !r.From.IsZero() {
		fmt.Fprintf(&b, ", %s to %s", r.From.Local().Format(dayFormat), r.To.Local().Format(dayFormat))
	}
	fmt.Fprintf(&b, "; unchanged: %s\n", printable.Number(r.Same))
	if skipped > 0 {
		fmt.Fprintf(&b, "%s %s Records\n", c.Paint(typeset.Yellow, "not played"), printable.Number(skipped))
		for _, s := range r.Skipped {
			fmt.Fprintf(&b, "  %7s  %s", printable.Number(s.Count), s.Cause)
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
	c.printDifferences(&b, r)
	if r.More > 0 {
		fmt.Fprintf(&b, "  %s more events differ in other ways\n", printable.Number(r.More))
	}
	if r.Played > 0 {
		without := ""
		if len(r.RecordedHooks) > 0 {
			without = c.Paint(typeset.Dim, "  without hooks that were not run")
		}
		fmt.Fprintf(&b, "%s then %s, now %s%s\n", c.Paint(typeset.Bold, "time per event"), costOf(r.Then), costOf(r.Now), without)
	}
	for _, t := range r.RecordedHooks {
		fmt.Fprintf(&b, "%s %s was not run: %s recorded answers", c.Paint(typeset.Bold, "hook"), printable.Line(t.Name), printable.Number(t.Answers))
		if t.Unknown > 0 {
			fmt.Fprintf(&b, ", and %s times no answer, which is treated as no opinion", printable.Number(t.Unknown))
		}
		if t.Changes > 0 {
			fmt.Fprintf(&b, "; changes by %s of them are not replayed", printable.Number(t.Changes))
		}
		b.WriteByte('\n')
	}
	for _, g := range r.Gone {
		fmt.Fprintf(&b, "%s %s decided %s times, but is not active\n", c.Paint(typeset.Bold, "policy"), printable.Line(g.Source), printable.Number(g.Count))
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

// maxMarkdown is the maximum length of a text in a comment, in bytes. GitHub accepts comments
// of at most 65,536 characters.
const maxMarkdown = 160

// inMarkdown returns an untrusted text as Markdown code. The text cannot mention users, add
// links or images, or end a table cell. It writes a bar as \|. If a backslash precedes the bar,
// Markdown parsers disagree about its meaning, so a space separates the two.
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

// Messages for an empty list.
const (
	nothingPlayed    = "nothing was played"
	nothingOtherwise = "nothing would change"
)

// printReplayMarkdown writes a comment for a pull request.
func (c *console) printReplayMarkdown(r *staging.Replayed) error {
	var b strings.Builder
	var found []string
	for _, class := range replay.Classes() {
		if n := r.Counts[class]; n > 0 {
			found = append(found, printable.Number(n)+" "+className(class))
		}
	}
	switch {
	case r.Played == 0:
		found = []string{nothingPlayed}
	case len(found) == 0:
		found = []string{nothingOtherwise}
	}
	against := "the recorded decisions"
	if r.Against != "" {
		against = inMarkdown(r.Against)
	}
	fmt.Fprintf(&b, "### grapnel replay: %s\n\n", strings.Join(found, ", "))
	fmt.Fprintf(&b, "%s Records evaluated against %s, compared with %s. Unchanged: %s.\n", printable.Number(r.Played), inMarkdown(filepath.Base(r.Policy)), against, printable.Number(r.Same))
	name := func(rule replay.Rule) string { return inMarkdown(rule.Name) }
	if len(r.Differences) > 0 {
		b.WriteString("\n| | Records | decision | rules |\n|---|---:|---|---|\n")
		const most = 20
		for i := range r.Differences[:min(len(r.Differences), most)] {
			d := &r.Differences[i]
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", className(d.Class), printable.Number(d.Count), strings.ReplaceAll(arrow(d), "->", "→"), rulesOf(d, name))
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
	b.WriteString("\n<details><summary>Limits of this report</summary>\n\n")
	if r.Played > 0 {
		fmt.Fprintf(&b, "- Time per event: then %s, now %s, without hooks that were not run.\n", costOf(r.Then), costOf(r.Now))
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "- %s Records were not played: %s.\n", printable.Number(s.Count), s.Cause)
	}
	for _, t := range r.RecordedHooks {
		fmt.Fprintf(&b, "- The hook %s was not run: %s recorded answers, %s times none.\n", inMarkdown(t.Name), printable.Number(t.Answers), printable.Number(t.Unknown))
	}
	for _, g := range r.Gone {
		fmt.Fprintf(&b, "- The policy %s decided %s times, but is not active here.\n", inMarkdown(g.Source), printable.Number(g.Count))
	}
	b.WriteString("- Masked text of Records cannot match.\n\n</details>\n")
	_, err := c.Out.Write([]byte(b.String()))
	return err
}
