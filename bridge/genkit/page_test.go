package genkit_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The program on the page is Example, word for word, and prints what the page says.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "bridges", "genkit.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	example := strings.NewReplacer("package genkit_test", "package main", "func Example() {", "func main() {").Replace(string(source))
	program, said, _ := strings.Cut(example, "\t// Output:\n")
	said, rest, _ := strings.Cut(said, "}\n")
	program += "}\n" + rest
	said = regexp.MustCompile(`(?m)^\t// `).ReplaceAllString(said, "")
	for lang, want := range map[string]string{"go": program, "text": said} {
		block := regexp.MustCompile("(?ms)^```" + lang + "\n(.*?)^```$").FindStringSubmatch(string(page))
		if block == nil || block[1] != want {
			t.Errorf("the page has in its block of %s\n%q\nExample has\n%s", lang, block, want)
		}
	}
}
