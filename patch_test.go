package grapnel_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// TestPatchNamesFiles checks that all files that a patch writes are found, in every patch format.
func TestPatchNamesFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		patch string
		want  []string
	}{
		"empty":                {"", nil},
		"prose":                {"add file: a\nplease", nil},
		"one of each":          {"*** Begin Patch\n*** Add File: a.txt\n+x\n*** Update File: b c.txt\n*** Move to: d/e.txt\n@@\n-x\n+y\n*** Delete File: f\n*** End Patch\n", []string{"a.txt", "b c.txt", "d/e.txt", "f"}},
		"no beginning, no end": {"*** Add File: deploy/prod/x", []string{"deploy/prod/x"}},
		"DOS line ends":        {"*** Begin Patch\r\n*** Add File: deploy/prod/x\r\n+y\r\n*** End Patch\r\n", []string{"deploy/prod/x"}},
		"old Mac line ends":    {"*** Begin Patch\r*** Add File: deploy/prod/x\r+y", []string{"deploy/prod/x"}},
		"white space":          {" \t***  Add\tFile:deploy/prod/x \t\n", []string{"deploy/prod/x"}},
		"another case":         {"*** ADD file: deploy/prod/x", []string{"deploy/prod/x"}},
		"a colon in the name":  {"*** Add File: C:\\x", []string{"C:\\x"}},
		"no name":              {"*** Add File:\n*** Move to: \n", nil},
		"twice":                {"*** Update File: a\n*** Update File: a\n", []string{"a"}},
		"in a here-document":   {"<<'EOF'\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nEOF", []string{"a"}},
		"text that is written": {"*** Add File: notes\n+*** Add File: deploy/prod/x\n-*** Delete File: y\n+++ i;\n", []string{"notes"}},
		"absolute and upwards": {"*** Add File: /etc/x\n*** Add File: a/../../b", []string{"/etc/x", "a/../../b"}},
		"diff of git":          {"diff --git a/deploy/prod/x b/deploy/prod/x\nindex 1..2 100644\n--- a/deploy/prod/x\n+++ b/deploy/prod/x\n@@ -1 +1 @@\n-a\n+b\n", []string{"a/deploy/prod/x", "deploy/prod/x", "b/deploy/prod/x"}},
		"diff that moves":      {"diff --git a/x b/y z\nsimilarity index 100%\nrename from x\nrename to y z\n", []string{"a/x", "x", "b/y z", "y z"}},
		"diff without sides":   {"--- deploy/prod/x\t2026-11-20 10:00:00\r\n+++ deploy/prod/x\t2026-11-20 10:00:01\r\n", []string{"deploy/prod/x"}},
		"diff of a new file":   {"--- /dev/null\n+++ b/deploy/prod/x\n", []string{"b/deploy/prod/x", "deploy/prod/x"}},
		"diff, quoted":         {"--- \"a/f\\303\\244\"\n+++ \"b/f\\303\\244\"\n", []string{"a/fä", "fä", "b/fä"}},
		"diff of a mode":       {"diff --git a/my file b/my file\nold mode 100644\nnew mode 100755\n", []string{"a/my file", "my file", "b/my file"}},
		"diff, Subversion":     {"Index: deploy/prod/x\n=====\n", []string{"deploy/prod/x"}},
	} {
		if got := patched(tt.patch); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q names %q, want %q", name, tt.patch, got, tt.want)
		}
	}
}

// patchCall returns a call of a tool with a patch as its input.
func patchCall(patch string) *grapnel.Event {
	input, err := json.Marshal(map[string]string{"command": patch})
	if err != nil {
		panic(err) // cannot happen for a string
	}
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "apply_patch", Class: grapnel.ClassEdit, Input: input, Facts: []grapnel.Fact{
		{Field: grapnel.FieldPath, At: "/command", Use: grapnel.UseWrite, Form: seam.FormPatch},
		{Field: grapnel.FieldContent, At: "/command"},
	}}}
	ev.Tool.Derive()
	return ev
}

func patched(patch string) []string {
	var paths []string
	for _, p := range patchCall(patch).Tool.Paths {
		paths = append(paths, p.Path+strings.Repeat("?", len(grapnel.UseWrite)-len(p.Use)))
	}
	return paths
}

// TestPatchIsContent checks that the paths of a patch are read-only, and that its text can be
// set.
func TestPatchIsContent(t *testing.T) {
	t.Parallel()
	ev := patchCall("*** Add File: a\n+x\n*** Delete File: b\n")
	if got, ok := ev.Get(grapnel.FieldPath); !ok || string(got) != `"a"` {
		t.Errorf("Get(tool.path) = %s, %v", got, ok)
	}
	if now, err := ev.Set(grapnel.FieldPath, json.RawMessage(`"c"`)); err == nil || !strings.Contains(err.Error(), "apply_patch") {
		t.Errorf("Set(tool.path) = %+v, %v, want an error that names the tool", now, err)
	}
	now, err := ev.Set(grapnel.FieldContent, json.RawMessage(`"*** Add File: c\n+y\n"`))
	if err != nil || len(now.Tool.Paths) != 1 || now.Tool.Paths[0].Path != "c" || now.Tool.Content != "*** Add File: c\n+y\n" {
		t.Errorf("Set(tool.content) = %+v, %v", now, err)
	}
	if _, ok := patchCall("nothing").Get(grapnel.FieldPath); ok {
		t.Error("a text that names no file has a path")
	}
}

// FuzzPatch checks that no surrounding text hides the file that a patch line names.
func FuzzPatch(f *testing.F) {
	f.Add("*** Begin Patch", "deploy/prod/x", "+y\n*** End Patch")
	f.Add("--- a", " a b ", "+++ b")
	f.Add("diff --git ", "\"", "rename to \"\\")
	f.Add("0", "x", "renAme to")
	f.Fuzz(func(t *testing.T, before, path, after string) {
		want := strings.TrimSpace(path)
		if want == "" || want == "/dev/null" || strings.ContainsAny(path, "\r\n") || !utf8.ValidString(path) {
			t.Skip()
		}
		if got := patched(before + "\n*** Update File: " + path + "\n" + after); !slices.Contains(got, want) {
			t.Errorf("between %q and %q the file %q is none of %q", before, after, want, got)
		}
	})
}
