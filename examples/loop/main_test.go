package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A blocked call and a question without an answer delete nothing, and other calls run.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tool, file string
		want       string // a part of the answer
		deleted    bool
	}{
		{tool: "read", file: "note.txt", want: "the content"},
		{tool: "read", file: ".git/config", want: "the content"},
		{tool: "delete", file: ".git/config", want: "Use git to change the repository."},
		{tool: "delete", file: "page.md", want: "Delete this page?"},
		{tool: "delete", file: "note.txt", want: "deleted", deleted: true},
	} {
		t.Run(test.tool+" "+test.file, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, filepath.FromSlash(test.file))
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("the content"), 0o600); err != nil {
				t.Fatal(err)
			}
			answer, err := run(t.Context(), dir, test.tool+" "+file)
			if err != nil {
				t.Fatal(err)
			}
			if text := answer.Text(); !strings.Contains(text, test.want) {
				t.Errorf("the answer is %q, want %q", text, test.want)
			}
			if _, err := os.Stat(file); os.IsNotExist(err) != test.deleted {
				t.Errorf("the file: %v, want it to be deleted: %v", err, test.deleted)
			}
		})
	}
}
