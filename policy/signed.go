package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// revision parses the number of a version of a policy.
func (p *fileParser) revision(n *yaml.Node) int {
	i, err := strconv.Atoi(n.Text)
	if err != nil || i <= 0 || n.Kind != yaml.Number || strconv.Itoa(i) != n.Text {
		p.fail(n, "write a number that is greater than the one of the version before, for example 1", "want a positive whole number, not %q", n.Text)
	}
	return i
}

// firstExpiry is the earliest time of `expires:`. An earlier one is a mistake, and 0 means that a
// policy does not expire.
var firstExpiry = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// expires parses the time at which a policy expires, in seconds since 1970. A date is the end of
// that day in UTC.
func (p *fileParser) expires(n *yaml.Node) int64 {
	at, err := time.Parse(time.RFC3339, n.Text)
	if day, noDay := time.Parse(time.DateOnly, n.Text); noDay == nil {
		at, err = day.AddDate(0, 0, 1), nil
	}
	if err != nil || at.Before(firstExpiry) || n.Kind != yaml.String {
		p.fail(n, "write for example 2031-12-31, or 2031-12-31T18:00:00Z", "want a date or a date and time in RFC 3339, not %q", n.Text)
	}
	return at.Unix()
}

// group checks the name of a group of machines.
func (p *fileParser) group(n *yaml.Node) {
	if n.Kind == yaml.Number || n.Kind == yaml.Bool {
		p.fail(n, "write it in quotes", "want the name of a group of machines, not %s", n.Kind)
	}
	if strings.ContainsFunc(n.Text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }) {
		p.fail(n, "use letters, digits and dashes", "%q is not the name of a group of machines", n.Text)
	}
}

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
