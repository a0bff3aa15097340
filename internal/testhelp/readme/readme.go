// Package readme compares the output of an example with its page.
package readme

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

// Shows fails the test unless the first block of text of a page is the output of run. A page whose
// name does not end in .md is a text that has nothing but the output.
func Shows(t *testing.T, page string, run func(ctx context.Context, out io.Writer) error) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := string(text)
	if strings.HasSuffix(page, ".md") {
		ok := false
		_, shown, _ = strings.Cut(shown, "```text\n")
		if shown, _, ok = strings.Cut(shown, "```\n"); !ok {
			t.Fatalf("%s has no block with the output", page)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != shown {
		t.Errorf("the program prints:\n%s\n%s shows:\n%s", out.String(), page, shown)
	}
}
