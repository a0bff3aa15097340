//go:build system

package match

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/gitdir"
	"github.com/grapnel-dev/grapnel/shell"
)

// landscape makes repo (on main, with topic, release/1 and the tag v1), its remote origin.git, the
// worktrees wt (on topic) and det (detached), a submodule repo/sub (on inner), another repository, a
// bare one, and a directory without a repository.
const landscape = `
export HOME="$PWD"
cat > .gitconfig <<'E'
[user]
	name = t
	email = t@t
[init]
	defaultBranch = main
[alias]
	co = checkout
	pub = push origin main
	both = !git push origin main
	lg = !git log
[protocol "file"]
	allow = always
E
git init -q --bare origin.git
git init -q --bare bare.git
git init -q -b other other && git -C other commit -q --allow-empty -m x
git init -q -b inner module && git -C module commit -q --allow-empty -m x
git init -q repo && cd repo && git commit -q --allow-empty -m x && mkdir -p src/deep && echo x > file
git remote add origin ../origin.git
git branch topic && git branch release/1 && git tag v1
git push -q origin main topic v1 && git fetch -q && git update-ref refs/remotes/origin/far main && git push -q origin main:far
git worktree add -q ../wt topic && git worktree add -q --detach ../det
git submodule -q add ../module sub && git -C sub switch -q inner && git commit -q -m sub
mkdir ../plain && ln -s repo/src ../link && ln -s wt ../wtlink
cd ..
`

// git runs a line with the configuration of the landscape only.
func git(dir, cwd, line string, args ...string) (string, error) {
	cmd := exec.Command("bash", append([]string{"-c", line}, args...)...)
	cmd.Dir = filepath.Join(dir, cwd)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	out, err := cmd.Output()
	return string(out), err
}

var templateDir string

// template is a landscape of which each test gets a copy.
var template = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "grapnel-landscape-")
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	templateDir = dir
	out, err := git(dir, ".", "set -e\n"+landscape)
	if err != nil {
		err = fmt.Errorf("landscape: %w\n%s", err, out)
	}
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if templateDir != "" {
		_ = os.RemoveAll(templateDir)
	}
	os.Exit(code)
}

func newLandscape(t testing.TB, more string) string {
	t.Helper()
	from, err := template()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "landscape-") //nolint:usetesting // t.TempDir has the name of the test, which may have an & for sed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	// Worktrees have absolute names in these files.
	move := `cp -a "$0/." . && sed -i.old "s|$0|$PWD|" wt/.git det/.git repo/.git/worktrees/*/gitdir && rm -f wt/.git.old det/.git.old repo/.git/worktrees/*/gitdir.old`
	if out, err := git(dir, ".", move, from); err != nil {
		t.Fatalf("copy of the landscape: %v\n%s", err, out)
	}
	if out, err := git(dir, ".", "set -e\n"+more); err != nil {
		t.Fatalf("%s: %v\n%s", more, err, out)
	}
	return dir
}

// factsIn returns the facts of a shell line in a directory of a landscape.
func factsIn(dir, cwd, line string) *Facts {
	f := (&FactCache{}).Of(&grapnel.Event{
		Kind: grapnel.ToolBefore, Session: grapnel.Session{CWD: filepath.Join(dir, cwd)},
		Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{line}},
	})
	f.checkouts().reader = gitdir.NewReader(dir)
	return f
}

// lastGit returns the last command of git with a subcommand.
func lastGit(t *testing.T, f *Facts, sub string) (*shell.Script, int) {
	t.Helper()
	script := f.Scripts()[0]
	for i := len(script.Commands) - 1; i >= 0; i-- {
		if g, ok := script.Commands[i].Git(); ok && !script.Commands[i].Again() && (sub == "" || g.Sub.Text == sub) {
			return script, i
		}
	}
	t.Fatalf("no git %s in %q", sub, f.Event.Tool.Commands[0])
	return nil, 0
}

// Git itself says which branch each commit would be on.
func TestBranchOfACommandAsGitSeesIt(t *testing.T) {
	t.Parallel()
	const commit, probe = "commit -m x", "symbolic-ref -q HEAD"
	for _, test := range []struct{ setup, cwd, line string }{
		{"", "repo", "git commit -m x"},
		{"", "repo/src/deep", "git commit -m x"},
		{"", "wt", "git commit -m x"},
		{"", "repo/sub", "git commit -m x"},
		{"", "det", "git commit -m x"},
		{"", ".", "cd repo && git commit -m x"},
		{"", "repo", "cd ../wt && git commit -m x"},
		{"", "repo", "cd ../wt\ngit commit -m x"},
		{"", "repo", "git -C ../wt commit -m x"},
		{"", "repo", "git -C .. -C wt commit -m x"},
		{"", "repo", "cd src && git -C ../../wt commit -m x"},
		{"", "wt", "git --git-dir=../repo/.git commit -m x"},
		{"", ".", "git --git-dir repo/.git --work-tree repo commit -m x"},
		{"", "plain", "GIT_DIR=../other/.git git commit -m x"},
		{"", "plain", "export GIT_DIR=../other/.git; git commit -m x"},
		{"", "repo", "GIT_DIR=../other/.git; git commit -m x"},
		{"", "repo", "export GIT_DIR=../other/.git; unset GIT_DIR; git commit -m x"},
		{"", "repo", "env GIT_DIR=../wt/.git git commit -m x"},
		{"", "repo", "env -C ../wt true; env -C ../wt git commit -m x"},
		{"", "repo", "(cd ../wt && git status); git commit -m x"},
		{"", "repo", "pushd ../wt && popd && git commit -m x"},
		{"", "repo", "pushd ../wt >/dev/null && git commit -m x"},
		{"", "repo", "cd ../wt && cd - && git commit -m x"},
		{"", "repo", `X=../wt; git -C "$X" commit -m x`},
		{"", "repo", `X=../wt; cd "$X" && git commit -m x`},
		{"", "repo", `cd src/deep && cd "$(git rev-parse --show-toplevel)" && git commit -m x`},
		{"", "repo", `R=$(git rev-parse --show-toplevel); cd "$R" && git commit -m x`},
		{"", "repo", "bash -c 'cd ../wt && git commit -m x'"},
		{"", ".", "cd link && git commit -m x"},
		{"", ".", "cd wtlink && git commit -m x"},
		{"", ".", "cd link/.. && git -C repo commit -m x"},
		{"", ".", "git -C link/.. commit -m x"},
		{"", "repo", "git switch -c feature && git commit -m x"},
		{"", "repo", "git checkout -b feature; git commit -m x"},
		{"", "repo", "git checkout -q release/1 && git commit -m x"},
		{"", "repo", "git co -q release/1 && git commit -m x"},
		{"", "repo", "git checkout far && git commit -m x"},
		{"", "repo", "git checkout -q v1 && git commit -m x"},
		{"", "repo", "git checkout -q origin/far && git commit -m x"},
		{"", "repo", "git checkout -q --track origin/far && git commit -m x"},
		{"", "repo", "git checkout -q HEAD~0 && git commit -m x"},
		{"", "repo", "git checkout sub; git commit -m x"},
		{"", "repo", "git checkout -- .gitmodules && git commit -m x"},
		{"", "repo", "git checkout main .gitmodules && git commit -m x"},
		{"", "repo", "git checkout -q release/1 && git checkout -q - && git commit -m x"},
		{"git -C repo checkout -q release/1; git -C repo checkout -q main", "repo", "git checkout -q - && git commit -m x"},
		{"git -C repo checkout -q release/1; git -C repo checkout -q main", "repo", "git switch -q @{-1} && git commit -m x"},
		{"", "repo", "git -C ../other switch -qc x; git commit -m x"},
		{"", "repo", "git worktree add -q ../new -b fresh && cd ../new && git commit -m x"},
		{"", "repo", "git worktree add -q ../fresh && git -C ../fresh commit -m x"},
		{"", "repo", "git worktree add -q ../new release/1 && cd ../new && git switch -qc y && git commit -m x"},
		{"", "plain", "git init -q -b start && git commit -m x"},
		{"", "plain", "git init -q new && cd new && git commit -m x"},
		{"", "plain", "git clone -q -b topic ../origin.git && cd origin && git commit -m x"},
		{"", "repo", "git branch -m renamed && git commit -m x"},
		{"", "repo", "git branch -m topic moved; git commit -m x"},
		{"", "repo", "git symbolic-ref HEAD refs/heads/release/1 && git commit -m x"},
		{"", "repo", "git stash branch s 2>/dev/null || git switch -qc s; git commit -m x"},
		{"", "repo", "git checkout -q nope 2>/dev/null || git checkout -qb nope; git commit -m x"},
		{"", "repo", "if git show-ref -q nope; then git switch nope; else git switch -qc nope; fi; git commit -m x"},
		{"", "repo", "cd ../wt || exit 1; git commit -m x"},
		{"", "repo", "(git switch -qc sub1); git commit -m x"},
		{"", "repo", "B=new; git switch -qc $B && git commit -m x"},
		{"", "bare.git", "git commit -m x"},
		{"", "plain", "git --git-dir=../bare.git commit -m x"},
		{"git init -q -b unborn young", "young", "git commit -m x"},
		{"cd repo; git symbolic-ref refs/heads/alias refs/heads/main; git symbolic-ref HEAD refs/heads/alias", "repo", "git checkout -q release/1; git commit -m x"},
		{"mkdir -p repo/fake/.git; echo ref: refs/heads/fake > repo/fake/.git/HEAD", "repo/fake", "git commit -m x"},
		{"git -C repo pack-refs --all", "repo", "git checkout -q release/1 && git commit -m x"},
		{"", "repo", "cd sub/.. && git commit -m x"},
		{"", "repo/src", `git -C "$(git rev-parse --show-toplevel)" commit -m x`},
		{"", "wt", `git -C "$PWD" commit -m x`},
		{"", "wt", `git --git-dir="$PWD/../other/.git" commit -m x`},
		{"", "repo", "GIT_DIR=.git/worktrees/wt git commit -m x"},
		{"", "repo", `cd "$(pwd)/../wt" && command git commit -m x`},
		{"git clone -q --bare origin.git lay/.bare; cd lay; echo gitdir: ./.bare > .git; git worktree add -q far", "lay/far", "git commit -m x"},
		{"git clone -q --bare origin.git lay/.bare; cd lay; echo gitdir: ./.bare > .git; git worktree add -q far", "lay", "git -C far commit -m x"},
		{"", "repo", "git checkout -q topic; git commit -m x"},
		{"", "repo", "git checkout -qb topic; git commit -m x"},
		{"", "repo", "git switch -qc release/1 2>/dev/null || git switch -q release/1; git commit -m x"},
		{"", "repo", "git checkout -qb nope || git checkout -q nope; git commit -m x"},
		{"", "repo", "git checkout -q topic 2>/dev/null || true; git commit -m x"},
		{"", "repo", "git worktree add -q ../wt -b n; cd ../wt && git commit -m x"},
		{"", "repo", "git checkout -q main; git commit -m x"},
		{"", "wt", "git checkout -q main; git commit -m x"},
		{"", "repo", "cd .git && git commit -m x"},
		{"", "repo", "git -C sub commit -m x"},
		{"", "repo", "git -C src --git-dir=../../other/.git commit -m x"},
		{"", "repo", "git --work-tree=../other commit -m x"},
		{"", "repo", "git worktree add -q .worktrees/n -b nested && cd .worktrees/n && git commit -m x"},
		{"", "repo", "git worktree add -q ../n HEAD && cd ../n && git commit -m x"},
		{"", "repo", "git worktree add -q -b n ../n origin/far && git -C ../n commit -m x"},
		{"", "repo", "git worktree add -q ../n far && git -C ../n commit -m x"},
		{"", "repo", "git branch n && git checkout -q n && git commit -m x"},
		{"", "repo", "git fetch -q origin far:f2 && git checkout -q f2 && git commit -m x"},
		{"", "repo", "git checkout -q --orphan o && git commit -m x"},
		{"", "repo", "git checkout -q --detach && git commit -m x"},
		{"", "repo", "git switch -q --detach release/1 && git commit -m x"},
		{"", "repo", "git checkout -qB release/1 && git commit -m x"},
		{"", "repo", "git switch -q --create=n release/1 && git commit -m x"},
		{"", "repo", "git checkout -qbn && git commit -m x"},
		{"", "repo", "git switch -qc n && git switch -q - && git commit -m x"},
		{"", "repo", "git checkout -q release/1 -- && git commit -m x"},
		{"", "repo", "git stash -q; git checkout -q release/1; git commit -m x"},
		{"", "repo", "git rebase -q main release/1 && git commit -m x"},
		{"", "repo", "git merge -q release/1 >/dev/null && git commit -m x"},
		{"", "repo", "git bisect start -q >/dev/null 2>&1; git bisect reset -q >/dev/null 2>&1; cd ../wt && git commit -m x"},
		{"", "repo", "bash <<'E'\ncd ../wt\ngit commit -m x\nE"},
		{"", "repo", "cd '../wt' && (cd ../repo && git status >/dev/null); git commit -m x"},
		{"", "repo", "cd -- ../wt && git commit -m x"},
		{"", "repo", "git -c user.name=x -C ../wt commit -m x"},
		{"", "repo", "eval 'cd ../wt'; git commit -m x"},
		{"", "repo", "W=$PWD/../wt; cd $W && git commit -m x"},
		{"", "repo", "export GIT_DIR=$PWD/../other/.git; git commit -m x"},
		{"", "repo", "{ cd ../wt; git commit -m x; }"},
		{"", "repo", "time git commit -m x"},
		{"git -C repo submodule -q update --init; git -C repo/sub checkout -q --detach", "repo/sub", "git commit -m x"},
		{"ln -s ../repo/.git plain/.git", "plain", "git commit -m x"},
	} {
		t.Run(test.line, func(t *testing.T) {
			t.Parallel()
			dir := newLandscape(t, test.setup)
			f := factsIn(dir, test.cwd, test.line)
			script, i := lastGit(t, f, "commit")
			got := f.checkouts().ofCommand(script, i)
			out, _ := git(dir, test.cwd, strings.ReplaceAll(test.line, commit, probe))
			lines := strings.Split(strings.TrimSpace(out), "\n")
			want := lines[len(lines)-1]
			if want != "" && !strings.HasPrefix(want, "refs/") {
				t.Fatalf("git says %q", out)
			}
			if got.ref != want || got.why != "" {
				t.Errorf("in %s, %q commits on %q (%s), want %q", test.cwd, test.line, got.ref, got.why, want)
			}
		})
	}
}

// What git says depends on more than files here, or git is not asked at all.
func TestBranchOfACommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ setup, cwd, line, want string }{
		{"cd repo; git checkout -q topic 2>/dev/null || git -C ../wt switch -q --detach; git switch -q topic; echo 1 > a; git add a; git commit -qm a; git switch -q main; echo 2 > a; git add a; git commit -qm b; git switch -q topic; git rebase -q main || true", "repo", "git commit -m x", "topic"},
		{"", "repo", `cd "$UNKNOWN" && git commit -m x`, "unknown"},
		{"", "repo", `git -C "$UNKNOWN" commit -m x`, "unknown"},
		{"", "repo", "cd missing; git commit -m x", "unknown"},
		{"", "repo", "mkdir -p new && cd new && git commit -m x", "main"},
		{"", "repo", "test -d ../wt && cd ../wt; git commit -m x", "unknown"},
		{"", "repo", "false && git switch -c y; git commit -m x", "unknown"},
		{"", "repo", "if x; then git switch -c y; fi; git commit -m x", "unknown"},
		{"", "repo", "if x; then git switch -c y; git commit -m x; fi", "y"},
		{"", "repo", "for i in 1 2; do git commit -m x; git switch release/1; done", "unknown"},
		{"", "repo", "for i in 1 2; do git commit -m x; done", "main"},
		{"", "repo", "for d in ../wt; do cd $d; done; git commit -m x", "unknown"},
		{"", "repo", "git switch release/1 & git commit -m x", "unknown"},
		{"", "repo", "git checkout nope; if x; then git switch -c y; fi; git commit -m x", "unknown"},
		{"", "repo", "git checkout nope; git commit -m x", "unknown"},
		{"", "repo", "git $X main; git commit -m x", "unknown"},
		{"", "repo", "git -C $X switch y; git commit -m x", "unknown"},
		{"", "repo", "f() { git commit -m x; }; cd ../wt; f", "unknown"},
		{"", "repo", "f() { git commit -m x; }; f", "main"},
		{"", "repo", "npm test && git switch -c y && git commit -m x", "y"},
		{"", "repo", "cd ../wt && git status && git switch -c y\ngit commit -m x", "y"},
		{"", "repo", "ssh host 'cd app && git commit -m x'", "unknown"},
		{"", "repo", "git submodule foreach git commit -m x", "unknown"},
		{"", "plain", "git clone ../origin.git r && cd r && git commit -m x", "unknown"},
		{"", "repo", "gh pr checkout 12 && git commit -m x", "unknown"},
		{"", "repo", `git switch -c "fix/$N" && git commit -m x`, "fix/... (computed)"},
		{"", "repo", "git fetch && git switch arrived && git commit -m x", "arrived"},
		{"rm repo/.git/HEAD; mkfifo repo/.git/HEAD", "repo", "git commit -m x", "unknown"},
		{"echo ref: refs/heads/.invalid > repo/.git/HEAD", "repo", "git commit -m x", "unknown"},
		{"head -c 100000 /dev/zero > repo/.git/HEAD", "repo", "git commit -m x", "unknown"},
		{"echo gitdir: /nowhere > wt/.git", "wt", "git commit -m x", "unknown"},
		{"", "plain", "git commit -m x", "no branch"},
		{"", "repo", "GIT_DIR=$X git commit -m x", "unknown"},
		{"cd repo; git symbolic-ref refs/heads/alias refs/heads/main; git symbolic-ref HEAD refs/heads/alias", "repo", "git commit -m x", "main"},
	} {
		t.Run(test.line, func(t *testing.T) {
			t.Parallel()
			dir := newLandscape(t, test.setup)
			f := factsIn(dir, test.cwd, test.line)
			script, i := lastGit(t, f, "commit")
			if got := f.checkouts().ofCommand(script, i).String(); got != test.want && !strings.HasPrefix(got, test.want+" (") {
				t.Errorf("in %s, %q commits on %s, want %s", test.cwd, test.line, got, test.want)
			}
		})
	}
}

// "git push --dry-run" says which references each push would change.
func TestPushesAsGitSeesThem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ setup, cwd, line string }{
		{"", "repo", "git push origin main"},
		{"", "repo", "git push origin HEAD"},
		{"", "repo", "git push origin @"},
		{"", "wt", "git push origin HEAD:main"},
		{"", "wt", "git push origin +topic:main"},
		{"", "repo", "git push origin :topic"},
		{"", "repo", "git push origin --delete topic far"},
		{"", "repo", "git push -d origin topic"},
		{"", "wt", "git push origin topic:refs/heads/main"},
		{"", "wt", "git push origin refs/heads/topic"},
		{"", "wt", "git push origin HEAD:refs/heads/new main"},
		{"", "repo", "git push --all origin"},
		{"", "repo", "git push --tags origin"},
		{"", "repo", "git push origin --tags topic"},
		{"", "repo", "git push origin tag v1"},
		{"", "repo", "git push origin v1"},
		{"", "repo", "git push origin 'refs/heads/*'"},
		{"", "repo", "git push origin 'refs/heads/*:refs/heads/x/*'"},
		{"", "repo", "git push origin 'refs/heads/*' '^refs/heads/main'"},
		{"", "repo", "git push -uf origin main:far"},
		{"git -C origin.git config receive.advertisePushOptions true", "repo", "git push -o ci.skip origin topic"},
		{"git -C repo branch -q --set-upstream-to=origin/main", "repo", "git push --repo=origin"},
		{"", "repo", "git push ../origin.git topic:main"},
		{"git -C repo branch -q --set-upstream-to=origin/main", "repo", "git push"},
		{"git -C repo config push.default current", "wt", "git push"},
		{"git -C repo config push.default current", "repo", "git switch -qc f && git push"},
		{"cd repo; git config push.default upstream; git branch -q --set-upstream-to=origin/main topic", "wt", "git push"},
		{"cd repo; git config push.default upstream; git branch -q --set-upstream-to=origin/main topic", "wt", "git push origin topic"},
		{"cd repo; git config push.default upstream; git branch -q --set-upstream-to=origin/main topic", "wt", "git push origin HEAD"},
		{"git -C repo branch -q --set-upstream-to=origin/main topic", "wt", "git -c push.default=upstream push"},
		{"cd repo; git branch -q --set-upstream-to=origin/main topic; echo '[push]\n\tdefault = upstream' > ../inc; printf '[include]\n\tpath = inc\n' >> ../.gitconfig; printf '[push]\n\tdefault = upstream\n' > ../inc", "wt", "git push"},
		{"git -C repo branch -q --set-upstream-to=origin/main topic", "wt", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=push.default GIT_CONFIG_VALUE_0=upstream git push"},
		{"cd repo; git config extensions.worktreeConfig true; git -C ../wt config --worktree push.default upstream; git branch -q --set-upstream-to=origin/main topic", "wt", "git push"},
		{"git -C repo push -q origin release/1", "repo", "git push origin topic:far :"},
		{"git -C repo config remote.origin.push refs/heads/topic:refs/heads/main", "repo", "git push"},
		{"git -C repo config remote.origin.push refs/heads/topic:refs/heads/main", "wt", "git push origin topic"},
		{"git -C repo config remote.origin.push 'refs/heads/*:refs/heads/me/*'", "wt", "git push origin"},
		{"cd repo; git config remote.two.url ../origin.git; git config remote.two.push HEAD:refs/heads/two; git config remote.pushDefault two", "repo", "git push"},
		{"cd repo; git config remote.two.url ../origin.git; git config remote.two.push HEAD:refs/heads/two; git config branch.topic.pushRemote two", "wt", "git push"},
		{"", "repo", "git pub"},
		{"cd repo; git symbolic-ref refs/heads/alias refs/heads/main", "repo", "git push origin alias"},
		{"git -C repo pack-refs --all", "repo", "git push --all"},
		{"", "repo", "git push origin $(git branch --show-current)"},
		{"", "repo", `B=topic; git push -u origin "$B"`},
		{"", "repo", `B=$(git rev-parse --abbrev-ref HEAD); git push origin "$B"`},
		{"", "repo", "cd ../wt && git push origin HEAD"},
		{"", "repo", "git push --force-with-lease=main origin topic"},
		{"", "repo", "git push --force-with-lease origin +HEAD:main"},
		{"", "repo", "git push origin topic --force"},
		{"", "repo", "git push origin far --delete"},
		{"", "repo", "git push origin HEAD~0:main"},
		{"", "repo", "git push origin $(git rev-parse HEAD):refs/heads/topic"},
		{"", "repo", "git push --no-verify --set-upstream origin topic:new"},
		{"", "wt", "git push . HEAD:side"},
		{"", "repo", "git push origin heads/topic"},
		{"", "repo", "git push --follow-tags origin topic"},
		{"git -C repo config push.default upstream; git -C repo branch -q --set-upstream-to=origin/far release/1", "repo", "git checkout -q release/1 && git push"},
		{"git -C repo config push.autoSetupRemote true", "repo", "git switch -qc f && git push"},
		{"git -C repo config push.default current", "det", "git switch -qc g && git push"},
		{"git -C origin.git symbolic-ref HEAD refs/heads/topic", "repo", "git push origin main"},
	} {
		t.Run(test.line, func(t *testing.T) {
			t.Parallel()
			dir := newLandscape(t, test.setup)
			f := factsIn(dir, test.cwd, test.line)
			var got []string
			script := f.Scripts()[0]
			for i := range script.Commands {
				for _, ref := range f.checkouts().pushed(script, i) {
					if ref.why != "" || ref.open {
						if !script.Commands[i].Again() {
							t.Errorf("%q pushes %s", test.line, ref)
						}
						continue
					}
					got = append(got, ref.ref)
				}
			}
			line := strings.NewReplacer("git pub", "git pub --dry-run --porcelain", " push.default=upstream push", " push.default=upstream push --dry-run --porcelain", "git push", "git push --dry-run --porcelain").Replace(test.line)
			out, _ := git(dir, test.cwd, line)
			var want []string
			for row := range strings.Lines(out) {
				if fields := strings.Split(row, "\t"); len(fields) == 3 {
					_, to, _ := strings.Cut(fields[1], ":")
					want = append(want, to)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if got = slices.Compact(got); !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("in %s, %q changes %q, want %q", test.cwd, test.line, got, want)
			}
		})
	}
}
