package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreats holds the threat model to tests that exist: each row of its tables names at
// least one, as `directory.TestName` or `directory.TestName/the start of a subtest`.
func TestThreats(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z][a-z0-9/-]*)\\.((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([^`]+))?`")
	rows := 0
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| threat ") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		if tests == nil {
			t.Errorf("no test stands in the row %s", line)
		}
		for _, test := range tests {
			if !declared(t, filepath.Join("..", test[1]), test[2], test[3]) {
				t.Errorf("there is no test %s in %s that has %q", test[2], test[1], test[3])
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d threats are named, which is too few to be all", rows)
	}
}

// declared reports whether the tests of a directory have this one, in a file that also
// holds the name of the subtest.
func declared(t *testing.T, dir, test, sub string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nfunc "+test+"(") && strings.Contains(string(data), sub) {
			return true
		}
	}
	return false
}
