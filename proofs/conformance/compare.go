package conformance

import (
	"encoding/json"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A view is the result of a case in the terms of its family. It has every member that an answer
// of its kind may use; nil means that the member does not apply.
type view map[string]any

// cwdMark is the member of a view with the value that replaces <cwd>.
const cwdMark = "<cwd>"

// A probe computes a member that depends on the expected value.
type probe func(want any) any

// A Diff is one member of an answer that differs from the expected one.
type Diff struct {
	Key  string `json:"key"`
	Want any    `json:"want"`
	Got  any    `json:"got"`
}

// compare returns the differences from the expected answer. It returns none if the view equals
// the expected answer or one of its alternatives.
func (c *Case) compare(v view) []Diff {
	want, _ := c.Expect.(map[string]any)
	if want == nil {
		return []Diff{{Key: "expect", Want: "an object", Got: c.Expect}}
	}
	// The expectations for Gemini CLI are complete, because they were measured.
	return v.judge(want, c.Alternatives, c.Dialect == "gemini")
}

// judge returns the differences from the expected answer, or none if an alternative matches.
func (v view) judge(want map[string]any, alternatives []map[string]any, complete bool) []Diff {
	diffs := v.differs(want, complete)
	if len(diffs) > 0 && slices.ContainsFunc(alternatives, func(a map[string]any) bool { return len(v.differs(a, false)) == 0 }) {
		return nil
	}
	return diffs
}

// differs compares member by member. It ignores members that are not expected, unless complete
// is true.
func (v view) differs(want map[string]any, complete bool) []Diff {
	var diffs []Diff
	for _, key := range slices.Sorted(maps.Keys(want)) {
		inner, isView := v[key].(view)
		wanted, isObject := want[key].(map[string]any)
		if isView && isObject {
			for _, d := range inner.differs(wanted, complete) {
				diffs = append(diffs, Diff{Key: key + "." + d.Key, Want: d.Want, Got: d.Got})
			}
			continue
		}
		if got, ok := v.holds(key, want[key]); !ok {
			diffs = append(diffs, Diff{Key: key, Want: want[key], Got: got})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if _, ok := want[key]; complete && !ok && key != cwdMark {
			diffs = append(diffs, Diff{Key: key, Want: "nothing", Got: v[key]})
		}
	}
	return diffs
}

// holds returns the actual value of one expected member, and whether it matches.
func (v view) holds(key string, want any) (got any, ok bool) {
	for _, r := range rules {
		of, is := r.of(key)
		if !is {
			continue
		}
		if value, has := v[of]; has {
			got = plain(value)
			return got, r.holds(want, got)
		}
	}
	value, has := v[key]
	if !has {
		return "nothing: unknown word", false
	}
	if ask, is := value.(probe); is {
		value = ask(want)
	}
	got = plain(value)
	if slices.Contains(subsets, key) {
		wanted, is := want.(map[string]any)
		members, are := got.(map[string]any)
		is = is && are
		for name := range wanted {
			is = is && v.equal(wanted[name], members[name])
		}
		return got, is
	}
	return got, v.equal(want, got)
}

// A rule compares members with a certain name, or a certain kind of name.
type rule struct {
	of    func(key string) (member string, is bool) // returns the member of the view that the rule compares
	holds func(want, got any) bool
}

func named(name, of string) func(string) (string, bool) {
	return func(key string) (string, bool) { return of, key == name }
}

func ending(suffix string) func(string) (string, bool) {
	return func(key string) (string, bool) { return strings.CutSuffix(key, suffix) }
}

// rules lists the rules. The first rule with a member in the view applies; without one,
// the values must be equal.
var rules = []rule{
	{named("warnings", "warnings"), amongWarnings},
	{named("not_ran", "ran"), func(want, got any) bool {
		return areTexts(want) && !slices.ContainsFunc(list(want), func(name any) bool { return slices.Contains(list(got), name) })
	}},
	{named("absent", "env"), func(want, got any) bool {
		set, _ := got.(map[string]any)
		return areTexts(want) && !slices.ContainsFunc(texts(want), func(name string) bool { _, is := set[name]; return is })
	}},
	{named("hooks", "hooks"), func(want, got any) bool { return reflect.DeepEqual(uninformed(want), uninformed(got)) }},
	{named("max_ms", "ms"), atMost},
	{named("delivery_max_ms", "delivery_ms"), atMost},
	{named("requests_max", "requests_at_once"), atMost},
	{named("max_rss_growth_mb", "rss_growth_mb"), atMost},
	{ending("_max_bytes"), func(want, got any) bool {
		text, _ := got.(string)
		return atMost(want, json.Number(strconv.Itoa(len(text))))
	}},
	{ending("_valid_utf8"), func(want, got any) bool { text, is := got.(string); return is && utf8.ValidString(text) == want }},
	{ending("_contains"), func(want, got any) bool {
		text, is := got.(string)
		return is && areTexts(want) && !slices.ContainsFunc(texts(want), func(part string) bool { return !strings.Contains(text, part) })
	}},
	{ending("_starts"), func(want, got any) bool {
		text, is := got.(string)
		begin, can := want.(string)
		return is && can && strings.HasPrefix(text, begin)
	}},
	{ending("_min"), func(want, got any) bool { return sizes(want, got) && size(got) >= size(want) }},
	{ending("_max"), atMost},
}

func atMost(want, got any) bool { return sizes(want, got) && size(got) <= size(want) }

// sizes reports whether the expected value is a number and the actual value has a size.
func sizes(want, got any) bool {
	_, is := want.(json.Number)
	_, isText := got.(string)
	return is && !isText
}

// size returns a number's value or a list's length.
func size(value any) float64 {
	switch value := value.(type) {
	case json.Number:
		n, _ := strconv.ParseFloat(value.String(), 64)
		return n
	case []any:
		return float64(len(value))
	default:
		return 0
	}
}

// list returns a list unchanged, any other value as a list with one element, and nil for nil.
func list(value any) []any {
	if l, is := value.([]any); is {
		return l
	}
	if value == nil {
		return nil
	}
	return []any{value}
}

// texts returns the strings of a list.
func texts(value any) []string {
	var all []string
	for _, v := range list(value) {
		if text, is := v.(string); is {
			all = append(all, text)
		}
	}
	return all
}

// areTexts reports whether a value is a string or a list of strings only.
func areTexts(value any) bool { return value != nil && len(texts(value)) == len(list(value)) }

// amongWarnings reports whether each expected warning was given. If no warning is expected,
// none may be given.
func amongWarnings(want, got any) bool {
	if len(list(want)) == 0 {
		return len(list(got)) == 0
	}
	return !slices.ContainsFunc(list(want), func(w any) bool {
		return !slices.ContainsFunc(list(got), func(g any) bool { return reflect.DeepEqual(w, g) })
	})
}

// uninformed returns the hooks' results without the members that are only for people.
func uninformed(value any) any {
	hooks := []any{}
	for _, hook := range list(value) {
		if members, is := hook.(map[string]any); is {
			members = maps.Clone(members)
			delete(members, "error")
			delete(members, "output_format")
			hook = members
		}
		hooks = append(hooks, hook)
	}
	return hooks
}

// subsets are the members of which only the expected parts are compared.
var subsets = []string{"env", "log", "saw"}

// equal compares values: numbers by their text, objects without regard to the order of members,
// strings byte by byte.
func (v view) equal(want, got any) bool {
	switch want := want.(type) {
	case string:
		switch want {
		case "<go os>":
			return got == runtime.GOOS
		case "<go arch>":
			return got == runtime.GOARCH
		case cwdMark:
			return got == v[cwdMark]
		case "<rfc3339>":
			text, _ := got.(string)
			at, err := time.Parse(time.RFC3339, text)
			_, offset := at.Zone()
			return err == nil && offset == 0
		}
		return got == want
	case []any:
		g, is := got.([]any)
		return is && slices.EqualFunc(want, g, v.equal)
	case map[string]any:
		g, is := got.(map[string]any)
		return is && maps.EqualFunc(want, g, v.equal)
	default:
		return want == got
	}
}

// plain returns the value as it looks after a round trip through JSON.
func plain(value any) any {
	out, err := tree(rawjson.Must(value))
	if err != nil {
		panic(err) // encode wrote valid JSON
	}
	return out
}
