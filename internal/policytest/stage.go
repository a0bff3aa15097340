package policytest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/allruns"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// A stage is one loaded policy. It runs one test at a time, and resets the state of the policy
// after each.
type stage struct {
	dir    string // all files are written below this directory
	file   string // the policy
	engine *grapnel.Engine
	names  []string // of rules, in all forms that tests may use
	loaded Loaded
	counts counts.Memory
	errs   []*policyfile.Error // if there are any, the other fields are not valid

	rec     *grapnel.Record // for the last event
	measure bool            // measure the allocations of a firing
	cover   *covering       // records coverage; nil = no coverage

	// For the current test.
	clock   time.Time
	answers map[string]Answer
	tests   string // the test file
	work    string // directory where programs run; empty = not created yet
	seeds   []Seed
}

// A stageKey identifies stages that are interchangeable.
type stageKey struct {
	policy, pack string
	scope        grapnel.Scope
}

// newStage loads a policy. A pack is loaded as a policy that uses only this pack.
func newStage(dir string, key stageKey, load func(load.Request) load.Set) (*stage, error) {
	s := &stage{dir: dir, file: key.policy}
	s.counts.Reset()
	if err := os.MkdirAll(s.state(), 0o700); err != nil {
		return nil, err
	}
	if key.pack != "" {
		s.file = filepath.Join(dir, "grapnel.yaml")
		if err := os.WriteFile(s.file, []byte("version: 1\nuse: ["+key.pack+"]\n"), 0o600); err != nil {
			return nil, err
		}
	}
	s.loaded, s.errs = Load(s.file, Loading{
		Scope: key.scope, State: s.state(), Counter: &s.counts, Now: s.now, Load: load,
		Answer: func(c dryrun.Call) grapnel.Hook {
			switch {
			case c.Program != nil:
				return &program{Command: command(*c.Program), stage: s}
			case c.Server != nil:
				return &server{stage: s, name: c.Name, or: noServer(s.file, c.Name)}
			}
			return &server{stage: s, name: c.Name, or: noop.Hook{}}
		},
	})
	if len(s.errs) > 0 {
		return s, nil
	}
	var err error
	s.engine, err = grapnel.New(s.loaded.Specs, &grapnel.Options{
		Approved:  approval.Approvals{}.Find, // replies as from the programs
		Stops:     func(session string, again bool) (int, error) { return counts.Blocked(&s.counts, session, again) },
		Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { s.rec = rec })},
	})
	for i := range s.loaded.Specs {
		for _, name := range namesOf(s.loaded.Specs[i].Name) {
			if !slices.Contains(s.names, name) {
				s.names = append(s.names, name)
			}
		}
	}
	slices.Sort(s.names)
	return s, err
}

// namesOf returns the names that a test may use for a hook. A hook from another system's file is
// SOURCE::NAME.
func namesOf(name string) []string {
	if i := strings.LastIndex(name, "::"); i >= 0 && i+2 < len(name) {
		return []string{name, name[i+2:]}
	}
	return []string{name}
}

// called reports whether a test means a hook by a name.
func called(hook, name string) bool { return slices.Contains(namesOf(hook), name) }

// begin is the time at which every test begins. The clock only moves if the test sets a time
// between events, so that results do not depend on the speed of the machine or the date.
var begin = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

func (s *stage) now() time.Time { return s.clock }

func (s *stage) state() string { return filepath.Join(s.dir, "state") }

// set prepares the stage for a test.
func (s *stage) set(t *Test) error {
	s.answers = maps.Clone(t.File.Programs)
	if s.answers == nil {
		s.answers = map[string]Answer{}
	}
	maps.Copy(s.answers, t.Programs)
	for _, name := range slices.Sorted(maps.Keys(s.answers)) {
		if !slices.Contains(s.loaded.Programs, name) {
			return &policyfile.Error{
				File: t.File.Path, Line: s.answers[name].Line, Col: s.answers[name].Col, Msg: fmt.Sprintf("no hook %q of %s runs a program or calls a server", name, filepath.Base(s.file)),
				Hint: didYouMean(name, s.loaded.Programs),
			}
		}
	}
	s.seeds, s.tests, s.work = t.Files, t.File.Path, ""
	return nil
}

func didYouMean(word string, known []string) string {
	if near := wording.NearestWord(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// sweep removes the files and state of a test.
func (s *stage) sweep() error {
	s.counts.Reset()
	var errs []error
	if left, err := os.ReadDir(s.state()); err != nil || len(left) > 0 {
		errs = append(errs, os.RemoveAll(s.state()), os.MkdirAll(s.state(), 0o700))
	}
	if s.work != "" {
		errs = append(errs, os.RemoveAll(s.work))
	}
	s.work = ""
	return errors.Join(errs...)
}

// project returns the directory in which programs run, with the files of the test.
func (s *stage) project() (string, error) {
	if s.work != "" {
		return s.work, nil
	}
	dir, err := os.MkdirTemp(s.dir, "project-")
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	s.work = dir
	for _, seed := range s.seeds {
		name := filepath.Join(dir, filepath.FromSlash(seed.Name))
		if err := seed.plant(name); err != nil {
			if at, ok := errors.AsType[*os.PathError](err); ok {
				err = at.Err // without the path of the temporary directory
			}
			return "", &policyfile.Error{File: s.tests, Line: seed.Line, Col: seed.Col, Msg: fmt.Sprintf("cannot make the file %s of the project: %v", seed.Name, err)}
		}
	}
	if len(s.seeds) > 0 {
		time.Sleep(older) // the session must not look as if it had changed them
	}
	return dir, nil
}

// older is how long before the first event of a test its files must exist: the clocks of file systems are
// coarse.
const older = 25 * time.Millisecond

func (s *Seed) plant(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if s.From == "" {
		return os.WriteFile(name, []byte(s.Text), 0o600)
	}
	info, err := os.Stat(s.From)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := few(s.From); err != nil {
			return err
		}
		return os.CopyFS(name, os.DirFS(s.From))
	}
	data, err := readFile(s.From)
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, info.Mode().Perm())
}

// Limits for the files that a test copies.
const (
	maxCopies    = 10_000
	maxCopyBytes = 64 << 20
)

// few checks whether a directory can be copied, before any file is copied.
func few(dir string) error {
	n, size := 0, int64(0)
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() && d.Type() != fs.ModeSymlink {
			return fmt.Errorf("%s is not a regular file", at)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n, size = n+1, size+info.Size()
		if n > maxCopies || size > maxCopyBytes {
			return fmt.Errorf("%s is too large for a test: more than %d files or %d MB", dir, maxCopies, maxCopyBytes>>20)
		}
		return nil
	})
}

// program is a hook that runs a program, or returns the answer from the test.
type program struct {
	*process.Command
	stage *stage
}

// Handle runs the program. A program that would run in the agent's working directory runs in a
// directory of the test instead, so that tests do not change the user's files.
func (p *program) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	if a, ok := p.stage.answers[p.Name]; ok {
		return a.give(ev, p.Dialect)
	}
	cmd := *p.Command
	if !cmd.InDir {
		dir, err := p.stage.project()
		if err != nil {
			return grapnel.Outcome{}, err
		}
		cmd.Dir, cmd.InDir = dir, true
	}
	return cmd.Handle(ctx, ev)
}

// server is a hook that contacts a server.
type server struct {
	stage *stage
	name  string
	or    grapnel.Hook
}

// Handle returns the answer from the test; without one it calls the hook or.
func (s *server) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	if a, ok := s.stage.answers[s.name]; ok {
		return a.give(ev, nil)
	}
	return s.or.Handle(ctx, ev)
}

// give returns the answer. Output is read like the output of a program that uses the dialect d.
func (a Answer) give(ev *grapnel.Event, d *dialect.Dialect) (grapnel.Outcome, error) {
	switch {
	case a.Timeout:
		return a.Outcome, fmt.Errorf("%w: set by the test", grapnel.ErrTimeout)
	case a.Output != nil:
		out, err := cmp.Or(d, dialect.Plain()).ReadOutcome(ev, dialect.Output{Exit: a.Output.Exit, Stdout: []byte(a.Output.Stdout), Stderr: []byte(a.Output.Stderr)})
		if err == nil && a.Error != "" {
			err = errors.New(a.Error)
		}
		return out, err
	case a.Error != "":
		return a.Outcome, errors.New(a.Error)
	}
	return a.Outcome, nil
}

// place returns the agent's working directory.
func (s *stage) place(t *Test) (string, error) {
	if len(t.Files) > 0 {
		return s.project()
	}
	dir := cmp.Or(t.CWD, t.File.CWD, filepath.Dir(t.File.Path))
	if strings.HasPrefix(dir, "/") { // the same on each system where the test runs
		return dir, nil
	}
	return filepath.Abs(dir)
}

// callNumber returns the index of the event that announces the call of event i: of the last one with the same
// words, if i is its result.
func (t *Test) callNumber(i int) int {
	events := append(slices.Clip(t.Before), t.Event)
	call := events[i].callText()
	if call == "" || !events[i].ended() {
		return i
	}
	for j := i - 1; j >= 0; j-- {
		if events[j].callText() == call {
			if events[j].ended() {
				break
			}
			return j
		}
	}
	return i
}

// ended reports whether the event is the result of a call.
func (e *Event) ended() bool { return e.Output != nil || e.Error != nil }

// callText returns the tool and the input of a call; "" = the event is not a call, or one in the format of an agent.
func (e *Event) callText() string {
	if e.Payload != nil || e.Plain != nil || e.Prompt != nil {
		return ""
	}
	name, input, wrong := e.call()
	if wrong != nil {
		return ""
	}
	text, _ := json.Marshal(input) // the input of a test, so it cannot fail
	return name + " " + string(text)
}

// play fires the events of a test as one agent reports them, and returns the result of each; the
// last one is checked.
func (s *stage) play(ctx context.Context, t *Test, d *dialect.Dialect) ([]Firing, error) {
	dir, err := s.place(t)
	if err != nil {
		return nil, err
	}
	s.clock = begin
	var firings []Firing
	for i := range len(t.Before) + 1 {
		ev := &t.Event
		if i < len(t.Before) {
			ev = &t.Before[i]
		}
		reported, err := ev.report(d, dir, t.callNumber(i)+1)
		if err != nil {
			at := &policyfile.Error{File: t.File.Path, Line: ev.Line, Col: ev.Col, Msg: err.Error()}
			if errors.Is(err, errUnsupported) {
				at.Hint = "`agents:` lists the agents in which a test runs"
			}
			return firings, at
		}
		if session := reported.Event.Session.ID; i < len(t.Before) && t.Event.Payload != nil && session != "" {
			reported.Event.Session.ID = cmp.Or(t.Event.session(), session) // earlier events get the session ID of the recorded payload under test
		}
		s.clock = s.clock.Add(time.Duration(ev.Later))
		if reported.Event.Time.IsZero() { // like grapnel-hook, for agents that send no time
			reported.Event.Time = s.clock
		}
		firings = append(firings, s.fire(ctx, reported))
		if err := context.Cause(ctx); err != nil {
			return firings, err
		}
	}
	return firings, nil
}

// session returns the session ID of a recorded payload.
func (e *Event) session() string {
	ev, err := e.payloadDialect().Read(dialect.Input{Payload: e.Payload, Event: e.Native})
	if err != nil {
		return ""
	}
	return ev.Session.ID
}

// fire fires one event and waits for the observing hooks.
func (s *stage) fire(ctx context.Context, reported reportedEvent) Firing {
	f := Firing{Agent: reported.dialect.Name, engine: s.engine}
	var before, after runtime.MemStats
	if s.measure {
		runtime.ReadMemStats(&before)
	}
	begun := time.Now()
	verdict, runs := allruns.Fire(ctx, s.engine, reported.Event)
	f.Took = time.Since(begun)
	if s.measure {
		runtime.ReadMemStats(&after)
		f.bytes, f.allocs = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	}
	f.Verdict, f.Record = verdict, s.rec
	for run := range runs {
		f.Late = append(f.Late, run)
	}
	f.Reply = reported.dialect.Write(reported.Event, &verdict, reported.native)
	if s.cover != nil {
		s.cover.fired(s.loaded.Specs, &f)
	}
	return f
}
