package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/installation"
)

// Uninstall removes the entries and everything that was created for them, and deletes the records
// of the installations. If nothing is installed, it changes nothing.
//
// If an error occurs after planning, the Result is still valid. With All, a file that cannot be
// edited does not prevent the removal from the other files; the error then lists the remaining
// installations.
func Uninstall(ctx context.Context, req Request) (*Result, error) {
	s, err := begin(req)
	if err != nil {
		return nil, err
	}
	if len(s.Agents) == 0 && !s.All {
		return nil, usagef("name the agents to uninstall from, or all of them with --all")
	}
	res, err := s.run(ctx, s.planUninstall, s.writeUninstall)
	if req.DryRun && res != nil && res.Changed() {
		res.Digest = res.digestOfPlan()
	}
	if err == nil {
		err = errors.Join(s.left...)
	}
	return res, err
}

func (s *session) planUninstall() ([]*job, error) {
	targets := s.known
	if !s.All {
		named, err := s.agents()
		if err != nil {
			return nil, err
		}
		targets = named
	}
	var jobs []*job
	for _, a := range targets {
		file, err := a.Settings(s.Scope, s.base(s.Scope), s.Env)
		switch {
		case err == nil:
			jobs = append(jobs, &job{agent: a, scope: s.Scope, file: file, state: s.state, old: s.recorded(a, file)})
		case !s.All:
			return nil, err
		}
	}
	for i, r := range s.recs {
		there := slices.ContainsFunc(jobs, func(j *job) bool { return j.agent.Name == r.Agent && j.file == r.Settings })
		if there || !s.All {
			continue
		}
		a, err := lookup(s.known, r.Agent)
		if err != nil {
			return nil, fmt.Errorf("installation %s: %w", r.ID, err)
		}
		jobs = append(jobs, &job{agent: a, scope: Scope(r.Scope), file: r.Settings, state: s.state, old: &s.recs[i]})
	}
	if s.All && s.Scope != Managed {
		s.noteManaged()
	}
	jobs = slices.DeleteFunc(jobs, func(j *job) bool {
		err := s.planRemove(j)
		if err != nil {
			s.left = append(s.left, fmt.Errorf("%s is unchanged: %w", j.agent.Title, err))
		}
		return err != nil
	})
	if len(s.left) > 0 && !s.All {
		return nil, errors.Join(s.left...)
	}
	if s.All { // without the agents that have nothing to remove
		jobs = slices.DeleteFunc(jobs, func(j *job) bool { return j.old == nil && !j.changed() })
		if len(jobs) == 0 && len(s.left) == 0 {
			s.res.Notes = append(s.res.Notes, "Grapnel is not installed here")
		}
	}
	return jobs, nil
}

// noteManaged adds notes about the installations that this user cannot remove.
func (s *session) noteManaged() {
	recs, err := installation.List(filepath.Join(installation.Managed(s.System), "installs"))
	if err != nil {
		s.res.Notes = append(s.res.Notes, err.Error())
	}
	for _, r := range recs {
		s.res.Notes = append(s.res.Notes, fmt.Sprintf("%s is also installed in %s, for every user: root removes it with grapnel uninstall --all --scope %s", r.Agent, r.Settings, Managed))
	}
}

func (s *session) planRemove(j *job) error {
	var documents, texts []string
	if !j.agent.isText(j.file) {
		documents = append(documents, j.file)
		for _, rel := range j.agent.Setup.Over {
			documents = append(documents, filepath.Join(filepath.Dir(j.file), filepath.FromSlash(rel)))
		}
	}
	texts = s.leftOver(j)
	if j.old != nil {
		j.rec.ID = j.old.ID
	}
	for _, file := range slices.Concat(documents, texts) {
		if err := s.planRemoveFile(j, file); err != nil {
			return err
		}
	}
	main := slices.IndexFunc(j.changes, func(c *Change) bool { return c.File == j.file })
	j.changes = slices.DeleteFunc(j.changes, func(c *Change) bool { return !c.Changed() && c.File != j.file })
	if len(j.changes) == 0 && main < 0 {
		j.changes = []*Change{{Agent: j.agent.Name, File: j.file}}
	}
	if !j.changed() {
		j.notes = append(j.notes, fmt.Sprintf("Grapnel has no entries in %s", j.file))
	}
	for _, r := range s.recs {
		if j.old == nil && r.Agent == j.agent.Name {
			j.notes = append(j.notes, fmt.Sprintf("%s is also installed in %s; --all removes it there too", j.agent.Title, r.Settings))
		}
	}
	return nil
}

func (s *session) planRemoveFile(j *job, file string) error {
	current, err := readFile(file)
	if err != nil {
		return fmt.Errorf("cannot read the settings of %s: %w", j.agent.Title, err)
	}
	made := cloneMade(j.made(file))
	if made == nil && !bytes.Contains(current, []byte("grapnel")) {
		current = nil // nothing to remove, so it does not matter whether the file is readable
	}
	if info, err := os.Lstat(file); made != nil && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		// Grapnel creates no links, so the user has moved the file since.
		made.File = false
	}
	var c *Change
	var entries []Entry
	if j.agent.isText(file) {
		entries = j.agent.textEntries(file, current)
		c = planRemoveText(j.agent, file, current, made)
	} else {
		if c, err = PlanRemove(j.agent, file, current, made); err != nil {
			return err
		}
		if in, err := j.agent.Inspect(file, current); err == nil {
			entries = in.Entries
		}
	}
	if c.Changed() {
		if _, _, err := resolve(file); err != nil {
			return fmt.Errorf("cannot edit %s: %w", file, err)
		}
	}
	j.changes = append(j.changes, c)
	j.stale = append(j.stale, s.unknown(entries)...)
	var roots []string
	for _, e := range entries {
		if e.Root != "" && e.Root != filepath.ToSlash(s.Root) && !slices.Contains(roots, e.Root) {
			roots = append(roots, e.Root)
			j.notes = append(j.notes, fmt.Sprintf("the entries were installed with --root %s; only that root knows which parts of the file they created", e.Root))
		}
	}
	return nil
}

// writeUninstall deletes the record after the entries were removed: the record is needed as long
// as an agent may run them.
func (s *session) writeUninstall(j *job) (backups []string, err error) {
	if backups, err = s.applyAll(j); err != nil {
		return backups, err
	}
	if j.old != nil {
		j.stale = append(j.stale, j.old.ID)
		// A killed removal may have deleted a file, but not the directories created for it.
		for _, file := range append(j.files(), j.file) {
			if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) && j.made(file) != nil {
				removeDirs(j.made(file).Dirs)
			}
		}
	}
	err = s.forget(j, j.stale...)
	// Remove the directory if it is empty. An error does no harm.
	_ = os.Remove(j.installs())
	return backups, err
}
