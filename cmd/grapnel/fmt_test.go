package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/format"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml/layout"
)

var policyBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// Shipped files and examples in the documentation have the format of `grapnel fmt`.
func TestShippedFilesAreFormatted(t *testing.T) {
	t.Parallel()
	order := format.KeyOrder()
	if len(order["hooks[]"]) < 20 {
		t.Errorf("the schema gives only the keys %q of a hook", order["hooks[]"])
	}
	found := 0
	check := func(name string, data []byte) {
		found++
		if out, err := layout.Format(data, order); err != nil || string(out) != string(data) {
			t.Errorf("%s is not formatted (%v), want:\n%s", name, err, out)
		}
	}
	for _, pattern := range []string{"*.yaml", "../../packs/*.yaml", "../../README.md", "../../docs/*.md", "../../docs/*/*.md", "../../examples/*/*.yaml"} {
		names, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(name) == ".yaml" {
				check(name, data)
				continue
			}
			for _, block := range policyBlock.FindAllSubmatch(data, -1) {
				check(name, block[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d files and parts of pages found", found)
	}
}
