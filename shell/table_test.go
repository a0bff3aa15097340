package shell

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The table is searched with a binary search and its lists are read word by word. A row in the
// wrong place or a double blank would make a row unreachable.
func TestTable(t *testing.T) {
	t.Parallel()
	for i := range table {
		row := &table[i]
		if i > 0 && table[i-1].name >= row.name {
			t.Errorf("%q comes after %q", row.name, table[i-1].name)
		}
		if row.name != foldCase(row.name) {
			t.Errorf("%q is not in lower case", row.name)
		}
		if program, _, sub := strings.Cut(row.name, " "); sub && lookup(program) == nil {
			t.Errorf("%q has no row for its program", row.name)
		}
		lists := map[string]string{
			"args": row.args, "attached": row.attached, "flags": row.flags, "longs": row.longs,
			"alias": row.alias, "implied": row.implied, "line": row.line, "none": row.none, "open": row.open, "does": row.does, "files": row.files,
		}
		for field, list := range lists {
			if list == "" {
				continue
			}
			words := strings.Split(list, " ")
			for j, w := range words {
				if w == "" || strings.HasPrefix(w, "-") && field != "longs" && !strings.HasPrefix(w, "-=") {
					t.Errorf("%q: %s holds %q", row.name, field, w)
				}
				if slices.Contains(words[:j], w) {
					t.Errorf("%q: %s holds %q twice", row.name, field, w)
				}
				pair := strings.Contains(w, "=")
				if want := field == "flags" || field == "alias" || field == "implied" || field == "does" || field == "files"; pair != want {
					t.Errorf("%q: %s holds %q", row.name, field, w)
				}
			}
		}
		for line := range strings.FieldsSeq(row.line) {
			if !has(row.args, line) {
				t.Errorf("%q: option %s has a shell line but no argument", row.name, line)
			}
		}
		// Either both names of an option take an argument, or none.
		for pair := range strings.FieldsSeq(row.flags) {
			name, long, _ := strings.Cut(pair, "=")
			if strings.Contains(long, "+") || name == long {
				continue
			}
			for _, list := range []string{row.args, row.attached} {
				if has(list, name) != has(list, long) && has(list, name) && len(long) > 1 && len(name) == 1 {
					t.Errorf("%q: -%s takes an argument and --%s does not", row.name, name, long)
				}
			}
		}
	}
}

func TestSameAs(t *testing.T) {
	t.Parallel()
	for i, row := range sameAs {
		if i > 0 && sameAs[i-1].name >= row.name {
			t.Errorf("%q comes after %q", row.name, sameAs[i-1].name)
		}
		if _, ok := find(row.name); ok || row.name != foldCase(row.name) {
			t.Errorf("%q has a row, or is not in lower case", row.name)
		}
		if other := lookup(row.name); other == nil || other.name != row.as {
			t.Errorf("%q is the same as %q, which is not a row of its own", row.name, row.as)
		}
	}
}

// The options that an allow accepts are searched like the table.
func TestHarmless(t *testing.T) {
	t.Parallel()
	for i, row := range harmless {
		if i > 0 && harmless[i-1].name >= row.name {
			t.Errorf("%q comes after %q", row.name, harmless[i-1].name)
		}
		if program, _, sub := strings.Cut(row.name, " "); sub {
			if _, known := harmlessOptions(program); !known {
				t.Errorf("%q has no entry for its program", row.name)
			}
		}
		if row.options != strings.Join(strings.Fields(row.options), " ") || strings.Contains(row.options, "=") || strings.HasPrefix(row.options, "-") {
			t.Errorf("%q: options %q", row.name, row.options)
		}
	}
}

// The package is linked into a program that starts for every event.
func TestImports(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files: %v", err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(path, ".") && path != "mvdan.cc/sh/v3/syntax" || path == "regexp" {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
