package redact

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// KeepWords lists the valid values of `records: keep`, from most to least data.
var KeepWords = [...]string{"full", "masked", "metadata"}

// Keeping is the combined record settings of all policies in force. Its zero value keeps masked
// events.
//
// The managed policy decides how much is kept. Without a managed policy the user's policy decides,
// and policies of projects and command lines can only reduce it. Drops and replacements add up: no
// policy can undo a drop or a replacement of another policy.
type Keeping struct {
	Keep    string
	managed bool
	Sync    bool // write a record to disk before the agent gets its reply
	Unknown bool // a policy cannot be read, so its record settings are unknown
	drop    [][]string
	replace []*keptReplace
}

type keptReplace struct {
	re   *prefilter.Regexp
	with string
}

// Add adds the record settings of one policy.
func (k *Keeping) Add(r *policyfile.Records, scope grapnel.Scope) {
	if r == nil {
		return
	}
	switch {
	case r.Keep == "" || k.managed && scope != grapnel.ScopeManaged:
	case k.Keep == "" && scope <= grapnel.ScopeUser:
		k.Keep, k.managed = r.Keep, scope == grapnel.ScopeManaged
	default:
		k.Keep = lessOf(k.Mode(), r.Keep)
	}
	k.Sync = k.Sync || r.Sync
	for _, what := range r.Drop {
		k.drop = append(k.drop, dropPaths(what)...)
	}
	for _, part := range r.Replace {
		k.replace = append(k.replace, &keptReplace{prefilter.NewRegexp(part.Pattern, part.Literal), part.With})
	}
}

func lessOf(a, b string) string {
	if slices.Index(KeepWords[:], a) > slices.Index(KeepWords[:], b) {
		return a
	}
	return b
}

// Mode returns how much of an event is kept: full, masked or metadata.
func (k *Keeping) Mode() string {
	switch {
	case k.Unknown:
		return "metadata"
	case k.Keep == "":
		return "masked"
	}
	return k.Keep
}

// Edit returns a function that drops and replaces parts of a record, or of a record's event, before
// it is written. It returns nil if there is nothing to drop or replace.
func (k *Keeping) Edit() func(raw []byte, event bool) ([]byte, error) {
	if len(k.drop)+len(k.replace) == 0 {
		return nil
	}
	return k.edit
}

func (k *Keeping) edit(raw []byte, event bool) ([]byte, error) {
	return walkNamed(raw, func(path []string, raw json.RawMessage) (json.RawMessage, bool, error) {
		if event {
			path = slices.Concat([]string{"input"}, path)
		}
		if slices.ContainsFunc(k.drop, func(p []string) bool { return fitsPath(p, path) }) {
			return nil, true, nil
		}
		if needed(path) {
			return raw, len(path) > 0 && path[0] != "hooks" && path[0] != "input", nil
		}
		text, ok := rawjson.Unquote(raw)
		if !ok {
			return raw, false, nil
		}
		now := k.replaced(text)
		if now == text {
			return raw, true, nil
		}
		return rawjson.AppendQuoted(nil, now), true, nil
	}, func(path []string) (written, known string, err error) {
		known = path[len(path)-1]
		if event && freeForm(path) {
			return k.replaced(known), known, nil
		}
		return known, known, nil
	})
}

func (k *Keeping) replaced(text string) string {
	for _, r := range k.replace {
		if r.re.MayMatch(text) {
			text = r.re.Compile().ReplaceAllString(text, r.with)
		}
	}
	return text
}

// Needed lists the members that every valid record needs; members of the event are below "input".
// Patterns do not apply to them, because a replacement could change a decision.
var Needed = [...]string{
	"", "id", "time", "agent", "session", "event", "tool", "decision", "would", "changed", "ms", "late", "hooks", "hooks/*", "hooks/*/name", "hooks/*/source",
	"hooks/*/line", "hooks/*/decision", "hooks/*/cause", "hooks/*/changed", "hooks/*/changed/*", "changed/*", "input", "input/kind", "input/agent", "input/agent/name",
	"input/time", "input/facts", "input/contract", "input/can",
}

// needed reports whether a member must not be dropped or replaced.
func needed(path []string) bool {
	return slices.ContainsFunc(Needed[:], func(n string) bool {
		if n == "" {
			return len(path) == 0
		}
		return fitsPath(strings.Split(n, "/"), path)
	})
}

// Droppable lists the fields of events that can be dropped, and their places in a record. Dropping
// a call's input also drops the values derived from it.
var Droppable = [...]struct {
	Field grapnel.Field
	at    string
}{
	{grapnel.FieldPrompt, "prompt/text"},
	{grapnel.FieldSystem, "prompt/system"},
	{grapnel.FieldRequest, "model/request"},
	{grapnel.FieldResponse, "model/response"},
	{grapnel.FieldInput, "tool/input tool/commands tool/paths tool/urls tool/content calls/*/input calls/*/commands calls/*/paths calls/*/urls calls/*/content"},
	{grapnel.FieldOutput, "tool/output calls/*/output"},
	{grapnel.FieldNext, "tool/next"},
	{grapnel.FieldMessage, "message/raw"},
	{grapnel.FieldText, "message/content"},
	{grapnel.FieldSummary, "compact/summary"},
	{grapnel.FieldAnswer, "elicitation/answer"},
}

// dropPaths returns the places in a record that a value of `drop` refers to.
func dropPaths(word string) (paths [][]string) {
	if strings.HasPrefix(word, "/") {
		path := PointerPath(word)
		paths = append(paths, path)
		for _, input := range []string{"input/tool/input", "input/calls/*/input"} {
			of := strings.Split(input, "/")
			if len(path) >= len(of) && Meets(of, path[:len(of)]) {
				// The derived values may come from the dropped place.
				for _, also := range []string{"commands", "paths", "urls", "content"} {
					paths = append(paths, append(slices.Clone(path[:len(of)-1]), foldName(also)))
				}
			}
		}
		return paths
	}
	for _, d := range Droppable {
		if string(d.Field) == word {
			for at := range strings.FieldsSeq(d.at) {
				paths = append(paths, strings.Split("input/"+at, "/"))
			}
		}
	}
	return paths
}
