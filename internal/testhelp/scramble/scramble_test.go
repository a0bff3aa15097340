package scramble_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/scramble"
)

type row struct {
	Name string
	On   []string
	More map[string][]int
	Next *row
	Call func()
}

// Shared data is changed, and copied data is not.
func TestValue(t *testing.T) {
	t.Parallel()
	table := func() []row {
		return []row{{Name: "a", On: []string{"x"}, More: map[string][]int{"k": {1}}, Next: &row{Name: "b"}, Call: func() {}}}
	}
	shared, want := table(), scramble.Print(table())
	if got := scramble.Print(shared); got != want {
		t.Errorf("two equal values are printed as %s and %s", got, want)
	}
	for name, copied := range map[string][]row{
		"slice":   {shared[0]},
		"pointer": {{Next: shared[0].Next}},
		"map":     {{More: shared[0].More}},
		"nested":  {{On: shared[0].On}},
	} {
		before := scramble.Print(shared)
		scramble.Value(copied)
		if after := scramble.Print(shared); after == before {
			t.Errorf("%s: nothing is changed in %s", name, after)
		}
	}
	if got := scramble.Print(table()); got != want {
		t.Errorf("another value has become %s", got)
	}
}
