package eino_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The program on the page is Example, word for word, and prints what the page says; the
// other code of the page stands in an example too.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "bridges", "eino.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	example := strings.NewReplacer("package eino_test", "package main", "func Example() {", "func main() {").Replace(string(source))
	adk, err := os.ReadFile("example_adk_test.go")
	if err != nil {
		t.Fatal(err)
	}
	program, said, _ := strings.Cut(example, "\t// Output:\n")
	said, rest, _ := strings.Cut(said, "}\n")
	program += "}\n" + rest
	said = regexp.MustCompile(`(?m)^\t// `).ReplaceAllString(said, "")
	found := 0
	for _, block := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		switch lang, code := block[1], block[2]; {
		case lang == "go" && strings.HasPrefix(code, "package main"):
			found++
			if code != program {
				t.Errorf("the program on the page is not that of Example. The page:\n%s\nExample:\n%s", code, program)
			}
		case lang == "go":
			found++
			if !strings.Contains(unindented(string(adk)), unindented(code)) {
				t.Errorf("no example has this:\n%s", code)
			}
		case lang == "text":
			found++
			if code != said {
				t.Errorf("the page says that this is printed:\n%s\nExample prints:\n%s", code, said)
			}
		}
	}
	if found < 3 {
		t.Errorf("%d blocks found on the page, want the program, what it prints, and the agent of adk", found)
	}
}

func unindented(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
