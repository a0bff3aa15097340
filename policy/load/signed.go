package load

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// ofGroups returns a policy without the hooks that are for other groups of machines. It reads the
// groups of this machine only if a hook names a group.
func (ld *loader) ofGroups(p *policyfile.Policy) (*policyfile.Policy, error) {
	if !slices.ContainsFunc(p.Hooks, func(h policyfile.Hook) bool { return len(h.Groups) > 0 }) {
		return p, nil
	}
	var groups []string
	if ld.Groups != nil {
		var err error
		if groups, err = ld.Groups(); err != nil {
			return nil, fmt.Errorf("cannot read the groups of this machine: %w", err)
		}
	}
	own := *p
	own.Hooks = slices.DeleteFunc(slices.Clone(p.Hooks), func(h policyfile.Hook) bool {
		return len(h.Groups) > 0 && !slices.ContainsFunc(h.Groups, func(name string) bool { return slices.Contains(groups, name) })
	})
	return &own, nil
}

// sign copies the revision of the policy in force.
func (l *Loaded) sign(p *policyfile.Policy) {
	if l.Revision = p.Revision; p.Expires != 0 {
		l.Expires = time.Unix(p.Expires, 0).UTC()
	}
}

// Expired reports whether a managed policy has expired. It stays in force.
func (l Loaded) Expired(now time.Time) bool {
	return l.Scope == grapnel.ScopeManaged.String() && !l.Expires.IsZero() && !now.Before(l.Expires)
}

// Revision returns the revisions of the managed policies in force, for example "42", or
// "42 (expired)". Several are joined by commas in the order of their names: "42, 7". It is empty
// if no managed policy has a revision.
func (s *Set) Revision(now time.Time) string {
	var all []string
	for i := range s.Files {
		l := &s.Files[i]
		if l.Revision == 0 || l.Scope != grapnel.ScopeManaged.String() {
			continue
		}
		text := strconv.Itoa(l.Revision)
		if l.Expired(now) {
			text += " (expired)"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
