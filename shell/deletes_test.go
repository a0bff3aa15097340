package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/shell"
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
		"python3 - <<'E'\nfor p in Path('src').rglob('*'):\n    if p.is_file():\n        p.unlink()\nE":                                                                                 {"tree src"},
		"python3 - <<'E'\nfor p in Path('src').rglob('*.py'):\n    p.unlink()\nE":                                                                                                       {"names *.py in src"},
		"python3 -c \"for p in Path('a').glob('*.ts'): p.unlink()\"":                                                                                                                    {"glob a/*.ts"},
		"python3 -c \"import os,glob\nfor f in glob.glob('src/**/*.ts', recursive=True): os.remove(f)\"":                                                                                {"names *.ts in src"},
		"python3 -c \"import os,glob; [os.remove(f) for f in glob.glob('a/*')]\"":                                                                                                       {"glob a/*"},
		"python3 - <<'E'\nimport os\nfor root, dirs, files in os.walk('src'):\n    for f in files:\n        os.remove(os.path.join(root, f))\nE":                                        {"tree src"},
		"python3 - <<'E'\nimport os\nfor root, dirs, files in os.walk('.'):\n    for f in files:\n        if f.endswith('.pyc'):\n            os.remove(os.path.join(root, f))\nE":      {"names *.pyc in ."},
		"python3 - <<'E'\nimport os\nfor root, dirs, files in os.walk('.'):\n    for f in files:\n        if os.path.getmtime(f) < 9:\n            os.remove(os.path.join(root, f))\nE": nil,
		"python3 - <<'E'\nimport shutil, pathlib\nfor d in pathlib.Path('.').rglob('__pycache__'):\n    shutil.rmtree(d)\nE":                                                            {"tree names __pycache__ in ."},
		"python3 - <<'E'\nimport shutil, tempfile\nd = tempfile.mkdtemp()\nshutil.rmtree(d)\nE":                                                                                         {"tree ?$(mktemp)"},
		"python3 - <<'E'\nimport shutil\nfor d in ['build', 'dist']:\n    shutil.rmtree(d, ignore_errors=True)\nE":                                                                      {"tree build", "tree dist"},
		"python3 - <<'E'\nimport shutil, os\nBASE = 'a'\nshutil.rmtree(os.path.join(BASE, 'b'))\nE":                                                                                     {"tree a/b"},
		"python3 - <<'E'\nfrom pathlib import Path\nimport shutil\nout = Path('a') / 'b'\nshutil.rmtree(out)\nE":                                                                        {"tree a/b"},
		"python3 - <<'E'\nimport os\nprint(os.listdir('src'))\nos.remove(tmp)\nE":                                                                                                       nil,
		"node -e \"const fs=require('fs'); fs.readdirSync('src').forEach(f => fs.unlinkSync('src/' + f))\"":                                                                             {"glob src/*"},
		"node - <<'E'\nconst fs = require('fs'), path = require('path')\nfor (const f of fs.readdirSync('src', {recursive: true})) {\n  fs.unlinkSync(path.join('src', f))\n}\nE":       {"tree src"},
		"node -e \"for (const f of fs.readdirSync('src')) fs.unlinkSync(\\`src/\\${f}\\`)\"":                                                                                            {"glob src/*"},
		"python3 -c \"import os\nfor f in os.listdir('a'):\n    os.remove(f'a/{f}')\"":                                                                                                  {"glob a/*"},
		"ruby -e \"Dir.glob('src/**/*.rb').each { |f| File.delete(f) }\"":                                                                                                               {"names *.rb in src"},
		"ruby -e \"Dir['a/*'].each do |f| File.delete(f) end\"":                                                                                                                         {"glob a/*"},
		"perl -e 'unlink glob(\"src/*.ts\")'":                      {"glob src/*.ts"},
		"perl -e 'unlink <src/*.ts>'":                              {"glob src/*.ts"},
		"perl -e 'for my $f (glob \"a/*\") { unlink $f }'":         {"glob a/*"},
		"php -r 'array_map(\"unlink\", glob(\"src/*.php\"));'":     {"glob src/*.php"},
		"php -r 'foreach (glob(\"src/*\") as $f) { unlink($f); }'": {"glob src/*"},
		"node -e \"function wipe(d) { for (const e of fs.readdirSync(d)) { const p = path.join(d, e); if (fs.statSync(p).isDirectory()) wipe(p); else fs.unlinkSync(p) } }; wipe('src')\"": {"tree src"},
		"go run /dev/stdin <<'E'\npackage main\nfunc main() { filepath.Walk(\"src\", func(p string, i os.FileInfo, e error) error { return os.Remove(p) }) }\nE":                           {"tree src"},
		"pwsh -c 'Remove-Item a,b -Recurse -ErrorAction Stop'": {"tree a", "tree b"},
		"pwsh -c 'ls a | Remove-Item -Recurse'":                {"tree glob a/*"},
		"cmd /c rd /s /q a":                                    {"tree a", "tree a"},
		"rmdir a":                                              nil,
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

// Code that is built to exhaust the search for paths is unknown.
func TestDeletesIsBounded(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		strings.Repeat("a ", 60_000) + "\nos.remove(a)\n",
		"import os\n" + strings.Repeat("os.remove(a) ", 250) + strings.Repeat(" a=a", 20_000),
		"import os\nfor a in os.listdir('x'):\n  " + strings.Repeat("if a.endswith('b'): pass\n  ", 3000) + strings.Repeat("os.remove(a)\n  ", 200),
	} {
		if s := shell.Parse("python3 - <<'E'\n" + code + "\nE"); len(s.Unknown) == 0 {
			t.Errorf("%.60q... is not unknown", code)
		}
	}
}
