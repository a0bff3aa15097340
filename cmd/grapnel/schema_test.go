package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/grapnel-dev/grapnel/policy"
)

var update = flag.Bool("update", false, "rewrite docs/schema and the rules in docs/ci.md")

// Editors get the schema of policies from the repository: it is what the program prints,
// and new policies name it.
func TestPublishedSchema(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "docs", "schema", "policy.json")
	if *update {
		if err := os.WriteFile(file, []byte(policy.Schema()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != policy.Schema() {
		t.Errorf("%s is not what \"grapnel schema\" prints (%v): go test ./cmd/grapnel -update", file, err)
	}
	var head struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal([]byte(policy.Schema()), &head); err != nil || !strings.HasSuffix(head.ID, "/docs/schema/policy.json") {
		t.Errorf("the schema says that it is %q (%v)", head.ID, err)
	}
	for name, text := range map[string][]byte{"starter.yaml": starter, "project.yaml": projectStarter} {
		if first, _, _ := strings.Cut(string(text), "\n"); first != "# yaml-language-server: $schema="+head.ID {
			t.Errorf("%s begins with %q, and not with the schema %s", name, first, head.ID)
		}
	}
}

// Each schema is one, and takes what it is of.
func TestSchemas(t *testing.T) {
	t.Parallel()
	takes := map[string]string{
		"policy":  `{"version": 1, "hooks": []}`,
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
			if err := resolved.Validate(v); name == s.name && err != nil || s.name == "policy" && name != "policy" && err == nil {
				t.Errorf("the schema of %s says %v about %s", s.name, err, example)
			}
		}
	}
}
