package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

func TestAlsoThrough(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	differs := []Diff{{Key: "reason", Want: "a", Got: "b"}}
	returns := func(diffs []Diff, err error) handler {
		return func(context.Context, *Case) ([]Diff, error) { return slices.Clone(diffs), err }
	}
	for name, tt := range map[string]struct {
		engine, public handler
		diffs          []Diff
		err            error
	}{
		"both pass":       {returns(nil, nil), returns(nil, nil), nil, nil},
		"engine differs":  {returns(differs, nil), nil, differs, nil},
		"engine fails":    {returns(nil, broken), nil, nil, broken},
		"package differs": {returns(nil, nil), returns(differs, nil), []Diff{{Key: "through systems/x: reason", Want: "a", Got: "b"}}, nil},
		"package fails":   {returns(nil, nil), returns(nil, broken), nil, broken},
		"not expressible": {returns(nil, nil), returns(nil, fmt.Errorf("a hook: %w", errNotExpressible)), nil, errNotExpressible},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diffs, err := alsoThrough("systems/x", tt.engine, tt.public)(t.Context(), &Case{})
			if !reflect.DeepEqual(diffs, tt.diffs) || !errors.Is(err, tt.err) {
				t.Errorf("got %v, %v, want %v, %v", diffs, err, tt.diffs, tt.err)
			}
		})
	}
	opts := Options{Deadline: 1 << 40}
	c := Case{frame: frame{ID: "x", Dialect: "flyto", Kind: "dispatch", Event: "tool.before", Expect: map[string]any{"decision": "continue"}}}
	c.body = map[string]json.RawMessage{"plan": json.RawMessage(`{"hooks": [{"name": "a", "kind": "func", "failure_mode": "fail_closed"}]}`)}
	if r := opts.run(t.Context(), &c); r.Status != Passed || !r.EngineOnly {
		t.Errorf("a failure mode: %+v, want a case for the engine only", r)
	}
}

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
			run := throughNames("p", func(b *bench) namesake { return tt.wrap(newMiniclawNames(b)) }, dispatch)
			diffs, err := run(t.Context(), &cases[0])
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range diffs {
				got = append(got, strings.TrimPrefix(d.Key, "through p: "))
			}
			if slices.Sort(got); !slices.Equal(got, tt.want) {
				t.Errorf("differences in %q, want %q", got, tt.want)
			}
		})
	}
}
