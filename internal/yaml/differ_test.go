package yaml

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dump writes a tree so that two can be compared: kinds, places and texts. Where a
// value stands that is not written is not compared: the library points behind the
// colon or one further.
func dump(n *Node) string {
	var b strings.Builder
	var walk func(n *Node, indent string)
	walk = func(n *Node, indent string) {
		if n.Kind == Null {
			fmt.Fprintf(&b, "%snothing\n", indent)
		} else {
			fmt.Fprintf(&b, "%s%s %d:%d %q\n", indent, n.Kind, n.Line, n.Col, n.Text)
		}
		for _, item := range n.Items {
			walk(item, indent+"  ")
		}
		for _, p := range n.Pairs {
			walk(p.Key, indent+" ?")
			walk(p.Value, indent+" :")
		}
	}
	walk(n, "")
	return b.String()
}

func read(parse func([]byte) (*Node, error), in string) string {
	n, err := parse([]byte(in))
	if err != nil {
		return "refused"
	}
	return dump(n)
}

// TestRepository reads all YAML there is in the repository, pages and transcripts
// included, as the library reads it.
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
		if !entry.Type().IsRegular() {
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
