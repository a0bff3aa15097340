package conformance

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	mc "github.com/grapnel-dev/grapnel/systems/miniclaw"
)

// indifferent is a namesake that has only the names: it runs the hooks and then always continues.
type indifferent struct{ namesake }

func (n indifferent) fire(ctx context.Context, ev *grapnel.Event) (answered, error) {
	_, err := n.namesake.fire(ctx, ev)
	return answered{decision: "continue"}, err
}

// deaf is a namesake that forgets its hooks.
type deaf struct{ namesake }

func (deaf) register(*hookDef, []grapnel.Kind) (string, bool, error) { return "", true, nil }

// A case fails if the system's Go package answers otherwise than its engine.
func TestThroughBites(t *testing.T) {
	t.Parallel()
	cases, err := Parse([]byte(`[{"id": "b", "dialect": "miniclaw", "kind": "dispatch", "event": "tool.before", "input": {"tool_name": "t"},
		"plan": {"hooks": [{"name": "a", "kind": "builtin", "behaviour": {"builtin": "blocking", "tools": ["t"], "reason": "no"}}]},
		"expect": {"decision": "block", "reason": "no", "ran": ["a"]}}]`))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		wrap func(n namesake) namesake
		want []string // keys that differ
	}{
		"as it is":    {func(n namesake) namesake { return n }, nil},
		"indifferent": {func(n namesake) namesake { return indifferent{n} }, []string{"decision", "reason"}},
		"deaf":        {func(n namesake) namesake { return deaf{n} }, []string{"decision", "ran", "reason"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := through(func(b *bench) namesake { return tt.wrap(&miniclawNames{b, mc.NewHookRegistry()}) }, "dispatch")
			diffs, err := run(t.Context(), &cases[0])
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range diffs {
				got = append(got, d.Key)
			}
			if slices.Sort(got); !slices.Equal(got, tt.want) {
				t.Errorf("differences in %q, want %q", got, tt.want)
			}
		})
	}
}

// Both packages run the cases of their families. Cases with other settings than the preset's and
// events that the package does not have are left out.
func TestThroughRuns(t *testing.T) {
	t.Parallel()
	for _, f := range []*family{&miniclaw, &ironclaw} {
		if f.through == nil {
			t.Errorf("%s has no Go package", f.name)
		}
	}
	ran := false
	c := &Case{frame: frame{Dialect: "miniclaw", Kind: "dispatch", Event: "tool.before"}, body: map[string]json.RawMessage{
		"input": json.RawMessage(`{}`), "plan": json.RawMessage(`{"mutation": "chain", "hooks": []}`),
	}}
	diffs, err := through(func(*bench) namesake { ran = true; return nil }, "dispatch")(t.Context(), c)
	if ran || err != nil || len(diffs) > 0 {
		t.Errorf("a case with other settings runs: %v, %v", diffs, err)
	}
}
