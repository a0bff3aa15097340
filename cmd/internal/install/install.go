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
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/installation"
)

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
	if err := installation.Write(j.installs(), j.rec); err != nil {
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
		err = errors.Join(err, installation.Write(j.installs(), *j.old))
	default:
		err = errors.Join(err, s.forget(j, j.rec.ID))
	}
	return backups, err
}
