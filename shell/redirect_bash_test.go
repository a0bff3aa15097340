//go:build system && unix

package shell

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// Each file that Bash opens for writing by a redirection is among the files of the line, or the
// line is unknown. The lines combine ways to give a variable a value, ways to use it, and ways to
// run a statement. Bash has no PATH, so the lines can run nothing but builtins.
func TestRedirectionsAgainstBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to compare with")
	}
	lines := make([]string, 500)
	if testing.Short() {
		lines = lines[:50]
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range lines {
		lines[i] = randomLine(r)
	}
	wrote, unknown := 0, 0
	for i, files := range bashWrites(t, bash, lines) {
		if len(files) == 0 {
			continue
		}
		wrote++
		s := Parse(lines[i])
		if len(s.Unknown) > 0 {
			unknown++
			continue
		}
		for _, file := range files {
			if !slices.ContainsFunc(writtenBy(s), func(name string) bool { return sameFile(name, file) }) {
				t.Errorf("bash writes %q in\n%s\nParse knows only %q", file, lines[i], writtenBy(s))
			}
		}
	}
	t.Logf("%d of %d lines wrote files, %d of them are unknown", wrote, len(lines), unknown)
	if wrote < len(lines)/2 || unknown > wrote*3/4 {
		t.Errorf("%d of %d lines wrote files, %d of them are unknown: the comparison is worth little", wrote, len(lines), unknown)
	}
}

// bashWrites runs each line in a directory of its own, with two empty directories, and returns the
// files that exist there afterwards.
func bashWrites(t *testing.T, bash string, lines []string) (files [][]string) {
	t.Helper()
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bash, filepath.Join(bin, "bash")); err != nil { // for bash -c
		t.Fatal(err)
	}
	for i := range lines {
		if err := os.MkdirAll(filepath.Join(root, strconv.Itoa(i), "d", "e"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	const each = `__i=$1; shift; for __line; do (cd $__i; HOME=$PWD; set --; eval "$__line"); ((__i++)); done`
	const batch = 25 // a fork of a shell with many arguments is slow
	for i := 0; i < len(lines); i += batch {
		args := append([]string{"--norc", "-c", each, "bash", strconv.Itoa(i)}, lines[i:min(i+batch, len(lines))]...)
		cmd := exec.CommandContext(ctx, bash, args...)
		cmd.Dir, cmd.Env = root, []string{"PATH=" + bin, "LC_ALL=C"}
		_ = cmd.Run() // a line may fail after it wrote
		if ctx.Err() != nil {
			t.Fatalf("the lines do not end: %q", args[5:])
		}
	}
	for i := range lines {
		dir, list := filepath.Join(root, strconv.Itoa(i)), []string(nil)
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				name, err = filepath.Rel(dir, name)
				list = append(list, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list)
	}
	return files
}

// writtenBy returns the files that a line writes, relative to the directory in which it starts.
func writtenBy(s *Script) (names []string) {
	names = slices.Clone(s.Writes)
	for i := range s.Commands {
		for _, file := range s.Files(i) {
			if file.Use == UseWrite {
				names = append(names, file.Path)
			}
		}
	}
	return names
}

func sameFile(name, file string) bool {
	name = path.Clean(strings.TrimPrefix(name, "~/"))
	matched, err := path.Match(name, file)
	return name == file || err == nil && matched
}

// randomLine returns a line that gives variables values and writes to the files that they name.
func randomLine(r *rand.Rand) string {
	var line []string
	for range 1 + r.IntN(2) {
		line = append(line, randomValue(r, r.IntN(2)))
	}
	line = append(line, randomUse(r, r.IntN(3)))
	if r.IntN(4) == 0 {
		line = append(line, randomValue(r, 0), randomUse(r, 1))
	}
	return strings.Join(line, pick(r, "; ", "\n", " && "))
}

func randomFile(r *rand.Rand) string {
	return pick(r, "f1", "f2", "f3", "d/f4", "./f5", "~/f6", "d/e/f7")
}

// randomText returns a word whose value is the name of a file, or a variable.
func randomText(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return randomFile(r)
	}
	return pick(r, "$X", `"$Y"`, "$(echo "+randomFile(r)+")", "`printf %s "+randomFile(r)+"`",
		"$(printf '%s%s' f x)", "${X:-"+randomFile(r)+"}", "${Z:=f9}", "$1", "${X%.txt}", "f$((1+1))", "f$RANDOM", "$HOME/f8", "$PWD/f8", "${A[0]}", "${X/f/g}", "f{a}", "'f'1",
		`f"1"`, "$'f\\x31'", "${M[k]}", "${!R}", "$(</dev/null)f", "f.$$", "d/*")
}

func randomValue(r *rand.Rand, depth int) string {
	name := pick(r, "X", "X", "Y")
	switch r.IntN(34) {
	case 0:
		return "export " + name + "=" + randomText(r)
	case 1:
		return "set -- " + randomText(r) + " " + randomFile(r)
	case 2:
		return "read -r " + name + " <<< " + randomText(r)
	case 3:
		return "printf -v " + name + " %s " + randomText(r)
	case 4:
		return "A=(" + randomText(r) + " " + randomFile(r) + "); " + name + "=${A[" + pick(r, "0", "1", "@") + "]}"
	case 5:
		return "if [ -n \"$N\" ]; then " + randomValue(r, 0) + "; else " + randomValue(r, 0) + "; fi"
	case 6:
		return "f() { " + name + "=" + randomText(r) + "; }; f " + randomText(r)
	case 7:
		return "R=" + name + "; " + name + "=" + randomText(r)
	case 8:
		return name + "=f; " + name + "+=" + pick(r, "1", "2", "$Y")
	case 9:
		return "cd " + pick(r, "d", "d/e", "d*", "$Y", "..", "-", "./d", "$(echo d)", ".")
	case 10:
		return "declare -n N=X; " + name + "=" + randomText(r)
	case 11:
		return "eval " + quoted(name+"="+randomText(r))
	case 12:
		return "mapfile -t A <<< " + randomText(r) + "; " + name + "=${A[0]}"
	case 13:
		return "for X in " + randomText(r) + " " + randomText(r) + "; do " + randomValue(r, 0) + "; done"
	case 14:
		return "IFS=/; " + name + "=" + randomText(r)
	case 15:
		return "i=0; ((i++)); " + name + "=f$i"
	case 16:
		return "declare -A M=([k]=" + randomFile(r) + "); " + name + "=${M[k]}"
	}
	if depth > 0 && r.IntN(3) == 0 {
		return randomValue(r, 0) + "; " + randomValue(r, 0)
	}
	return name + "=" + randomText(r)
}

func randomTarget(r *rand.Rand) string {
	return pick(r, "$X", `"$X"`, "${X}", "$X$Y", "d/$X", "$X.txt", "${X}1", "$1", `"$2"`, "${A[0]}", `"${A[1]}"`, `"${A[*]}"`, "${Y:-f1}", "$(echo $X)", "f$i", "f{1}", "${X%1}", "${X:0:2}", `"$@"`, "d*/g",
		"${@:1:1}", "${X##*/}", "${X^^}", "$X/../f1", randomFile(r))
}

func randomRedirection(r *rand.Rand) string {
	return pick(r, "> ", ">", ">> ", ">| ", "&> ", "&>> ", "2> ", "<> ", ">& ", "3> ", "{fd}> ") + randomTarget(r)
}

func randomUse(r *rand.Rand, depth int) string {
	if depth <= 0 {
		return pick(r, "echo x "+randomRedirection(r), "exec 3"+pick(r, ">", ">>", "<>")+" "+randomTarget(r), randomRedirection(r), randomRedirection(r)+" echo x", "{ echo x; } "+randomRedirection(r))
	}
	use := func() string { return randomUse(r, depth-1) }
	switch r.IntN(20) {
	case 0:
		return "for X in " + randomText(r) + " " + randomText(r) + "; do " + use() + "; done"
	case 1:
		return "for i in {1.." + strconv.Itoa(1+r.IntN(30)) + "}; do " + use() + "; done"
	case 2:
		return "g() { " + use() + "; }; " + randomValue(r, 0) + "; g " + randomText(r) + " " + randomText(r)
	case 3:
		return "bash -c " + quoted(use()) + " " + randomText(r) + " " + randomText(r)
	case 4:
		return "eval " + quoted(use()) + pick(r, "", "; ")
	case 5:
		return "( " + use() + " )"
	case 6:
		return "{ " + use() + "; " + use() + "; }"
	case 7:
		return "for ((i = 0; i < 2; i++)); do " + use() + "; " + randomValue(r, 0) + "; done"
	case 8:
		return "for X in f1 f2 f3 f4 d/f5 " + randomText(r) + "; do " + use() + "; done"
	case 9:
		return "while [ -z \"$done\" ]; do " + use() + "; done=1; " + randomValue(r, 0) + "; " + use() + "; done"
	case 10:
		return "trap " + quoted(use()) + " EXIT; " + randomValue(r, 0)
	case 11:
		return "g() { local Y=$1; shift; " + use() + "; }; for X in " + randomText(r) + " f1; do g $X " + randomText(r) + "; done"
	case 12:
		return "set -- " + randomText(r) + " f8 f9; for n in 1 2 3; do " + use() + "; shift; done"
	case 13:
		return "case x in " + pick(r, "x", "y") + ") " + use() + ";; *) " + use() + ";; esac"
	case 14:
		return "cd " + pick(r, "d", "d*", "$Y", ".", "d/*") + " && " + use()
	case 15:
		return "echo x | while read -r l; do " + use() + "; done"
	case 16:
		return "X=" + randomText(r) + " eval " + quoted(use())
	case 17:
		return "for X; do " + use() + "; done"
	case 18:
		return "h() { " + use() + "; }; g() { h \"$1\" $Y; }; g " + randomText(r)
	}
	return use()
}
