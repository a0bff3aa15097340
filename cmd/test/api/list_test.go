package api

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/v1-api.txt")

const module = "github.com/grapnel-dev/grapnel"

// A lister describes the exported names of a package, a line each.
type lister struct {
	t     *testing.T
	fset  *token.FileSet
	files []*ast.File
	lines []entry
}

// An entry is a line of the list, and the name that it belongs to, such as Engine.Add.
type entry struct{ name, line string }

// list returns the exported API of a package.
func list(t *testing.T, dir string) []entry {
	t.Helper()
	l := &lister{t: t}
	l.fset, l.files = parse(t, dir)
	for _, file := range l.files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				l.function(d)
			case *ast.GenDecl:
				l.declaration(file, d)
			}
		}
	}
	slices.SortFunc(l.lines, func(a, b entry) int { return strings.Compare(a.line, b.line) })
	return l.lines
}

func (l *lister) add(name, format string, args ...any) {
	l.lines = append(l.lines, entry{name, fmt.Sprintf(format, args...)})
}

func (l *lister) function(d *ast.FuncDecl) {
	switch {
	case !d.Name.IsExported():
	case d.Recv == nil:
		l.add(d.Name.Name, "func %s%s%s", d.Name.Name, l.typeParams(d.Type.TypeParams), l.signature(d.Type))
	default:
		receiver := l.text(d.Recv.List[0].Type)
		if name := strings.TrimLeft(receiver, "*"); ast.IsExported(name) {
			l.add(name+"."+d.Name.Name, "method (%s) %s%s", receiver, d.Name.Name, l.signature(d.Type))
		}
	}
}

func (l *lister) declaration(file *ast.File, d *ast.GenDecl) {
	var typ ast.Expr
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				l.typeSpec(file, s.Name.Name, s)
			}
		case *ast.ValueSpec:
			if s.Type != nil || len(s.Values) > 0 {
				typ = s.Type
			}
			for i, name := range s.Names {
				if name.IsExported() {
					l.value(d.Tok, s, i, typ)
				}
			}
		}
	}
}

// value adds a constant or a variable. The text of a constant is part of the promise, because
// files and Records contain it.
func (l *lister) value(tok token.Token, s *ast.ValueSpec, i int, typ ast.Expr) {
	line := tok.String() + " " + s.Names[i].Name
	if typ != nil {
		line += " " + l.text(typ)
	}
	if i < len(s.Values) {
		if lit, ok := s.Values[i].(*ast.BasicLit); ok && tok == token.CONST {
			line += " = " + lit.Value
		}
	}
	l.add(s.Names[i].Name, "%s", line)
}

func (l *lister) typeSpec(file *ast.File, name string, s *ast.TypeSpec) {
	head := "type " + name + l.typeParams(s.TypeParams)
	switch x := s.Type.(type) {
	case *ast.StructType:
		l.add(name, "%s struct", head)
		l.fields(name, head+" struct", x.Fields)
	case *ast.InterfaceType:
		l.add(name, "%s interface", head)
		for _, m := range x.Methods.List {
			if fn, ok := m.Type.(*ast.FuncType); ok {
				l.add(name+"."+m.Names[0].Name, "%s interface, %s%s", head, m.Names[0].Name, l.signature(fn))
			} else {
				l.add(name, "%s interface, %s", head, l.text(m.Type))
			}
		}
	case *ast.FuncType:
		l.add(name, "%s func%s", head, l.signature(x))
	case *ast.SelectorExpr:
		l.alias(file, name, head, x)
	default:
		l.add(name, "%s %s", head, l.text(s.Type))
	}
}

// alias lists a type that this module has elsewhere, such as in an internal package, under the name
// by which other modules reach it.
func (l *lister) alias(file *ast.File, name, head string, x *ast.SelectorExpr) {
	l.add(name, "%s = %s", head, l.text(x))
	for _, imp := range file.Imports {
		from, err := strconv.Unquote(imp.Path.Value)
		dir, ours := strings.CutPrefix(from, module+"/")
		if err != nil || !ours || path.Base(from) != l.text(x.X) {
			continue
		}
		for _, e := range list(l.t, dir) {
			if e.name == x.Sel.Name || strings.HasPrefix(e.name, x.Sel.Name+".") {
				l.add(strings.Replace(e.name, x.Sel.Name, name, 1), "%s", e.line)
			}
		}
	}
}

func (l *lister) fields(name, head string, fields *ast.FieldList) {
	for _, f := range fields.List {
		tag := ""
		if f.Tag != nil {
			raw, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				l.t.Fatal(err)
			}
			if json, ok := reflect.StructTag(raw).Lookup("json"); ok {
				tag = fmt.Sprintf(" `json:%q`", json)
			}
		}
		if len(f.Names) == 0 {
			typ := l.text(f.Type)
			if base := path.Ext("." + strings.TrimLeft(typ, "*"))[1:]; ast.IsExported(base) {
				l.add(name+"."+base, "%s, embedded %s%s", head, typ, tag)
			}
		}
		for _, n := range f.Names {
			if n.IsExported() {
				l.add(name+"."+n.Name, "%s, %s %s%s", head, n.Name, l.text(f.Type), tag)
			}
		}
	}
}

// signature returns the parameters and results of a function, without their names: to rename a
// parameter breaks nothing.
func (l *lister) signature(fn *ast.FuncType) string {
	text := "(" + strings.Join(l.types(fn.Params), ", ") + ")"
	switch results := l.types(fn.Results); len(results) {
	case 0:
		return text
	case 1:
		return text + " " + results[0]
	default:
		return text + " (" + strings.Join(results, ", ") + ")"
	}
}

func (l *lister) types(fields *ast.FieldList) []string {
	var all []string
	if fields == nil {
		return nil
	}
	for _, f := range fields.List {
		for range max(1, len(f.Names)) {
			all = append(all, l.text(f.Type))
		}
	}
	return all
}

func (l *lister) typeParams(fields *ast.FieldList) string {
	if fields == nil {
		return ""
	}
	var all []string
	for _, f := range fields.List {
		for _, n := range f.Names {
			all = append(all, n.Name+" "+l.text(f.Type))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// text returns an expression as Go, on one line. Types that are functions lose the names of their
// parameters.
func (l *lister) text(x ast.Expr) string {
	if fn, ok := x.(*ast.FuncType); ok {
		return "func" + l.signature(fn)
	}
	var b bytes.Buffer
	if err := printer.Fprint(&b, l.fset, x); err != nil {
		l.t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

var (
	promiseRow = regexp.MustCompile("(?m)^\\| `(" + regexp.QuoteMeta(module) + "[a-z0-9/]*)` \\| (.+?) \\|")
	// promisedName is a name in the row of a package.
	promisedName = regexp.MustCompile("`([A-Z][\\w.]*)`")
)

// promised returns the lines that the row of a package in docs/v1.md promises. A name stands for its
// fields and methods too. A name with a dot, such as Dialect.Read, stands for one method and for the
// name of the type, but not for its fields.
func promised(t *testing.T, dir, rule string) []string {
	t.Helper()
	named, types, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range promisedName.FindAllStringSubmatch(rule, -1) {
		named[m[1]] = true
		if top, _, dotted := strings.Cut(m[1], "."); dotted {
			types[top] = true
		}
	}
	first, _, _ := strings.Cut(rule, " ")
	if !slices.Contains([]string{"all", "only", "nothing"}, strings.TrimRight(first, ".:,")) {
		t.Errorf("docs/v1.md: the row of %s begins with %q, want all, only or nothing", dir, first)
	}
	var lines []string
	for _, e := range list(t, dir) {
		top, _, dotted := strings.Cut(e.name, ".")
		used[e.name], used[top] = true, true
		listed := named[e.name] || named[top]
		switch {
		case first == "only" && (listed || types[top] && !dotted), first == "all" && !listed:
			lines = append(lines, e.line)
		}
	}
	for name := range named {
		if !used[name] {
			t.Errorf("docs/v1.md names %s of %s, which does not exist", name, dir)
		}
	}
	return lines
}

// The list of the names that v1 promises is in docs/v1-api.txt, so that a review sees each change.
// docs/v1.md has a row for each public package, which says how much of it is promised.
func TestPromisedNames(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "v1.md"))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for _, row := range promiseRow.FindAllStringSubmatch(string(page), -1) {
		rules[strings.TrimPrefix(strings.TrimPrefix(row[1], module), "/")] = row[2]
	}
	var b strings.Builder
	b.WriteString("# The names of Go that v1 promises; see v1.md. Generated: go test ./cmd/test/api -update\n")
	for _, dir := range publicPackages(t) {
		name := strings.TrimPrefix(dir, ".")
		rule, ok := rules[name]
		if !ok {
			t.Errorf("docs/v1.md has no row for %s", path.Join(module, name))
			continue
		}
		delete(rules, name)
		if lines := promised(t, dir, rule); len(lines) > 0 {
			fmt.Fprintf(&b, "\npackage %s\n%s\n", path.Join(module, name), strings.Join(lines, "\n"))
		}
	}
	for name := range rules {
		t.Errorf("docs/v1.md has a row for %s, which is not a public package", path.Join(module, name))
	}
	compare(t, filepath.Join(root, "docs", "v1-api.txt"), b.String())
}

// compare compares the generated list with its file, or writes the file.
func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(string(data), "\r\n", "\n")
	if got == want {
		return
	}
	have, had := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range had {
		if !slices.Contains(have, line) {
			t.Errorf("removed or changed: %s", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(had, line) {
			t.Errorf("new: %s", line)
		}
	}
	t.Error("the promised names differ from docs/v1-api.txt. A removed or changed line breaks programs: read docs/v1.md. " +
		"If the change is intended, run go test ./cmd/test/api -update")
}
