package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreats checks that the tests that the threat model names exist. Each row of its tables names
// at least one test, as `directory.TestName` or `directory.TestName/the start of a subtest`.
func TestThreats(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if rows := threats(t, data); rows < 80 {
		t.Errorf("SECURITY.md names %d threats, which is too few to be all", rows)
	}
}

// threats checks the rows of a page, and counts them.
func threats(t *testing.T, data []byte) int {
	t.Helper()
	named := regexp.MustCompile("`([a-z][a-z0-9/-]*)\\.((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([^`]+))?`")
	rows := 0
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| test |\n") {
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
	return rows
}

// declared reports whether a directory has the test, in a file that also contains the name of the
// subtest.
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
