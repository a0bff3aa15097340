package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/check"
)

// The kinds of findings have short, unique names.
func TestFindingKinds(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kind := range check.Kinds() {
		if seen[kind.Rule] || !regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(kind.Rule) || kind.Severity != "error" && kind.Severity != "warning" || kind.About == "" {
			t.Errorf("%+v", kind)
		}
		seen[kind.Rule] = true
	}

	page := filepath.Join("..", "..", "docs", "ci.md")
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- generated: rules; go test ./cmd/grapnel -update -->\n", "<!-- end -->"
	before, rest, _ := strings.Cut(string(data), begin)
	_, after, ok := strings.Cut(rest, end)
	want := "| Rule | | |\n|---|---|---|\n"
	for _, kind := range check.Kinds() {
		want += fmt.Sprintf("| `%s` | %s | %s |\n", kind.Rule, kind.Severity, kind.About)
	}
	want = before + begin + want + end + after
	if !ok {
		t.Fatalf("%s has no place for the rules", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(data) != want {
		t.Errorf("the rules in %s are not those of the code: go test ./cmd/grapnel -update", page)
	}
}
