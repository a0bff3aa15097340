//go:build system && unix

package main

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/readme"
)

// Proves: FL-01, FL-05, FL-06, FL-07, FL-08, FL-09, FL-10, FL-11, FL-14, FL-16, FL-20, FL-21, FL-24
// Proves: FL-25, FL-31, FL-32, FL-33, FL-34, FL-36, FL-37
// Proves: FL-40, FL-41, FL-42, FL-43, FL-44, FL-45, FL-46, FL-47
func TestReadme(t *testing.T) {
	t.Parallel()
	readme.Shows(t, "output.txt", run)
}
