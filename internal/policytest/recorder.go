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
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/policy"
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
	All       bool                     // also record notices and finished calls to which no hook reacted
	Private   bool                     // the file stays on this machine: keep the names of directories

	// Load loads the policy; nil = policy.Load. It may change its result.
	Load func(policy.Request) policy.Set
}

// Recorded is the result for one Record.
type Recorded struct {
	Test    string   // its name; empty = no test
	Why     string   // why there is no test, or why it is skipped
	Skipped bool     // the test exists, but is skipped
	More    bool     // an earlier test now also covers this agent
	Full    bool     // no test, because the file would become too large
	Masked  bool     // a secret or a long text is missing in its event
	Want    string   // the expected result, in a word
	Agents  []string // agents in which it passes
}

// A recordedTest is a test from a Record.
type recordedTest struct {
	name   string
	words  words
	agents []string
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
			r.known[testKey(agent, t)] = &recordedTest{name: t.Name, agents: t.In()}
		}
	}
	return r, nil
}

// Close removes the temporary files of the Recorder.
func (r *Recorder) Close() error { return os.RemoveAll(r.dir) }

// testKey returns a key for the events of a test, independent of its name and its expected results.
func testKey(agent string, t *Test) string {
	at := func(ev Event) Event {
		ev.Line, ev.Col = 0, 0
		if ev.Tool == string(grapnel.ClassShell) && ev.Command != nil {
			ev.Tool = ""
		}
		if ev.Payload != nil {
			ev.Payload = withoutIDs(ev.Payload)
		}
		return ev
	}
	var before []Event
	for _, ev := range t.Before {
		before = append(before, at(ev))
	}
	cwd := cmp.Or(t.CWD, t.File.CWD)
	if cwd == recordedProject { // all projects are equivalent
		cwd = ""
	}
	text, _ := json.Marshal([]any{agent, cwd, before, at(t.Event)}) // marshaling texts and JSON cannot fail
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
	if !r.opts.All && !r.speaks(e) && !slices.Contains([]grapnel.Kind{grapnel.ToolBefore, grapnel.PromptBefore, grapnel.PermissionBefore}, e.Event) {
		return Recorded{Why: "no hook had an effect"}
	}
	sanitized, err := r.sanitize(ev, e)
	if err != nil {
		return Recorded{Why: err.Error()}
	}
	forms := sanitized.forms()
	made := Recorded{Masked: sanitized.masked, Want: r.decided(e).String(), Agents: []string{sanitized.agent}}
	var why string
	for _, f := range forms {
		t := r.draft(e, sanitized, f, nil)
		test, wrong := r.try(ctx, t, sanitized.agent)
		if wrong == "" {
			return r.keep(t, test, sanitized, made)
		}
		why = cmp.Or(why, wrong)
	}
	if earlier != nil {
		if t, test := r.after(ctx, e, sanitized, forms[0], earlier()); t != nil {
			return r.keep(t, test, sanitized, made)
		}
	}
	note := "the policy now gives another result: "
	if sanitized.masked {
		note = "the record does not contain the whole event: "
	}
	t := r.draft(e, sanitized, forms[0], nil)
	t.words.add("skip", text(note+why))
	test, _ := r.try(ctx, t, sanitized.agent)
	if test == nil {
		return Recorded{Why: why}
	}
	t.skip, made.Skipped, made.Why = true, true, note+why
	return r.keep(t, test, sanitized, made)
}

// keep appends a test, or adds an agent to an existing test with the same events.
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
	if !t.skip {
		for _, other := range r.tests {
			if other.words.like(t.words) && !other.skip && test.Event.Payload == nil {
				other.agents = append(other.agents, sanitized.agent)
				r.known[key] = other
				made.Test, made.More = other.name, true
				return made
			}
		}
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
			d = max(d, run.Decision)
		} else {
			others = true
		}
	}
	if d == grapnel.None && len(e.Unsupported) > 0 && !others { // the unsupported decision was downgraded to this one
		d = e.Decision
	}
	return d
}

// speaks reports whether a hook of the policy had an effect or failed.
func (r *Recorder) speaks(e *spool.Entry) bool {
	ours := false
	for i := range e.Hooks {
		run := &e.Hooks[i]
		if !r.isOurs(run) || run.Async {
			continue
		}
		if ours = true; run.Decision > grapnel.None || len(run.Changed) > 0 || run.Halt || run.Error != "" {
			return true
		}
	}
	return ours && len(e.Context) > 0
}

// mostBefore is the maximum number of earlier events that are tried.
const mostBefore = 100

// after finds a small set of earlier events of the session with which a test passes.
func (r *Recorder) after(ctx context.Context, e *spool.Entry, sanitized *sanitizedEvent, f form, earlier []spool.Entry) (*recordedTest, *Test) {
	var before []form
	var times []time.Time
	for i := range earlier {
		ev, err := replay.Event(&earlier[i])
		if err != nil {
			continue
		}
		was, err := r.sanitize(ev, &earlier[i])
		if err != nil || was.agent != sanitized.agent || was.cwd != sanitized.cwd {
			continue
		}
		before, times = append(before, was.forms()[0]), append(times, earlier[i].Time)
	}
	before, times = before[max(0, len(before)-mostBefore):], times[max(0, len(times)-mostBefore):]
	try := func(list []form) (*recordedTest, *Test) {
		t := r.draft(e, sanitized, f, list)
		test, wrong := r.try(ctx, t, sanitized.agent)
		if wrong != "" {
			return nil, nil
		}
		return t, test
	}
	best, test := try(before)
	if best == nil { // state from some events may have expired by then
		for i := range before {
			before[i].at = times[i]
		}
		if best, test = try(before); best == nil {
			return nil, nil
		}
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
	for i := range before { // drop times that no rule notices
		gap := gapBehind(before, i, e.Time)
		if gap == 0 {
			continue
		}
		closer := slices.Clone(before)
		for j := range i + 1 {
			closer[j].at = closer[j].at.Add(gap)
		}
		if t, is := try(closer); t != nil {
			before, best, test = closer, t, is
		}
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
	var wrong []string
	for _, m := range test.Want.judge(&firings[len(firings)-1]) {
		wrong = append(wrong, m.String())
	}
	return test, strings.Join(wrong, "; ")
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
