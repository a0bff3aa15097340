package match

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// makeCheckouts makes the checkouts main and topic, each on the branch of its name, in a new
// directory.
func makeCheckouts(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, branch := range []string{"main", "topic"} {
		for _, name := range []string{".git/objects", ".git/refs/heads", "src"} {
			if err := os.MkdirAll(filepath.Join(dir, branch, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range map[string]string{"HEAD": "ref: refs/heads/" + branch, "refs/heads/main": "", "refs/heads/topic": "", "config": "[alias]\n\tpub = push origin main\n\tbad = \"!make x; git push\"\n\tlg = !git log\n\tci = commit\n"} {
			if err := os.WriteFile(filepath.Join(dir, branch, ".git", name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func callIn(dir string, tool grapnel.Tool) *grapnel.Event {
	tool.Name = map[bool]string{true: "Bash", false: "Edit"}[len(tool.Commands) > 0]
	tool.Class = map[bool]grapnel.Class{true: grapnel.ClassShell, false: grapnel.ClassEdit}[len(tool.Commands) > 0]
	return &grapnel.Event{Kind: grapnel.ToolBefore, Session: grapnel.Session{CWD: dir}, Tool: &tool}
}

func TestBranchAndPushes(t *testing.T) {
	t.Parallel()
	dir := makeCheckouts(t)
	var (
		commit  = policyfile.Match{Command: []string{"git commit"}, Branch: []string{"main", "release/*"}}
		branch  = policyfile.Match{Branch: []string{"main"}}
		except  = policyfile.Match{Command: []string{"git commit"}, Not: &policyfile.Match{Branch: []string{"topic"}}}
		pushes  = policyfile.Match{Pushes: []string{"main"}}
		regexp  = policyfile.Match{Pushes: []string{"/^rel/"}}
		both    = policyfile.Match{Branch: []string{"topic"}, Pushes: []string{"main"}}
		writes  = policyfile.Match{Writes: []string{"**/src/**"}, Branch: []string{"main"}}
		allowed = policyfile.Match{Command: []string{"git push"}, Branch: []string{"topic"}, Pushes: []string{"topic"}}
		tags    = policyfile.Match{Pushes: []string{"refs/tags/*"}}
		others  = policyfile.Match{Pushes: []string{"*"}, Not: &policyfile.Match{Pushes: []string{"topic"}}}
	)
	for _, test := range []struct {
		name  string
		match policyfile.Match
		in    string // checkout
		line  string
		want  bool
		allow bool
	}{
		{"commit", commit, "main", "git commit -m x", true, false},
		{"commit", commit, "topic", "git commit -m x", false, false},
		{"commit", commit, "main", "cd ../topic && git commit", false, false},
		{"commit", commit, "topic", "cd ../main && git commit", true, false},
		{"commit", commit, "topic", "git -C ../main status; git commit", false, false},
		{"commit", commit, "topic", "git -C ../main status; git -C ../main commit", true, false},
		{"commit", commit, "topic", `cd "$X" && git commit`, true, false},
		{"commit", commit, "main", "git switch topic && git commit", false, false},
		{"commit", commit, "topic", "git switch main && git commit", true, false},
		{"commit", commit, "topic", "git switch -c release/2 && git commit", true, false},
		{"commit", commit, "topic", `git switch -c "release/$N" && git commit`, true, false},
		{"commit", commit, "main", `git switch -c "fix/$N" && git commit`, false, false},
		{"commit", commit, "main", "echo git commit", false, false},
		{"commit", commit, "topic", `X=../main; git -C "$X" commit`, true, false},
		{"commit", commit, "main", `X=../topic; git -C "$X" commit`, false, false},
		{"branch", branch, "main", "ls", true, false},
		{"branch", branch, "topic", "ls", false, false},
		{"branch", branch, "main", "cd ../topic && ls", false, false},
		{"branch", branch, "main", "bash -c 'cd ../topic && ls'", false, false},
		{"branch", branch, "main", "cd ../topic", false, false},
		{"branch", branch, "main", "make -C ../topic", false, false},
		{"branch", branch, "topic", "make -C ../main", true, false},
		{"except", except, "main", "git commit", true, false},
		{"except", except, "topic", "git commit", false, false},
		{"except", except, "main", "cd ../topic && git commit", false, false},
		{"except", except, "main", `cd "$X" && git commit`, true, false},
		{"except", except, "topic", "git commit; cd ../main; git commit", true, false},
		{"pushes", pushes, "topic", "git push origin HEAD:main", true, false},
		{"regexp", regexp, "topic", "git push origin HEAD:rel7", true, false},
		{"pushes", pushes, "topic", "git push", false, false},
		{"pushes", pushes, "main", "git push", true, false},
		{"pushes", pushes, "main", "git push origin topic", false, false},
		{"pushes", pushes, "main", "cd ../topic && git push", false, false},
		{"pushes", pushes, "topic", "git push --mirror", true, false},
		{"pushes", pushes, "topic", "git push --all", true, false},
		{"pushes", pushes, "topic", "git push origin $X", true, false},
		{"pushes", pushes, "topic", `git push origin "topic/$X"`, false, false},
		{"pushes", pushes, "topic", `git push origin "HEAD:m$X"`, true, false},
		{"pushes", pushes, "topic", `git push origin "HEAD:refs/heads/fix-$X"`, false, false},
		{"pushes", pushes, "topic", `cd "$X" && git push origin topic:topic`, false, false},
		{"pushes", pushes, "topic", `cd "$X" && git push origin topic`, true, false},
		{"pushes", pushes, "topic", "git pub", true, false},
		{"pushes", pushes, "topic", "git bad", true, false},
		{"pushes", pushes, "topic", "git lg", false, false},
		{"pushes", pushes, "topic", "git unknown", false, false},
		{"pushes", pushes, "topic", "git $X origin main", true, false},
		{"pushes", pushes, "topic", "git -c alias.x='push origin main' x", true, false},
		{"pushes", pushes, "topic", "git subtree push --prefix=x origin main", true, false},
		{"pushes", pushes, "topic", "git send-pack ../x main", true, false},
		{"pushes", pushes, "topic", "echo git push origin main", false, false},
		{"pushes", pushes, "topic", "sudo bash -c 'git push origin +x:main'", true, false},
		{"pushes", pushes, "topic", "if true; then git push origin :main; fi", true, false},
		{"pushes", pushes, "topic", "git config push.default upstream && git push", true, false},
		{"pushes", pushes, "topic", "git config user.name x && git push", false, false},
		{"pushes", pushes, "topic", "git config push.default && git push", false, false},
		{"pushes", pushes, "topic", "git branch -u origin/main && git push", true, false},
		{"pushes", pushes, "topic", "git -c push.default=upstream -c branch.topic.merge=refs/heads/main push", true, false},
		{"pushes", pushes, "topic", "git -c push.default=upstream switch -c y origin/main && git -c push.default=upstream push", true, false},
		{"pushes", pushes, "topic", "git push origin $(git rev-parse HEAD):refs/heads/topic", false, false},
		{"pushes", pushes, "topic", "git push origin $(git rev-parse HEAD):main", true, false},
		{"pushes", pushes, "topic", "B=$(git branch --show-current); git switch main; git push origin $B", true, false},
		{"pushes", pushes, "main", "B=$(git branch --show-current); git switch topic; git push origin $B", true, false},
		{"both", both, "topic", "git push origin HEAD:main", true, false},
		{"both", both, "main", "git push origin HEAD:main", false, false},
		{"both", both, "topic", "git -C ../main push origin HEAD:main; git status", false, false},
		{"writes", writes, "main", "echo x > src/a", true, false},
		{"writes", writes, "topic", "echo x > src/a", false, false},
		{"writes", writes, "topic", "echo x > ../main/src/a", true, false},
		{"writes", writes, "main", "rm src/a", true, false},
		{"writes", writes, "main", "git switch topic && rm src/a", false, false},
		{"writes", writes, "main", "git switch topic && echo x > src/a", false, false},
		{"writes", writes, "main", "echo x > src/a; git switch topic", true, false},
		{"writes", writes, "main", "ls src/a", false, false},
		{"allowed", allowed, "topic", "git push", true, true},
		{"allowed", allowed, "topic", "git push origin HEAD", true, true},
		{"allowed", allowed, "topic", "git push origin HEAD:main", false, true},
		{"allowed", allowed, "topic", "git push origin HEAD main", false, true},
		{"allowed", allowed, "topic", `git push origin "topic$X"`, false, true},
		{"allowed", allowed, "topic", `git push origin "$X"`, false, true},
		{"allowed", allowed, "topic", `X=topic; git push origin "$X"`, false, true},
		{"allowed", allowed, "topic", "git -C ../main push", false, true},
		{"allowed", allowed, "topic", "git -C ../gone push", false, true},
		{"allowed", allowed, "topic", "git push; git -C ../main push", false, true},
		{"allowed alone", branch, "main", "ls", false, true},
		{"tags", tags, "topic", "git push --tags", true, false},
		{"tags", tags, "topic", "git push origin topic", false, false},
		{"others", others, "topic", "git push", false, false},
		{"others", others, "topic", "git push origin HEAD:x", true, false},
		{"others", others, "topic", "git push origin topic; git push origin x:y", true, false},
	} {
		t.Run(test.name+" "+test.line, func(t *testing.T) {
			t.Parallel()
			if test.name == "tags" {
				tag := filepath.Join(dir, "topic", ".git", "refs", "tags", "v1")
				if os.MkdirAll(filepath.Dir(tag), 0o700) != nil || os.WriteFile(tag, []byte("x\n"), 0o600) != nil {
					t.Fatal("cannot make a tag")
				}
			}
			m, err := (&FactCache{}).Matcher(&test.match, nil, "", Reading{Allow: test.allow})
			if err != nil {
				t.Fatal(err)
			}
			ev := callIn(filepath.Join(dir, test.in), grapnel.Tool{Commands: []string{test.line}})
			if got, err := m.Match(ev, nil); got != test.want || err != nil {
				t.Errorf("%+v in %s, %q: %v, %v, want %v", test.match, test.in, test.line, got, err, test.want)
			}
			checks, _ := ConditionsOf(m).Of(ev, nil)
			if got := AllHold(checks); got != test.want {
				t.Errorf("the conditions of %+v in %s, %q: %+v, want %v", test.match, test.in, test.line, checks, test.want)
			}
		})
	}
}

// The checkout of a call without a shell line is the one of its files, or of the agent's directory.
func TestBranchOfFiles(t *testing.T) {
	t.Parallel()
	dir := makeCheckouts(t)
	file := func(name string) grapnel.Tool { return grapnel.Tool{Paths: []grapnel.Path{{Path: name}}} }
	two := file("src/a")
	two.Paths = append(two.Paths, grapnel.Path{Path: "../topic/b"})
	for _, test := range []struct {
		in         string
		tool       grapnel.Tool
		main, only bool // branch: main; not branch: topic
	}{
		{"main", file("src/a"), true, true},
		{"main", file("../topic/src/a"), false, false},
		{"topic", file(filepath.Join(dir, "main/new/dir/a")), true, true},
		{"topic", file("../outside"), false, true},
		{"main", grapnel.Tool{}, true, true},
		{"topic", grapnel.Tool{}, false, false},
		{"main", two, true, true},
	} {
		ev := callIn(filepath.Join(dir, test.in), test.tool)
		for _, each := range []struct {
			match policyfile.Match
			want  bool
		}{{policyfile.Match{Branch: []string{"main"}}, test.main}, {policyfile.Match{Tool: []string{"edit"}, Not: &policyfile.Match{Branch: []string{"topic"}}}, test.only}} {
			m, err := (&FactCache{}).Matcher(&each.match, nil, "", Reading{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := m.Match(ev, nil); got != each.want || err != nil {
				t.Errorf("%+v in %s of %+v: %v, %v, want %v", each.match, test.in, test.tool.Paths, got, err, each.want)
			}
		}
	}
	m, _ := (&FactCache{}).Matcher(&policyfile.Match{Branch: []string{"main"}}, nil, "", Reading{})
	for in, want := range map[string]bool{"main": true, "topic": false} {
		ev := &grapnel.Event{Kind: grapnel.PromptBefore, Session: grapnel.Session{CWD: filepath.Join(dir, in)}, Prompt: &grapnel.Prompt{Text: "x"}}
		if got, err := m.Match(ev, nil); got != want || err != nil {
			t.Errorf("a prompt in %s: %v, %v, want %v", in, got, err, want)
		}
	}
}

// An exception excludes single commands.
func TestExceptBranch(t *testing.T) {
	t.Parallel()
	dir := makeCheckouts(t)
	m, err := (&FactCache{}).Matcher(&policyfile.Match{Command: []string{"git push"}}, []policyfile.Match{{Pushes: []string{"topic"}}}, "", Reading{})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]bool{
		"git push": false, "git push origin main": true, "git push origin topic main": true, "git push origin topic; git push origin main": true, `git push origin "$X"`: true,
		`B=topic; git push origin "$B"`: false, `B=main; git push origin "$B"`: true,
	} {
		if got, err := m.Match(callIn(filepath.Join(dir, "topic"), grapnel.Tool{Commands: []string{line}}), nil); got != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", line, got, err, want)
		}
	}
}

// An exception of a rule about files excludes the files of a checkout, and an allow needs a known one.
func TestBranchOfFilesExceptAndAllow(t *testing.T) {
	t.Parallel()
	dir := makeCheckouts(t)
	except, err := (&FactCache{}).Matcher(&policyfile.Match{Writes: []string{"**/src/**"}}, []policyfile.Match{{Branch: []string{"topic"}}}, "", Reading{})
	if err != nil {
		t.Fatal(err)
	}
	allow, err := (&FactCache{}).Matcher(&policyfile.Match{Tool: []string{"edit"}, Branch: []string{"topic"}}, nil, "", Reading{Allow: true})
	if err != nil {
		t.Fatal(err)
	}
	file := func(names ...string) grapnel.Tool {
		var tool grapnel.Tool
		for _, name := range names {
			tool.Paths = append(tool.Paths, grapnel.Path{Path: name, Use: grapnel.UseWrite})
		}
		return tool
	}
	for _, test := range []struct {
		tool          grapnel.Tool
		blocks, allow bool
	}{
		{file("../main/src/a"), true, false},
		{file("src/a"), false, true},
		{file("src/a", "../main/src/b"), true, false},
		{file("../src/a"), true, false}, // outside of both
		{grapnel.Tool{Commands: []string{"rm src/a"}}, false, false},
		{grapnel.Tool{Commands: []string{"rm ../main/src/a"}}, true, false},
		{grapnel.Tool{Commands: []string{"cd ../main; rm src/a"}}, true, false},
	} {
		ev := callIn(filepath.Join(dir, "topic"), test.tool)
		if got, err := except.Match(ev, nil); got != test.blocks || err != nil {
			t.Errorf("%+v: block %v, %v, want %v", test.tool, got, err, test.blocks)
		}
		if got, err := allow.Match(ev, nil); got != test.allow || err != nil {
			t.Errorf("%+v: allow %v, %v, want %v", test.tool, got, err, test.allow)
		}
	}
}

// A branch is read for each event: a daemon keeps the rules, but no branch.
func TestBranchIsReadForEachEvent(t *testing.T) {
	t.Parallel()
	dir := makeCheckouts(t)
	m, err := (&FactCache{}).Matcher(&policyfile.Match{Branch: []string{"main"}}, nil, "", Reading{})
	if err != nil {
		t.Fatal(err)
	}
	for _, branch := range []string{"main", "other", "main"} {
		if err := os.WriteFile(filepath.Join(dir, "main/.git/HEAD"), []byte("ref: refs/heads/"+branch+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := m.Match(callIn(filepath.Join(dir, "main"), grapnel.Tool{Commands: []string{"ls"}}), nil); got != (branch == "main") || err != nil {
			t.Errorf("on %s: %v, %v", branch, got, err)
		}
	}
}

func TestExplainBranch(t *testing.T) {
	t.Parallel()
	dir := makeCheckouts(t)
	for line, want := range map[string]string{
		"git commit":                          "branch main",
		"cd $X; git commit":                   "branch unknown (the line enters a directory that is not known)",
		"git push origin x:main":              "pushes main",
		`git push origin "HEAD:$B"`:           "pushes unknown (the line computes what it pushes: HEAD:$B)",
		"git push origin x:y && git status":   "branch main",
		"git push --mirror":                   "pushes unknown (a mirror changes every reference)",
		"mkdir new && git -C new status":      "branch main",
		"git -C gone status":                  "branch unknown (there is no directory",
		"git switch -c main2; git branch -av": "",
	} {
		of := &policyfile.Match{Branch: []string{"main"}}
		if strings.Contains(want, "pushes") {
			of = &policyfile.Match{Pushes: []string{"main"}}
		}
		m, err := (&FactCache{}).Matcher(of, nil, "", Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Explain(callIn(filepath.Join(dir, "main"), grapnel.Tool{Commands: []string{line}}), nil); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestDoubt(t *testing.T) {
	t.Parallel()
	dir := makeCheckouts(t)
	m, err := (&FactCache{}).Matcher(&policyfile.Match{Pushes: []string{"main"}}, nil, "", Reading{})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"git push origin main":                       "",
		"git push origin $X":                         "computes",
		`git push origin "ma$X"`:                     "the end of the name ma...",
		"git push origin main; git push origin $X":   "",
		"git push origin $X; git push origin main":   "",
		"git push --mirror":                          "mirror",
		"cd $X && git push":                          "directory",
		"if x; then git switch main; fi && git push": "condition",
	} {
		if got := m.Doubt(callIn(filepath.Join(dir, "topic"), grapnel.Tool{Commands: []string{line}})); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestCommandDir(t *testing.T) {
	t.Parallel()
	dir := makeCheckouts(t)
	m, err := (&FactCache{}).Matcher(&policyfile.Match{Command: []string{"git commit"}}, nil, "", Reading{})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"git commit": "main",
		"cd ../topic && git commit; cd ../main; ls":   "topic",
		"git -C ../topic commit; ls":                  "topic",
		"cd src && ls; cd ../../topic; make":          "topic",
		"cd $X && git commit":                         "",
		"cd ../topic":                                 "main",
		"git -C ../topic commit; git -C . commit -am": "topic",
	} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := m.Dir(callIn(filepath.Join(dir, "main"), grapnel.Tool{Commands: []string{line}})); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// Any line and any files give an answer.
func FuzzBranch(f *testing.F) {
	f.Add("git commit", "ref: refs/heads/main", "")
	f.Add("cd $X || git -C a --git-dir=b push origin +a:b", "x", "[alias] a = push")
	f.Add("for i in 1; do git worktree add -b x ../y z; cd ../y; git checkout -; git push --all; done", "0123456789012345678901234567890123456789", "[push] default = matching")
	f.Add("git checkout @{-; git switch @{-", "ref: refs/heads/main", "")
	f.Fuzz(func(t *testing.T, line, head, config string) {
		dir := makeCheckouts(t)
		for name, text := range map[string]string{"HEAD": head, "config": config, "logs": head} {
			if err := os.WriteFile(filepath.Join(dir, "main/.git", name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, allow := range []bool{false, true} {
			m, err := (&FactCache{}).Matcher(&policyfile.Match{Branch: []string{"main"}, Pushes: []string{"main"}}, nil, "", Reading{Allow: allow})
			if err != nil {
				t.Fatal(err)
			}
			ev := callIn(filepath.Join(dir, "main"), grapnel.Tool{Commands: []string{line}})
			_, _ = m.Match(ev, nil)
			_ = m.Explain(ev, nil)
			_ = m.Dir(ev)
		}
	})
}

func BenchmarkBranch(b *testing.B) {
	dir := makeCheckouts(b)
	for name, of := range map[string]policyfile.Match{
		"without": {Command: []string{"git commit"}},
		"branch":  {Command: []string{"git commit"}, Branch: []string{"main"}},
		"pushes":  {Pushes: []string{"main"}},
	} {
		line := "cd src && git commit -m x"
		if name == "pushes" {
			line = "cd src && git push"
		}
		b.Run(name, func(b *testing.B) {
			cache := &FactCache{}
			m, err := cache.Matcher(&of, nil, "", Reading{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if ok, err := m.Match(callIn(filepath.Join(dir, "main"), grapnel.Tool{Commands: []string{line}}), nil); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
