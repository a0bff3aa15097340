//go:build e2e

package readers

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/internal/documents"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A kind of file has a schema, and a reader that checks more than the schema.
type kind struct {
	name    string
	refuses func(text string) error // validates a text by the schema, in Go
	errs    func(name, text string) []*policyfile.Error
	texts   map[string]string // by origin
}

var firstKey = regexp.MustCompile(`(?m)^version: `)

// kinds returns policies and tests, with all examples in this repository: in files, in pages and
// in the files of scripts.
func kinds(t *testing.T) []*kind {
	t.Helper()
	validator := func(schema string) func(string) error {
		refuses, err := documents.Validator(schema)
		if err != nil {
			t.Fatal(err)
		}
		return refuses
	}
	all := []*kind{
		{"policy", validator(policy.Schema()), func(name, text string) []*policyfile.Error {
			_, errs := policy.Parse(name, []byte(text))
			return errs
		}, map[string]string{}},
		{"test", validator(policytest.Schema()), func(name, text string) []*policyfile.Error {
			_, errs := policytest.Parse(name, []byte(text))
			return slices.DeleteFunc(errs, func(err *policyfile.Error) bool {
				return strings.HasPrefix(err.Msg, "the file does not name the policy")
			})
		}, map[string]string{}},
	}
	held, err := documents.All(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range held {
		if k := all[0]; firstKey.MatchString(d.Text) {
			if strings.Contains(d.Text, "\ntests:") {
				k = all[1]
			}
			k.texts[fmt.Sprintf("%s#%d", d.Name, len(k.texts))] = d.Text
		}
	}
	return all
}

// publishedSchema is the address of the schemas in texts.
const publishedSchema = "https://raw.githubusercontent.com/grapnel-dev/grapnel/main/docs/schema/"

// open starts an editor with the schema from "grapnel schema". Files in dir with names *.yaml get
// the schema from the settings, other files from their first line.
func (k *kind) open(t *testing.T) (e *editor, dir string) {
	t.Helper()
	b := newBench(t, nil)
	out, stderr, exit := b.run(t, offline.Program(t, "grapnel"), "schema", k.name)
	if exit != 0 {
		t.Fatal(stderr)
	}
	schema := filepath.Join(b.dir, k.name+".schema.json")
	if err := os.WriteFile(schema, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return newEditor(t, map[string][]string{fileURL(schema): {"*.yaml"}}), b.dir
}

// The language server accepts all texts in this repository that "grapnel check" and "grapnel
// test" accept.
func TestEditorTakesWhatIsRight(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			e, dir := k.open(t)
			files, from := map[string]string{}, map[string]string{}
			for name, text := range k.texts {
				if len(k.errs("x.yaml", text)) > 0 {
					continue
				}
				file := filepath.Join(dir, fmt.Sprintf("f%d.yaml", len(files)))
				files[file], from[file] = strings.ReplaceAll(text, publishedSchema+k.name+".json", k.name+".schema.json"), name
			}
			if want := map[string]int{"policy": 150, "test": 15}[k.name]; len(files) < want {
				t.Errorf("only %d files are looked at, want %d", len(files), want)
			}
			for file, diagnostics := range e.open(t, files) {
				for _, d := range diagnostics {
					t.Errorf("%s:%d: %s\n%s", from[file], d.Range.Start.Line+1, d.Message, files[file])
				}
			}
		})
	}
}

// A mutant is a text with one mistake.
type mutant struct {
	what string // the path of the mistake, and its text
	key  string // the last element of the path
	text string
	line int // line of the mistake
}

// others are wrong values. The test tries each once for every key name.
var others = []string{"[[]]", "-1", "null", "zzz", `""`}

// mutants returns copies of the text in which one key is misspelled or one value has another
// type.
func mutants(text string) []mutant {
	tree, err := yaml.Parse([]byte(text))
	if err != nil {
		return nil
	}
	lines := strings.SplitAfter(text, "\n")
	var all []mutant
	put := func(path []string, n *yaml.Node, instead string) {
		if n.Line < 1 || n.Line > len(lines) || n.Text == "" {
			return
		}
		l := []rune(lines[n.Line-1])
		after, ok := strings.CutPrefix(string(l[min(n.Col-1, len(l)):]), n.Text)
		if !ok {
			return // a quoted value, or one of several lines
		}
		near := path[max(0, len(path)-2):]
		if slices.Contains(others, instead) {
			near = path[len(path)-1:]
		}
		all = append(all, mutant{
			what: strings.Join(near, ".") + " = " + instead, key: strings.TrimSuffix(path[len(path)-1], "[]"), line: n.Line,
			text: strings.Join(lines[:n.Line-1], "") + string(l[:n.Col-1]) + instead + after + strings.Join(lines[n.Line:], ""),
		})
	}
	var walk func(path []string, n *yaml.Node)
	walk = func(path []string, n *yaml.Node) {
		for _, p := range n.Pairs {
			below := append(slices.Clone(path), p.Key.Text)
			if len(path) == 0 || path[len(path)-1] != "vars" { // names that the file defines
				put(below, p.Key, p.Key.Text+"zz")
			}
			walk(below, p.Value)
		}
		for _, item := range n.Items {
			below := slices.Clone(path)
			below[len(below)-1] += "[]"
			walk(below, item)
		}
		if n.Kind == yaml.String || n.Kind == yaml.Number || n.Kind == yaml.Bool {
			for _, v := range append([]string{"{zz: 1}"}, others...) {
				put(path, n, v)
			}
		}
	}
	walk(nil, tree)
	return all
}

// beyondSchema lists the keys whose values only "grapnel check" can validate: patterns of
// commands, expressions, also in a body (labels), IDs of rules, credentials, tools, and names of hooks.
// To a schema they are plain text.
var beyondSchema = []string{"command", "when", "sum", "secret", "mask", "authorization", "tool", "notify", "labels"}

// For texts with one mistake, the server reports the same as another validator with the same
// schema. It reports nothing that "grapnel check" accepts, and reports at the right line every
// mistake that a schema can find.
func TestEditorFindsMistakes(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			e, dir := k.open(t)
			files, of, seen := map[string]string{}, map[string]mutant{}, map[string]bool{}
			texts := slices.SortedFunc(maps.Values(k.texts), func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
			for _, text := range texts { // shorter texts first, because they take less time
				if len(k.errs("x.yaml", text)) > 0 || strings.Contains(text, "$schema") {
					continue
				}
				for _, m := range mutants(text) {
					if !seen[m.what] {
						seen[m.what] = true
						file := filepath.Join(dir, fmt.Sprintf("f%d.yaml", len(files)))
						files[file], of[file] = m.text, m
					}
				}
			}
			found := 0
			for file, diagnostics := range e.open(t, files) {
				m := of[file]
				errs, refused := k.errs("x.yaml", m.text), k.refuses(m.text)
				at := func(d diagnostic) bool { return d.Range.Start.Line+1 == m.line }
				switch {
				case (len(diagnostics) > 0) != (refused != nil):
					t.Errorf("%s: the server says %v, and a validator %v\n%s", m.what, diagnostics, refused, m.text)
				case len(diagnostics) > 0 && len(errs) == 0:
					t.Errorf("%s: the server says %v, and check takes it\n%s", m.what, diagnostics, m.text)
				case len(diagnostics) == 0 && len(errs) > 0 && !slices.Contains(beyondSchema, m.key):
					t.Errorf("%s: check says %v, and the server takes it\n%s", m.what, errs, m.text)
				case len(diagnostics) > 0 && !slices.ContainsFunc(diagnostics, at) && !strings.Contains(diagnostics[0].Message, "Missing property"):
					t.Errorf("%s: the server says %v, and the mistake is in line %d\n%s", m.what, diagnostics, m.line, m.text)
				case len(diagnostics) > 0:
					found++
				}
			}
			t.Logf("%d texts, %d of them wrong by the schema", len(files), found)
			if found < 100 {
				t.Errorf("the server finds %d mistakes, want more", found)
			}
		})
	}
}

// An editor offers keys, values and their descriptions, using only the first line of a file.
func TestEditorOffers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text         string // the cursor is at |
		labels       []string
		label, about string // one of the offers and its description
		hover        string // the hover text at the cursor
	}{
		"policy": {"version: 1\n|\n", []string{"hooks", "use", "secrets"}, "use", "come with Grapnel", ""},
		"hook":   {"version: 1\nhooks:\n  - name: x\n    on: tool.before\n    |\n", []string{"block", "ask", "match", "run"}, "match", "conditions on the event", ""},
		"match":  {"version: 1\nhooks:\n  - name: x\n    on: tool.before\n    match:\n      |\n    block: no\n", []string{"command", "path", "tool"}, "command", "by words", ""},
		"on":     {"version: 1\nhooks:\n  - name: x\n    on: |\n    block: no\n", []string{"tool.before", "PreToolUse"}, "", "", ""},
		"set":    {"version: 1\nhooks:\n  - name: x\n    on: tool.before\n    set:\n      |\n", []string{"tool.command", "tool.input"}, "", "", ""},
		"key":    {"version: 1\nhooks:\n  - name: x\n    o|n: tool.before\n    block: no\n", nil, "", "", "events at which the hook runs"},
		"deep":   {"version: 1\nhooks:\n  - {name: x, on: tool.before, match: {com|mand: rm}, block: no}\n", nil, "", "", "git push --force"},
		"test":   {"version: 1\ntests:\n  - command: ls\n    |\n", []string{"want", "name", "skip"}, "skip", "reason to skip the test", ""},
		"want":   {"version: 1\ntests:\n  - command: ls\n    want: |\n", []string{"block", "ask", "allow", "none"}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := "policy"
			if strings.Contains(tt.text, "tests:") {
				kind = "test"
			}
			b := newBench(t, nil)
			out, _, _ := b.run(t, offline.Program(t, "grapnel"), "schema", kind)
			if err := os.WriteFile(filepath.Join(b.dir, "it.schema.json"), []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			e := newEditor(t, nil)
			file := filepath.Join(b.dir, "sub", "some.yaml")
			before, after, _ := strings.Cut("# yaml-language-server: $schema=../it.schema.json\n"+tt.text, "|")
			e.open(t, map[string]string{file: before + after})
			cursor := at(file, strings.Count(before, "\n"), len(before)-strings.LastIndex(before, "\n")-1)
			if tt.hover != "" {
				var hover struct{ Contents struct{ Value string } }
				e.ask(t, "textDocument/hover", cursor, &hover)
				if !strings.Contains(hover.Contents.Value, tt.hover) {
					t.Errorf("the server says %q, want %q in it", hover.Contents.Value, tt.hover)
				}
				return
			}
			var offered struct {
				Items []struct {
					Label         string
					Documentation any
				}
			}
			e.ask(t, "textDocument/completion", cursor, &offered)
			docs := map[string]string{}
			for _, item := range offered.Items {
				docs[item.Label] = fmt.Sprint(item.Documentation)
			}
			for _, label := range tt.labels {
				if _, ok := docs[label]; !ok {
					t.Errorf("the server does not offer %q among %q", label, slices.Sorted(maps.Keys(docs)))
				}
			}
			if !strings.Contains(docs[tt.label], tt.about) {
				t.Errorf("of %q it says %q, want %q", tt.label, docs[tt.label], tt.about)
			}
		})
	}
}
