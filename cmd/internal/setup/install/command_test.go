package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/shell"
)

func TestParseEntry(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		command string
		args    []string
		ours    bool
		id      string
		root    string
	}{
		"plain":             {command: "/a/grapnel-hook --id x", ours: true, id: "x"},
		"without a path":    {command: "grapnel-hook --id x", ours: true, id: "x"},
		"agent and event":   {command: "/a/grapnel-hook gemini-cli BeforeTool --id x", ours: true, id: "x"},
		"equals sign":       {command: "/a/grapnel-hook --root=/r", ours: true, root: "/r"},
		"double quotes":     {command: `"/a b/grapnel-hook" "--root" "/r \"s\" \x"`, ours: true, root: `/r "s" \x`},
		"single quotes":     {command: `'/a b/grapnel-hook' --root '/r'\''s'`, ours: true, root: "/r's"},
		"backslashes":       {command: `/a\ b/grapnel-hook --root /r\$`, ours: true, root: "/r$"},
		"white space":       {command: " \t/a/grapnel-hook\n  --id   x ", ours: true, id: "x"},
		"Windows":           {command: `'C:\Program Files\grapnel-hook.exe' --id x`, ours: true, id: "x"},
		"with more behind":  {command: "/a/grapnel-hook --id x | tee log", ours: true, id: "x"},
		"arguments":         {command: "/a b/grapnel-hook", args: []string{"--id", "x"}, ours: true, id: "x"},
		"arguments, shell":  {command: "/a/grapnel-hook --id x", args: []string{"y"}},
		"no installation":   {command: "/a/grapnel-hook"},
		"empty token":       {command: "/a/grapnel-hook --id"},
		"empty word":        {command: "/a/grapnel-hook --id ''"},
		"other program":     {command: "/a/grapnel-hooks --id x"},
		"other program 2":   {command: "/a/my-grapnel-hook --id x"},
		"as an argument":    {command: "echo /a/grapnel-hook --id x"},
		"in a directory":    {command: "/grapnel-hook/run --id x"},
		"quoted as one":     {command: "'/a/grapnel-hook --id x'"},
		"grapnel hook":      {command: "/a/grapnel hook --id x"},
		"nothing":           {command: ""},
		"a quote that ends": {command: "/a/grapnel-hook --id 'x", ours: true, id: "x"},
		"a backslash":       {command: `/a/grapnel-hook --id x\`, ours: true, id: `x\`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, ours := parseEntry(tt.command, tt.args)
			if ours != tt.ours || ours && (e.ID != tt.id || e.Root != tt.root) {
				t.Errorf("parseEntry(%q, %q) = %+v, %v, want id %q, root %q, %v", tt.command, tt.args, e, ours, tt.id, tt.root, tt.ours)
			}
		})
	}
}

func TestQuoteProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[ -~é\t\n]*`)).Draw(t, "words")
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, shell.QuoteWord(w))
		}
		line := strings.Join(quoted, " ")
		if got := splitWords(line); !slices.Equal(got, words) {
			t.Fatalf("%q became %s became %q", words, line, got)
		}
	})
}
