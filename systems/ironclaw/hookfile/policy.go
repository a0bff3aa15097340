package hookfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Replaces reports whether the rule replaces parts of a text.
func (r *Rule) Replaces() bool { return r.RejectReason == nil && len(r.Replacements) > 0 }

// AsPolicy converts the rule to hooks of a policy, and describes the differences. The rule changes
// the JSON text of a tool call; a policy changes the texts inside it.
func (r *Rule) AsPolicy(base policyfile.Hook) (hooks []policyfile.Hook, unsupported []string) {
	tool := slices.Contains(base.On, grapnel.ToolBefore)
	if r.WhenRegex != "" {
		base.Match = &policyfile.Match{Text: []policyfile.Pattern{{Text: "/" + r.WhenRegex + "/"}}}
	}
	if tool && (r.WhenRegex != "" || len(r.Replacements) > 0) {
		unsupported = append(unsupported, "patterns searched the JSON of a tool's input, but now search each of its strings")
	}
	base.Timeout = 0 // rules have no timeout
	if r.RejectReason != nil {
		base.Decide, base.Reason = "block", *r.RejectReason
		return []policyfile.Hook{base}, unsupported
	}
	if base.OnError == "open" {
		base.OnError = ""
	}
	if len(r.Replacements) > 0 {
		h := base
		for _, part := range r.Replacements {
			if re, err := regexp.Compile(part.Pattern); err == nil && re.MatchString("") {
				unsupported = append(unsupported, fmt.Sprintf("the pattern %q, which matches the empty text", part.Pattern))
				continue
			}
			h.Replace = append(h.Replace, policyfile.Replacement{Pattern: part.Pattern, With: part.Replacement})
		}
		if h.Replace != nil {
			hooks = append(hooks, h)
		}
	}
	if r.Prepend == "" && r.Append == "" {
		return hooks, unsupported
	}
	h := base
	if tool {
		unsupported = append(unsupported, "text before and after the JSON of a tool's input")
		h.On = slices.DeleteFunc(slices.Clone(h.On), func(k grapnel.Kind) bool { return k == grapnel.ToolBefore })
	}
	escape := func(text string) string { return strings.ReplaceAll(text, "$", "$$") }
	if r.Prepend != "" {
		h.Replace = append(h.Replace, policyfile.Replacement{Pattern: `\A(?s:.)`, With: escape(r.Prepend) + "${0}"})
	}
	if r.Append != "" {
		h.Replace = append(h.Replace, policyfile.Replacement{Pattern: `(?s:.)\z`, With: "${0}" + escape(r.Append)})
	}
	if len(h.On) > 0 {
		if len(hooks) > 0 {
			h.Name += "-around"
		}
		hooks = append(hooks, h)
	}
	return hooks, unsupported
}
