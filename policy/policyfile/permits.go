package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// The names of built-in hooks.
const (
	BuiltinAudit   = "audit"
	BuiltinLogging = "logging"
	BuiltinSummary = "session-summary"
)

// Forbidden says why a hook cannot do on an event what it wants to do.
func Forbidden(h *Hook, kind grapnel.Kind) string {
	c := ContractOf(kind)
	permits := func(fields ...grapnel.Field) bool {
		return slices.ContainsFunc(fields, func(f grapnel.Field) bool { return MayChange(c, f) })
	}
	switch {
	case h.Builtin != nil && h.Builtin.Name == BuiltinSummary && kind != grapnel.SessionEnd:
		return "a session is summarised on session.end"
	case h.Decide == "block" && c.Blocks == grapnel.BlockNothing:
		return fmt.Sprintf("%s cannot be blocked", kind)
	case h.Decide == "ask" && c.Blocks != grapnel.BlockAction:
		return fmt.Sprintf("nothing can be asked on %s: it has happened or cannot be stopped", kind)
	case h.Decide == "allow" && !c.Permit:
		return fmt.Sprintf("%s has no permission prompt that `allow` could skip", kind)
	case h.Limit != nil && c.Blocks == grapnel.BlockStop:
		return fmt.Sprintf("a limit would keep the agent from stopping on %s", kind)
	case h.Limit != nil && c.Blocks == grapnel.BlockNothing:
		return fmt.Sprintf("%s cannot be blocked", kind)
	case h.Limit != nil && h.Limit.Then == "ask" && c.Blocks != grapnel.BlockAction:
		return fmt.Sprintf("nothing can be asked on %s: it has happened", kind)
	case h.Context != nil && !c.Context:
		return fmt.Sprintf("no context can be added on %s", kind)
	case (h.Replace != nil || h.Mask != nil) && len(c.Changes) == 0:
		return fmt.Sprintf("nothing can be changed on %s", kind)
	case len(Changes(h)) > 0 && !permits(Changes(h)...):
		return fmt.Sprintf("%s permits no change of %s%s", kind, JoinFields(Changes(h)), permitted(c))
	}
	return ""
}

// ContractOf returns the contract of an event; that of an event that no table has permits nothing.
func ContractOf(kind grapnel.Kind) *grapnel.Contract {
	if c, ok := dialect.ContractOf(kind); ok {
		return &c
	}
	return &grapnel.Contract{Kind: kind}
}

// JoinFields lists fields for a message.
func JoinFields(fields []grapnel.Field) string {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(f))
	}
	return b.String()
}

func permitted(c *grapnel.Contract) string {
	var fields []grapnel.Field
	for _, ch := range c.Changes {
		if MayChange(c, ch.Field) {
			fields = append(fields, ch.Field)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return ", only of " + JoinFields(fields)
}

// Changes are the fields that a hook names to change them.
func Changes(h *Hook) []grapnel.Field {
	fields := slices.Clone(h.Fields)
	for field := range h.Set {
		fields = append(fields, field)
	}
	for _, place := range h.Places {
		fields = append(fields, place.Field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// MayChange reports whether a policy may change a field. The result of a call that does
// not run is not among them: what a file would say in the tool's place is what block is
// for, and a rule on tool.before and tool.after is about the output that is there.
func MayChange(c *grapnel.Contract, f grapnel.Field) bool {
	return c.Permits(f) && (c.Kind != grapnel.ToolBefore || f != grapnel.FieldOutput)
}

// SetsAlready reports that one place lies inside of another.
func SetsAlready(h *Hook, field grapnel.Field, path []string) error {
	within := func(inner, outer []string) bool {
		return len(inner) >= len(outer) && slices.Equal(inner[:len(outer)], outer)
	}
	if _, whole := h.Set[field]; whole && path != nil {
		return fmt.Errorf("%s is set as a whole already", field)
	}
	for i := range h.Places {
		if other := &h.Places[i]; other.Field == field && (within(path, other.Path) || within(other.Path, path)) {
			return fmt.Errorf("%s is set already", other)
		}
	}
	return nil
}
