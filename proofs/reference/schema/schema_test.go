// Package schema compares the validator that the tests of the library use with the one of Google:
// both accept the same policies, tests and events.
package schema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/grapnel-dev/grapnel/internal/documents"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy"
)

const root = "../../.."

func TestSameAsTheLibrary(t *testing.T) {
	t.Parallel()
	plain, err := os.ReadFile(filepath.Join(root, "dialect", "plain.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	values := values(t)
	for name, text := range map[string]string{"policy": policy.Schema(), "test": policytest.Schema(), "plain": string(plain)} {
		own, err := documents.ParseSchema(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var library jsonschema.Schema
		if err := json.Unmarshal([]byte(text), &library); err != nil {
			t.Fatal(err)
		}
		resolved, err := library.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accepted := 0
			compare := func(t testing.TB, v any) {
				t.Helper()
				got, want := own.Validate(v), resolved.Validate(v)
				if (got == nil) != (want == nil) {
					text, _ := json.Marshal(v)
					t.Errorf("%v, the library: %v\n%s", got, want, text)
				}
				if got == nil {
					accepted++
				}
			}
			for _, v := range values {
				compare(t, v)
			}
			rapid.Check(t, func(t *rapid.T) {
				compare(t, change(t, rapid.SampledFrom(values).Draw(t, "value"), values))
			})
			if name == "policy" && accepted < 100 {
				t.Errorf("only %d values are valid", accepted)
			}
		})
	}
}

// values returns the YAML of this repository.
func values(t *testing.T) []any {
	t.Helper()
	all, err := documents.All(root)
	if err != nil {
		t.Fatal(err)
	}
	var values []any
	for _, d := range all {
		var v any
		if tree, err := yaml.Parse([]byte(d.Text)); err == nil && json.Unmarshal(tree.JSON(), &v) == nil {
			values = append(values, v)
		}
	}
	return values
}

// change returns a copy of a value in which one value at any depth is another one.
func change(t *rapid.T, v any, others []any) any {
	if rapid.IntRange(0, 3).Draw(t, "here") == 0 {
		return rapid.OneOf(rapid.SampledFrom([]any{nil, true, "", "x", 0.0, 1.5, -1.0, 1e9, []any{}, map[string]any{}}), rapid.SampledFrom(others)).Draw(t, "other")
	}
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			v = slices.Clone(v)
			i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
			v[i] = change(t, v[i], others)
			return v
		}
	case map[string]any:
		changed := map[string]any{}
		var names []string
		for name, member := range v {
			changed[name] = member
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) > 0 {
			name := rapid.SampledFrom(names).Draw(t, "name")
			if changed[name] = change(t, v[name], others); rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
				delete(changed, name)
			}
			return changed
		}
	}
	return v
}
