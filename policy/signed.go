package policy

import (
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
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
