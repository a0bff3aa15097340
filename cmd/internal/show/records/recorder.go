package records

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/format"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// A Recorder is one call of "grapnel record".
type Recorder struct {
	*cli.Console
	Place   local.Place
	Files   []string // files with Records, instead of the log
	Output  string   // path of the test file; - = standard output
	Policy  string   // policy that a new test file tests
	Record  string   // only the Record whose ID begins with this
	Last    int      // only the newest Last Records; 0 = all
	Follow  bool     // also record new events
	All     bool     // all Records, not only those near a decision
	Prompts bool     // also Records with texts that a person wrote

	tests   *policytest.Recorder
	window  window
	before  []byte // content of the test file before
	counts  counts // of this call
	changed bool   // the test file must be written
	full    bool   // the test file has no room for more tests
}

// counts is the last line of "grapnel record --json".
type counts struct {
	Records int `json:"records"`
	Added   int `json:"added"`
	Skipped int `json:"skipped"` // of Added, tests that are skipped with a reason
	Same    int `json:"same"`    // Records that already have a test
	Left    int `json:"left"`    // Records that cannot become a test
	Far     int `json:"far"`     // Records that are left out because All is missing
	Prompts int `json:"prompts"` // Records that are left out because Prompts is missing
}

// line is one line of "grapnel record --json".
type line struct {
	ID      string `json:"id"`
	Test    string `json:"test,omitempty"`
	Want    string `json:"want,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Skipped bool   `json:"skipped,omitempty"`
	Why     string `json:"why,omitempty"`
}

// Check returns an error if the flags are invalid.
func (r *Recorder) Check(query index.Query) error {
	stdout := r.Output == format.Stdin
	switch {
	case r.Last < 0:
		return cli.Usage(fmt.Errorf("--last %d must not be negative", r.Last))
	case r.Follow && (len(r.Files) > 0 || r.Last > 0 || r.Record != ""):
		return cli.Usage(errors.New("--follow cannot be used with files, --last or --record"))
	case query.Text != "" && len(r.Files) > 0:
		return cli.Usage(errors.New("--text searches the log of this machine and cannot be used with files"))
	case !stdout && !policytest.IsTest(r.Output):
		return cli.Usage(cli.WithHint(fmt.Errorf("-o %s: the name of a test file must end in %s", printable.Line(r.Output), policytest.Suffix), "-o grapnel"+policytest.Suffix))
	case stdout && r.JSON:
		return cli.Usage(cli.WithHint(errors.New("--json and -o - cannot both write to standard output"), "write the tests to a file with -o FILE"))
	}
	return nil
}

// Run makes tests from Records and writes them.
func (r *Recorder) Run(ctx context.Context, query index.Query) error {
	if err := r.open(); err != nil {
		return err
	}
	defer func() { _ = r.tests.Close() }()
	var err error
	if r.Follow {
		err = r.live(ctx, query)
	} else {
		err = r.past(ctx, query)
	}
	if err != nil {
		return err
	}
	if r.Output == format.Stdin {
		text, err := r.tests.Text()
		if err != nil {
			return err
		}
		if _, err := r.Out.Write(text); err != nil {
			return err
		}
	}
	return r.summary()
}

// open reads the test file, or begins a new one.
func (r *Recorder) open() error {
	path, text := r.Output, []byte(nil)
	if path == format.Stdin {
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
	if text != nil && r.Policy != "" {
		return cli.Usage(fmt.Errorf("--policy is only for a new file: %s already names its policy", printable.Line(r.Output)))
	}
	policy := r.Policy
	if policy == "" && r.Output != format.Stdin {
		policy = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(r.Output, ".yaml"), ".yml"), "_test") + ".yaml"
		if _, err := os.Stat(policy); err != nil {
			policy = ""
		}
	}
	if policy == "" {
		policy = r.Place.Policy
	}
	if abs, err := filepath.Abs(policy); err == nil && text == nil {
		if _, err := os.Stat(abs); err != nil {
			return cli.WithHint(fmt.Errorf("no policy to test: %w", err), "grapnel init, or --policy FILE")
		}
		policy = abs
	}
	var err error
	r.tests, err = policytest.NewRecorder(path, text, policytest.RecorderOptions{
		Policy: policy, Scope: r.scope(policy), Home: r.Place.Home, Elsewhere: len(r.Files) > 0,
	})
	if err != nil {
		return cli.WithHint(fmt.Errorf("cannot record tests: %w", err), "grapnel check, or grapnel test")
	}
	return nil
}

// scope returns the scope of a policy file.
func (r *Recorder) scope(policy string) grapnel.Scope {
	for _, f := range r.Place.Files(nil, []local.Dir{{Path: filepath.Dir(policy)}}) {
		if f.Path == policy {
			return f.Scope
		}
	}
	return grapnel.ScopeUser
}

// past makes tests from stored Records.
func (r *Recorder) past(ctx context.Context, query index.Query) error {
	if r.Record != "" && len(r.Files) == 0 {
		id, err := FindID(ctx, Log(r.Place), r.Record)
		if err != nil {
			return err
		}
		r.Record = id
	}
	from := &Source{Console: r.Console, Place: r.Place, Files: r.Files, Filter: query.Filter, Text: query.Text, Last: r.Last}
	records, end, err := from.Open(ctx)
	if err != nil {
		return err
	}
	defer end()
	found := ""
	for rec, err := range records {
		if err != nil {
			r.Warn(err)
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if rec.ID != "" && !strings.HasPrefix(rec.ID, r.Record) {
			continue
		}
		if rec.Load != nil {
			if err := rec.Load(&rec.Entry); err != nil {
				r.Warn(fmt.Errorf("cannot read a Record: %w", err))
				continue
			}
		}
		if !strings.HasPrefix(rec.ID, r.Record) || !query.Filter.Wants(&rec.Entry) || rec.Late {
			continue
		}
		if r.Record != "" && found != "" && found != rec.ID {
			return ambiguous(r.Record, []string{found, rec.ID})
		}
		found = rec.ID
		if err := r.take(ctx, &rec.Entry); err != nil {
			return err
		}
		if r.full {
			break
		}
	}
	if r.Record != "" && found == "" {
		return noRecord(r.Record)
	}
	return errors.Join(r.leave(r.window.rest()), r.save())
}

// live makes tests from new Records.
func (r *Recorder) live(ctx context.Context, query index.Query) error {
	if query.Since.IsZero() {
		query.Since = time.Now()
	}
	fmt.Fprintln(r.Err, "grapnel: recording; press Ctrl-C to stop")
	for k, err := range Log(r.Place).Follow(ctx, query) {
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
		if err := r.take(context.WithoutCancel(ctx), &k.Entry); err != nil {
			return err
		}
		if err := r.save(); err != nil {
			return err
		}
		if r.full {
			break
		}
	}
	return r.leave(r.window.rest())
}

// Reasons why a Record is left out.
const (
	notNear  = "it is not near a decision: --all records it"
	personal = "it contains what a person wrote: --prompts records it"
)

// take makes a test from a Record or leaves it out, at once or when the next Records of its session
// have come.
func (r *Recorder) take(ctx context.Context, e *spool.Entry) error {
	near, far := []*spool.Entry{e}, []*spool.Entry(nil)
	switch acted := r.All || r.tests.Acted(e); {
	case acted && !r.Prompts && quotes(e):
		r.counts.Records++
		r.counts.Prompts++
		return r.tell(line{ID: e.ID, Why: personal})
	case r.All:
	case !r.Prompts && quotes(e):
		near, far = nil, near
	default:
		near, far = r.window.add(e, acted)
	}
	for _, e := range near {
		if err := r.add(ctx, e); err != nil || r.full {
			return err
		}
	}
	return r.leave(far)
}

// leave counts Records that are not near a decision.
func (r *Recorder) leave(far []*spool.Entry) error {
	for _, e := range far {
		r.counts.Records++
		r.counts.Far++
		if err := r.tell(line{ID: e.ID, Why: notNear}); err != nil {
			return err
		}
	}
	return nil
}

// tell prints the line of a Record.
func (r *Recorder) tell(line line) error {
	if r.JSON {
		return r.PrintLine(line)
	}
	return nil
}

// again reads the test file again if the user has changed it meanwhile.
func (r *Recorder) again() error {
	if r.Output == format.Stdin {
		return nil
	}
	data, err := os.ReadFile(r.Output)
	if errors.Is(err, fs.ErrNotExist) && r.before == nil || err == nil && slices.Equal(data, r.before) {
		return nil
	}
	_ = r.tests.Close()
	r.Policy = ""
	return r.open()
}

// add makes a test from a Record, and reports it.
func (r *Recorder) add(ctx context.Context, e *spool.Entry) error {
	made := r.tests.Add(ctx, e, func() []spool.Entry { return r.earlier(ctx, e) })
	if made.Full {
		r.full = true
		r.Warn(fmt.Errorf("the test file is full: Records from %s on are not in it", e.Time.Local().Format("2006-01-02 15:04")))
		fmt.Fprintln(r.Err, "grapnel: hint: use another file, or select fewer Records with --since, --session, --decision or --last")
		return nil
	}
	r.counts.Records++
	line := line{ID: e.ID, Test: made.Test, Want: made.Want, Agent: made.Agent, Skipped: made.Skipped, Why: made.Why}
	r.changed = r.changed || made.Test != ""
	switch {
	case made.Test != "":
		r.counts.Added++
		if made.Skipped {
			r.counts.Skipped++
		}
	case made.Want != "":
		r.counts.Same++
		line.Want, line.Agent = "", ""
	default:
		r.counts.Left++
	}
	if r.JSON || made.Test == "" || r.Output == format.Stdin && !r.Follow {
		return r.tell(line)
	}
	word := "added"
	if made.Skipped {
		word = "added as skipped"
	}
	fmt.Fprintf(r.Err, "%s: %s\n", word, printable.Line(made.Test))
	if made.Skipped {
		fmt.Fprintf(r.Err, "  %s\n", printable.Line(made.Why))
	}
	return nil
}

// earlier returns the earlier Records of a session that tests may contain.
func (r *Recorder) earlier(ctx context.Context, e *spool.Entry) []spool.Entry {
	if e.Session == "" || slices.Contains(r.Files, format.Stdin) {
		return nil
	}
	from := &Source{Console: r.Console, Place: r.Place, Files: r.Files, Filter: spool.Filter{Session: e.Session, Agent: e.Agent}}
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
		if !rec.Late && from.Filter.Wants(&rec.Entry) && (r.Prompts || !quotes(&rec.Entry)) {
			list = append(list, rec.Entry)
		}
	}
	return list
}

// save writes the test file if it has new tests.
func (r *Recorder) save() error {
	if r.Output == format.Stdin || !r.changed {
		return nil
	}
	text, err := r.tests.Text()
	if err != nil {
		return fmt.Errorf("cannot write the tests: %w", err)
	}
	if _, err := install.Apply(&install.Change{File: r.Output, Before: r.before, After: text}, "", time.Time{}); err != nil {
		return cli.WithHint(err, "record again")
	}
	r.before, r.changed = text, false
	return nil
}

// summary prints the counts.
func (r *Recorder) summary() error {
	n := r.counts
	if r.JSON {
		return r.PrintLine(n)
	}
	text := fmt.Sprintf("%s Records: %s tests added", printable.Number(n.Records), printable.Number(n.Added))
	if n.Skipped > 0 {
		text += fmt.Sprintf(", %s of them skipped", printable.Number(n.Skipped))
	}
	text += fmt.Sprintf("; %s already have a test, %s cannot become a test", printable.Number(n.Same), printable.Number(n.Left))
	if n.Far > 0 {
		text += fmt.Sprintf(", %s not near a decision (--all records them)", printable.Number(n.Far))
	}
	if n.Prompts > 0 {
		text += fmt.Sprintf(", %s with words of a person (--prompts records them)", printable.Number(n.Prompts))
	}
	fmt.Fprintln(r.Err, "grapnel: "+text)
	if n.Records == 0 {
		fmt.Fprintln(r.Err, "grapnel: hint: \"grapnel log\" lists the Records")
	}
	return nil
}
