package grapnel

import (
	"strconv"
	"strings"
)

// patchHeaders are the line prefixes that name a file to add, update, delete or move in a model's
// patch format. diffHeaders are the prefixes in a diff; patchPaths handles the diff's --- and +++
// lines in pairs.
var (
	patchHeaders = []string{"*** add file:", "*** update file:", "*** delete file:", "*** move to:"}
	diffHeaders  = []string{"rename from ", "rename to ", "copy to ", "Index: "}
)

// patchPaths returns the files that a patch names. Tools disagree on white space, case and the
// lines around a patch. patchPaths therefore accepts more names than they do, so that a patch
// cannot bypass a rule that guards a path.
func patchPaths(text string) []string {
	var paths []string
	seen := map[string]bool{"": true, "/dev/null": true}
	add := func(path string) {
		if path = strings.TrimSpace(path); !seen[path] {
			seen[path] = true
			paths = append(paths, path)
		}
	}
	from := ""
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		before := from
		from = ""
		if path, ok := strings.CutPrefix(line, "--- "); ok {
			from = path
			continue
		}
		if path, ok := strings.CutPrefix(line, "+++ "); ok && before != "" {
			diffPath(before, add)
			diffPath(path, add)
			continue
		}
		if both, ok := strings.CutPrefix(line, "diff --git "); ok {
			// This is correct if both names are equal. Different names also appear on separate
			// lines.
			diffPath(both[:len(both)/2], add)
			diffPath(both[len(both)/2:], add)
			continue
		}
		for _, header := range diffHeaders {
			if path, ok := strings.CutPrefix(line, header); ok {
				diffPath(path, add)
			}
		}
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "***") {
			continue
		}
		head := strings.ToLower(strings.Join(strings.Fields(line[:min(len(line), 64)]), " "))
		for _, header := range patchHeaders {
			if strings.HasPrefix(head, header) {
				_, path, _ := strings.Cut(line, ":")
				add(path)
			}
		}
	}
	return paths
}

// diffPath adds the name in a diff header. If the name starts with a one-letter directory, such
// as git's a/ and b/, it also adds the name without it.
func diffPath(name string, add func(string)) {
	name, _, _ = strings.Cut(strings.TrimSpace(name), "\t") // a timestamp may follow
	if plain, err := strconv.Unquote(name); err == nil && name[0] == '"' {
		name = plain // git quotes unusual names like C strings
	}
	add(name)
	if side, path, ok := strings.Cut(name, "/"); ok && len(side) == 1 {
		add(path)
	}
}
