//go:build unix

package docs

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
)

// TestPackTables compares the page about packs with the built-in packs.
func TestPackTables(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(packs.Files(), "*")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, file := range files {
		data, err := fs.ReadFile(packs.Files(), file)
		if err != nil {
			t.Fatal(err)
		}
		p, errs := policy.Parse(file, data)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		var rows [][]string
		for _, h := range p.Hooks {
			row := []string{"`" + h.Name + "`", h.Decide, h.Reason}
			if h.Mask != nil {
				row[1], row[2] = "mask", "keys become `***`, behind what says which kind they were"
			}
			if h.Replace != nil {
				row[1] = "replace"
				for i, r := range h.Replace {
					if i > 0 {
						row[2] += ", "
					}
					row[2] += "`" + r.Pattern + "` becomes `" + r.With + "`"
				}
			}
			rows = append(rows, row)
		}
		parts[strings.TrimSuffix(file, ".yaml")] = table([]string{"hook", "action", "reason"}, rows)
	}
	checkParts(t, "packs.md", parts)
}
