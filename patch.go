package grapnel

import (
	"strconv"
	"strings"
)

// FormPatch is the Form of a Fact whose text is a patch: what stands there is the paths
// of all files that the patch names.
const FormPatch = "patch"

// patchHeaders begin the lines in which a patch of a model names a file that it makes,
// changes, takes away or moves. diffHeaders are those of a diff; what a diff names in ---
// and +++ is looked at in pairs.
var (
	patchHeaders = []string{"*** add file:", "*** update file:", "*** delete file:", "*** move to:"}
	diffHeaders  = []string{"rename from ", "rename to ", "copy to ", "Index: "}
)

// patchPaths lists the files that a patch names. It takes more for a name than tools
// do, who disagree on white space, case and the lines around a patch: a rule that
// guards a path must not look past a patch to it.
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
			// Of one name twice: another one stands in lines of its own.
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

// diffPath adds what a header of a diff names. A name that begins like one of git's
// sides is that of a file of this name, too.
func diffPath(name string, add func(string)) {
	name, _, _ = strings.Cut(strings.TrimSpace(name), "\t") // a time may follow
	if plain, err := strconv.Unquote(name); err == nil && name[0] == '"' {
		name = plain // git writes names with odd letters as C would
	}
	add(name)
	if side, path, ok := strings.Cut(name, "/"); ok && len(side) == 1 {
		add(path)
	}
}
