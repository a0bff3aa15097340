package shell

import (
	"fmt"
	"strings"
	"testing"
)

// lastOfGit returns the last command of git in a line.
func lastOfGit(t *testing.T, line string) *Command {
	t.Helper()
	s := Parse(line)
	for i := len(s.Commands) - 1; i >= 0; i-- {
		if c := &s.Commands[i]; c.Name == "git" && !c.Again() {
			return c
		}
	}
	t.Fatalf("%q has no git: %v", line, s.Commands)
	return nil
}

func TestWhereACommandActs(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{ // "?" = lost
		"git status":                                                  "",
		"cd a && git status":                                          "a",
		"cd a; git status":                                            "a",
		"cd a || exit 1; git status":                                  "a",
		"cd a || { echo no; exit 1; }; git status":                    "a",
		"cd a || true; git status":                                    "?",
		"cd a && cd b && cd - && git status":                          "a",
		"cd a; cd $OLDPWD; git status":                                "",
		"pushd a; pushd b; popd; git status":                          "a",
		"pushd a; pushd b; pushd; git status":                         "a",
		"popd; git status":                                            "?",
		"(cd a); git status":                                          "",
		"(cd $X); git status":                                         "",
		"cd a & git status":                                           "",
		"cd a | true; git status":                                     "",
		"x=$(cd a); git status":                                       "",
		"bash -c 'cd a'; git status":                                  "",
		"eval 'cd a'; git status":                                     "a",
		"cd $X && git status":                                         "?",
		"cd $X && cd /a && git status":                                "/a",
		"cd $X && cd a && git status":                                 "?",
		"X=a; cd $X && git status":                                    "a",
		"X=a; cd b && cd $X && git status":                            "b/a",
		"if x; then X=a; else X=b; fi; cd $X; git status":             "?",
		"for d in a b; do cd $d; git status; done":                    "?",
		"for d in a b; do (cd x; git status); done":                   "x",
		"for d in a; do cd x; git status; cd ..; done":                "x",
		"for d in a; do git status; cd x; done":                       "?",
		"if x; then cd a; fi; git status":                             "?",
		"if x; then cd a; git status; fi":                             "a",
		"if x; then cd a; else cd a; fi; git status":                  "a",
		"case x in a) cd a;; esac; git status":                        "?",
		"test -d a && cd a; git status":                               "?",
		"test -d a && cd a && git status":                             "a",
		"f() { cd a; }; git status":                                   "",
		"f() { git status; }; cd a; f":                                "?",
		"f() { git status; }; f":                                      "",
		"env -C a git status":                                         "a",
		"env -C a true; git status":                                   "",
		"ssh host git status":                                         "?",
		"docker exec c git status":                                    "?",
		"find . -execdir git status ';'":                              "?",
		`cd "$(git rev-parse --show-toplevel)" && git status`:         "",
		`cd a; cd "$(git rev-parse --show-toplevel)" && git status`:   "a",
		`cd "$(git rev-parse --show-toplevel)" && cd a && git status`: "?",
		"cd ~ && git status":                                          "~",
		"cd && git status":                                            "~",
		"sudo -u me git -C x status":                                  "",
		"xargs git status":                                            "",
		"trap 'cd a' EXIT; git status":                                "",
	} {
		c := lastOfGit(t, line)
		got := c.Dir
		if c.Lost {
			got = "?"
		}
		if got != want {
			t.Errorf("%q acts in %q, want %q", line, got, want)
		}
	}
}

func TestVariablesOfACommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"A=b git status":                           "",
		"GIT_DIR=x git status":                     "GIT_DIR=x",
		"GIT_DIR=x true; git status":               "",
		"GIT_DIR=x; git status":                    "",
		"GIT_DIR=x; export GIT_DIR; git status":    "GIT_DIR=x",
		"export GIT_DIR=x HOME=/h; git status":     "GIT_DIR=x HOME=/h",
		"export GIT_DIR=$X; git status":            "GIT_DIR",
		"(export GIT_DIR=x); git status":           "",
		"declare -x GIT_DIR=x; git status":         "GIT_DIR=x",
		"export GIT_DIR=x; unset GIT_DIR; git log": "GIT_DIR=x GIT_DIR=",
		"env GIT_DIR=x git status":                 "GIT_DIR=x",
		"env GIT_DIR=x true; git status":           "",
		"D=x; GIT_DIR=$D git status":               "GIT_DIR=x",
		"sudo GIT_DIR=x git status":                "GIT_DIR=x",
	} {
		if got := strings.Join(lastOfGit(t, line).Env(), " "); got != want {
			t.Errorf("%q gets %q, want %q", line, got, want)
		}
	}
}

func TestWordsOfGit(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"git":                              "[]  [] [] -1 false",
		"git -C a -c b=c --git-dir d push": "[C=a c=b=c git-dir=d] push [] [] -1 false",
		"git push -uf origin main":         "[] push [set-upstream= force=] [origin main] -1 false",
		"git push --del origin x -- y":     "[] push [delete=] [origin x y] 2 false",
		"git push -o x --repo=y":           "[] push [push-option=x repo=y] [] -1 false",
		"git checkout -b x":                "[] checkout [b=x] [] -1 false",
		"git checkout a -- b c":            "[] checkout [] [a b c] 1 false",
		"git checkout main --":             "[] checkout [] [main] 1 false",
		"git branch -M a b":                "[] branch [move=] [a b] -1 false",
		"git push origin $X":               "[] push [] [origin $X] -1 true",
		`git push origin "$X"`:             "[] push [] [origin $X] -1 false",
	} {
		g, ok := Parse(line).Commands[0].Git()
		texts := func(words []Word) []string {
			list := []string{}
			for _, w := range words {
				list = append(list, w.Text)
			}
			return list
		}
		options := func(all []Option) []string {
			list := []string{}
			for _, o := range all {
				list = append(list, o.Name+"="+o.Value.Text)
			}
			return list
		}
		if got := fmt.Sprintln(options(g.Global), g.Sub.Text, options(g.Options), texts(g.Operands), g.Paths, g.Open); strings.TrimSuffix(got, "\n") != want || !ok {
			t.Errorf("%q = %s, want %s", line, got, want)
		}
	}
	if _, ok := Parse("gitk").Commands[0].Git(); ok {
		t.Error("gitk is git")
	}
}
