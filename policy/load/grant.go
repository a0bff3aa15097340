package load

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// may is a set of permissions of a source.
type may uint8

const (
	mayAllow may = 1 << iota // its `allow` can skip the agent's permission prompt
	mayRun                   // can start programs
	mayHTTP                  // can send requests to servers

	usually = mayRun | mayHTTP // default for a trusted source without a matching grant
)

// ruling holds the rules of managed and user policies about other policies.
type ruling struct {
	only    string               // the managed policy that sets use_only_managed; empty = none
	managed [][]policyfile.Grant // the grants of each managed policy that has any
	user    []policyfile.Grant
	vouches []policyfile.Vouch
}

// add adds the rules of a policy about other policies. It ignores policies of projects and
// plugins, which cannot set such rules.
func (r *ruling) add(file File, policy *policyfile.Policy) {
	switch {
	case file.Scope == grapnel.ScopeManaged:
		if policy.OnlyManaged && r.only == "" {
			r.only = file.Path
		}
		if len(policy.Grants) > 0 {
			r.managed = append(r.managed, policy.Grants)
		}
	case file.Scope == grapnel.ScopeUser:
		r.user = append(r.user, policy.Grants...)
	default:
		return
	}
	r.vouches = append(r.vouches, policy.Vouches...)
}

// of returns the permissions of the source with this file. The grants of managed policies are an
// upper limit for the user's grants.
func (r *ruling) of(path string) may {
	if r == nil {
		return usually
	}
	bound, bounded, named := mayAllow|usually, false, false
	for _, grants := range r.managed {
		it, ok := granted(grants, path)
		if !ok {
			it = usually
		}
		bound, bounded, named = bound&it, true, named || ok
	}
	it, ok := granted(r.user, path)
	switch {
	case ok:
		return it & bound
	case named:
		return bound
	case bounded:
		return bound & usually
	}
	return usually
}

// granted combines the grants that match a file, and reports whether any matches.
func granted(grants []policyfile.Grant, path string) (it may, named bool) {
	for i := range grants {
		if !means(grants[i].Source.Text, path) {
			continue
		}
		named = true
		for bit, word := range policyfile.GrantWords {
			if policyfile.HasWord(grants[i].May, word) {
				it |= 1 << bit
			}
		}
	}
	return it, named
}

// leftOut adds an error for each hook of a project's policy that does not run because the grants do
// not permit programs or requests, and sets the notice.
func (l *Loaded) leftOut(policy *policyfile.Policy, it may) {
	why := ""
	for i := range policy.Hooks {
		h, what := &policy.Hooks[i], ""
		switch {
		case h.Program() != nil && it&mayRun == 0:
			what = startPrograms
		case h.HTTP != nil && it&mayHTTP == 0:
			what = reachServers
		default:
			continue
		}
		l.Skipped++
		l.Errors = append(l.Errors, &policyfile.Error{File: l.File, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q is skipped: %s", h.Name, notGranted(what))})
		if !strings.Contains(why, what) {
			if why != "" {
				why += " and "
			}
			why += what
		}
	}
	if l.Skipped > 0 {
		l.Notice = fmt.Sprintf("grapnel: %d of %d hooks of %s are skipped: %s.", l.Skipped, len(policy.Hooks), l.File, notGranted(why))
	}
}

const (
	startPrograms = "start programs"
	reachServers  = "reach servers"
)

func notGranted(what string) string {
	return "the `grants` of a stronger policy do not allow it to " + what
}

// vouched returns a trust that needed no prompt, if a user or managed policy still lists its
// digest. Work that was queued while the trust was valid keeps it.
func (ld *loader) vouched(trust *Trust) *Trust {
	if ld.Frozen[trust.File] != "" || ld.ruling.vouchesFor(trust.File, trust.Digest()) {
		return trust
	}
	return nil
}

// vouchesFor reports whether a user or managed policy lists this digest for the file.
func (r *ruling) vouchesFor(path, digest string) bool {
	for i := range r.vouches {
		if v := &r.vouches[i]; v.Digest.Text == digest && means(v.Source.Text, path) {
			return true
		}
	}
	return false
}

// Vouches reports whether a user or managed policy among the files of the request lists the digest
// of a project's policy. Such a policy is trusted without a prompt.
func (req Request) Vouches(file, digest string) bool {
	ld := loader{Request: req, ruling: &ruling{}, facts: &match.FactCache{}, seen: map[string]bool{}}
	for _, f := range strongestFirst(req.Files) {
		if got := ld.load(f); got.policy != nil {
			ld.ruling.add(f, got.policy.Policy)
		}
	}
	return ld.ruling.vouchesFor(file, digest)
}

// means reports whether a pattern matches a file or its directory. It must match both the path
// itself and its target after symlinks, so a symlink can neither gain nor avoid a grant.
func means(pattern, path string) bool {
	if pattern == "**" {
		return true
	}
	for _, name := range []string{filepath.Join(match.RealPath(filepath.Dir(path)), filepath.Base(path)), match.RealPath(path)} {
		if !(match.Path{Real: name}).Match(pattern) && !(match.Path{Real: filepath.Dir(name)}).Match(pattern) {
			return false
		}
	}
	return true
}
