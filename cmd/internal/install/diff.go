package install

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// unified returns the difference of two versions of a file as a unified diff with three lines of
// context; nil means that the file does not exist. If they are equal, it returns "".
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
	_, lines, _ := strings.Cut(string(diff.Diff(oldName, before, newName, after)), "\n") // the first line is a "diff" command line
	return lines
}
