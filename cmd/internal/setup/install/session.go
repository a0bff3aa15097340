package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/installation"
)

// A session is a Request with its defaults filled in.
type session struct {
	Request
	recs []installation.Record
	res  Result
	left []error // of Uninstall with All: why something is still installed
}

// begin checks the request and fills in the defaults.
func begin(req Request) (*session, error) {
	s := &session{Request: req, res: Result{Files: []FileResult{}, Skipped: []Skipped{}, Notes: []string{}}}
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
		if s.System == systemRoot && !isRoot() && !s.DryRun {
			return nil, fmt.Errorf("only root can install and uninstall with --scope %s, because other users must not remove these files: run the command as root, for example with sudo", Managed)
		}
		s.state, s.Policy = installation.Managed(s.System), ""
		return s, nil
	}
	if s.state == "" {
		state, err := installation.State(s.Root)
		if err != nil {
			return nil, err
		}
		s.state = state
	}
	if s.Policy == "" {
		s.Policy = s.userPolicy()
	}
	return s, nil
}

// base returns the directory that the files of a scope are in.
func (s *session) base(scope Scope) string {
	return map[Scope]string{User: s.Home, Project: s.ProjectDir, Managed: s.System}[scope]
}

func (s *session) userPolicy() string {
	if s.Root != "" {
		return filepath.Join(s.Root, "grapnel.yaml")
	}
	config := s.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) { // as the XDG specification requires
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

// noLink returns an error for a file of a project that its agent ignores because of a symbolic
// link.
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
			return &FileError{File: at, Problem: fmt.Sprintf("it is a symbolic link, and %s does not follow links for hooks of a project", a.Title), Hint: "replace the link by the file, then run the command again"}
		}
	}
	return nil
}

// run plans and writes while it holds the lock.
func (s *session) run(ctx context.Context, plan func() ([]*job, error), write func(*job) (backups []string, err error)) (*Result, error) {
	if !s.DryRun {
		mode := fs.FileMode(0o700)
		if s.Scope == Managed {
			mode = 0o755 // the hooks of all users read the record in it
		}
		unlock, err := lock(ctx, s.state, mode)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	recs, err := installation.List(filepath.Join(s.state, "installs"))
	if err != nil { // a damaged record must not prevent a new installation
		s.res.Notes = append(s.res.Notes, err.Error())
	}
	s.recs = recs
	jobs, err := plan()
	if err != nil {
		return nil, err
	}
	rows := make([]int, len(jobs)) // index of the first file of each job
	for i, j := range jobs {
		rows[i] = len(s.res.Files)
		s.report(j)
	}
	if s.DryRun {
		return &s.res, nil
	}
	if jobs, rows, err = s.confirmed(jobs, rows); err != nil {
		return &s.res, err
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
			s.res.Files = s.res.Files[:rows[i]] // only the files that were changed
			return &s.res, err
		}
		s.res.Applied = s.res.Applied || j.changed()
	}
	return &s.res, nil
}

// confirmed returns the jobs to write, with the index of their first file: all that the user has
// not declined, or none if the user has declined all changes.
func (s *session) confirmed(jobs []*job, rows []int) (write []*job, at []int, err error) {
	declined, accepted := false, false
	for i, j := range jobs {
		ok := true
		if j.changed() && s.Confirm != nil {
			files := s.res.Files[rows[i] : rows[i]+len(j.changes)]
			if ok, err = s.Confirm(&s.res, files); err != nil {
				return nil, nil, err
			}
			for k := range files {
				files[k].Declined = !ok && files[k].Changed
			}
			declined, accepted = declined || !ok, accepted || ok
		}
		if ok {
			write, at = append(write, j), append(at, rows[i])
		}
	}
	if declined && !accepted {
		return nil, nil, nil
	}
	return write, at, nil
}

// report adds the files of a job to the result.
func (s *session) report(j *job) {
	for i, c := range j.changes {
		f := FileResult{
			Agent: j.agent.Name, Version: j.version, Scope: j.scope, File: c.File, ID: j.rec.ID,
			Changed: c.Changed(),
			Created: c.Changed() && c.Before == nil,
			Removed: c.Changed() && c.After == nil,
			Events:  append([]string{}, c.Events...),
			Diff:    c.Diff,
			Notes:   append([]string{}, c.Notes...),
		}
		if i == len(j.changes)-1 {
			f.Notes, f.Unguarded = append(f.Notes, j.notes...), j.unguarded
		}
		s.res.Files = append(s.res.Files, f)
	}
}

// applyAll applies the changes of a job. If one fails, it undoes the changes before it.
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

// recorded returns the record of a settings file.
func (s *session) recorded(a Agent, file string) *installation.Record {
	for i, r := range s.recs {
		if r.Agent == a.Name && r.Settings == file {
			return &s.recs[i]
		}
	}
	return nil
}

// unknown returns the tokens in the entries that have no readable record.
func (s *session) unknown(entries []Entry) []string {
	var ids []string
	for _, e := range entries {
		known := slices.ContainsFunc(s.recs, func(r installation.Record) bool { return r.ID == e.ID })
		if installation.ValidID(e.ID) && !known && !slices.Contains(ids, e.ID) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// forget removes records, including damaged ones.
func (s *session) forget(j *job, ids ...string) error {
	var errs []error
	for _, id := range ids {
		errs = append(errs, installation.Remove(j.installs(), id))
	}
	return errors.Join(errs...)
}
