package docs

import (
	"path/filepath"
	"strings"
	"testing"
)

// The code on the page of a bridge is in its examples, and the output on the page is the output of
// its Example.
func TestBridgePages(t *testing.T) {
	t.Parallel()
	for bridge, least := range map[string]int{"adk": 1, "eino": 2, "genkit": 1, "mcp": 2} {
		t.Run(bridge, func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Glob(filepath.Join("..", "bridge", bridge, "example*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			source := ""
			for _, file := range files {
				source += readPage(t, file)
			}
			code := unindented(source)
			output := ""
			for _, b := range blocks(readPage(t, filepath.Join("bridges", bridge+".md"))) {
				switch b.lang {
				case "go":
					least--
					for part := range strings.SplitSeq(unindented(b.text), "\n\n") {
						if !strings.Contains(code, strings.TrimSpace(part)) {
							t.Errorf("line %d: no example has this:\n%s", b.line, part)
						}
					}
				case "text":
					output = b.text
				}
			}
			if comment := "// Output:\n// " + strings.ReplaceAll(strings.TrimSpace(output), "\n", "\n// ") + "\n"; output == "" || !strings.Contains(code, comment) {
				t.Errorf("the page shows an output that the example does not print:\n%s", output)
			}
			if least > 0 {
				t.Errorf("the page lacks %d blocks of Go", least)
			}
		})
	}
}
