package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/records"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/yaml/layout"
	"github.com/grapnel-dev/grapnel/local"
)

// recorder is one "grapnel record".
type recorder struct {
	*console
	place  local.Place
	asked  logQuery
	files  []string
	out    string // the file of tests; - = standard output
	policy string
	record string
	last   int
	follow bool
	all    bool

	tests   *policytest.Recorder
	before  []byte         // the file as it is
	counts  recordedCounts // of this run
	changed bool           // the file is to be written
	full    bool           // it has no room for more
}

// recordedCounts is what "grapnel record --json" ends with.
type recordedCounts struct {
	Records int `json:"records"`
	Added   int `json:"added"`
	Skipped int `json:"skipped"` // of these, tests that say why they are not run
	Same    int `json:"same"`    // Records of which there is a test
	Left    int `json:"left"`    // Records of which none was made
}

// recordedLine is a row of "grapnel record --json".
type recordedLine struct {
	ID      string   `json:"id"`
	Test    string   `json:"test,omitempty"`
	Want    string   `json:"want,omitempty"`
	Agents  []string `json:"agents,omitempty"`
	Skipped bool     `json:"skipped,omitempty"`
	Why     string   `json:"why,omitempty"`
}

func newRecord(c *console) *cobra.Command {
	r := &recorder{console: c}
	cmd := &cobra.Command{
		Use:   "record [FILE...]",
		Short: "Make tests of what happened",
		Long: "Reads Records, of what was kept here or of files that \"grapnel log --json\" wrote, and\n" +
			"writes tests of the policy: what happened, and what was decided then. Secrets are\n" +
			"masked; the project becomes /repo and your home directory ~. Each test is tried before\n" +
			"it is written. One that does not hold, because the policy is another one now or the\n" +
			"Record does not hold all of the event, says so and is skipped.\n\n" +
			"Without -o the tests are written to standard output. A file that is there gets those\n" +
			"that it does not have, and stays as it is otherwise.\n\n" +
			"Calls, prompts and permissions are taken, and of the rest that of which a hook of the\n" +
			"policy had something to say; --all takes everything. Nothing is run or asked: what\n" +
			"programs and servers answered then stands in the test.",
		Example: "  grapnel record --session 8f2c -o grapnel_test.yaml\n" +
			"  grapnel record --since 1h --decision block --decision ask -o grapnel_test.yaml\n" +
			"  grapnel record --record 019f8d2b1c7a4e55a0c1b2d3e4f5 -o grapnel_test.yaml\n" +
			"  grapnel record -f -o grapnel_test.yaml        # while you work, until interrupted",
		RunE: func(cmd *cobra.Command, files []string) error {
			r.files = files
			return r.main(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&r.out, "output", "o", "-", "write to this `FILE`, NAME_test.yaml; - is standard output")
	flags.StringVar(&r.policy, "policy", "", "the policy that a new file tests (default: NAME.yaml beside it, or else your own)")
	flags.StringVar(&r.record, "record", "", "only the Record with this `ID`")
	flags.IntVar(&r.last, "last", 0, "only the youngest `N` Records")
	flags.BoolVarP(&r.follow, "follow", "f", false, "go on with what happens from now on, until interrupted")
	flags.BoolVar(&r.all, "all", false, "also what no hook had anything to say of")
	r.asked.flags(cmd)
	return c.jsonFlag(cmd)
}

func (r *recorder) main(cmd *cobra.Command) error {
	query, err := r.asked.query(cmd)
	if err != nil {
		return err
	}
	stdout := r.out == stdinFile
	switch {
	case r.last < 0:
		return cli.Usage(fmt.Errorf("--last %d is no number of Records", r.last))
	case r.follow && (len(r.files) > 0 || r.last > 0 || r.record != ""):
		return cli.Usage(errors.New("--follow goes neither with files nor with --last or --record"))
	case query.Text != "" && len(r.files) > 0:
		return cli.Usage(errors.New("--text is for what was kept here, and not for files"))
	case !stdout && !policytest.IsTest(r.out):
		return cli.Usage(cli.WithHint(fmt.Errorf("-o %s: files of tests are called NAME%s", printable.Line(r.out), policytest.Suffix), "-o grapnel"+policytest.Suffix))
	case stdout && r.JSON:
		return cli.Usage(cli.WithHint(errors.New("--json tells of the tests, and standard output would have both"), "name a file with -o"))
	}
	if r.place, err = r.Place(); err != nil {
		return err
	}
	r.all = r.all || cmd.Flags().Changed("event")
	if err := r.open(); err != nil {
		return err
	}
	defer func() { _ = r.tests.Close() }()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if r.follow {
		err = r.live(ctx, query)
	} else {
		err = r.past(ctx, query)
	}
	if err != nil {
		return err
	}
	if stdout {
		text, err := r.text()
		if err != nil {
			return err
		}
		if _, err := r.Out.Write(text); err != nil {
			return err
		}
	}
	return r.summary()
}

// open reads the file that tests are added to, or begins one.
func (r *recorder) open() error {
	path, text := r.out, []byte(nil)
	if path == stdinFile {
		path = "recorded" + policytest.Suffix
	} else {
		data, err := os.ReadFile(path)
		switch {
		case err == nil && len(strings.TrimSpace(string(data))) > 0:
			text = data
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("cannot read the tests: %w", err)
		}
		r.before = data
	}
	if text != nil && r.policy != "" {
		return cli.Usage(fmt.Errorf("--policy is for a new file: %s says which policy it tests", printable.Line(r.out)))
	}
	policy := r.policy
	if policy == "" && r.out != stdinFile {
		policy = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(r.out, ".yaml"), ".yml"), "_test") + ".yaml"
		if _, err := os.Stat(policy); err != nil {
			policy = ""
		}
	}
	if policy == "" {
		policy = r.place.Policy
	}
	if abs, err := filepath.Abs(policy); err == nil && text == nil {
		if _, err := os.Stat(abs); err != nil {
			return cli.WithHint(fmt.Errorf("there is no policy to test: %w", err), "grapnel init, or --policy FILE")
		}
		policy = abs
	}
	var err error
	r.tests, err = policytest.NewRecorder(path, text, policytest.RecorderOptions{
		Policy: policy, Scope: r.scope(policy), Home: r.place.Home, Elsewhere: len(r.files) > 0, All: r.all,
	})
	if err != nil {
		return cli.WithHint(fmt.Errorf("tests cannot be recorded: %w", err), "grapnel check, or grapnel test")
	}
	return nil
}

// scope is whose policy a file is.
func (r *recorder) scope(policy string) grapnel.Scope {
	for _, f := range r.place.Files(nil, []local.Dir{{Path: filepath.Dir(policy)}}) {
		if f.Path == policy {
			return f.Scope
		}
	}
	return grapnel.ScopeUser
}

// past makes tests of what was kept.
func (r *recorder) past(ctx context.Context, query store.Query) error {
	from := &records.Source{Console: &r.Console, Place: r.place, Files: r.files, Filter: query.Filter, Text: query.Text, Last: r.last}
	records, end, err := from.Open(ctx)
	if err != nil {
		return err
	}
	defer end()
	found := false
	for rec, err := range records {
		if err != nil {
			r.Warn(err)
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if r.record != "" && rec.ID != "" && rec.ID != r.record {
			continue
		}
		if rec.Load != nil {
			if err := rec.Load(&rec.Entry); err != nil {
				r.Warn(fmt.Errorf("a Record cannot be read: %w", err))
				continue
			}
		}
		if r.record != "" && rec.ID != r.record || !query.Filter.Wants(&rec.Entry) || rec.Late {
			continue
		}
		found = true
		if err := r.add(ctx, &rec.Entry); err != nil {
			return err
		}
		if r.full {
			break
		}
	}
	if r.record != "" && !found {
		return cli.WithHint(fmt.Errorf("there is no record %s", printable.Line(r.record)), "\"grapnel log --json\" lists them with their IDs")
	}
	return r.save()
}

// live makes tests of what happens from now on.
func (r *recorder) live(ctx context.Context, query store.Query) error {
	if query.Since.IsZero() {
		query.Since = time.Now()
	}
	fmt.Fprintln(r.Err, "grapnel: recording; Ctrl-C ends it")
	for k, err := range records.Log(r.place).Follow(ctx, query) {
		if err != nil {
			r.Warn(err)
			continue
		}
		if k.Late {
			continue
		}
		if err := k.Event(); err != nil {
			r.Warn(err)
			continue
		}
		if err := r.again(); err != nil {
			return err
		}
		if err := r.add(context.WithoutCancel(ctx), &k.Entry); err != nil {
			return err
		}
		if err := r.save(); err != nil {
			return err
		}
		if r.full {
			break
		}
	}
	return nil
}

// again begins anew where a person has edited the file meanwhile.
func (r *recorder) again() error {
	if r.out == stdinFile {
		return nil
	}
	data, err := os.ReadFile(r.out)
	if errors.Is(err, fs.ErrNotExist) && r.before == nil || err == nil && slices.Equal(data, r.before) {
		return nil
	}
	_ = r.tests.Close()
	r.policy = ""
	return r.open()
}

// add makes a test of a Record, and tells of it.
func (r *recorder) add(ctx context.Context, e *spool.Entry) error {
	made := r.tests.Add(ctx, e, func() []spool.Entry { return r.earlier(ctx, e) })
	if made.Full {
		r.full = true
		r.Warn(fmt.Errorf("the file has no room for more tests: nothing from %s on is in it", e.Time.Local().Format(dayFormat)))
		fmt.Fprintln(r.Err, "grapnel: hint: name another file, or fewer Records with --since, --session, --decision or --last")
		return nil
	}
	r.counts.Records++
	line := recordedLine{ID: e.ID, Test: made.Test, Want: made.Want, Agents: made.Agents, Skipped: made.Skipped, Why: made.Why}
	r.changed = r.changed || made.Test != ""
	switch {
	case made.More:
		r.counts.Same++
	case made.Test != "":
		r.counts.Added++
		if made.Skipped {
			r.counts.Skipped++
		}
	case made.Want != "":
		r.counts.Same++
		line.Want, line.Agents = "", nil
	default:
		r.counts.Left++
	}
	if r.JSON {
		return r.PrintLine(line)
	}
	if made.Test == "" || r.out == stdinFile && !r.follow {
		return nil
	}
	word := "added"
	if made.More {
		word = "held in " + made.Agents[0] + ", too"
	}
	if made.Skipped {
		word = "added, and skipped"
	}
	fmt.Fprintf(r.Err, "%s: %s\n", word, printable.Line(made.Test))
	if made.Skipped {
		fmt.Fprintf(r.Err, "  %s\n", printable.Line(made.Why))
	}
	return nil
}

// earlier reads what came before in a session.
func (r *recorder) earlier(ctx context.Context, e *spool.Entry) []spool.Entry {
	if e.Session == "" || slices.Contains(r.files, stdinFile) {
		return nil
	}
	from := &records.Source{Console: &r.Console, Place: r.place, Files: r.files, Filter: spool.Filter{Session: e.Session, Agent: e.Agent}}
	records, end, err := from.Open(ctx)
	if err != nil {
		return nil
	}
	defer end()
	var list []spool.Entry
	for rec, err := range records {
		if err != nil || rec.Load != nil && rec.Load(&rec.Entry) != nil {
			continue
		}
		if rec.ID == e.ID {
			break
		}
		if !rec.Late && from.Filter.Wants(&rec.Entry) {
			list = append(list, rec.Entry)
		}
	}
	return list
}

// text is the file, laid out if it was before.
func (r *recorder) text() ([]byte, error) {
	text, err := r.tests.Text()
	if err != nil {
		return nil, fmt.Errorf("the tests cannot be written: %w", err)
	}
	order := keyOrder()
	if was, err := layout.Format(r.before, order); len(r.before) > 0 && (err != nil || string(was) != string(r.before)) {
		return text, nil //nolint:nilerr // whoever wrote the file has a layout of their own
	}
	if text, err = layout.Format(text, order); err != nil {
		return nil, fmt.Errorf("the tests cannot be laid out: %w", err)
	}
	return text, nil
}

// save writes the file, if it has more tests than before.
func (r *recorder) save() error {
	if r.out == stdinFile || !r.changed {
		return nil
	}
	text, err := r.text()
	if err != nil {
		return err
	}
	if _, err := install.Apply(&install.Change{File: r.out, Before: r.before, After: text}, "", time.Time{}); err != nil {
		return cli.WithHint(err, "record again")
	}
	r.before, r.changed = text, false
	return nil
}

// summary says what became of the Records.
func (r *recorder) summary() error {
	n := r.counts
	if r.JSON {
		return r.PrintLine(n)
	}
	text := fmt.Sprintf("%s Records: %s tests added", printable.Number(n.Records), printable.Number(n.Added))
	if n.Skipped > 0 {
		text += fmt.Sprintf(", %s of them skipped", printable.Number(n.Skipped))
	}
	text += fmt.Sprintf("; %s say what a test says, %s make none", printable.Number(n.Same), printable.Number(n.Left))
	fmt.Fprintln(r.Err, "grapnel: "+text)
	if n.Records == 0 {
		fmt.Fprintln(r.Err, "grapnel: hint: \"grapnel log\" lists what was kept")
	}
	return nil
}
