//go:build system && unix

package main

import (
	"os"
	"strings"
	"testing"
)

// TestLearn compares the output of the program with the output that README.md shows.
func TestLearn(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```text\n")
	shown, _, ok := strings.Cut(shown, "```\n")
	if !ok {
		t.Fatal("README.md has no block with the output")
	}
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != shown {
		t.Errorf("go run ./examples/learn prints:\n%s\nREADME.md shows:\n%s", out.String(), shown)
	}
}
