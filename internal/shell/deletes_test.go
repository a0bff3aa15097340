package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/shell"
)

func TestDeletes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"rm -rf a b":               {"tree a", "tree b"},
		"rm -R ./a":                {"tree ./a"},
		"rm --recursive -- -a":     {"tree -a"},
		"rm a":                     nil,
		"rm -f a*.go":              {"glob a*.go"},
		"rm -f 'a*.go'":            nil,
		"cd x && rm -rf *":         {"tree glob x/*"},
		"cd $X && rm -rf y /z":     {"tree ?y", "tree /z"},
		"D=a; rm -rf $D":           {"tree a", "tree a"},
		"rm -rf $D":                {"tree ?$D"},
		"rm -rf $HOME/a":           {"tree ~/a", "tree ~/a"},
		"rm -r --help":             nil,
		"sudo rm -rf /a":           {"tree /a"},
		"ssh box rm -rf a":         {"tree ?a away"},
		"docker run x rm -rf /":    {"tree / away"},
		"npx shx rm -rf a":         {"tree a"},
		"rimraf -g 'a/*' b":        {"tree glob a/*", "tree b"},
		"find a b -type f -delete": {"tree a", "tree b"},
		"find -name x -delete":     {"names x in ."},
		"find . -name '*' -delete": {"tree ."},
		"find a \\( -name x -o -iname 'y*' \\) -exec rm -r {} +": {"tree names x y* in a"},
		"find a ! -name x -delete":                               {"tree a"},
		"find a -mtime +3 -delete":                               nil,
		"find a -name x":                                         nil,
		"find a -name x -exec cat {} \\;":                        nil,
		"find a -name x | xargs rm -rf":                          {"tree names x in a"},
		"find $X -delete":                                        {"tree ?$X"},
		"rsync -a --delete a/ b/":                                {"tree b/ like a/"},
		"rsync -a a/ b/":                                         nil,
		"rsync -an --delete a/ b/":                               nil,
		"rsync -a --delete a/ host:b/":                           nil,
		`rsync -a --delete "$(mktemp -d)/" b/`:                   {"tree b/"},
		`python3 -c "import shutil; shutil.rmtree('a')"`:         {"tree a"},
		"pwsh -c 'Remove-Item a,b -Recurse -ErrorAction Stop'":   {"tree a", "tree b"},
		"pwsh -c 'ls a | Remove-Item -Recurse'":                  {"tree ?"},
		"cmd /c rd /s /q a":                                      {"tree a", "tree a"},
		"rmdir a":                                                nil,
	} {
		var got []string
		s := shell.Parse(line)
		for i := range s.Commands {
			for _, d := range s.Commands[i].Deletes() {
				got = append(got, describe(d))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func describe(d shell.Deletion) string {
	var words []string
	add := func(has bool, format string, args ...any) {
		if has {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(d.Tree, "tree")
	add(d.Glob, "glob")
	add(d.Names != nil, "names %s in", strings.Join(d.Names, " "))
	add(true, "%s", map[bool]string{true: "?" + d.Text, false: d.Path}[d.Path == ""])
	add(d.Spare != "", "like %s", d.Spare)
	add(d.Away, "away")
	return strings.Join(words, " ")
}
