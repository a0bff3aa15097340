package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// PrintPolicies lists policy files with their scope, state and number of hooks.
func (c *Console) PrintPolicies(policies []load.Loaded) {
	for _, p := range policies {
		c.PrintFile(fmt.Sprintf("  %-8s %-9s %9s  ", p.Scope, p.State, printable.Count(p.Hooks, "hook")), p.File, revisionOf(p)+ofFormat(p))
	}
}

// revisionOf describes the revision of a managed policy. It returns "" for a policy without one.
func revisionOf(p load.Loaded) string {
	if p.Revision == 0 {
		return ""
	}
	text := fmt.Sprintf(" (revision %d", p.Revision)
	switch {
	case p.Expired(time.Now()):
		text += ", expired " + p.Expires.Format(time.RFC3339)
	case !p.Expires.IsZero():
		text += ", expires " + p.Expires.Format(time.RFC3339)
	}
	return text + ")"
}

// ofFormat describes the content of a hook file of another system. It returns "" for a policy.
func ofFormat(p load.Loaded) string {
	if p.Format == "" {
		return ""
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{p.Rules, "rule"}, {p.Commands, "command"}, {p.Webhooks, "webhook"}} {
		if part.n > 0 {
			parts = append(parts, printable.Count(part.n, part.what))
		}
	}
	if p.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", p.Skipped))
	}
	if p.RunBy != "" {
		parts = append(parts, p.RunBy+" runs them itself")
	}
	if len(parts) == 0 {
		return fmt.Sprintf(" (%s)", p.Format)
	}
	return fmt.Sprintf(" (%s: %s)", p.Format, strings.Join(parts, ", "))
}
