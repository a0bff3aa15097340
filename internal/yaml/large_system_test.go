//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package yaml

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestLinear reads a megabyte of texts that could need more than one pass. It measures the
// allocated memory. A text that needs a pass for each of its bytes takes longer than the timeout
// of the tests.
func TestLinear(t *testing.T) { // it measures the memory of the process
	var keys strings.Builder
	for i := range 49_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for name, in := range map[string]string{
		"keys":       keys.String(),
		"flow keys":  "{" + strings.ReplaceAll(keys.String(), "\n", ",") + "}",
		"items":      "[" + strings.Repeat("é,", 99_000) + "]",
		"brackets":   strings.Repeat("[", MaxSize),
		"braces":     strings.Repeat("{a: ", MaxSize/4),
		"dashes":     strings.Repeat("- ", MaxSize/2),
		"deep":       strings.Repeat("-\n ", MaxSize/3),
		"spaces":     strings.Repeat(" ", MaxSize),
		"line ends":  "a: b" + strings.Repeat("\n", MaxSize-4),
		"returns":    strings.Repeat("\r", MaxSize),
		"comments":   strings.Repeat("#\n", MaxSize/2),
		"words":      strings.Repeat("a\n", MaxSize/2),
		"gaps":       strings.Repeat("a\n\n", MaxSize/3),
		"colons":     strings.Repeat(":", MaxSize),
		"pairs":      strings.Repeat("a:", MaxSize/2),
		"quotes":     strings.Repeat("'", MaxSize),
		"double":     `"` + strings.Repeat("a \n ", MaxSize/4-1),
		"escapes":    `"` + strings.Repeat(`\n`, MaxSize/2-1) + `"`,
		"backslash":  `"` + strings.Repeat("\\\n", MaxSize/2-1) + `"`,
		"block":      "|\n" + strings.Repeat(" a\n", MaxSize/3-1),
		"folded":     ">\n" + strings.Repeat(" a\n\n", MaxSize/4-1),
		"blocks":     strings.Repeat("- |\n\n", 99_000),
		"empty":      "a: |\n" + strings.Repeat("\n", MaxSize-5),
		"documents":  strings.Repeat("---\n", MaxSize/4),
		"ends":       strings.Repeat("...\n", MaxSize/4),
		"anchors":    strings.Repeat("- &a b\n", 99_000),
		"nested":     strings.Repeat("[&a ", 90) + strings.Repeat("1,", 90_000) + strings.Repeat("]", 90),
		"aliases":    "- &a x\n" + strings.Repeat("- *a\n", 99_000),
		"wide alias": "- &a [" + strings.Repeat("1,", 90_000) + "]\n" + strings.Repeat("- *a\n", 9000),
		"text alias": "- &a " + strings.Repeat("x", MaxSize/2) + "\n" + strings.Repeat("- *a\n", 90_000),
		"deep alias": "- &a " + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "\n- " + strings.Repeat("[", 60) + "*a" + strings.Repeat("]", 60),
		"tabs":       strings.Repeat("\t", MaxSize),
		"questions":  strings.Repeat("?", MaxSize),
		"percent":    strings.Repeat("%", MaxSize),
		"in a line":  "[" + strings.Repeat("  a  ,", 90_000) + "]",
		"below":      strings.Repeat(" ", MaxSize-10) + "a: b\nc: d",
		"marks":      "[" + strings.Repeat("a ", MaxSize/2-2),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := Parse([]byte(in[:min(len(in), MaxSize)]))
		runtime.ReadMemStats(&after)
		if bytes, most := after.TotalAlloc-before.TotalAlloc, uint64(100*len(in)+1<<20); bytes > most {
			t.Errorf("%s: %d bytes need %d bytes of memory, want at most %d", name, len(in), bytes, most)
		}
		if err == nil && len(n.JSON()) > 16*maxCopied {
			t.Errorf("%s: %d bytes became %d", name, len(in), len(n.JSON()))
		}
		if strings.HasSuffix(name, " alias") && err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestRepository reads all YAML in the repository, including pages and transcripts, and compares
// the result with the library. It skips the wrong policies: some of them are wrong YAML that the
// library accepts, and TestTricky covers such texts one by one.
func TestRepository(t *testing.T) {
	t.Parallel()
	files, docs := 0, 0
	check := func(name, in string) {
		docs++
		own, err := Parse([]byte(in))
		library, libraryErr := libraryParse([]byte(in))
		switch {
		case err == nil && libraryErr == nil && dump(own) != dump(library):
			t.Errorf("%s: Parse(%q) =\n%s, the library:\n%s", name, in, dump(own), dump(library))
		case err != nil && libraryErr == nil:
			t.Errorf("%s: Parse(%q) = %v, the library accepts it", name, in, err)
		}
	}
	err := filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
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
