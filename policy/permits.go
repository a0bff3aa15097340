package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// forbiddenText returns why an event has no text that the hook can change; "" = it has.
func forbiddenText(h *policyfile.Hook, c *grapnel.Contract) string {
	if len(c.Changes) == 0 {
		return fmt.Sprintf("%s cannot be changed", c.Kind)
	}
	return forbiddenFields(h, c)
}

// forbiddenFields returns why an event cannot change the hook's fields; "" = it permits one.
func forbiddenFields(h *policyfile.Hook, c *grapnel.Contract) string {
	fields := slices.DeleteFunc(changes(h), unknownField) // another error is about it
	permitted := slices.ContainsFunc(fields, func(f grapnel.Field) bool { return mayChange(c, f) })
	return unless(len(fields) == 0 || permitted, "%s cannot change %s%s", c.Kind, joinFields(fields), permittedFields(c))
}

// unknownField reports whether no event permits changing a field.
func unknownField(f grapnel.Field) bool { return whereInstead([]grapnel.Field{f}) == "" }

// contractOf returns the contract of an event kind. An unknown kind has a contract that permits
// nothing.
func contractOf(kind grapnel.Kind) *grapnel.Contract {
	if c, ok := dialect.ContractOf(kind); ok {
		return &c
	}
	return &grapnel.Contract{Kind: kind}
}

// joinFields formats a list of fields for a message.
func joinFields(fields []grapnel.Field) string {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(f))
	}
	return b.String()
}

func permittedFields(c *grapnel.Contract) string {
	var fields []grapnel.Field
	for _, ch := range c.Changes {
		if mayChange(c, ch.Field) {
			fields = append(fields, ch.Field)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return ", only " + joinFields(fields)
}

// changes returns the fields that a hook changes by name.
func changes(h *policyfile.Hook) []grapnel.Field {
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

// mayChange reports whether a policy can change a field. A policy cannot set the output of a call
// that has not run yet: to stop the call, use `block:`, and to change the real output, use
// tool.after.
func mayChange(c *grapnel.Contract, f grapnel.Field) bool {
	return c.Permits(f) && (c.Kind != grapnel.ToolBefore || f != grapnel.FieldOutput)
}

// setsAlready returns an error if a place is equal to, inside or around a place that is already
// set.
func setsAlready(h *policyfile.Hook, field grapnel.Field, path []string) error {
	within := func(inner, outer []string) bool {
		return len(inner) >= len(outer) && slices.Equal(inner[:len(outer)], outer)
	}
	if _, whole := h.Set[field]; whole && path != nil {
		return fmt.Errorf("%s is already set as a whole", field)
	}
	for i := range h.Places {
		if other := &h.Places[i]; other.Field == field && (within(path, other.Path) || within(other.Path, path)) {
			return fmt.Errorf("%s is already set", other)
		}
	}
	return nil
}
