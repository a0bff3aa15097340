package install

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// unified returns the difference of two versions of a file as a unified diff
// with three lines of context; nil stands for no file. It is empty when they
// are equal.
func unified(name string, before, after []byte) string {
	oldName, newName := name, name
	if before == nil {
		oldName = "/dev/null"
	}
	if after == nil {
		newName = "/dev/null"
	}
	if oldName != newName && len(before)+len(after) == 0 {
		return fmt.Sprintf("--- %s\n+++ %s\n", oldName, newName)
	}
	_, lines, _ := strings.Cut(string(diff.Diff(oldName, before, newName, after)), "\n") // the first is of the program diff
	return lines
}
