// Package install puts the entries of Grapnel into an agent's settings and takes
// them out again, byte for byte.
//
// What most people need:
//
//	res, err := install.Install(ctx, install.Request{Program: "/usr/local/bin/grapnel-hook"})
//	res, err := install.Uninstall(ctx, install.Request{Agents: []string{"claude-code"}})
//
// In between lie two steps that can be had by themselves: Plan and PlanRemove
// are pure and say how a file would change, Apply does it. What is known of each
// agent stands in its dialect, as a dialect.Setup.
//
// A settings file belongs to its user. Comments, order, indentation, line ends
// and the entries of others stay as they are; a file that cannot be edited
// without a guess is refused with line and column; every replaced file is backed
// up; and a plan that could not be taken back exactly is not carried out.
//
// Agents keep hooks in files of five shapes (see dialect.Shape): lists in a document
// that others edit, too, and files that are ours as a whole. An installation may have
// several of them; they are planned before the first is written, and what was written
// is taken back when a later one fails.
//
// The package does not decide what events a policy needs, asks nothing of a terminal,
// and never runs a hook.
package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/install/record"
	"github.com/grapnel-dev/grapnel/install/shim"
	"github.com/grapnel-dev/grapnel/internal/owner"
)

// DefaultTimeout is how long agents are told to wait for the hook.
const DefaultTimeout = 60 * time.Second

// ErrUsage is matched by errors that come from the request and not from the
// machine. A command line should end with its usage status for them.
var ErrUsage = errors.New("usage error")

type usageError struct{ msg string }

func (e usageError) Error() string        { return e.msg }
func (e usageError) Is(target error) bool { return target == ErrUsage }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

func scopeError(s Scope) error {
	return usagef("unknown scope %q, there are %s, %s and %s", s, User, Project, Managed)
}

// A Request says what to install or to uninstall, and where. Fields that only
// Install reads are marked.
type Request struct {
	// Agents are names or aliases. None means, for Install, those that are
	// detected; Uninstall wants names or All.
	Agents []string
	All    bool  // Uninstall: every recorded installation below Root, and the user settings of every agent
	Scope  Scope // empty means User

	// Root keeps records, backups and state below one directory instead of the
	// home directory of the user database, and puts --root into the command.
	Root string
	// Program is the absolute path of grapnel-hook. Install only.
	Program string
	// Policy is the user's policy file. Empty means grapnel.yaml in Root, or
	// else below $XDG_CONFIG_HOME or .config. Install only.
	Policy string
	// ProjectDir is the directory of the project. Scope Project needs it; for
	// scope User its settings are looked at for what would disturb.
	ProjectDir string
	Home       string              // below which agents look for their settings; empty means $HOME
	Env        func(string) string // nil means os.Getenv

	// Events are added to the default set, by name of the agent. Install only.
	Events map[string][]string
	// Versions are those of the agents, by name. Where it matters and nothing
	// is said, the agent's program is asked. Install only.
	Versions   map[string]string
	Timeout    time.Duration // how long agents wait for the hook; 0 means DefaultTimeout. Install only.
	FailClosed bool          // ask agents to block when the hook fails. Install only.

	// Via is how agents reach Grapnel. Empty means as they do now, and by a command where
	// nothing is installed. Install only.
	Via Via
	// Programs are, by name of the agent, the events at which a hook of the policy starts a
	// program, with the name of the hook: over http these stay commands. Install only.
	Programs map[string]map[string]string

	DryRun bool // plan only: nothing is written, not even a lock file
	// Confirm is called between planning and writing, if anything changes. What
	// it was shown is what is written; false ends without writing. Nil means yes.
	Confirm func(*Result) (bool, error)

	Now     time.Time // zero means time.Now
	Version string    // of Grapnel, for the record

	// System is what the files of a managed installation lie below; empty means /, or
	// Root where that is given, below which the hook program looks for them, too.
	System string

	// State takes the place of the directory that Root stands for. It is for
	// tests: the hook program looks nowhere else but there.
	State string

	known []Agent // in place of Agents(); for tests
}

// A Result says what was done, or with DryRun what would be.
type Result struct {
	Applied bool         `json:"applied"` // false after a dry run, a refusal, or if nothing had to be done
	Files   []FileResult `json:"files"`
	Notes   []string     `json:"notes"`
	Costs   []string     `json:"costs,omitempty"` // what is given up by an installation over http; a person should read it before
}

// Changed reports whether any file changes.
func (r *Result) Changed() bool {
	return slices.ContainsFunc(r.Files, func(f FileResult) bool { return f.Changed })
}

// A FileResult is about one settings file.
type FileResult struct {
	Agent   string   `json:"agent"`
	Scope   Scope    `json:"scope"`
	File    string   `json:"file"`
	Changed bool     `json:"changed"`
	Created bool     `json:"created"` // there was no file
	Removed bool     `json:"removed"` // there is none any more
	ID      string   `json:"id"`      // token of the installation
	Events  []string `json:"events"`  // installed, or taken out
	Diff    string   `json:"diff"`
	Backup  string   `json:"backup"`
	Notes   []string `json:"notes"` // what the person has to know or do

	Via      Via      `json:"via,omitempty"`      // how the agent reaches Grapnel; empty after taking out
	Commands []string `json:"commands,omitempty"` // over http: events that still start a program
}

// A job is one agent, of one scope, on its way through Install or Uninstall.
type job struct {
	agent   Agent
	scope   Scope
	file    string         // with the hooks; of ShapeFiles the directory of the files
	state   string         // the directory that keeps its record
	old     *record.Record // what is recorded now; nil if nothing
	rec     record.Record  // what shall be recorded
	changes []*Change      // in the order in which they are made
	notes   []string
	stale   []string // tokens in the files whose records cannot be read

	via      Via
	commands []string // events that stay commands
	guest    *Guest   // who asks over http; nil = nobody
	port     int
}

func (j *job) changed() bool { return slices.ContainsFunc(j.changes, (*Change).Changed) }

// files are those of the job, and those that are recorded.
func (j *job) files() []string {
	var files []string
	for _, c := range j.changes {
		files = append(files, c.File)
	}
	if j.old != nil {
		for _, f := range j.old.Files {
			files = append(files, f.Path)
		}
	}
	return files
}

func (j *job) installs() string { return filepath.Join(j.state, "installs") }

// load reads a file, if it is one that Apply could replace.
func (j *job) load(file string) ([]byte, error) {
	target, _, err := resolve(file)
	if err != nil {
		return nil, fmt.Errorf("cannot edit %s: %w", file, err)
	}
	if info, err := os.Lstat(file); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		j.notes = append(j.notes, fmt.Sprintf("%s is a symbolic link; what is edited is %s", file, target))
	}
	data, err := load(target)
	if err != nil {
		return nil, fmt.Errorf("cannot read the settings of %s: %w", j.agent.Title, err)
	}
	return data, nil
}

// noLink refuses a project's file that its agent does not read because of a link.
func (s *session) noLink(a Agent, file string) error {
	if s.Scope != Project || !a.Setup.NoLink {
		return nil
	}
	root, err := filepath.EvalSymlinks(s.ProjectDir)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(s.ProjectDir, file)
	if err != nil {
		return err
	}
	at := root
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		at = filepath.Join(at, part)
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return &FileError{File: at, Problem: fmt.Sprintf("it is a symbolic link, and %s does not read hooks of a project through one", a.Title), Hint: "put the file itself there, then run the command again"}
		}
	}
	return nil
}

// A session is a request with its defaults filled in.
type session struct {
	Request
	recs []record.Record
	res  Result
	left []error // of Uninstall with All: why something is still installed

	addresses Addresses // for agents that ask over http
}

// Install puts entries into the settings of the agents and records what it did.
// To install again changes what differs and nothing else; the token stays.
//
// All files are planned before the first is written. The Result is valid also
// with an error that comes after that: it says what was done until then.
func Install(ctx context.Context, req Request) (*Result, error) {
	s, err := begin(req)
	if err != nil {
		return nil, err
	}
	agents, err := s.agents()
	if err != nil {
		return nil, err
	}
	if len(s.Agents) > 0 { // before anything is written, the lock included
		for _, a := range agents {
			if _, err := a.Settings(s.Scope, s.base(s.Scope), s.Env); err != nil {
				return nil, err
			}
		}
	}
	if err := checkProgram(s.Program); err != nil {
		return nil, err
	}
	if s.Scope == Managed && s.System == systemRoot {
		if err := rootsAlone(s.Program); err != nil {
			return nil, err
		}
	}
	return s.run(ctx, func() ([]*job, error) {
		var jobs []*job
		var errs []error
		for _, a := range agents {
			j, err := s.planInstall(ctx, a)
			switch {
			case err == nil:
				jobs = append(jobs, j)
			case len(s.Agents) > 0:
				return nil, err
			default: // nobody asked for this one
				errs = append(errs, err)
				s.res.Notes = append(s.res.Notes, fmt.Sprintf("%s is left out: %v", a.Title, err))
			}
		}
		if len(jobs) == 0 {
			// What is wrong with the request is wrong for all of them.
			return nil, errors.Join(slices.CompactFunc(errs, func(a, b error) bool { return a.Error() == b.Error() })...)
		}
		return jobs, nil
	}, s.writeInstall)
}

// begin checks the request and fills in what was left empty.
func begin(req Request) (*session, error) {
	s := &session{Request: req, res: Result{Files: []FileResult{}, Notes: []string{}}}
	if s.Scope == "" {
		s.Scope = User
	}
	if s.Scope != User && s.Scope != Project && s.Scope != Managed {
		return nil, scopeError(s.Scope)
	}
	if s.Env == nil {
		s.Env = os.Getenv
	}
	if s.Now.IsZero() {
		s.Now = time.Now()
	}
	s.Now = s.Now.UTC().Truncate(time.Millisecond)
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.Home == "" {
		home, err := os.UserHomeDir()
		if err != nil && s.Scope == User {
			return nil, fmt.Errorf("cannot find the settings of agents: %w", err)
		}
		s.Home = home
	}
	if s.Scope == Project && s.ProjectDir == "" {
		return nil, usagef("scope %s needs the directory of the project", Project)
	}
	for _, p := range []*string{&s.Root, &s.ProjectDir, &s.System} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, err
		}
		*p = abs
	}
	s.System = cmp.Or(s.System, s.Root, systemRoot)
	if s.known == nil {
		s.known = Agents()
	}
	if s.Scope == Managed {
		if s.System == systemRoot && !isRoot() {
			return nil, fmt.Errorf("only root can install and uninstall with --scope %s, because nobody else may take away what it makes: run it as root, for example with sudo", Managed)
		}
		s.State, s.Policy = record.Managed(s.System), ""
		return s, nil
	}
	if s.State == "" {
		state, err := record.State(s.Root)
		if err != nil {
			return nil, err
		}
		s.State = state
	}
	if s.Policy == "" {
		s.Policy = s.userPolicy()
	}
	return s, nil
}

// base is what the files of a scope lie below.
func (s *session) base(scope Scope) string {
	return map[Scope]string{User: s.Home, Project: s.ProjectDir, Managed: s.System}[scope]
}

func (s *session) userPolicy() string {
	if s.Root != "" {
		return filepath.Join(s.Root, "grapnel.yaml")
	}
	config := s.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) { // as the XDG specification wants it
		config = filepath.Join(s.Home, ".config")
	}
	return filepath.Join(config, "grapnel", "grapnel.yaml")
}

// agents returns the agents of the request, each once.
func (s *session) agents() ([]Agent, error) {
	var found []Agent
	for _, name := range s.Agents {
		a, err := lookup(s.known, name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(b Agent) bool { return a.Name == b.Name }) {
			found = append(found, a)
		}
	}
	for name := range s.Events {
		if _, err := lookup(s.known, name); err != nil {
			return nil, err
		}
	}
	if len(s.Agents) > 0 {
		return found, nil
	}
	var names []string
	for _, a := range s.known {
		if a.Detected(s.Home, s.Env) {
			found = append(found, a)
		}
		names = append(names, a.Name)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("found none of the agents %s here; name the one to install into", strings.Join(names, ", "))
	}
	return found, nil
}

// checkProgram makes sure that what is written into the settings can be run:
// some agents block every tool when it cannot.
func checkProgram(program string) error {
	info, err := os.Stat(program)
	switch {
	case program == "":
		return usagef("the path of %s is missing", hookProgram)
	case err != nil:
		return fmt.Errorf("cannot install %s: %w", program, err)
	case !runnable(info):
		return fmt.Errorf("cannot install %s: it is not a program that can be run", program)
	}
	return nil
}

// rootsAlone makes sure that nobody can put another program in the place of the one
// that every user's agent runs.
func rootsAlone(program string) error {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return err
	}
	for _, name := range []string{program, real} {
		for {
			info, err := os.Stat(name)
			if err == nil {
				err = owner.Root(info)
			}
			if err != nil {
				return fmt.Errorf("cannot install %s for every user, others could put another program in its place: %s: %w; install grapnel where only root can write, as /usr/local/bin", program, name, err)
			}
			if name == filepath.Dir(name) {
				break
			}
			name = filepath.Dir(name)
		}
	}
	return nil
}

// run plans and writes under the lock.
func (s *session) run(ctx context.Context, plan func() ([]*job, error), write func(*job) (backups []string, err error)) (*Result, error) {
	if !s.DryRun {
		mode := fs.FileMode(0o700)
		if s.Scope == Managed {
			mode = 0o755 // every user's hook reads the record in it
		}
		unlock, err := lock(ctx, s.State, mode)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	recs, err := record.List(filepath.Join(s.State, "installs"))
	if err != nil { // a broken record must not keep anybody from installing anew
		s.res.Notes = append(s.res.Notes, err.Error())
	}
	s.recs = recs
	if s.addresses, err = ReadAddresses(s.State); err != nil {
		s.res.Notes = append(s.res.Notes, err.Error()) // what it held is made anew
	}
	jobs, err := plan()
	if err != nil {
		return nil, err
	}
	pending := false
	rows := make([]int, len(jobs)) // of the first file of each job
	for i, j := range jobs {
		rows[i] = len(s.res.Files)
		for k, c := range j.changes {
			f := FileResult{
				Agent: j.agent.Name, Scope: j.scope, File: c.File, ID: j.rec.ID,
				Changed: c.Changed(),
				Created: c.Changed() && c.Before == nil,
				Removed: c.Changed() && c.After == nil,
				Events:  append([]string{}, c.Events...),
				Diff:    s.mask(j, c.Diff),
				Notes:   append([]string{}, c.Notes...),
				Via:     j.via, Commands: j.commands,
			}
			if k == len(j.changes)-1 {
				f.Notes = append(f.Notes, j.notes...)
			}
			s.res.Files = append(s.res.Files, f)
		}
		pending = pending || j.changed()
	}
	if s.DryRun {
		return &s.res, nil
	}
	if pending && s.Confirm != nil {
		if ok, err := s.Confirm(&s.res); err != nil || !ok {
			return &s.res, err
		}
	}
	for i, j := range jobs {
		for _, file := range j.files() {
			if target, _, err := resolve(file); err == nil {
				sweep(filepath.Dir(target))
			}
		}
		backups, err := write(j)
		for k, backup := range backups {
			s.res.Files[rows[i]+k].Backup = backup
		}
		if err != nil {
			s.res.Files = s.res.Files[:rows[i]] // what was done
			return &s.res, err
		}
		s.res.Applied = s.res.Applied || j.changed()
	}
	return &s.res, nil
}

// applyAll makes the changes of a job. If one fails those before it are taken back.
func (s *session) applyAll(j *job) (backups []string, err error) {
	keep := filepath.Join(j.state, "backups")
	for i, c := range j.changes {
		backup, err := Apply(c, keep, s.Now)
		backups = append(backups, backup)
		if err == nil {
			continue
		}
		for _, done := range slices.Backward(j.changes[:i]) {
			back := &Change{Agent: done.Agent, File: done.File, Before: done.After, After: done.Before, Made: done.Made, Perm: done.Perm, Exact: done.Exact}
			if _, berr := Apply(back, keep, s.Now); berr != nil {
				err = errors.Join(err, berr)
			}
		}
		return backups, err
	}
	return backups, nil
}

// Installed looks at what a record says is installed: at all of its files. The error
// is about the first that is gone or cannot be read.
func (a Agent) Installed(rec record.Record) (*Inspection, error) {
	var all Inspection
	files := []string{rec.Settings}
	if a.Setup.Shape == dialect.ShapeFiles {
		files = nil // it is a directory
	}
	for _, f := range rec.Files {
		files = append(files, f.Path)
	}
	for _, file := range files {
		data, err := load(file)
		if err != nil {
			return nil, err
		}
		if data == nil {
			return nil, fmt.Errorf("%s is gone", file)
		}
		in, err := a.Inspect(file, data)
		if err != nil {
			return nil, err
		}
		all.Entries = append(all.Entries, in.Entries...)
		all.Notes = append(all.Notes, in.Notes...)
	}
	return &all, nil
}

// recorded finds the record of a settings file.
func (s *session) recorded(a Agent, file string) *record.Record {
	for i, r := range s.recs {
		if r.Agent == a.Name && r.Settings == file {
			return &s.recs[i]
		}
	}
	return nil
}

func (s *session) planInstall(ctx context.Context, a Agent) (*job, error) {
	file, err := a.Settings(s.Scope, s.base(s.Scope), s.Env)
	if err != nil {
		return nil, err
	}
	if err := s.noLink(a, file); err != nil {
		return nil, err
	}
	j := &job{agent: a, scope: s.Scope, file: file, state: s.State, old: s.recorded(a, file)}
	id := newToken()
	if j.old != nil {
		id = j.old.ID
	}
	version, note := s.version(ctx, a)
	if note != "" {
		j.notes = append(j.notes, note)
	}
	asked := s.Events[a.Name]
	for _, alias := range a.Aliases {
		asked = append(slices.Clip(asked), s.Events[alias]...)
	}
	events, notes, err := a.choose(asked, version)
	if err != nil {
		return nil, err
	}
	j.notes = append(j.notes, notes...)
	if s.FailClosed && a.closes() && version != "" && older(version, a.Setup.ClosedSince) {
		j.notes = append(j.notes, fmt.Sprintf("%s %s does not know how to fail closed, %s does: update it", a.Title, version, a.Setup.ClosedSince))
	}

	j.rec.ID = id
	over, err := s.reach(j, id, version)
	if err != nil {
		return nil, err
	}
	w := Wanted{
		Agent: a, File: file, Dir: s.pluginDir(j, id),
		Hook:   Hook{Program: s.Program, ID: id, Root: s.Root, Over: over},
		Events: events, Timeout: s.Timeout, FailClosed: s.FailClosed,
	}
	if err := s.planTexts(j, w); err != nil {
		return nil, err
	}
	if !a.isText(file) {
		if err := s.planDocuments(j, w); err != nil {
			return nil, err
		}
	}
	// What an installation before this one had and this one has not, goes last.
	for _, old := range s.leftOver(j) {
		current, err := j.load(old)
		if err != nil {
			return nil, err
		}
		j.changes = append(j.changes, planRemoveText(a, old, current, j.made(old)))
	}
	for _, c := range j.changes {
		if s.Scope != User {
			c.Perm, c.Exact = 0o644, s.Scope == Managed
		}
		if a.Setup.Shape == dialect.ShapeFiles { // programs
			perm := cmp.Or(c.Perm, 0o600)
			c.Perm = perm | perm&0o444>>2
		}
		if c.Before == nil {
			dirs := append(missingDirs(c.File), c.Made.Dirs...)
			slices.Sort(dirs) // puts a directory before what is in it
			c.Made.Dirs = slices.Compact(dirs)
		}
	}
	j.notes = append(j.notes, s.surroundings(j)...)
	j.rec = s.record(j, id, events)
	for _, c := range j.changes {
		s.hide(j, c)
	}
	if over != nil {
		if err := s.refusals(j, over); err != nil {
			return nil, err
		}
		for _, ev := range events {
			if !over.asks(ev) {
				j.commands = append(j.commands, ev)
			}
		}
		if j.changed() {
			s.res.Costs = append(s.res.Costs, s.costs(j, over, events)...)
		}
	}
	return j, nil
}

// pluginDir is the directory of the plugin of an installation.
func (s *session) pluginDir(j *job, id string) string {
	if j.old != nil {
		for _, f := range j.old.Files {
			if _, ok := j.agent.inPlugin(f.Path); ok {
				return filepath.Dir(f.Path)
			}
		}
	}
	dir := filepath.Join(j.state, filepath.FromSlash(pluginDir(j.agent, "")))
	if s.owned(j, dir) {
		dir = filepath.Join(j.state, filepath.FromSlash(pluginDir(j.agent, id)))
	}
	return dir
}

// owned reports whether another installation than that of the job has files in dir.
func (s *session) owned(j *job, dir string) bool {
	return slices.ContainsFunc(s.recs, func(r record.Record) bool {
		return (j.old == nil || r.ID != j.old.ID) && slices.ContainsFunc(r.Files, func(f record.File) bool { return filepath.Dir(f.Path) == dir })
	})
}

// made is what is recorded as made around a file; nil if nothing is recorded.
func (j *job) made(file string) *record.Made {
	if j.old == nil {
		return nil
	}
	if file == j.old.Settings {
		return &j.old.Made
	}
	for i := range j.old.Files {
		if j.old.Files[i].Path == file {
			return &j.old.Files[i].Made
		}
	}
	return nil
}

// look says what is there by the name of a file that would be ours as a whole.
func (j *job) look(file string) (there, ours bool) {
	data, err := load(file)
	return data != nil || err != nil, err == nil && data != nil && j.agent.isOurs(file, data)
}

// planTexts plans the files that are ours as a whole.
func (s *session) planTexts(j *job, w Wanted) error {
	if err := w.check(); err != nil {
		return err
	}
	texts, err := w.texts(j.look)
	if err != nil {
		return err
	}
	for _, t := range texts {
		current, err := j.load(t.file)
		if err != nil {
			return err
		}
		j.stale = append(j.stale, s.unknown(j.agent.textEntries(t.file, current))...)
		j.changes = append(j.changes, planText(j.agent, t, current, j.made(t.file)))
	}
	if len(texts) > 0 && s.FailClosed && j.agent.Setup.Shape == dialect.ShapeFiles {
		j.notes = append(j.notes, cannotClose(j.agent))
	}
	return nil
}

// planDocuments plans the edits of files that others use, too.
func (s *session) planDocuments(j *job, w Wanted) error {
	var over []*Change
	for _, rel := range w.Agent.Setup.Over {
		o := w
		o.File = filepath.Join(filepath.Dir(j.file), filepath.FromSlash(rel))
		var err error
		if o.Current, err = j.load(o.File); err != nil {
			return err
		}
		if o.Current == nil {
			continue
		}
		d, err := parse(w.Agent, o.File, o.Current)
		if err != nil {
			return err
		}
		spots, err := d.spots()
		if err != nil {
			return err
		}
		there := func(ev string) bool {
			return slices.ContainsFunc(spots, func(s spot) bool { return w.Agent.sameEvent(s.event, ev) })
		}
		o.Events = slices.DeleteFunc(slices.Clone(w.Events), func(ev string) bool { return !there(ev) })
		w.Events = slices.DeleteFunc(slices.Clone(w.Events), there)
		o.Made = j.made(o.File)
		c, err := Plan(o)
		if err != nil {
			return err
		}
		if len(o.Events) > 0 || c.Changed() {
			over = append(over, c)
		}
		break
	}
	var err error
	if w.Current, err = j.load(j.file); err != nil {
		return err
	}
	w.Made = j.made(j.file)
	if in, err := w.Agent.Inspect(j.file, w.Current); err == nil {
		j.stale = append(j.stale, s.unknown(in.Entries)...)
	}
	c, err := Plan(w)
	if err != nil {
		return err
	}
	j.changes = append(j.changes, append(over, c)...)
	return nil
}

// leftOver lists files that are ours as a whole, and that the job does not change.
func (s *session) leftOver(j *job) []string {
	files := s.candidates(j)
	if j.old != nil {
		for _, f := range j.old.Files {
			files = append(files, f.Path)
		}
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		_, ours := j.look(file)
		return !ours || !j.agent.isText(file) || slices.ContainsFunc(j.changes, func(c *Change) bool { return c.File == file })
	})
	slices.Sort(files)
	return slices.Compact(files)
}

// candidates lists where files of ours may lie that no record knows.
func (s *session) candidates(j *job) []string {
	var files []string
	switch a := j.agent; {
	case a.Setup.Shape == dialect.ShapeFiles:
		for _, ev := range a.Events {
			files = append(files, a.names(j.file, ev.Native)...)
		}
	case a.Setup.Shape == dialect.ShapePlugin && len(a.Setup.Edits) > 0:
		dir := filepath.Join(j.state, filepath.FromSlash(pluginDir(a, "")))
		plugin, _ := shim.Files(a.Name, shim.Options{})
		for name := range plugin {
			if !s.owned(j, dir) { // else the settings of that one name it still
				files = append(files, filepath.Join(dir, filepath.FromSlash(name)))
			}
		}
	case a.Setup.Shape == dialect.ShapePlugin:
		files = append(files, j.file)
	}
	return files
}

// record is what Install writes down of a job.
func (s *session) record(j *job, id string, events []string) record.Record {
	rec := record.Record{
		ID: id, Agent: j.agent.Name, Scope: string(j.scope), Settings: j.file,
		Program: s.Program, Root: s.Root, Policy: s.Policy, State: s.State, Path: s.Env("PATH"),
		Events: events, TimeoutMS: j.agent.wait("", s.Timeout).Milliseconds(),
		FailClosed: s.FailClosed, Version: s.Version, Time: s.Now,
	}
	for _, c := range j.changes {
		switch {
		case c.File == j.file:
			rec.Made = c.Made
		case c.After != nil:
			rec.Files = append(rec.Files, record.File{Path: c.File, Made: c.Made})
		}
	}
	if j.scope == Managed { // everybody has policy and state of their own
		rec.State = ""
	}
	if j.scope == Project {
		rec.Project = s.ProjectDir
	}
	for _, ev := range rec.Events {
		if ms := j.agent.wait(ev, s.Timeout).Milliseconds(); ms != rec.TimeoutMS {
			if rec.EventTimeoutsMS == nil {
				rec.EventTimeoutsMS = map[string]int64{}
			}
			rec.EventTimeoutsMS[ev] = ms
		}
	}
	return rec
}

// writeInstall writes the record before the settings: an agent that watches its
// settings runs the new command at once. If the settings cannot be written the
// record is put back.
func (s *session) writeInstall(j *job) (backups []string, err error) {
	if j.old != nil && !j.changed() {
		same := j.rec
		same.Time = j.old.Time
		if reflect.DeepEqual(same, *j.old) && s.admitted(j) {
			return nil, nil
		}
	}
	if err := record.Write(j.installs(), j.rec); err != nil {
		return nil, err
	}
	back, err := s.admit(j)
	if err == nil {
		backups, err = s.applyAll(j)
	}
	if err != nil {
		err = errors.Join(err, back())
	}
	switch {
	case err == nil:
		err = errors.Join(s.forget(j, j.stale...), s.dismiss(j))
	case j.old != nil:
		err = errors.Join(err, record.Write(j.installs(), *j.old))
	default:
		err = errors.Join(err, s.forget(j, j.rec.ID))
	}
	return backups, err
}

// unknown lists the tokens among the entries that have no readable record.
func (s *session) unknown(entries []Entry) []string {
	var ids []string
	for _, e := range entries {
		known := slices.ContainsFunc(s.recs, func(r record.Record) bool { return r.ID == e.ID })
		if record.ValidID(e.ID) && !known && !slices.Contains(ids, e.ID) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// forget removes records, also broken ones.
func (s *session) forget(j *job, ids ...string) error {
	var errs []error
	for _, id := range ids {
		errs = append(errs, record.Remove(j.installs(), id))
	}
	return errors.Join(errs...)
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+`)

// version finds out the version of the agent where it decides what may be
// written; "" if it does not matter or cannot be told, then with a note.
func (s *session) version(ctx context.Context, a Agent) (version, note string) {
	if v, ok := s.Versions[a.Name]; ok || a.Setup.StrictBefore == "" {
		return v, ""
	}
	unknown := func(why string) (string, string) {
		return "", fmt.Sprintf("%s, so its version is not known: before %s it ignores its whole settings file when that names newer events; make sure it is up to date", why, a.Setup.StrictBefore)
	}
	program := lookPath(a.Setup.Program, s.Env)
	if program == "" {
		return unknown(fmt.Sprintf("%s is not on PATH", a.Setup.Program))
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env = append(os.Environ(), "PATH="+s.Env("PATH"), "HOME="+s.Home)
	cmd.Dir = filepath.Dir(program) // not where a project could have put something
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if v := versionNumber.FindString(string(out)); v != "" && err == nil {
		return v, ""
	}
	return unknown(fmt.Sprintf("%s --version did not answer", program))
}
