//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package expr

import (
	"strings"
	"testing"
)

// The results of the parts, combined, are the result of the whole, for any operator precedence.
func TestPartsLaw(t *testing.T) {
	t.Parallel()
	names := []Name{{"a", true}, {"b", true}, {"c", true}, {"d", true}}
	operators := []string{" and ", " or ", " && ", " || ", " == ", " and not ", " or !", " != "}
	shapes := []string{"a%b%c%d", "(a%b)%c%d", "a%(b%c)%d", "a%(b%c%d)", "not (a%b)%(c%d)", "!(a%b%(c%d))", "(not (a%b))%c%d", "a%b%(c ? d : a)", "a%b%c ? d : a%c"}
	for _, shape := range shapes {
		for n := range 8 * 8 * 8 {
			source, k := shape, n
			for strings.Contains(source, "%") {
				source = strings.Replace(source, "%", operators[k%8], 1)
				k /= 8
			}
			whole, err := Compile(source, Truth, names)
			if err != nil {
				continue // a == b == not c
			}
			parts, err := Parts(source)
			if err != nil {
				t.Fatalf("Parts(%q): %v", source, err)
			}
			for bits := range 16 {
				value := func(name int) any { return bits>>name&1 == 1 }
				want, err := whole.Run(value)
				if err != nil {
					t.Fatal(err)
				}
				if got := joined(t, parts, names, value); got != want {
					t.Fatalf("%q with %04b is %v, and its parts %s say %v", source, bits, want, partText(parts), got)
				}
			}
		}
	}
}
