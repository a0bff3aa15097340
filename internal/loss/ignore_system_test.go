//go:build system

package loss

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// TestIgnoreLikeGit compares the reader of .gitignore files with git.
func TestIgnoreLikeGit(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{"d/e/f/x": "", "d/e/a.log": "", "a/b": "", "a.log": "", "b/": "", "c d/x": "", "d/.gitignore": ""})
	git(t, root, "init", "-q")
	paths := []string{"d", "d/e", "d/e/f", "d/e/f/x", "d/e/a.log", "a", "a/b", "a.log", "b", "c d", "c d/x"}
	piece := rapid.SampledFrom([]string{"a", "b", "d", "e", "f", "x", "*", "**", "?", "a.log", "*.log", "[ab]", "[!a]", "/", "/", "!", "\\", "c d", " ", "#", "{a,b}", "f*"})
	// Before it reads ** inside of an element, git cuts off the text before it, so that a**/b matches
	// what **/b matches. The reader does not repeat this.
	inside := regexp.MustCompile(`([^/*!])\*\*+|\*\*+([^/*])`)
	lines := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(piece, 1, 5), func(p []string) string {
		return inside.ReplaceAllString(strings.Join(p, ""), "$1*$2")
	}), 1, 5)
	rapid.Check(t, func(rt *rapid.T) {
		top, deep := strings.Join(lines.Draw(rt, "top"), "\n")+"\n", strings.Join(lines.Draw(rt, "deep"), "\n")+"\n"
		for name, text := range map[string]string{".gitignore": top, "d/.gitignore": deep} {
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
				rt.Fatal(err)
			}
		}
		ignored := git(t, root, append([]string{"check-ignore", "--no-index", "--"}, paths...)...)
		p := &Place{Root: root}
		for _, path := range paths {
			want := strings.Contains("\n"+ignored, "\n"+path+"\n")
			info, err := os.Lstat(filepath.Join(root, path))
			if err != nil {
				rt.Fatal(err)
			}
			if got := p.ignored(root, filepath.Join(root, path), info.IsDir()); got != want {
				rt.Fatalf("%q with %q and %q in d: got %v, git says %v", path, top, deep, got, want)
			}
		}
	})
}

// git runs git without the settings of the machine. An exit code 1 means that nothing is ignored.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "core.quotePath=false"}, args...)...)
	cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}
