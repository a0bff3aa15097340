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
// agent is a row of the table that Agents returns.
//
// A settings file belongs to its user. Comments, order, indentation, line ends
// and the entries of others stay as they are; a file that cannot be edited
// without a guess is refused with line and column; every replaced file is backed
// up; and a plan that could not be taken back exactly is not carried out.
//
// The package does not write the managed layers of agents, does not decide what
// events a policy needs, asks nothing of a terminal, and never runs a hook.
package install

import (
	"bytes"
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

	"github.com/grapnel-dev/grapnel/install/record"
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
	return usagef("unknown scope %q, there are %s and %s", s, User, Project)
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

	DryRun bool // plan only: nothing is written, not even a lock file
	// Confirm is called between planning and writing, if anything changes. What
	// it was shown is what is written; false ends without writing. Nil means yes.
	Confirm func(*Result) (bool, error)

	Now     time.Time // zero means time.Now
	Version string    // of Grapnel, for the record

	// State takes the place of the directory that Root stands for. It is for
	// tests: the hook program looks nowhere else but there.
	State string
}

// A Result says what was done, or with DryRun what would be.
type Result struct {
	Applied bool         `json:"applied"` // false after a dry run, a refusal, or if nothing had to be done
	Files   []FileResult `json:"files"`
	Notes   []string     `json:"notes,omitempty"`
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
	Created bool     `json:"created,omitempty"` // there was no file
	Removed bool     `json:"removed,omitempty"` // there is none any more
	ID      string   `json:"id,omitempty"`      // token of the installation
	Events  []string `json:"events"`            // installed, or taken out
	Diff    string   `json:"diff,omitempty"`
	Backup  string   `json:"backup,omitempty"`
	Notes   []string `json:"notes,omitempty"` // what the person has to know or do
}

// A job is one settings file on its way through Install or Uninstall.
type job struct {
	agent  Agent
	scope  Scope
	file   string
	old    *record.Record // what is recorded now; nil if nothing
	rec    record.Record  // what shall be recorded
	change *Change
	notes  []string
	stale  []string // tokens in the file whose records cannot be read
}

// load reads the settings, if they are a file that Apply could replace.
func (j *job) load() ([]byte, error) {
	target, _, err := resolve(j.file)
	if err != nil {
		return nil, fmt.Errorf("cannot edit %s: %w", j.file, err)
	}
	if info, err := os.Lstat(j.file); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		j.notes = append(j.notes, fmt.Sprintf("%s is a symbolic link; what is edited is %s", j.file, target))
	}
	data, err := load(target)
	if err != nil {
		return nil, fmt.Errorf("cannot read the settings of %s: %w", j.agent.Title, err)
	}
	return data, nil
}

// A session is a request with its defaults filled in.
type session struct {
	Request
	dir  string // of the records
	recs []record.Record
	res  Result
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
	if err := checkProgram(s.Program); err != nil {
		return nil, err
	}
	return s.run(ctx, func() ([]*job, error) {
		var jobs []*job
		for _, a := range agents {
			j, err := s.planInstall(ctx, a)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, j)
		}
		return jobs, nil
	}, s.writeInstall)
}

// Uninstall takes the entries out again, with what was created for them, and
// forgets the installations. Where nothing is installed nothing changes.
//
// The Result is valid also with an error that comes after planning.
func Uninstall(ctx context.Context, req Request) (*Result, error) {
	s, err := begin(req)
	if err != nil {
		return nil, err
	}
	if len(s.Agents) == 0 && !s.All {
		return nil, usagef("name the agents to uninstall from, or all of them with --all")
	}
	return s.run(ctx, s.planUninstall, s.writeUninstall)
}

// begin checks the request and fills in what was left empty.
func begin(req Request) (*session, error) {
	s := &session{Request: req}
	if s.Scope == "" {
		s.Scope = User
	}
	if s.Scope != User && s.Scope != Project {
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
	for _, p := range []*string{&s.Root, &s.ProjectDir} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, err
		}
		*p = abs
	}
	if s.State == "" {
		state, err := record.State(s.Root)
		if err != nil {
			return nil, err
		}
		s.State = state
	}
	s.dir = filepath.Join(s.State, "installs")
	if s.Policy == "" {
		s.Policy = s.userPolicy()
	}
	return s, nil
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
		a, err := Lookup(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(b Agent) bool { return a.Name == b.Name }) {
			found = append(found, a)
		}
	}
	for name := range s.Events {
		if _, err := Lookup(name); err != nil {
			return nil, err
		}
	}
	if len(s.Agents) > 0 {
		return found, nil
	}
	var names []string
	for _, a := range agents {
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

// run plans and writes under the lock.
func (s *session) run(ctx context.Context, plan func() ([]*job, error), write func(*job) (backup string, err error)) (*Result, error) {
	if !s.DryRun {
		unlock, err := lock(ctx, s.State)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	recs, err := record.List(s.dir)
	if err != nil { // a broken record must not keep anybody from installing anew
		s.res.Notes = append(s.res.Notes, err.Error())
	}
	s.recs = recs
	jobs, err := plan()
	if err != nil {
		return nil, err
	}
	s.res.Files = []FileResult{}
	pending := false
	for _, j := range jobs {
		s.res.Files = append(s.res.Files, FileResult{
			Agent: j.agent.Name, Scope: j.scope, File: j.file, ID: j.rec.ID,
			Changed: j.change.Changed(),
			Created: j.change.Changed() && j.change.Before == nil,
			Removed: j.change.Changed() && j.change.After == nil,
			Events:  append([]string{}, j.change.Events...),
			Diff:    j.change.Diff,
			Notes:   append(j.change.Notes, j.notes...),
		})
		pending = pending || j.change.Changed()
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
		backup, err := write(j)
		s.res.Files[i].Backup = backup
		if err != nil {
			return &s.res, err
		}
		s.res.Applied = s.res.Applied || j.change.Changed()
	}
	return &s.res, nil
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
	file, err := a.Settings(s.Scope, s.Home, s.ProjectDir, s.Env)
	if err != nil {
		return nil, err
	}
	j := &job{agent: a, scope: s.Scope, file: file, old: s.recorded(a, file)}
	current, err := j.load()
	if err != nil {
		return nil, err
	}
	var made *record.Made
	id := newToken()
	if j.old != nil {
		id, made = j.old.ID, &j.old.Made
	}

	if in, err := a.Inspect(file, current); err == nil {
		j.stale = s.unknown(in)
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
	if s.FailClosed && a.OnFailure && version != "" && older(version, a.OnFailureSince) {
		j.notes = append(j.notes, fmt.Sprintf("%s %s does not know how to fail closed, %s does: update it", a.Title, version, a.OnFailureSince))
	}

	j.change, err = Plan(Wanted{
		Agent: a, File: file, Current: current,
		Hook:   Hook{Program: s.Program, ID: id, Root: s.Root},
		Events: events, Timeout: s.Timeout, FailClosed: s.FailClosed, Made: made,
	})
	if err != nil {
		return nil, err
	}
	if s.Scope == Project {
		j.change.Perm = 0o644
	}
	if current == nil {
		dirs := append(missingDirs(file), j.change.Made.Dirs...)
		slices.Sort(dirs) // puts a directory before what is in it
		j.change.Made.Dirs = slices.Compact(dirs)
	}
	j.notes = append(j.notes, s.surroundings(j)...)
	j.rec = s.record(j, id)
	return j, nil
}

// record is what Install writes down of a job.
func (s *session) record(j *job, id string) record.Record {
	rec := record.Record{
		ID: id, Agent: j.agent.Name, Scope: string(j.scope), Settings: j.file,
		Program: s.Program, Root: s.Root, Policy: s.Policy, State: s.State, Path: s.Env("PATH"),
		Events: j.change.Events, TimeoutMS: j.agent.wait("", s.Timeout).Milliseconds(),
		FailClosed: s.FailClosed, Made: j.change.Made, Version: s.Version, Time: s.Now,
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
func (s *session) writeInstall(j *job) (backup string, err error) {
	if j.old != nil && !j.change.Changed() {
		same := j.rec
		same.Time = j.old.Time
		if reflect.DeepEqual(same, *j.old) {
			return "", nil
		}
	}
	if err := record.Write(s.dir, j.rec); err != nil {
		return "", err
	}
	backup, err = Apply(j.change, filepath.Join(s.State, "backups"), s.Now)
	switch {
	case err == nil:
		err = s.forget(j.stale...)
	case j.old != nil:
		err = errors.Join(err, record.Write(s.dir, *j.old))
	default:
		err = errors.Join(err, s.forget(j.rec.ID))
	}
	return backup, err
}

// unknown lists the tokens among the entries that have no readable record.
func (s *session) unknown(in *Inspection) []string {
	var ids []string
	for _, e := range in.Entries {
		known := slices.ContainsFunc(s.recs, func(r record.Record) bool { return r.ID == e.ID })
		if record.ValidID(e.ID) && !known && !slices.Contains(ids, e.ID) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// forget removes records, also broken ones.
func (s *session) forget(ids ...string) error {
	var errs []error
	for _, id := range ids {
		errs = append(errs, record.Remove(s.dir, id))
	}
	return errors.Join(errs...)
}

func (s *session) planUninstall() ([]*job, error) {
	targets := agents
	if !s.All {
		named, err := s.agents()
		if err != nil {
			return nil, err
		}
		targets = named
	}
	var jobs []*job
	for _, a := range targets {
		file, err := a.Settings(s.Scope, s.Home, s.ProjectDir, s.Env)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, &job{agent: a, scope: s.Scope, file: file, old: s.recorded(a, file)})
	}
	for i, r := range s.recs {
		there := slices.ContainsFunc(jobs, func(j *job) bool { return j.agent.Name == r.Agent && j.file == r.Settings })
		if there || !s.All {
			continue
		}
		a, err := Lookup(r.Agent)
		if err != nil {
			return nil, fmt.Errorf("installation %s: %w", r.ID, err)
		}
		jobs = append(jobs, &job{agent: a, scope: Scope(r.Scope), file: r.Settings, old: &s.recs[i]})
	}
	for _, j := range jobs {
		if err := s.planRemove(j); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

func (s *session) planRemove(j *job) error {
	current, err := load(j.file)
	if err != nil {
		return fmt.Errorf("cannot read the settings of %s: %w", j.agent.Title, err)
	}
	if j.old == nil && !bytes.Contains(current, []byte(hookProgram)) {
		current = nil // nothing to take out, so it need not even be readable to us
	}
	var made *record.Made
	if j.old != nil {
		j.rec.ID = j.old.ID
		made = cloneMade(&j.old.Made)
		if info, err := os.Lstat(j.file); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			// We make no links, so the file has found another home since.
			made.File = false
		}
	}
	if j.change, err = PlanRemove(j.agent, j.file, current, made); err != nil {
		return err
	}
	if !j.change.Changed() {
		j.notes = append(j.notes, fmt.Sprintf("nothing of Grapnel is in %s", j.file))
	} else if _, _, err := resolve(j.file); err != nil {
		return fmt.Errorf("cannot edit %s: %w", j.file, err)
	}
	for _, r := range s.recs {
		if j.old == nil && r.Agent == j.agent.Name {
			j.notes = append(j.notes, fmt.Sprintf("%s is also installed in %s; --all takes it out there, too", j.agent.Title, r.Settings))
		}
	}
	if in, err := j.agent.Inspect(j.file, current); err == nil {
		j.stale = s.unknown(in)
		var roots []string
		for _, e := range in.Entries {
			if e.Root != "" && e.Root != filepath.ToSlash(s.Root) && !slices.Contains(roots, e.Root) {
				roots = append(roots, e.Root)
				j.notes = append(j.notes, fmt.Sprintf("the entries were installed with --root %s; what was created around them is only known there", e.Root))
			}
		}
	}
	return nil
}

// writeUninstall forgets the installation after its entries are gone: as long
// as an agent may run them the record is needed.
func (s *session) writeUninstall(j *job) (backup string, err error) {
	backup, err = Apply(j.change, filepath.Join(s.State, "backups"), s.Now)
	if err != nil {
		return backup, err
	}
	if j.old != nil {
		j.stale = append(j.stale, j.old.ID)
	}
	return backup, s.forget(j.stale...)
}

// surroundings says what outside the settings file the person should know.
func (s *session) surroundings(j *job) []string {
	var notes []string
	a := j.agent
	for _, r := range s.recs {
		if r.Agent == a.Name && r.Settings != j.file && (r.Scope == string(User)) != (j.scope == User) && s.concerns(r) {
			notes = append(notes, fmt.Sprintf("Grapnel is also installed in %s, so %s will ask it twice about everything there; uninstall one of the two", r.Settings, a.Title))
		}
	}
	if j.scope == Project {
		notes = append(notes, fmt.Sprintf("the entries in %s are for this machine: they name a path and an installation that others do not have, so do not commit them", j.file))
	}
	if info, err := os.Stat(j.file); err == nil && s.Root == "" {
		if uid, foreign := foreignOwner(info); foreign {
			notes = append(notes, fmt.Sprintf("%s belongs to user %d; if the agent runs as that user it does not find this installation: install as that user, or with --root", j.file, uid))
		}
	}
	if j.change.Changed() && a.Name == "gemini-cli" {
		notes = append(notes, "Gemini CLI reads its hooks at start-up and runs none in folders that are not trusted: restart it, and trust the folder when it asks")
	}
	for _, file := range s.neighbours(j) {
		data, err := load(file)
		if err != nil || data == nil {
			continue
		}
		in, err := a.Inspect(file, data)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s does not read this file: %v", a.Title, err))
			continue
		}
		notes = append(notes, in.Notes...)
		if len(in.Entries) > 0 && s.recorded(a, file) == nil {
			notes = append(notes, fmt.Sprintf("%s holds a copy of our entry that no installation here has written; remove it", file))
		}
	}
	return notes
}

// concerns reports whether an installation in another scope meets this one: a
// project's does not meet those of other projects.
func (s *session) concerns(r record.Record) bool {
	return r.Scope == string(User) || s.ProjectDir != "" && r.Project == s.ProjectDir
}

// neighbours are the other settings files that take effect together with the
// one of the job.
func (s *session) neighbours(j *job) []string {
	var files []string
	if s.ProjectDir != "" {
		folder := filepath.Join(s.ProjectDir, j.agent.Folder)
		files = append(files, filepath.Join(folder, "settings.json"))
		if j.agent.Name == "claude-code" {
			files = append(files, filepath.Join(folder, "settings.local.json"))
		}
	}
	if user, err := j.agent.Settings(User, s.Home, "", s.Env); err == nil {
		files = append(files, user)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return f == j.file })
	slices.Sort(files)
	return slices.Compact(files)
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+`)

// version finds out the version of the agent where it decides what may be
// written; "" if it does not matter or cannot be told, then with a note.
func (s *session) version(ctx context.Context, a Agent) (version, note string) {
	if v, ok := s.Versions[a.Name]; ok || a.StrictBefore == "" {
		return v, ""
	}
	unknown := func(why string) (string, string) {
		return "", fmt.Sprintf("%s, so its version is not known: before %s it ignores its whole settings file when that names newer events; make sure it is up to date", why, a.StrictBefore)
	}
	program := lookPath(a.Program, s.Env)
	if program == "" {
		return unknown(fmt.Sprintf("%s is not on PATH", a.Program))
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
