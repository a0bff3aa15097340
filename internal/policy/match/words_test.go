package match

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func toolCall(name, input string) *grapnel.Event {
	t := &grapnel.Tool{Name: "mcp__lab__" + name, Class: grapnel.ClassMCP, MCP: &grapnel.MCP{Server: "lab", Tool: name}, Input: json.RawMessage(input)}
	return &grapnel.Event{Kind: grapnel.ToolBefore, Session: grapnel.Session{CWD: "/"}, Tool: t}
}

func TestWords(t *testing.T) {
	t.Parallel()
	const pattern = "delete|drop database|volume|repository|namespace|index|force"
	for _, test := range []struct {
		name, input string
		want        bool
	}{
		{"delete_database", `{}`, true},
		{"d1_database_delete", `{}`, true},
		{"volume-delete", `{}`, true},
		{"DeleteIndexTool", `{}`, true},
		{"DROP.DATABASE", `{}`, true},
		{"delete_databases", `{}`, true},
		{"delete_indexes", `{}`, true},
		{"delete_repositories", `{}`, true},
		{"delete", `{"kind": "Namespace"}`, true},
		{"delete", `{"resourceTypes": "namespaces"}`, true},
		{"manage", `{"parameters": {"action": "delete", "object": "volume"}}`, true},
		{"delete", `{"force": true}`, true},
		{"delete", `{"isForce":true}`, true},
		{"", `{"action": "delete", "kind": "namespace"}`, true},

		{"delete_comment", `{}`, false},
		{"database", `{}`, false},
		{"deleted_databasefile", `{}`, false},
		{"delete", `{"name": "database", "label": "volume"}`, false},
		{"delete", `{"kind": "a namespace of the cluster"}`, false},
		{"delete", `{"kind": "` + strings.Repeat("x-", 40) + `namespace"}`, false},
		{"delete", `{"force": false, "delete_force": "true"}`, false},
		{"delete", `{"force_it": true}`, false},
		{"delete", `{"a": {"b": {"force": true}}}`, false},
		{"delete", `[true]`, false},
		{"delete", `{"kind": ["namespace"], "type": null, "": true, "mode": "\ud800"}`, false},
		{"delete", ``, false},
	} {
		m, err := (&FactCache{}).Matcher(&policyfile.Match{Words: []string{"never", pattern}}, nil, "", Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Match(toolCall(test.name, test.input), nil); got != test.want || err != nil {
			t.Errorf("%s %s: Match = %v, %v, want %v", test.name, test.input, got, err, test.want)
		}
	}
}

// A model can add arguments to a call, so that they must not permit anything: neither in an allow
// nor in an exclusion from a block.
func TestArgumentsPermitNothing(t *testing.T) {
	t.Parallel()
	words := &policyfile.Match{Words: []string{"list|comment"}}
	for name, test := range map[string]struct {
		match *policyfile.Match
		as    Reading
		event *grapnel.Event
		want  bool
	}{
		"allow by the name":                 {words, Reading{Allow: true}, toolCall("list", `{}`), true},
		"allow by an argument":              {words, Reading{Allow: true}, toolCall("delete", `{"kind": "comment"}`), false},
		"not allowed by an argument":        {&policyfile.Match{Not: words}, Reading{Allow: true}, toolCall("x", `{"list": true}`), false},
		"block, except by the name":         {&policyfile.Match{Not: words}, Reading{}, toolCall("delete_comments", `{}`), false},
		"block, and not except by argument": {&policyfile.Match{Not: words}, Reading{}, toolCall("delete", `{"kind": "comment"}`), true},
	} {
		m, err := (&FactCache{}).Matcher(test.match, nil, "", test.as)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Match(test.event, nil); got != test.want || err != nil {
			t.Errorf("%s: Match = %v, %v, want %v", name, got, err, test.want)
		}
	}
}

func TestPhrase(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]phrase{
		"flushall":                 {{"flushall"}},
		"delete|drop table":        {{"delete", "drop"}, {"table"}},
		"delete | drop\n|rm table": {{"delete", "drop", "rm"}, {"table"}},
		"by  query|":               {{"by"}, {"query"}},
	} {
		if got := newPhrase(source); !slices.EqualFunc(got, want, slices.Equal) || CheckPhrase(source) != nil {
			t.Errorf("newPhrase(%q) = %q, want %q; CheckPhrase = %v", source, got, want, CheckPhrase(source))
		}
	}
	for _, source := range []string{"", " ", "|", "Delete", "delete_table", "delete*", "d1", "/delete/", "a -b"} {
		if err := CheckPhrase(source); err == nil {
			t.Errorf("CheckPhrase(%q) = nil", source)
		}
	}
}

func FuzzPhrase(f *testing.F) {
	f.Add("delete|drop table", "drop_tables", `{"kind":"x"}`)
	f.Fuzz(func(t *testing.T, source, name, input string) {
		p := newPhrase(source)
		_ = argumentWords(json.RawMessage(input), maxNested)
		if CheckPhrase(source) == nil && !p.in(SampleWords(source)) {
			t.Errorf("%q does not match its own words", source)
		}
		p.in([]string{name})
	})
}
