//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package yaml

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestLinear reads a megabyte of texts that could need more than one pass. It measures the
// allocated memory. A text that needs a pass for each of its bytes takes longer than the timeout
// of the tests.
func TestLinear(t *testing.T) { // it measures the memory of the process
	var keys strings.Builder
	for i := range 49_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for name, in := range map[string]string{
		"keys":       keys.String(),
		"flow keys":  "{" + strings.ReplaceAll(keys.String(), "\n", ",") + "}",
		"items":      "[" + strings.Repeat("é,", 99_000) + "]",
		"brackets":   strings.Repeat("[", MaxSize),
		"braces":     strings.Repeat("{a: ", MaxSize/4),
		"dashes":     strings.Repeat("- ", MaxSize/2),
		"deep":       strings.Repeat("-\n ", MaxSize/3),
		"spaces":     strings.Repeat(" ", MaxSize),
		"line ends":  "a: b" + strings.Repeat("\n", MaxSize-4),
		"returns":    strings.Repeat("\r", MaxSize),
		"comments":   strings.Repeat("#\n", MaxSize/2),
		"words":      strings.Repeat("a\n", MaxSize/2),
		"gaps":       strings.Repeat("a\n\n", MaxSize/3),
		"colons":     strings.Repeat(":", MaxSize),
		"pairs":      strings.Repeat("a:", MaxSize/2),
		"quotes":     strings.Repeat("'", MaxSize),
		"double":     `"` + strings.Repeat("a \n ", MaxSize/4-1),
		"escapes":    `"` + strings.Repeat(`\n`, MaxSize/2-1) + `"`,
		"backslash":  `"` + strings.Repeat("\\\n", MaxSize/2-1) + `"`,
		"block":      "|\n" + strings.Repeat(" a\n", MaxSize/3-1),
		"folded":     ">\n" + strings.Repeat(" a\n\n", MaxSize/4-1),
		"blocks":     strings.Repeat("- |\n\n", 99_000),
		"empty":      "a: |\n" + strings.Repeat("\n", MaxSize-5),
		"documents":  strings.Repeat("---\n", MaxSize/4),
		"ends":       strings.Repeat("...\n", MaxSize/4),
		"anchors":    strings.Repeat("- &a b\n", 99_000),
		"nested":     strings.Repeat("[&a ", 90) + strings.Repeat("1,", 90_000) + strings.Repeat("]", 90),
		"aliases":    "- &a x\n" + strings.Repeat("- *a\n", 99_000),
		"wide alias": "- &a [" + strings.Repeat("1,", 90_000) + "]\n" + strings.Repeat("- *a\n", 9000),
		"text alias": "- &a " + strings.Repeat("x", MaxSize/2) + "\n" + strings.Repeat("- *a\n", 90_000),
		"deep alias": "- &a " + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "\n- " + strings.Repeat("[", 60) + "*a" + strings.Repeat("]", 60),
		"tabs":       strings.Repeat("\t", MaxSize),
		"questions":  strings.Repeat("?", MaxSize),
		"percent":    strings.Repeat("%", MaxSize),
		"in a line":  "[" + strings.Repeat("  a  ,", 90_000) + "]",
		"below":      strings.Repeat(" ", MaxSize-10) + "a: b\nc: d",
		"marks":      "[" + strings.Repeat("a ", MaxSize/2-2),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := Parse([]byte(in[:min(len(in), MaxSize)]))
		runtime.ReadMemStats(&after)
		if bytes, most := after.TotalAlloc-before.TotalAlloc, uint64(100*len(in)+1<<20); bytes > most {
			t.Errorf("%s: %d bytes need %d bytes of memory, want at most %d", name, len(in), bytes, most)
		}
		if err == nil && len(n.JSON()) > 16*maxCopied {
			t.Errorf("%s: %d bytes became %d", name, len(in), len(n.JSON()))
		}
		if strings.HasSuffix(name, " alias") && err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
