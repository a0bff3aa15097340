package shell

import "testing"

func TestFound(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct{ yes, no string }{
		"find . -name node_modules -exec rm -rf {} +":            {"rm -rf */node_modules", "rm -rf ./\\*"},
		"find . -type d -name dist -prune -exec rm -rf '{}' ';'": {"rm -rf */dist", "rm -rf .git"},
		"find src -iname '*.o' -mtime +3 -exec rm {}/x ';'":      {"rm src/*.o/x", "rm src"},
		"find -exec rm -rf {} +":                                 {"rm -rf './*'", "rm -rf /"},
		"find -L / -type f -exec rm {} +":                        {"rm '/*'", "rm ."},
		"find ~/ -name '*' -exec rm {} +":                        {"rm '~/*'", "rm ."},
		"find . -name a -o -exec rm -rf {} +":                    {"rm -rf", "rm -rf *"},
		"find a b -name x -exec rm -rf {} +":                     {"rm -rf", "rm -rf */x"},
		"find . -mtime +3 -exec rm -rf {} +":                     {"rm -rf", "rm -rf './*'"},
		`find . ! -name x -exec rm -rf {} +`:                     {"rm -rf", "rm -rf */x"},
		`find . \( -name x \) -exec rm -rf {} +`:                 {"rm -rf", "rm -rf */x"},
		`find "$d" -name x -exec rm -rf {} +`:                    {"rm -rf", "rm -rf */x"},
		`find . -name "$x" -exec rm -rf {} +`:                    {"rm -rf", "rm -rf */x"},
		"find . -exec true ';' -name x -exec rm -rf {} +":        {"rm -rf", "rm -rf */x"},
		"find . -name x -name y -exec rm -rf {} +":               {"rm -rf", "rm -rf */x"},
		"find '' -name x -exec rm -rf {} +":                      {"rm -rf", "rm -rf */y"},
		"find . -name node_modules -print0 | xargs -0 rm -rf":    {"rm -rf */node_modules", "rm -rf src"},
		"find . -type d -name dist | sudo xargs -I@ rm -rf @/x":  {"rm -rf */dist/x", "rm -rf dist"},
		"find . -type f | xargs rm -f":                           {"rm './*'", "rm -rf"},
		"ls; find . | sort | xargs rm -rf":                       {"rm -rf", "rm -rf './*'"},
		"find . -name dist | xargs -a list rm -rf":               {"rm -rf", "rm -rf */dist"},
		"find . -name dist | xargs rm -rf < list":                {"rm -rf", "rm -rf */dist"},
		"find . -name dist | xargs rm -rf 2>/dev/null":           {"rm -rf */dist", "rm -rf a"},
		"find $x | xargs rm -rf":                                 {"rm -rf", "rm -rf './*'"},
		"fd x -x rm -rf {}":                                      {"rm -rf", "rm -rf */x"},
	} {
		s := Parse(line)
		for pattern, want := range map[string]bool{want.yes: true, want.no: false} {
			p, err := Compile(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := p.Match(s); (got == Yes) != want {
				t.Errorf("%q on %q: %v, want a match: %v", pattern, line, got, want)
			}
		}
	}
}
