package agenthooks

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// spec is the specification version in emissions.
const spec = "agent-hooks/0.1"

// A point is one of the eight points at which interceptors are called.
type point struct {
	name   string
	kinds  []grapnel.Kind // kinds of events that are emissions at this point
	twin   string         // the member that repeats target
	fixed  bool           // transforms are not allowed
	fields []field        // required members in addition to the common ones
}

// A field is a required member of a context. An identity is computed from exactly these members.
type field struct {
	path string
	is   func(any) bool
	want string // describes the values that is accepts
}

// The points, in the order of a session. The specification defines no others.
var points = []point{
	{
		name: "agent_startup", kinds: []grapnel.Kind{grapnel.SessionStart}, twin: "agent_init", fixed: true,
		fields: []field{{"agent_init.tools_registered", listOf(isString), "a list of strings"}},
	},
	{
		name: "input", kinds: []grapnel.Kind{grapnel.PromptBefore}, twin: "input",
		fields: []field{
			{"input.content", anyOf(isString, isObject), "a string or an object"},
			{"input.role", oneOf("user", "system", "external"), "user, system or external"},
		},
	},
	{
		name: "pre_model_call", kinds: []grapnel.Kind{grapnel.ModelBefore}, twin: "messages",
		fields: []field{modelID, {"messages", listOf(isMessage), "a list of messages, each with role and content"}},
	},
	{
		name: "post_model_call", kinds: []grapnel.Kind{grapnel.ModelAfter}, twin: "response",
		fields: []field{
			modelID,
			{"response.content", anyOf(isString, isObject, isNull), "a string, an object or null"},
			{"response.tool_calls", listOf(isToolCall), "a list of calls, each with id, name and args"},
			{"response.finish_reason", isString, "a string"},
		},
	},
	{
		name: "pre_tool_call", kinds: []grapnel.Kind{grapnel.ToolBefore}, twin: "tool_call.args",
		fields: toolCall,
	},
	{
		name: "post_tool_call", kinds: []grapnel.Kind{grapnel.ToolAfter, grapnel.ToolFailed}, twin: "tool_result.value",
		fields: slices.Concat(toolCall, []field{
			{"tool_result.value", isAny, "there"},
			{"tool_result.is_error", isBool, "true or false"},
		}),
	},
	{
		name: "output", kinds: []grapnel.Kind{grapnel.ResponseBefore}, twin: "output",
		fields: []field{{"output.content", isAny, "there"}},
	},
	{
		name: "agent_shutdown", kinds: []grapnel.Kind{grapnel.SessionEnd}, twin: "summary", fixed: true,
		fields: []field{{"summary.reason", oneOf("completed", "error", "cancelled"), "completed, error or cancelled"}},
	},
}

// common lists the required members of every context.
var common = []field{
	{"spec", isSpec, "agent-hooks/ and a version"},
	{"interception_point", isPoint, "one of the eight points"},
	{"timestamp", isUTC, "an RFC 3339 time in UTC"},
	{"sequence", isCount, "an integer from 0 on"},
	{"agent.id", isName, "a string that is not empty"},
	{"agent.framework", isFramework, "lower-case letters, digits, - and _"},
	{"session.id", isName, "a string that is not empty"},
	{"target", isAny, "there"},
}

var modelID = field{"model.id", isName, "a string that is not empty"}

var toolCall = []field{
	{"tool_call.id", isName, "a string that is not empty"},
	{"tool_call.name", isName, "a string that is not empty"},
	{"tool_call.args", isObject, "an object"},
}

func pointOf(kind grapnel.Kind) *point {
	for i := range points {
		if slices.Contains(points[i].kinds, kind) {
			return &points[i]
		}
	}
	return nil
}

func pointNamed(name string) *point {
	i := slices.IndexFunc(points, func(p point) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &points[i]
}

func isAny(any) bool      { return true }
func isNull(v any) bool   { return v == nil }
func isBool(v any) bool   { _, is := v.(bool); return is }
func isString(v any) bool { _, is := v.(string); return is }
func isObject(v any) bool { _, is := v.(map[string]any); return is }
func isName(v any) bool   { s, is := v.(string); return is && s != "" }
func isPoint(v any) bool  { s, is := v.(string); return is && pointNamed(s) != nil }

func isCount(v any) bool {
	n, is := v.(json.Number)
	_, err := strconv.ParseUint(string(n), 10, 63)
	return is && err == nil
}

// isUTC accepts the date-time of RFC 3339. Go's parser also accepts a few other forms.
func isUTC(v any) bool {
	s, is := v.(string)
	t, err := time.Parse(time.RFC3339, s)
	if !is || err != nil || strings.Contains(s, ",") {
		return false
	}
	_, offset := t.Zone()
	return offset == 0
}

var (
	versions   = regexp.MustCompile(`^agent-hooks/[0-9]+\.[0-9]+$`)
	frameworks = regexp.MustCompile(`^[a-z0-9_-]+$`)
)

func isSpec(v any) bool      { s, is := v.(string); return is && versions.MatchString(s) }
func isFramework(v any) bool { s, is := v.(string); return is && frameworks.MatchString(s) }

func isMessage(v any) bool {
	m, is := v.(map[string]any)
	_, has := m["content"]
	return is && has && isName(m["role"])
}

func isToolCall(v any) bool {
	m, is := v.(map[string]any)
	return is && isName(m["id"]) && isName(m["name"]) && isObject(m["args"])
}

func anyOf(tests ...func(any) bool) func(any) bool {
	return func(v any) bool {
		return slices.ContainsFunc(tests, func(is func(any) bool) bool { return is(v) })
	}
}

func oneOf(words ...string) func(any) bool {
	return func(v any) bool { s, is := v.(string); return is && slices.Contains(words, s) }
}

func listOf(is func(any) bool) func(any) bool {
	return func(v any) bool {
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(list, func(v any) bool { return !is(v) })
	}
}

// at returns the value at a dotted path.
func at(tree map[string]any, path string) (any, bool) {
	name, rest, more := strings.Cut(path, ".")
	v, has := tree[name]
	if !has || !more {
		return v, has
	}
	inner, _ := v.(map[string]any)
	return at(inner, rest)
}

// put returns a copy of the tree with a value at a dotted path. It copies the objects on the
// path, and creates missing ones.
func put(tree map[string]any, path string, value any) map[string]any {
	copied := make(map[string]any, len(tree)+1)
	maps.Copy(copied, tree)
	name, rest, more := strings.Cut(path, ".")
	if more {
		inner, _ := tree[name].(map[string]any)
		value = put(inner, rest, value)
	}
	copied[name] = value
	return copied
}

// checkContext returns the point of a context, or an error if the context is invalid.
func checkContext(tree map[string]any) (*point, error) {
	if err := checkFields(tree, common); err != nil {
		return nil, err
	}
	name, _ := tree["interception_point"].(string)
	p := pointNamed(name)
	return p, checkFields(tree, p.fields)
}

func checkFields(tree map[string]any, fields []field) error {
	for _, f := range fields {
		v, has := at(tree, f.path)
		if !has {
			return &unfit{f.path, "not there"}
		}
		if !f.is(v) {
			return &unfit{f.path, "not " + f.want}
		}
	}
	return nil
}

// CheckContext returns an error if a context is not valid for interceptors: because of a missing
// member, a wrong type, its nesting or its size.
func CheckContext(context json.RawMessage) error {
	tree, err := parseContext(context)
	if err == nil {
		_, err = checkContext(tree)
	}
	return err
}

func parseContext(context json.RawMessage) (map[string]any, error) {
	v, err := parse(context, "")
	if err != nil {
		return nil, err
	}
	tree, is := v.(map[string]any)
	if !is {
		return nil, fmt.Errorf("a context is a JSON object")
	}
	return tree, nil
}
