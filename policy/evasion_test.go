package policy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
)

func fetches(url string) *grapnel.Event {
	return fixture.Tool(grapnel.ToolBefore, "WebFetch", grapnel.ClassFetch, map[string]any{"url": url})
}

// One bad part of a call is enough for a guard, regardless of harmless parts next to it. An
// allow requires that every part is certain.
func TestNoTalkingPast(t *testing.T) {
	t.Parallel()
	const none, allow, block = grapnel.None, grapnel.Allow, grapnel.Block
	for name, tt := range map[string]struct {
		rule string
		ev   *grapnel.Event
		want grapnel.Decision
	}{
		"not: one command of two":               {"match: {tool: shell, not: {command: ls}}\nblock: x", fixture.Shell("ls; rm -rf /"), block},
		"not: all commands":                     {"match: {tool: shell, not: {command: ls}}\nblock: x", fixture.Shell("ls; ls -la"), none},
		"not: beside an unknown one":            {"match: {tool: shell, not: {command: ls}}\nblock: x", fixture.Shell("ls; $x"), block},
		"not: behind a redirection":             {"match: {tool: shell, not: {command: ls}}\nblock: x", fixture.Shell("ls > /etc/passwd"), block},
		"not: where it writes is not what runs": {"match: {tool: shell, not: {path: 'out/**'}}\nblock: x", fixture.Shell("rm -rf / > out/x"), block},
		"except: where it writes":               {"match: {tool: shell}\nexcept: {path: 'out/**'}\nblock: x", fixture.Shell("rm -rf / > out/x"), block},
		"except: two keys, one holds":           {"match: {command: rm -rf}\nexcept: {command: rm -rf, path: 'tmp/**'}\nblock: x", fixture.Shell("rm -rf / > b"), block},
		"allow: except one of two":              {"match: {tool: shell}\nexcept: {command: rm}\nallow: true", fixture.Shell("ls; rm -rf /"), none},
		"allow: except, computed":               {"match: {tool: shell}\nexcept: {command: rm}\nallow: true", fixture.Shell("$x -rf /"), none},
		"allow: except, others pass":            {"match: {tool: shell}\nexcept: {command: rm}\nallow: true", fixture.Shell("ls; pwd"), allow},
		"allow: not, one of two":                {"match: {tool: shell, not: {command: rm}}\nallow: true", fixture.Shell("ls; rm x"), none},
		"allow: not, computed":                  {"match: {tool: shell, not: {command: rm}}\nallow: true", fixture.Shell("$x"), none},
		"allow: path says nothing of commands":  {"match: {path: 'src/**'}\nallow: true", fixture.Shell("rm -rf / > src/a"), none},
		"allow: path":                           {"match: {path: 'src/**'}\nallow: true", fixture.Write("src/a"), allow},
		"allow: host with a user before it":     {"match: {host: good.com}\nallow: true", fetches("https://good.com@evil.com/"), none},
		"host: capitals in the pattern":         {"match: {host: '*.Internal'}\nblock: x", fetches("https://db.internal/"), block},
		"host: no slashes":                      {"match: {host: db.internal}\nblock: x", fetches("https:db.internal/x"), block},
		"host: odd slashes":                     {"match: {host: db.internal}\nblock: x", fetches(`https:\\/db.internal/x`), block},
		"host: escaped":                         {"match: {host: db.internal}\nblock: x", fetches("https://db%2einternal/x"), block},
		"host: a tab inside":                    {"match: {host: db.internal}\nblock: x", fetches(" https://db.\tinternal/x"), block},
		"host: another dot":                     {"match: {host: db.internal}\nblock: x", fetches("https://db。internal/x"), block},
		"url: capitals":                         {"match: {url: 'https://db.internal/*'}\nblock: x", fetches("HTTPS://DB.internal/X"), block},
		"path: a file URL":                      {"match: {path: /etc/**}\nblock: x", fetches("file:///etc/pass%77d"), block},
		"path: a file URL for a path":           {"match: {path: /etc/**}\nblock: x", fixture.Write("FILE://localhost/etc/passwd"), block},
		"path: after cd":                        {"match: {path: 'deploy/prod/**'}\nblock: x", fixture.Shell("cd deploy && cd prod && echo x > a"), block},
		"path: after cd elsewhere":              {"match: {path: 'deploy/prod/**'}\nblock: x", fixture.Shell("(cd src); cd deploy/prod; echo x > a"), block},
		"path: a directory with a slash":        {"match: {path: deploy/prod/}\nblock: x", fixture.Write("deploy/prod/a/b"), block},
		"path: a pattern with ./":               {"match: {path: './deploy/**'}\nblock: x", fixture.Write("deploy/a"), block},
		"path: a pattern out of the project":    {"match: {path: '../other/**'}\nblock: x", fixture.Write("/home/dev/other/a"), block},
		"path: very long, and back":             {"match: {path: deploy/a}\nblock: x", fixture.Write(strings.Repeat("x/../", 20_000) + "deploy/a"), block},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := fixture.Engine(t, "/etc/p.yaml", fixture.Rule(tt.rule)).Fire(context.Background(), tt.ev)
			if v.Decision != tt.want {
				t.Errorf("%s on %.100s: %v, want %v (%s)", tt.rule, tt.ev.Tool.Input, v.Decision, tt.want, v.Reason())
			}
		})
	}
}

// An allow needs exact commands. Blocks, questions and exceptions match as many as before.
func TestOnlyAllowsNeedExactCommands(t *testing.T) {
	t.Parallel()
	const none, allow, block = grapnel.None, grapnel.Allow, grapnel.Block
	for name, tt := range map[string]struct {
		rule  string
		lines []string
		want  grapnel.Decision
	}{
		"allow":                      {"match: {command: git status}\nallow: true", []string{"git status -s"}, allow},
		"allow: a path":              {"match: {command: git status}\nallow: true", []string{"./git status"}, none},
		"allow: a variable":          {"match: {command: git status}\nallow: true", []string{"PATH=. git status"}, none},
		"allow: a line before it":    {"match: {command: git status}\nallow: true", []string{"PATH=.", "git status"}, none},
		"allow: not":                 {"match: {command: git, not: {command: git push}}\nallow: true", []string{"git status"}, allow},
		"allow: not, generous":       {"match: {command: [git, git push --force]}\nexcept: {command: git push}\nallow: true", []string{"git push --force"}, none},
		"block":                      {"match: {command: git status}\nblock: x", []string{"PATH=. ./git -C x status"}, block},
		"block: except":              {"match: {tool: shell}\nexcept: {command: git status}\nblock: x", []string{"PATH=. ./git -C x status --frobnicate"}, none},
		"block: except an operand":   {"match: {command: rm -rf}\nexcept: {command: rm -rf dist}\nblock: x", []string{"X=1 /bin/rm -rfv dist"}, none},
		"block: not, with an option": {"match: {tool: shell, not: {command: git}}\nblock: x", []string{"./git --exec-path=x status"}, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := fixture.Shell("")
			ev.Tool.Commands = tt.lines
			if v := fixture.Engine(t, "/etc/p.yaml", fixture.Rule(tt.rule)).Fire(context.Background(), ev); v.Decision != tt.want {
				t.Errorf("%s on %q: %v, want %v (%s)", tt.rule, tt.lines, v.Decision, tt.want, v.Reason())
			}
		})
	}
}

// A shell line with an open quote does not hide the next line.
func TestEachShellLineIsReadByItself(t *testing.T) {
	t.Parallel()
	ev := fixture.Shell("")
	ev.Tool.Commands = []string{"echo 'x", "rm -rf / #'"}
	if v := fixture.Engine(t, "/etc/p.yaml", fixture.Rule("match: {command: rm -rf}\nblock: x")).Fire(context.Background(), ev); v.Decision != grapnel.Block {
		t.Errorf("%v, want block", v.Decision)
	}
}

// A guarded name may be a symlink, and a symlink may lead to a guarded name.
func TestLinksOnBothSides(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"dotfiles", "src"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{".bashrc": "dotfiles/bashrc", ".env": "dotfiles/secret", "src/out": "/etc", "lib": "src"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		rule, path string
		want       grapnel.Decision
	}{
		"absolute pattern is a link":   {"match: {path: " + root + "/.bashrc}\nblock: x", ".bashrc", grapnel.Block},
		"its target":                   {"match: {path: " + root + "/.bashrc}\nblock: x", "dotfiles/bashrc", grapnel.Block},
		"relative pattern is a link":   {"match: {path: .bashrc}\nblock: x", ".bashrc", grapnel.Block},
		"pattern anywhere is a link":   {"match: {path: '**/.env'}\nblock: x", ".env", grapnel.Block},
		"allow does not follow out":    {"match: {path: 'src/**'}\nallow: true", "src/out/passwd", grapnel.None},
		"allow, one of two readings":   {"match: {path: 'src/**'}\nallow: true", "src/out/../a", grapnel.None},
		"an exception leads elsewhere": {"match: {path: '**'}\nexcept: {path: 'src/**'}\nblock: x", "src/../.env", grapnel.Block},
		"a link into what is guarded":  {"match: {path: 'src/**'}\nblock: x", "lib/a", grapnel.Block},
	} {
		ev := fixture.Write(tt.path)
		ev.Session.CWD, ev.Session.Root = root, root
		if v := fixture.Engine(t, filepath.Join(root, "p.yaml"), fixture.Rule(tt.rule)).Fire(context.Background(), ev); v.Decision != tt.want {
			t.Errorf("%s: %s is %v, want %v", name, tt.path, v.Decision, tt.want)
		}
	}
}

// A call with too many paths to check cannot bypass a guard for paths.
func TestTooManyPaths(t *testing.T) {
	t.Parallel()
	ev := fixture.Write("a")
	for i := range 5000 {
		ev.Tool.Paths = append(ev.Tool.Paths, grapnel.Path{Path: fmt.Sprint(i)})
	}
	for rule, want := range map[string]grapnel.Decision{
		fixture.Rule("match: {path: b}\nblock: x"):                      grapnel.Block,
		fixture.Rule("match: {tool: write, not: {path: b}}\nblock: x"):  grapnel.Block,
		fixture.Rule("match: {tool: write}\nexcept: {path: b}\nask: x"): grapnel.Block,
		fixture.Rule("match: {tool: read}\nblock: x"):                   grapnel.None,
	} {
		v := fixture.Engine(t, "/etc/p.yaml", rule).Fire(context.Background(), ev)
		if v.Decision != want || want == grapnel.Block && !strings.Contains(v.Reason(), "more than 4096") {
			t.Errorf("%s: %v %q, want %v", rule, v.Decision, v.Reason(), want)
		}
	}
}

// A rule for a batch of calls checks each call as a whole.
func TestBatchOfCalls(t *testing.T) {
	t.Parallel()
	batch := &grapnel.Event{
		Kind: grapnel.ToolBatchAfter, Session: grapnel.Session{CWD: "/p", Root: "/p"},
		Calls: []grapnel.Tool{*fixture.Shell("git push --force").Tool, *fixture.Write("deploy/a").Tool},
	}
	for match, want := range map[string]grapnel.Decision{
		"{command: git push --force}":      grapnel.Block,
		"{path: 'deploy/**'}":              grapnel.Block,
		"{tool: shell, path: 'deploy/**'}": grapnel.None, // no call matches both
		"{text: sk-live}":                  grapnel.Block,
		"{tool: fetch}":                    grapnel.None,
	} {
		policy := "version: 1\nhooks:\n  - {name: x, on: toolbatch.after, match: " + match + ", block: no}\n"
		e := fixture.Engine(t, "/etc/p.yaml", policy)
		if v := e.Fire(context.Background(), batch); v.Decision != want {
			t.Errorf("%s: %v, want %v", match, v.Decision, want)
		}
		if plan := e.Plan(batch); (len(plan.Entries) == 1) != (want == grapnel.Block) || want == grapnel.Block && plan.Entries[0].Matched == "" {
			t.Errorf("%s: plan %+v does not say why", match, plan)
		}
	}
	e := fixture.Engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - {name: x, on: toolbatch.after, when: 'tool.path == \"deploy/a\"', block: no}\n")
	if v := e.Fire(context.Background(), batch); v.Decision != grapnel.Block {
		t.Errorf("when: %v, want block", v.Decision)
	}
}
