package policytest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A Recorder makes tests from Records and appends them to a test file:
//
//	rec, err := policytest.NewRecorder("grapnel_test.yaml", nil, policytest.RecorderOptions{Policy: "grapnel.yaml"})
//	defer rec.Close()
//	made := rec.Add(ctx, &entry, nil)
//	text, err := rec.Text()
//
// It runs each new test against the policy. A test that fails gets the reason in its `skip:`, so
// that the written file always passes. A Recorder is not safe for concurrent use.
type Recorder struct {
	opts  RecorderOptions
	path  string
	base  string // the file without the recorded tests
	vars  bool   // base has variables
	file  *File
	stage *stage
	dir   string
	ours  map[string][]string // sources of the policy's hooks, by hook name
	names map[string]bool     // of tests
	known map[string]*recordedTest
	tests []*recordedTest
	size  int // size of the tests in bytes, before formatting
}

// maxRecorded limits the size of a file with recorded tests: the reader accepts yaml.MaxSize, and
// formatting needs some room.
const maxRecorded = yaml.MaxSize * 3 / 4

// RecorderOptions are the options of a Recorder.
type RecorderOptions struct {
	Policy    string                   // the policy of a new file; an existing file names its own policy
	Scope     grapnel.Scope            // scope of the policy
	Home      string                   // the user's home directory, which becomes ~; empty = none
	Mask      func(text string) string // masks secrets; nil = spool.Mask
	Elsewhere bool                     // the Records come from another machine: hooks are identified by name only
	Private   bool                     // the file stays on this machine: keep the names of directories

	// Load loads the policy; nil = load.Policies. It may change its result.
	Load func(load.Request) load.Set
}

// Recorded is the result for one Record.
type Recorded struct {
	Test    string // its name; empty = no test
	Why     string // why there is no test, or why it is skipped
	Skipped bool   // the test exists, but is skipped
	Full    bool   // no test, because the file would become too large
	Want    string // the expected result, in a word
	Agent   string // the agent in which it passes
}

// A recordedTest is a test from a Record.
type recordedTest struct {
	name   string
	words  words
	skip   bool
	masked bool
}

// NewRecorder starts a test file, or continues the file with the given text. It returns an error
// if the file, or the policy that it names, cannot be read.
func NewRecorder(path string, text []byte, opts RecorderOptions) (*Recorder, error) {
	if opts.Mask == nil {
		opts.Mask = spool.Mask
	}
	r := &Recorder{opts: opts, path: path, base: string(text), ours: map[string][]string{}, names: map[string]bool{}, known: map[string]*recordedTest{}}
	key := stageKey{policy: opts.Policy, scope: opts.Scope}
	if text != nil {
		file, errs := Parse(path, text)
		if len(errs) > 0 {
			return nil, errs[0]
		}
		if _, err := r.place(); err != nil {
			return nil, err
		}
		root, err := yaml.Parse(text)
		if err != nil {
			return nil, err
		}
		r.vars = root.Get("vars") != nil
		r.file, key = file, file.key("")
	}
	var err error
	if r.dir, err = os.MkdirTemp("", "grapnel-record-"); err != nil {
		return nil, err
	}
	if r.stage, err = newStage(filepath.Join(r.dir, "stage"), key, opts.Load); err == nil && len(r.stage.errs) > 0 {
		err = r.stage.errs[0]
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, spec := range r.stage.loaded.Specs {
		r.ours[spec.Name] = append(r.ours[spec.Name], spec.Source.Name)
	}
	if r.file == nil {
		r.base = r.head()
		r.file = &File{Path: path, Policy: opts.Policy, Scope: opts.Scope, CWD: r.project(), Programs: r.observers()}
	}
	for _, t := range r.file.Tests {
		r.names[t.Name] = true
		for _, agent := range t.In() {
			r.known[testKey(agent, t)] = &recordedTest{name: t.Name}
		}
	}
	return r, nil
}

// Close removes the temporary files of the Recorder.
func (r *Recorder) Close() error { return os.RemoveAll(r.dir) }

// testKey returns a key for the events of a test, independent of its name and its expected results.
func testKey(agent string, t *Test) string {
	cwd := cmp.Or(t.CWD, t.File.CWD)
	if cwd == recordedProject { // all projects are equivalent
		cwd = ""
	}
	parts := []any{agent, cwd}
	for _, ev := range append(slices.Clip(t.Before), t.Event) {
		ev.Line, ev.Col = 0, 0
		parts = append(parts, ev)
	}
	text, _ := json.Marshal(parts) // marshaling texts and JSON cannot fail
	return string(text)
}

// Add makes a test from a Record. earlier returns the previous Records of its session, oldest
// first. Add calls it if the test fails without them; nil = none are known.
func (r *Recorder) Add(ctx context.Context, e *spool.Entry, earlier func() []spool.Entry) Recorded {
	if e.Error != "" {
		return Recorded{Why: "Grapnel could not read the event: " + e.Error}
	}
	ev, err := replay.Event(e)
	if err != nil {
		return Recorded{Why: err.Error()}
	}
	sanitized, err := r.sanitize(ev, e)
	if err != nil {
		return Recorded{Why: err.Error()}
	}
	made := Recorded{Want: r.decided(e).String(), Agent: sanitized.agent}
	t := r.draft(e, sanitized, nil)
	test, why := r.try(ctx, t, sanitized.agent)
	if why == "" {
		return r.keep(t, test, sanitized, made)
	}
	if earlier != nil {
		if t, test := r.after(ctx, e, sanitized, earlier()); t != nil {
			return r.keep(t, test, sanitized, made)
		}
	}
	if test == nil {
		return Recorded{Why: why}
	}
	note := "the policy now gives another result: "
	if sanitized.masked {
		note = "the record does not contain the whole event: "
	}
	t.words = slices.Insert(t.words, len(t.words)-1, yaml.Pair{Key: text("skip"), Value: text(note + why)})
	t.skip, made.Skipped, made.Why = true, true, note+why
	return r.keep(t, test, sanitized, made)
}

// keep appends a test, unless another one has the same events. It replaces a skipped one.
func (r *Recorder) keep(t *recordedTest, test *Test, sanitized *sanitizedEvent, made Recorded) Recorded {
	key := testKey(sanitized.agent, test)
	if old := r.known[key]; old != nil {
		if t.skip || !old.skip {
			made.Why, made.Skipped = "this test already exists: "+old.name, false
			return made
		}
		r.tests = slices.DeleteFunc(r.tests, func(x *recordedTest) bool { return x == old })
		delete(r.names, old.name)
		t.rename(r.unique(test.Name, old.name))
	}
	var b strings.Builder
	r.write(&b, t)
	if r.size+b.Len() > max(0, maxRecorded-len(r.base)) {
		return Recorded{Why: "the file would become too large", Full: true}
	}
	r.size += b.Len()
	r.tests = append(r.tests, t)
	r.known[key] = t
	r.names[t.name] = true
	made.Test = t.name
	return made
}

// isOurs reports whether a hook that ran is a hook of the policy.
func (r *Recorder) isOurs(run *grapnel.HookRun) bool {
	sources := r.ours[run.Name]
	return slices.Contains(sources, run.Source) || r.opts.Elsewhere && len(sources) > 0
}

// decided returns the decision of the policy's hooks.
func (r *Recorder) decided(e *spool.Entry) grapnel.Decision {
	d := grapnel.None
	others := false
	for i := range e.Hooks {
		run := &e.Hooks[i]
		if run.Observed || run.Expired || run.Async {
			continue
		}
		if r.isOurs(run) {
			d = max(d, run.Decision, run.Approved)
		} else {
			others = true
		}
	}
	if d == grapnel.None && len(e.Unsupported) > 0 && !others { // the unsupported decision was downgraded to this one
		d = e.Decision
	}
	return d
}

// Acted reports whether a hook of the policy decided about an event, changed it, added context, ended
// the turn or failed. The would-be results of hooks in observe mode are included.
func (r *Recorder) Acted(e *spool.Entry) bool {
	ours := false
	for i := range e.Hooks {
		run := &e.Hooks[i]
		if !r.isOurs(run) || run.Async {
			continue
		}
		if ours = true; max(run.Decision, run.Approved) > grapnel.None || len(run.Changed) > 0 || run.Halt || run.Error != "" {
			return true
		}
	}
	return ours && len(e.Context) > 0
}

// mostBefore is the maximum number of earlier events that are tried.
const mostBefore = 100

// after finds a small set of earlier events of the session with which a test passes.
func (r *Recorder) after(ctx context.Context, e *spool.Entry, sanitized *sanitizedEvent, earlier []spool.Entry) (*recordedTest, *Test) {
	var before []earlierEvent
	for i := range earlier {
		ev, err := replay.Event(&earlier[i])
		if err != nil {
			continue
		}
		if was, err := r.sanitize(ev, &earlier[i]); err == nil && was.agent == sanitized.agent && was.cwd == sanitized.cwd {
			before = append(before, earlierEvent{was, earlier[i].Time})
		}
	}
	before = before[max(0, len(before)-mostBefore):]
	try := func(list []earlierEvent) (*recordedTest, *Test) {
		t := r.draft(e, sanitized, list)
		test, wrong := r.try(ctx, t, sanitized.agent)
		if wrong != "" {
			return nil, nil
		}
		return t, test
	}
	best, test := try(before)
	if best == nil {
		return nil, nil
	}
	for size := len(before); size > 0; size /= 2 {
		for at := 0; at+size <= len(before); {
			fewer := slices.Concat(before[:at], before[at+size:])
			if t, is := try(fewer); t != nil {
				before, best, test = fewer, t, is
			} else {
				at += size
			}
		}
	}
	for i := range before { // no state expired between them
		before[i].at = time.Time{}
	}
	if t, is := try(before); t != nil {
		return t, is
	}
	return best, test
}

// try runs a test alone, in the form in which it will be in the file. It returns the reason why
// it fails, or ""; the test is nil if it cannot be parsed.
func (r *Recorder) try(ctx context.Context, t *recordedTest, agent string) (*Test, string) {
	text, err := r.with([]*recordedTest{t})
	if err != nil {
		return nil, err.Error()
	}
	file, errs := Parse(r.path, []byte(text))
	if len(errs) > 0 {
		return nil, errs[0].Msg
	}
	if len(file.Tests) != len(r.file.Tests)+1 {
		return nil, "cannot add the test to the file"
	}
	test := file.Tests[len(file.Tests)-1]
	if test.Skip != "" {
		return test, test.Skip
	}
	s := r.stage
	if err := s.unknownRule(test); err != nil {
		return test, err.Error()
	}
	if err := s.set(test); err != nil {
		return test, err.Error()
	}
	for _, name := range s.loaded.Programs { // a recording must not run programs
		if _, ok := s.answers[name]; !ok {
			s.answers[name] = Answer{Error: "it did not run then"}
		}
	}
	d, _ := dialect.FindAgent(agent)
	firings, err := s.play(ctx, test, d)
	if err = errors.Join(err, s.sweep()); err != nil {
		return test, err.Error()
	}
	for _, m := range test.Want.judge(&firings[len(firings)-1]) {
		return test, m.String()
	}
	return test, ""
}

// Text returns the file with all tests.
func (r *Recorder) Text() ([]byte, error) {
	if len(r.tests) == 0 && len(r.file.Tests) == 0 {
		return []byte(r.base + " []\n"), nil // a new file without tests
	}
	text, err := r.with(r.tests)
	if err != nil {
		return nil, err
	}
	file, errs := Parse(r.path, []byte(text))
	if len(errs) > 0 {
		return nil, errs[0]
	}
	for i, t := range r.file.Tests {
		if file.Tests[i].Name != t.Name {
			return nil, fmt.Errorf("%s: the test %q would change", r.path, t.Name)
		}
	}
	return []byte(text), nil
}
