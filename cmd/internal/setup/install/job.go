package install

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install/shim"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// A job is the installation or removal for one agent in one scope.
type job struct {
	agent     Agent
	scope     Scope
	file      string               // the file with the hooks; for ShapeFiles the directory of the files
	state     string               // the directory with the record
	old       *installation.Record // the current record; nil = no record
	rec       installation.Record  // the new record
	changes   []*Change            // in the order in which they are applied
	notes     []string
	unguarded string   // what the user must do before the agent runs the hooks
	version   string   // of the agent; "" = unknown, or it does not matter
	stale     []string // tokens in the files whose records cannot be read

	closed bool // the agent blocks when the hook fails
}

func (j *job) changed() bool { return slices.ContainsFunc(j.changes, (*Change).Changed) }

// files returns the files of the job, and the files in the current record.
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

// load reads a file, if Apply could replace it.
func (j *job) load(file string) ([]byte, error) {
	target, _, err := resolve(file)
	if err != nil {
		return nil, fmt.Errorf("cannot edit %s: %w", file, err)
	}
	if info, err := os.Lstat(file); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		j.notes = append(j.notes, fmt.Sprintf("%s is a symbolic link; Grapnel edits %s", file, target))
	}
	data, err := readFile(target)
	if err != nil {
		return nil, fmt.Errorf("cannot read the settings of %s: %w", j.agent.Title, err)
	}
	return data, nil
}

func (s *session) planInstall(ctx context.Context, a Agent) (*job, error) {
	file, err := a.Settings(s.Scope, s.base(s.Scope), s.Env)
	if err != nil {
		return nil, err
	}
	if err := s.noLink(a, file); err != nil {
		return nil, err
	}
	j := &job{agent: a, scope: s.Scope, file: file, state: s.state, old: s.recorded(a, file)}
	id := newToken()
	j.closed = s.FailClosed
	if j.old != nil {
		id = j.old.ID
		j.closed = j.closed || s.KeepClosed && j.old.FailClosed
	}
	version, note := s.version(ctx, a)
	if version == "" && j.old != nil {
		version = j.old.AgentVersion
	}
	if version == "" && note != "" {
		j.notes = append(j.notes, note)
	}
	j.version = version
	asked := s.Events[a.Name]
	for _, alias := range a.Aliases {
		asked = append(slices.Clip(asked), s.Events[alias]...)
	}
	events, notes, err := a.choose(asked, version)
	if err != nil {
		return nil, err
	}
	j.notes = append(j.notes, notes...)
	if j.closed && a.closes() && version != "" && Older(version, a.Setup.ClosedSince) {
		j.notes = append(j.notes, fmt.Sprintf("%s %s cannot fail closed, version %s can: update it", a.Title, version, a.Setup.ClosedSince))
	}

	w := Wanted{
		Agent: a, File: file, Dir: s.pluginDir(j, id),
		Hook:   Hook{Program: s.Program, ID: id, Root: s.Root},
		Events: events, Timeout: s.Timeout, Approve: s.Approve, FailClosed: j.closed,
	}
	if err := s.planTexts(j, w); err != nil {
		return nil, err
	}
	if !a.isText(file) {
		if err := s.planDocuments(j, w); err != nil {
			return nil, err
		}
	}
	// Remove files of the earlier installation that this one does not have. This is the last
	// change.
	for _, old := range s.leftOver(j) {
		current, err := j.load(old)
		if err != nil {
			return nil, err
		}
		j.changes = append(j.changes, planRemoveText(a, old, current, j.made(old)))
	}
	for _, c := range j.changes {
		s.setModes(c, a)
	}
	j.notes = append(j.notes, s.surroundings(j)...)
	if j.changed() && j.scope != Managed {
		j.unguarded = j.agent.Setup.Until
	}
	j.rec = s.record(j, id, events)
	return j, nil
}

// setModes sets the permissions of a changed file, and the directories to create for it.
func (s *session) setModes(c *Change, a Agent) {
	if s.Scope != User {
		c.Perm, c.Exact = 0o644, s.Scope == Managed
	}
	if a.Setup.Shape == dialect.ShapeFiles { // the files are programs
		perm := cmp.Or(c.Perm, 0o600)
		c.Perm = perm | perm&0o444>>2
	}
	if c.Before == nil {
		dirs := append(missingDirs(c.File), c.Made.Dirs...)
		slices.Sort(dirs) // puts a directory before its content
		c.Made.Dirs = slices.Compact(dirs)
	}
}

// pluginDir returns the directory of the plugin of an installation.
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

// owned reports whether another installation has files in dir.
func (s *session) owned(j *job, dir string) bool {
	return slices.ContainsFunc(s.recs, func(r installation.Record) bool {
		return (j.old == nil || r.ID != j.old.ID) && slices.ContainsFunc(r.Files, func(f installation.File) bool { return filepath.Dir(f.Path) == dir })
	})
}

// made returns the created parts of a file, from the record; nil without a record.
func (j *job) made(file string) *installation.Made {
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

// look implements the type look with the file system.
func (j *job) look(file string) (there, ours bool) {
	data, err := readFile(file)
	return data != nil || err != nil, err == nil && data != nil && j.agent.isOurs(file, data)
}

// planTexts plans the files that Grapnel owns completely.
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
	if len(texts) > 0 && j.closed && j.agent.Setup.Shape == dialect.ShapeFiles {
		j.notes = append(j.notes, cannotClose(j.agent))
	}
	return nil
}

// planDocuments plans the edits of files that others use too.
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
		sections, err := d.sections()
		if err != nil {
			return err
		}
		there := func(ev string) bool {
			return slices.ContainsFunc(sections, func(s section) bool { return w.Agent.sameEvent(s.event, ev) })
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

// leftOver returns files that Grapnel owns and that the job does not change.
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

// candidates returns paths at which there may be files of Grapnel that no record contains.
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
			if !s.owned(j, dir) { // otherwise the settings of that installation still use it
				files = append(files, filepath.Join(dir, filepath.FromSlash(name)))
			}
		}
	case a.Setup.Shape == dialect.ShapePlugin:
		files = append(files, j.file)
	}
	return files
}

// record returns the new record of a job.
func (s *session) record(j *job, id string, events []string) installation.Record {
	rec := installation.Record{
		ID: id, Agent: j.agent.Name, Scope: string(j.scope), Settings: j.file,
		Program: s.Program, Root: s.Root, Policy: s.Policy, State: s.state, Path: s.Env("PATH"),
		Events: events, TimeoutMS: j.agent.wait("", s.Timeout, nil).Milliseconds(),
		FailClosed: j.closed, AgentVersion: j.version, Version: s.Version, Time: s.Now,
	}
	for _, c := range j.changes {
		switch {
		case c.File == j.file:
			rec.Made = c.Made
		case c.After != nil:
			rec.Files = append(rec.Files, installation.File{Path: c.File, Made: c.Made})
		}
	}
	if j.scope == Managed { // each user has their own policy and state
		rec.State = ""
	}
	if j.scope == Project {
		rec.Project = s.ProjectDir
	}
	for _, ev := range rec.Events {
		if ms := j.agent.wait(ev, s.Timeout, s.Approve).Milliseconds(); ms != rec.TimeoutMS {
			if rec.EventTimeoutsMS == nil {
				rec.EventTimeoutsMS = map[string]int64{}
			}
			rec.EventTimeoutsMS[ev] = ms
		}
	}
	return rec
}
