//go:build system

// This test starts no program, but it takes too long under the race detector, which the
// system tier does not use.

package yaml_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// TestRepository reads all YAML in the repository, including pages and transcripts, and compares
// the result with the library. It skips the wrong policies: some of them are wrong YAML that the
// library accepts, and TestTricky covers such texts one by one.
func TestRepository(t *testing.T) {
	t.Parallel()
	files, docs := 0, 0
	check := func(name, in string) {
		docs++
		own, err := yaml.Parse([]byte(in))
		library, libraryErr := libraryParse([]byte(in))
		switch {
		case err == nil && libraryErr == nil && dump(own) != dump(library):
			t.Errorf("%s: Parse(%q) =\n%s, the library:\n%s", name, in, dump(own), dump(library))
		case err != nil && libraryErr == nil:
			t.Errorf("%s: Parse(%q) = %v, the library accepts it", name, in, err)
		}
	}
	err := filepath.WalkDir("../../..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := entry.Name(); entry.IsDir() {
			if base == ".git" || base == ".tools" || base == "node_modules" || base == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || entry.Name() == "wrong-policies.txtar" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".yaml", ".yml":
			files++
			check(name, string(data))
		case ".txtar", ".txt":
			lines, at := strings.SplitAfter(string(data), "\n"), -1
			for i, line := range append(lines, "-- --\n") {
				if !strings.HasPrefix(line, "-- ") || !strings.HasSuffix(strings.TrimSpace(line), " --") {
					continue
				}
				if at >= 0 {
					check(fmt.Sprintf("%s:%d", name, at), strings.Join(lines[at:i], ""))
				}
				if at = -1; strings.HasSuffix(strings.TrimSpace(line), ".yaml --") {
					at = i + 1
				}
			}
		case ".md":
			for _, part := range bytes.Split(data, []byte("```yaml\n"))[1:] {
				body, _, _ := bytes.Cut(part, []byte("```"))
				check(name, string(body))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 5 || docs < 100 {
		t.Errorf("%d files and %d documents: some were not found", files, docs)
	}
}
