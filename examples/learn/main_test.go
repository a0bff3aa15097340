//go:build system && unix

package main

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/readme"
)

// TestLearn compares the output of the program with the output that README.md shows.
func TestLearn(t *testing.T) {
	t.Parallel()
	readme.Shows(t, "README.md", run)
}
