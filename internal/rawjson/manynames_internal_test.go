package rawjson

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// Many names are found by maps, few by a loop; both give a key the same spelling.
func TestManyNamesAreLikeFew(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[aAbBkK\x{212A}é]{1,3}`)
	rapid.Check(t, func(t *rapid.T) {
		var names []Key
		for range rapid.IntRange(65, 90).Draw(t, "names") {
			names = append(names, Key{word.Draw(t, "name"), rapid.IntRange(1, 2).Draw(t, "depth")})
		}
		key, depth := word.Draw(t, "key"), rapid.IntRange(1, 2).Draw(t, "of")
		folded, plain := foldKey(Quote(key))
		few := spelling([]byte(key), folded, plain, names, depth)
		if many := index(names).spelling(key, string(folded), plain, depth); many != few {
			t.Fatalf("%q at depth %d is %q by maps and %q by the loop, of %v", key, depth, many, few, names)
		}
	})
}
