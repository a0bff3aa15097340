package policy

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/systems"
)

//go:embed policy.schema.json
var schema string

// Schema returns the JSON Schema of policy files, for editors and other tools. It contains the
// event and agent names of this version. Parse rejects all files that the schema rejects, and some
// others.
func Schema() string { return WithNames(schema) }

// WithNames fills in a JSON Schema: it replaces one-element placeholder lists by the names that
// this version supports. The placeholders are "$kind" and "$agentEvent" for events, "$agentName"
// for agents, "$field" for fields, "$language" for dialects, and "$format" for formats of hook
// files.
func WithNames(schema string) string {
	names := map[string][]string{}
	add := func(list string, words ...string) {
		for _, word := range words {
			if !slices.Contains(names[list], word) {
				names[list] = append(names[list], word)
			}
		}
	}
	for _, c := range grapnel.Contracts() {
		add("kind", string(c.Kind))
		for _, change := range c.Changes {
			add("field", string(change.Field))
		}
	}
	for _, f := range []grapnel.Field{grapnel.FieldCommand, grapnel.FieldPath, grapnel.FieldURL, grapnel.FieldContent} {
		add("field", string(f))
	}
	for _, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
		called := append([]string{d.Name}, d.Aliases...)
		if _, ok := dialect.FindAgent(d.Name); ok {
			add("agentName", called...)
		}
		if d.WriteEvent != nil {
			add("language", called...)
		}
	}
	for _, name := range eventNames() {
		if !slices.Contains(names["kind"], name) {
			add("agentEvent", name)
		}
	}
	for _, ev := range systems.Events() {
		if dashed := strings.ReplaceAll(ev.Name, "_", "-"); dashed != ev.Name { // see Kinds
			add("agentEvent", dashed)
		}
	}
	for _, f := range systems.Formats() {
		add("format", f.Name)
	}
	filled := schema
	for list, words := range names {
		enum, _ := json.Marshal(words) // marshaling strings cannot fail
		filled = strings.ReplaceAll(filled, `["$`+list+`"]`, string(enum))
	}
	return filled
}
