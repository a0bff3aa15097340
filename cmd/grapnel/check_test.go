package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/local"
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

// TestWrongPolicies compares the findings about each wrong policy with its golden text. Each of them
// has a line, and a hint or another way out.
func TestWrongPolicies(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "wrong-policies.txtar")
	golden, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir()) // messages have the real path
	if err != nil {
		t.Fatal(err)
	}
	place := local.Place{Policy: filepath.Join(dir, "root", "grapnel.yaml"), State: filepath.Join(dir, "state")}
	wrong := 0
	for i := 0; i+1 < len(golden.Files); i += 2 {
		policy, want := golden.Files[i], &golden.Files[i+1]
		name, _ := strings.CutSuffix(policy.Name, ".yaml")
		if want.Name != name+".txt" {
			t.Fatalf("%s follows %s", want.Name, policy.Name)
		}
		path := filepath.Join(dir, policy.Name)
		if err := os.WriteFile(path, policy.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		all := check.File(path, place, false)
		if err := printChecked(&console{cli.Console{Out: &out}}, all); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(out.String(), dir+string(filepath.Separator), "")
		if findings := check.Findings(all); len(findings) > 0 {
			wrong++
		}
		for _, f := range check.Findings(all) {
			if f.Line == 0 || f.Col == 0 {
				t.Errorf("%s: %s has no place", name, f.Msg)
			}
		}
		if *update {
			want.Data = []byte(got)
		} else if got != string(want.Data) {
			t.Errorf("%s:\n%sgot\n%swant\n%s(go test ./cmd/grapnel -run TestWrongPolicies -update)", name, policy.Data, got, want.Data)
		}
	}
	if wrong < 64 || wrong < len(golden.Files)/2 {
		t.Errorf("%d of %d policies have findings", wrong, len(golden.Files)/2)
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(golden), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
