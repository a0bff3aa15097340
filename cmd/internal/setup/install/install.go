// Package install adds the entries of Grapnel to an agent's settings, and removes them again byte
// for byte.
//
// The most common calls:
//
//	res, err := install.Install(ctx, install.Request{Program: "/usr/local/bin/grapnel-hook"})
//	res, err := install.Uninstall(ctx, install.Request{Agents: []string{"claude-code"}})
//
// Two steps are also available separately: Plan and PlanRemove are pure and return how a file
// would change, Apply executes a plan. The knowledge about each agent is in its dialect, as a
// dialect.Setup.
//
// The user owns the settings file. Comments, order, indentation, line ends and the entries of
// others stay unchanged. If an edit would be ambiguous, the package returns an error with line and
// column. It makes a backup of every replaced file, and does not execute a plan that could not be
// undone exactly.
//
// Agents store hooks in files of six shapes (see dialect.Shape): lists in a document that others
// edit too, and files that Grapnel owns completely. An installation may have several files. All
// are planned before the first is written, and if a later write fails, the earlier ones are
// undone.
//
// The package does not decide which events a policy needs, does not use the terminal, and never
// runs a hook.
package install

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/installation"
)

// Install adds entries to the settings of the agents and records the installations. A repeated
// installation changes only the differences; the token stays.
//
// All files are planned before the first is written. If an error occurs after that, the Result is
// still valid and contains the completed changes.
func Install(ctx context.Context, req Request) (*Result, error) {
	s, err := begin(req)
	if err != nil {
		return nil, err
	}
	agents, err := s.agents()
	if err != nil {
		return nil, err
	}
	if len(s.Agents) > 0 { // before anything is written, including the lock
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
		if err := checkRootOwned(s.Program); err != nil {
			return nil, err
		}
	}
	if versioned(s.Program) {
		s.res.Notes = append(s.res.Notes, fmt.Sprintf("the path %s has a version in it: run \"grapnel install\" again after an upgrade", s.Program))
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
			default: // not an agent that the user named
				errs = append(errs, err)
				s.res.Skipped = append(s.res.Skipped, Skipped{a.Name, err.Error()})
			}
		}
		if len(jobs) == 0 {
			// A problem of the request is the same for all agents.
			return nil, errors.Join(slices.CompactFunc(errs, func(a, b error) bool { return a.Error() == b.Error() })...)
		}
		return jobs, nil
	}, s.writeInstall)
}

// writeInstall writes the record before the settings, because an agent that watches its settings
// runs the new command at once. If the settings cannot be written, it restores the old record.
func (s *session) writeInstall(j *job) (backups []string, err error) {
	if j.old != nil && !j.changed() {
		same := j.rec
		same.Time = j.old.Time
		if reflect.DeepEqual(same, *j.old) {
			return nil, nil
		}
	}
	if err := installation.Write(j.installs(), j.rec); err != nil {
		return nil, err
	}
	backups, err = s.applyAll(j)
	switch {
	case err == nil:
		err = s.forget(j, j.stale...)
	case j.old != nil:
		err = errors.Join(err, installation.Write(j.installs(), *j.old))
	default:
		err = errors.Join(err, s.forget(j, j.rec.ID))
	}
	return backups, err
}
