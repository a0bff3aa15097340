package load

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// keeping returns the result for policies of these scopes, strongest first.
func keeping(t *testing.T, policies ...string) *redact.Keeping {
	t.Helper()
	k := &redact.Keeping{}
	for _, text := range policies {
		word, records, _ := strings.Cut(text, " ")
		scope := grapnel.ScopeManaged
		for scope.String() != word {
			scope++
		}
		p, errs := policy.Parse("p.yaml", []byte("version: 1\nrecords: "+records+"\n"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		data, _ := json.Marshal(p)
		var again policyfile.Policy
		if err := json.Unmarshal(data, &again); err != nil {
			t.Fatal(err)
		}
		k.Add(again.Records, scope)
	}
	return k
}

// TestRecordsScopes: a managed policy decides, then the user's policy; other policies can only
// store less.
func TestRecordsScopes(t *testing.T) {
	t.Parallel()
	for policies, want := range map[string]string{
		"":                                      "masked",
		"user full":                             "full",
		"user metadata":                         "metadata",
		"project full":                          "masked",
		"project metadata":                      "metadata",
		"session full":                          "masked",
		"user full|project full":                "full",
		"user full|project masked|project full": "masked",
		"user metadata|project full":            "metadata",
		"managed full|user metadata|project metadata":      "full",
		"managed full|managed masked|user full":            "masked",
		"managed {drop: prompt}|user full":                 "full",
		"managed {drop: prompt}|user full|plugin metadata": "metadata",
	} {
		var all []string
		if policies != "" {
			all = strings.Split(policies, "|")
		}
		if got := keeping(t, all...).Mode(); got != want {
			t.Errorf("%s: %s, want %s", policies, got, want)
		}
	}
	if got := (&redact.Keeping{Keep: "full", Unknown: true}).Mode(); got != "metadata" {
		t.Errorf("of a policy that cannot be read: %s, want metadata", got)
	}
	for policies, want := range map[string]bool{"user full": false, "user full|project {sync: true}": true, "managed {sync: true}|user {sync: false}": true} {
		if got := keeping(t, strings.Split(policies, "|")...).Sync; got != want {
			t.Errorf("%s: Sync = %v, want %v", policies, got, want)
		}
	}
	if k := keeping(t, "user full"); k.Edit() != nil {
		t.Error("an Edit that changes nothing")
	}
}

// TestRecordsOfBrokenPolicy: if a policy's `records:` is invalid, the least is stored.
func TestRecordsOfBrokenPolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "grapnel.yaml")
	load := func(text string) string {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		set := Policies(Request{Files: []File{{Path: name, Scope: grapnel.ScopeUser}}, Snapshots: filepath.Join(dir, "snapshots")})
		return set.Records.Mode()
	}
	for i, tt := range []struct{ text, want string }{
		{"version: 1\nrecords: {replace: [{pattern: '(', with: x}]}\n", "metadata"},
		{"version: 1\nrecords: full\n", "full"},
		{"version: 1\nrecords: {keep: nothing}\n", "full"}, // the last valid content stays
	} {
		if got := load(tt.text); got != tt.want {
			t.Errorf("content %d: %s, want %s", i, got, tt.want)
		}
	}
}

func TestRecordsEdit(t *testing.T) {
	t.Parallel()
	const (
		record = `{"id":"1","time":"2026-11-20T19:43:26Z","agent":"bob","session":"bob","event":"tool.before","tool":"bob","decision":"block","hooks":[{"name":"bob","source":"bob","decision":"block","error":"bob fell"}],"reasons":[{"hook":"bob","text":"bob, no","cause":"decision"}],"halt":"bob","ms":1.50}`
		event  = `{"kind":"tool.before","agent":{"name":"bob"},"session":{"id":"s","user":"bob"},"tool":{"name":"x","input":{"a":"bob","b":[1,2]},"output":"bob","commands":["bob"],"content":"c"},"prompt":{"text":"bob"}}`
	)
	for name, tt := range map[string]struct{ policies, record, event string }{
		"a pattern": {
			`user {replace: [{pattern: 'b(o)b', with: 'p${1}p'}]}`,
			`{"id":"1","time":"2026-11-20T19:43:26Z","agent":"bob","session":"bob","event":"tool.before","tool":"bob","decision":"block","hooks":[{"name":"bob","source":"bob","decision":"block","error":"pop fell"}],"reasons":[{"hook":"pop","text":"pop, no","cause":"decision"}],"halt":"pop","ms":1.50}`,
			`{"kind":"tool.before","agent":{"name":"bob"},"session":{"id":"s","user":"pop"},"tool":{"name":"x","input":{"a":"pop","b":[1,2]},"output":"pop","commands":["pop"],"content":"c"},"prompt":{"text":"pop"}}`,
		},
		"fields": {`user {drop: [tool.input, prompt]}`, record, `{"kind":"tool.before","agent":{"name":"bob"},"session":{"id":"s","user":"bob"},"tool":{"name":"x","output":"bob"},"prompt":{}}`},
		"places": {
			`user {drop: [/input/session/user, /hooks/*/error, /reasons/*/text, /halt]}`,
			`{"id":"1","time":"2026-11-20T19:43:26Z","agent":"bob","session":"bob","event":"tool.before","tool":"bob","decision":"block","hooks":[{"name":"bob","source":"bob","decision":"block"}],"reasons":[{"hook":"bob","cause":"decision"}],"ms":1.50}`,
			`{"kind":"tool.before","agent":{"name":"bob"},"session":{"id":"s"},"tool":{"name":"x","input":{"a":"bob","b":[1,2]},"output":"bob","commands":["bob"],"content":"c"},"prompt":{"text":"bob"}}`,
		},
		"in the input":   {`project {drop: /input/tool/input/A}`, record, `{"kind":"tool.before","agent":{"name":"bob"},"session":{"id":"s","user":"bob"},"tool":{"name":"x","input":{"b":[1,2]},"output":"bob"},"prompt":{"text":"bob"}}`},
		"of two sources": {`user {drop: tool.output}|project {drop: [/input/tool/input/b/0, prompt]}`, record, `{"kind":"tool.before","agent":{"name":"bob"},"session":{"id":"s","user":"bob"},"tool":{"name":"x","input":{"a":"bob","b":[2]}},"prompt":{}}`},
		"the event":      {`user {drop: /input}`, record, ``},
	} {
		edit := keeping(t, strings.Split(tt.policies, "|")...).Edit()
		for _, part := range []struct {
			raw, want string
			event     bool
		}{{record, tt.record, false}, {event, tt.event, true}} {
			got, err := edit([]byte(part.raw), part.event)
			if err != nil || string(got) != part.want {
				t.Errorf("%s: %v\n%s", name, err, cmp.Diff(part.want, string(got)))
			}
		}
	}
}
