//go:build unix

package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy"
)

// keyTables are the tables of policy-keys.md: a title and a definition of the schema, or the
// policy itself.
var keyTables = []struct{ name, definition string }{
	{"policy", ""},
	{"hook", "hook"},
	{"match", "match"},
	{"after", "after"},
	{"approve", "approve"},
	{"limit", "limit"},
	{"context", "context"},
	{"http", "http"},
	{"notify", "notify"},
	{"smtp", "smtp"},
	{"breaker", "breaker"},
	{"sandbox", "sandbox"},
	{"contain", "contain"},
	{"builtin", "builtin"},
	{"use", "usedPack"},
	{"load", "loadFrom"},
	{"defaults", "defaults"},
	{"records", "records"},
	{"forward", "forward"},
	{"retention", "retention"},
	{"redact", "redact"},
	{"secrets", "secrets"},
	{"grants", "grant"},
	{"trust", "vouch"},
	{"pack", "packInfo"},
	{"replace", "replacement"},
}

// TestPolicyKeys compares policy-keys.md with the schema of policies.
func TestPolicyKeys(t *testing.T) {
	t.Parallel()
	schema, err := yaml.Parse([]byte(policy.Schema())) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	k := keys{schema.Get("$defs")}
	var tables strings.Builder
	for _, s := range keyTables {
		def := schema
		if s.definition != "" {
			def = k.defs.Get(s.definition)
		}
		if def == nil {
			t.Fatalf("the schema has no definition %q", s.definition)
		}
		fmt.Fprintf(&tables, "\n## %s\n\n%s", s.name, k.table(def))
	}
	for _, pair := range k.defs.Pairs { // a new definition with keys needs a table
		listed := pair.Key.Text == "until" // its keys are in the table of after
		for _, s := range keyTables {
			listed = listed || s.definition == pair.Key.Text
		}
		if pair.Value.Get("properties") != nil && !listed {
			t.Errorf("policy-keys.md has no table for the definition %q", pair.Key.Text)
		}
	}
	checkParts(t, "policy-keys.md", map[string]string{"keys": strings.TrimPrefix(tables.String(), "\n")})
}

// TestRecordFields compares the tables of Records in json.md with the schema of Records.
func TestRecordFields(t *testing.T) {
	t.Parallel()
	schema, err := yaml.Parse([]byte(records.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	k := keys{schema.Get("$defs")}
	parts := map[string]string{}
	for _, name := range []string{"record", "hook", "reason"} {
		def := k.defs.Get(name)
		required := each(def.Get("required").Items, func(n *yaml.Node) string { return n.Text })
		var rows [][]string
		for _, pair := range def.Get("properties").Pairs {
			member := code(pair.Key.Text)
			if slices.Contains(required, pair.Key.Text) {
				member = "**" + member + "**"
			}
			about := k.find(pair.Value, "description").Text
			if strings.HasPrefix(about, "reserved ") || strings.Contains(about, "Only lines of files contain it") {
				continue // "grapnel log --json" does not print it
			}
			rows = append(rows, []string{member, k.values(pair.Value, 0), about})
		}
		parts[name] = table([]string{"member", "type", "meaning"}, rows)
	}
	checkParts(t, "json.md", parts)
}

// keys describes definitions of a schema.
type keys struct{ defs *yaml.Node }

func (k keys) table(def *yaml.Node) string {
	var rows [][]string
	for _, pair := range def.Get("properties").Pairs {
		var about, without string
		node := pair.Value
		if d := k.find(node, "description"); d != nil {
			about = strings.TrimSuffix(d.Text, ".")
		}
		if d := k.find(node, "default"); d != nil {
			without = "default: " + code(string(d.JSON()))
		}
		if about != "" && without != "" {
			about += "; "
		}
		values := strings.TrimPrefix(strings.TrimPrefix(k.values(node, 0), "a "), "an ")
		rows = append(rows, []string{code(pair.Key.Text), values, about + without})
	}
	return table([]string{"key", "value", "meaning"}, rows)
}

// find returns a member of a definition, or of the definition it refers to.
func (k keys) find(node *yaml.Node, name string) *yaml.Node {
	for node != nil {
		if found := node.Get(name); found != nil {
			return found
		}
		node = k.target(node)
	}
	return nil
}

// target returns the definition that a node refers to, or nil.
func (k keys) target(node *yaml.Node) *yaml.Node {
	ref := node.Get("$ref")
	if ref == nil {
		return nil
	}
	return k.defs.Get(strings.TrimPrefix(ref.Text, "#/$defs/"))
}

// longest is the number of words that a cell lists. The agents and events have pages.
const longest = 8

// values names the values that a definition allows, in a few words.
func (k keys) values(node *yaml.Node, depth int) string {
	if node == nil || depth > 6 {
		return ""
	}
	if enum := node.Get("enum"); enum != nil {
		if len(enum.Items) > longest {
			return "a word"
		}
		return list(unique(each(enum.Items, func(n *yaml.Node) string { return code(n.Text) }))...)
	}
	if ref := node.Get("$ref"); ref != nil {
		name := strings.TrimPrefix(ref.Text, "#/$defs/")
		switch name {
		case "agentName", "agent":
			return "an agent"
		case "event", "kind", "agentEvent":
			return "an event"
		case "duration":
			return "a duration"
		case "field":
			return "a field"
		case "text", "name":
			return "text"
		}
		for _, s := range keyTables {
			if s.definition == name {
				return fmt.Sprintf("[%s](#%s)", s.name, s.name)
			}
		}
		return k.values(k.target(node), depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if choice := node.Get(key); choice != nil {
			return choices(each(choice.Items, func(n *yaml.Node) string { return k.values(n, depth+1) }))
		}
	}
	types := node.Get("type")
	switch {
	case types == nil:
		return ""
	case types.Items != nil:
		return choices(each(types.Items, func(n *yaml.Node) string { return k.typed(node, n.Text, depth) }))
	}
	return k.typed(node, types.Text, depth)
}

// typed names the values of one type.
func (k keys) typed(node *yaml.Node, name string, depth int) string {
	switch name {
	case "string":
		return "text"
	case "integer":
		return "a whole number"
	case "number":
		return "a number"
	case "boolean":
		return "`true`, `false`"
	case "array":
		if items := k.values(node.Get("items"), depth+1); items != "" {
			return "a list: " + items
		}
		return "a list"
	case "object":
		return "a mapping"
	}
	return ""
}

// choices joins values of which a key takes one. One value or a list of them is "text(s)".
func choices(values []string) string {
	values = unique(values)
	if n := len(values); n > 1 && values[n-1] == "a list: "+values[n-2] {
		switch last := values[n-2]; {
		case strings.ContainsAny(last, "`[,"):
			values[n-1] = "a list"
		default:
			_, noun, ok := strings.Cut(last, " ") // after the article
			if !ok {
				noun = last
			}
			values = append(values[:n-2], noun+"(s)")
		}
	}
	return strings.Join(values, ", or ")
}

func each(nodes []*yaml.Node, text func(*yaml.Node) string) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, text(n))
	}
	return all
}

// unique returns the words in their order, each once, without empty ones.
func unique(words []string) []string {
	var once []string
	seen := map[string]bool{"": true}
	for _, word := range words {
		if !seen[word] {
			seen[word] = true
			once = append(once, word)
		}
	}
	return once
}
