package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unindented is Go code without its indentation, so that a page may show less of it.
func unindented(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// examples are the functions that go test runs as such, in all packages that go.md is
// about, each without its indentation.
func examples(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"../*_test.go", "../process/*_test.go", "*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range parsed.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") {
					list = append(list, unindented(string(text[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset])))
				}
			}
		}
	}
	return list
}

// The code of the page for Go agents compiles and runs: each paragraph of a block
// stands in one and the same example.
func TestGoPageIsMadeOfExamples(t *testing.T) {
	t.Parallel()
	all := examples(t)
	found := 0
	for _, b := range blocks(readPage(t, "go.md")) {
		if b.lang != "go" {
			continue
		}
		found++
		best, missing := -1, ""
		for _, example := range all {
			parts, lacks := 0, ""
			for part := range strings.SplitSeq(unindented(strings.TrimSpace(b.text)), "\n\n") {
				if strings.Contains(example, part) {
					parts++
				} else {
					lacks = part
				}
			}
			if parts > best || lacks == "" {
				best, missing = parts, lacks
			}
			if missing == "" {
				break
			}
		}
		if missing != "" {
			t.Errorf("go.md:%d: no example has this:\n%s", b.line, missing)
		}
	}
	if found < 8 {
		t.Errorf("only %d blocks of Go found", found)
	}
}

var goName = regexp.MustCompile("`(engine|grapnel|process|policy|dialect|preset|Spec|Record|HookRun|Reason|Verdict)\\.(\\w+)(?:\\.(\\w+))?")

// What the page for Go agents tells people to call is there to be called.
func TestGoPageNamesExist(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	for pkg, dir := range map[string]string{"grapnel": "..", "process": "../process", "policy": "../policy", "dialect": "../dialect"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			declare(there, pkg, parsed)
		}
	}
	holder := map[string]string{"engine": "grapnel.Engine", "preset": "grapnel.Preset"}
	found := 0
	for _, name := range goName.FindAllStringSubmatch(readPage(t, "go.md"), -1) {
		found++
		in := name[1]
		if h, ok := holder[in]; ok {
			in = h
		} else if in[0] < 'a' {
			in = "grapnel." + in
		}
		full := in + "." + name[2]
		if name[3] != "" && there[full] {
			full += "." + name[3]
		}
		if !there[full] {
			t.Errorf("go.md names %s, and there is no %s", strings.Trim(name[0], "`"), full)
		}
	}
	if found < 50 {
		t.Errorf("only %d names found", found)
	}
}

// declare notes the names that a file exports: pkg.Name, and pkg.Type.Name of methods
// and fields.
func declare(there map[string]bool, pkg string, file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				of := d.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				name = fmt.Sprint(of, ".", name)
			}
			there[pkg+"."+name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						there[pkg+"."+name.Name] = true
					}
				case *ast.TypeSpec:
					there[pkg+"."+s.Name.Name] = true
					if str, ok := s.Type.(*ast.StructType); ok {
						for _, field := range str.Fields.List {
							for _, name := range field.Names {
								there[pkg+"."+s.Name.Name+"."+name.Name] = true
							}
						}
					}
				}
			}
		}
	}
}

// Whoever comes from another system finds each promise of its registry on the page.
func TestGoPageHasThePromises(t *testing.T) {
	t.Parallel()
	page := readPage(t, "go.md")
	for _, list := range []struct {
		system   string
		from, to int
	}{{"FL", 5, 25}, {"FL", 36, 37}, {"IC", 9, 26}, {"OC", 2, 7}} {
		for n := list.from; n <= list.to; n++ {
			id := fmt.Sprintf("%s-%02d", list.system, n)
			within := n > 21 && n < 25 && list.system == "IC" // of a range on the page
			if !strings.Contains(page, id) && !within {
				t.Errorf("go.md does not say what to call for %s", id)
			}
		}
	}
}
