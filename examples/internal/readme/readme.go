// Package readme compares the output of an example with its README.md.
package readme

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

// Shows fails the test unless README.md in the working directory has a block of text that is the
// output of run.
func Shows(t *testing.T, run func(ctx context.Context, out io.Writer) error) {
	t.Helper()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```text\n")
	shown, _, ok := strings.Cut(shown, "```\n")
	if !ok {
		t.Fatal("README.md has no block with the output")
	}
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != shown {
		t.Errorf("the program prints:\n%s\nREADME.md shows:\n%s", out.String(), shown)
	}
}
