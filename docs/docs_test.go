// Package docs holds the documentation and the tests that keep it true.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/policy"
)

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// Every policy in the documentation is one that works.
func TestPoliciesInDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
			if block[1] != "yaml" {
				continue
			}
			found++
			if _, errs := policy.Parse(page, []byte(block[2])); len(errs) > 0 {
				t.Errorf("%s: a policy does not parse: %v\n%s", page, errs, block[2])
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d policies found in %s", found, strings.Join(pages, " "))
	}
}
