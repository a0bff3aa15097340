package agenthooks

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A step of a path is a member of an object or an element of a list.
type step struct {
	name  string
	index int // -1 = use name
}

// roots are the valid prefixes of a path; the second is deprecated.
var roots = []string{"$target", "$policy_target"}

var stepSyntax = regexp.MustCompile(`^(?:\.([A-Za-z0-9_-]+)|\[([0-9]+)\]|\["([A-Za-z0-9_-]+)"\])`)

// parsePath parses the path of a transform: $target, followed by any of .name, [7] and ["name"].
// A non-empty reason means that the path is invalid.
func parsePath(path string) (steps []step, reason string) {
	i := slices.IndexFunc(roots, func(root string) bool { return strings.HasPrefix(path, root) })
	if i < 0 {
		return nil, reasonTargetForbidden
	}
	for rest := path[len(roots[i]):]; rest != ""; {
		m := stepSyntax.FindStringSubmatch(rest)
		if m == nil {
			return nil, reasonTransformInvalid
		}
		s := step{name: m[1] + m[3], index: -1}
		if m[2] != "" {
			var err error
			if s.index, err = strconv.Atoi(m[2]); err != nil {
				return nil, reasonTransformInvalid
			}
		}
		steps = append(steps, s)
		rest = rest[len(m[0]):]
	}
	return steps, ""
}

// replace returns a copy of v with the value at the end of the steps replaced. It returns false
// if the place does not exist.
func replace(v any, steps []step, value any) (any, bool) {
	if len(steps) == 0 {
		return value, true
	}
	switch s := steps[0]; v := v.(type) {
	case map[string]any:
		inner, has := v[s.name]
		if s.index >= 0 || !has {
			return nil, false
		}
		inner, ok := replace(inner, steps[1:], value)
		if !ok {
			return nil, false
		}
		copied := maps.Clone(v)
		copied[s.name] = inner
		return copied, true
	case []any:
		if s.index < 0 || s.index >= len(v) {
			return nil, false
		}
		inner, ok := replace(v[s.index], steps[1:], value)
		if !ok {
			return nil, false
		}
		copied := slices.Clone(v)
		copied[s.index] = inner
		return copied, true
	default:
		return nil, false
	}
}
