package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The program on the page of a bridge is exactly the bridge's Example, and its output is the
// output on the page. Other code on the page is also in an example.
func TestBridgePages(t *testing.T) {
	t.Parallel()
	for bridge, others := range map[string]int{"adk": 0, "eino": 1, "genkit": 0, "mcp": 1} {
		t.Run(bridge, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join("..", "bridge", bridge)
			source := readPage(t, filepath.Join(dir, "example_test.go"))
			source, more, _ := strings.Cut(source, "\nfunc Example_")
			if other, _ := filepath.Glob(filepath.Join(dir, "example_*_test.go")); len(other) > 0 {
				more += readPage(t, other[0])
			}
			source = strings.NewReplacer("package "+bridge+"_test", "package main", "func Example() {", "func main() {").Replace(source)
			program, output, _ := strings.Cut(source, "\t// Output:\n")
			output, rest, _ := strings.Cut(output, "}\n")
			program += "}\n" + rest
			output = regexp.MustCompile(`(?m)^\t// `).ReplaceAllString(output, "")
			found := map[string]int{}
			for _, b := range blocks(readPage(t, filepath.Join("bridges", bridge+".md"))) {
				switch {
				case b.lang == "go" && strings.HasPrefix(b.text, "package main"):
					found["program"]++
					if b.text != program {
						t.Errorf("line %d: the program is not that of Example. The page:\n%s\nExample:\n%s", b.line, b.text, program)
					}
				case b.lang == "go":
					found["other"]++
					if !strings.Contains(unindented(more), unindented(b.text)) {
						t.Errorf("line %d: no example has this:\n%s", b.line, b.text)
					}
				case b.lang == "text":
					found["output"]++
					if b.text != output {
						t.Errorf("line %d: the page says that this is printed:\n%s\nExample prints:\n%s", b.line, b.text, output)
					}
				}
			}
			if found["program"] == 0 || found["output"] == 0 || found["other"] < others {
				t.Errorf("the page has %v, want the program, its output and %d other blocks of Go", found, others)
			}
		})
	}
}
