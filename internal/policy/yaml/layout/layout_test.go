package layout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel/internal/documents"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml/layout"
)

var order = map[string][]string{"hooks[]": {"name", "on", "match", "block", "incident"}, "tests[]": {"name", "*", "want"}}

// The files before and after are compared byte by byte.
func TestFormat(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/format.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	for name, in := range files {
		name, isInput := strings.CutSuffix(name, ".in")
		if !isInput {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in = strings.NewReplacer("·", " ", "⇥", "\t").Replace(in)
			got, err := layout.Format([]byte(in), order)
			if want := files[name+".out"]; err != nil || string(got) != want {
				t.Errorf("Format(%s) = %v\n%s, want:\n%s", in, err, got, want)
			}
			laidOut(t, in)
		})
	}
}

func TestFormatRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"a tab":            "a:\n\tb: 1\n",
		"an open bracket":  "a: [1\n",
		"text":             "only text\n",
		"two beginnings":   "---\n---\na: 1\n",
		"an end":           "a: 1\n...\n",
		"a directive":      "%YAML 1.2\n---\na: 1\n",
		"comment, marker":  "# c\n---\na: 1\n",
		"root with anchor": "&x\na: 1\n",
	} {
		if got, err := layout.Format([]byte(in), nil); err == nil {
			t.Errorf("%s: Format(%q) = %q, want an error", name, in, got)
		}
	}
	for _, in := range []string{"", `{"version": 1, "hooks": []}`, "[a,b]  # c"} {
		if got, err := layout.Format([]byte(in), nil); err != nil || string(got) != in {
			t.Errorf("Format(%q) = %q, %v, want it as it is", in, got, err)
		}
	}
	var e *yaml.Error
	if _, err := layout.Format([]byte("a: 1\n b: 2\n"), nil); !errors.As(err, &e) || e.Line != 2 {
		t.Errorf("Format says %v, want a *yaml.Error of line 2", err)
	}
}

// laidOut formats a file and checks the general conditions: the meaning is the same, all comments
// exist, and formatting again changes nothing.
func laidOut(t *testing.T, in string) {
	t.Helper()
	before, err := yaml.Parse([]byte(in))
	if err != nil {
		return
	}
	out, err := layout.Format([]byte(in), order)
	if err != nil {
		if s, err2 := yaml.ParseSource([]byte(in)); strings.Contains(err.Error(), "formatting it would change its meaning") && err2 == nil && !longKey(s, s.Root) {
			t.Errorf("Format(%q) gives up: %v", in, err)
		}
		return
	}
	after, err := yaml.Parse(out)
	if err != nil {
		t.Fatalf("Format(%q) is no YAML: %v\n%s", in, err, out)
	}
	var x, y any
	if json.Unmarshal(before.JSON(), &x) == nil && (json.Unmarshal(after.JSON(), &y) != nil || !reflect.DeepEqual(x, y)) {
		t.Errorf("Format(%q) says something else:\n%s", in, out)
	}
	if a, b := comments(in), comments(string(out)); !slices.Equal(a, b) {
		t.Errorf("Format(%q) has the comments %q, want %q:\n%s", in, b, a, out)
	}
	again, err := layout.Format(out, order)
	if err != nil || !bytes.Equal(out, again) {
		t.Errorf("Format(%q) =\n%s, and laid out again %v:\n%s", in, out, err, again)
	}
}

// longKey reports whether a key spans several lines, as it may in brackets. Such files are not
// formatted.
func longKey(s *yaml.Source, n *yaml.Node) bool {
	return slices.ContainsFunc(n.Items, func(item *yaml.Node) bool { return longKey(s, item) }) ||
		slices.ContainsFunc(n.Pairs, func(p yaml.Pair) bool {
			w := s.Written(p.Key)
			return strings.Contains(s.Text[w.Start:w.End], "\n") || longKey(s, p.Value)
		})
}

func comments(text string) []string {
	s, err := yaml.ParseSource([]byte(text))
	if err != nil {
		return []string{err.Error()}
	}
	var list []string
	for _, c := range s.Comments {
		list = append(list, strings.TrimRight(s.Text[c.Start:c.End], " \t"))
	}
	slices.Sort(list)
	return list
}

// repository returns all YAML in the repository, including pages and transcripts.
func repository(t testing.TB) []string {
	t.Helper()
	all, err := documents.All(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, d := range all {
		list = append(list, d.Text)
	}
	return list
}

func FuzzFormat(f *testing.F) {
	for _, in := range repository(f) {
		if len(in) < 4000 {
			f.Add(in)
		}
	}
	f.Fuzz(func(t *testing.T, in string) { laidOut(t, in) })
}
