package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy"
)

var update = flag.Bool("update", false, "rewrite docs/schema and the rules in docs/ci.md")

// Editors load the schemas from the repository. They equal the program's output, and new
// policies refer to them.
func TestPublishedSchema(t *testing.T) {
	t.Parallel()
	const address = "https://raw.githubusercontent.com/grapnel-dev/grapnel/main/docs/schema/"
	for name, text := range map[string]string{"policy.json": policy.Schema(), "test.json": policytest.Schema(), "record.json": records.Schema()} {
		file := filepath.Join("..", "..", "docs", "schema", name)
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != text {
			t.Errorf("%s is not what \"grapnel schema\" prints (%v): go test ./cmd/grapnel -update", file, err)
		}
		var head struct {
			ID string `json:"$id"`
		}
		if err := json.Unmarshal([]byte(text), &head); err != nil || head.ID != address+name {
			t.Errorf("the schema says that it is %q (%v), want %s", head.ID, err, address+name)
		}
	}
	for name, text := range map[string][]byte{"starter.yaml": starter, "project.yaml": projectStarter} {
		if first, _, _ := strings.Cut(string(text), "\n"); first != "# yaml-language-server: $schema="+address+"policy.json" {
			t.Errorf("%s begins with %q, and does not name its schema", name, first)
		}
	}
}

// Each schema is valid, and accepts an example of its format.
func TestSchemas(t *testing.T) {
	t.Parallel()
	takes := map[string]string{
		"policy":  `{"version": 1, "hooks": []}`,
		"test":    `{"version": 1, "tests": [{"command": "git status", "want": "none"}]}`,
		"record":  `{"id": "1", "time": "2026-03-04T05:06:07Z", "agent": "a", "session": "", "event": "tool.before", "decision": "none", "hooks": [], "ms": 1}`,
		"event":   `{"grapnel": 1, "kind": "tool.before", "agent": {"name": "claude-code"}}`,
		"outcome": `{"decision": "block", "reason": "no"}`,
	}
	for _, s := range schemas {
		text, err := s.text()
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, example := range takes {
			var v any
			if err := json.Unmarshal([]byte(example), &v); err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(v); name == s.name && err != nil || (s.name == "policy" || s.name == "test" || s.name == "record") && name != s.name && err == nil {
				t.Errorf("the schema of %s says %v about %s", s.name, err, example)
			}
		}
	}
}
