package policytest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// tested writes a policy and its tests, and reads the tests.
func tested(t *testing.T, policy, tests string) []*policytest.Test {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"p.yaml": policy, "p_test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.TrimLeft(text, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, errs := policytest.Read(filepath.Join(dir, "p_test.yaml"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return file.Tests
}

// covered runs tests, which must pass, and returns their coverage.
func covered(t *testing.T, tests []*policytest.Test) *policytest.Coverage {
	t.Helper()
	cover, err := policytest.NewCover(tests, "")
	if err != nil {
		t.Fatal(err)
	}
	results, err := policytest.Run(t.Context(), tests, &policytest.Options{Cover: cover})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Status != policytest.Passed {
			t.Fatalf("%s: %s %v %v", r.Test.Name, r.Status, r.Error, r.Mismatches)
		}
	}
	return cover.Coverage()
}

// missing returns the lines of Missing without the directory of the policy.
func missing(c *policytest.Coverage) string {
	var lines []string
	for _, p := range c.Policies {
		for _, line := range p.Missing() {
			line, _, _ = strings.Cut(line, "; test ")
			lines = append(lines, strings.ReplaceAll(line, filepath.Dir(p.Policy)+string(filepath.Separator), ""))
		}
	}
	return strings.Join(lines, "\n")
}

const coverPolicy = `
version: 1
hooks:
  - name: no-rm
    on: tool.before
    match: {command: [rm -rf, rm -r], tool: shell}
    except:
      - {command: [rm -rf dist, rm -rf build]}
      - {mode: plan}
    block: no
  - name: careful
    on: [tool.before, prompt.before]
    when: session.mode == "plan" or tool.command contains "x"
    block: careful
  - name: after-env
    on: tool.before
    match: {tool: fetch}
    after: {event: tool.after, match: {path: "**/.env"}}
    ask: really?
`

func TestCover(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ tests, missing, total string }{
		"nothing": {
			"[{command: ls, want: none}]", `
p.yaml:3:5: no-rm never acts
p.yaml:10:5: careful never acts
p.yaml:14:5: after-env never acts`,
			"19 % (rules 0/3, matchers 2/14, branches 2/4)",
		},
		"some": {
			`
  - {command: rm -rf a, want: block}
  - {command: rm -rf dist, want: none}
  - {command: ls x, want: block}
  - {url: "https://example.com", want: none}`, `
p.yaml:5:45: no-rm: match.tool never excludes an event
p.yaml:7:33: no-rm: except[0].command[1] "rm -rf build" never matches
p.yaml:8:10: no-rm: except[1] never excludes an event
p.yaml:12:11: careful: when "session.mode == \"plan\"" never is true
p.yaml:14:5: after-env never acts`,
			"",
		},
		"all": {
			`
  - {command: rm -rf a, want: block}
  - {command: rm -r a, want: {rule: no-rm}}
  - {command: rm -rf dist, want: none}
  - {command: rm -rf build, want: none}
  - {command: rm -rf a, mode: plan, want: {not: {rule: no-rm}}}
  - {tool: read, path: a, mode: plan, want: block}
  - {command: ls x, want: block}
  - {url: "https://example.com", want: none}
  - {tool: read, path: a, before: [{tool: read, path: .env, output: x}], want: none}
  - {url: "https://example.com", before: [{tool: read, path: .env, output: x}], want: ask}`, `
p.yaml:5:45: no-rm: match.tool never excludes an event`,
			"95 % (rules 3/3, matchers 13/14, branches 4/4)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := covered(t, tested(t, coverPolicy, "version: 1\ntests: "+tt.tests+"\n"))
			if diff := cmp.Diff(strings.TrimPrefix(tt.missing, "\n"), missing(c)); diff != "" {
				t.Error(diff)
			}
			if got := c.Total.String(); tt.total != "" && got != tt.total {
				t.Errorf("%s, want %s", got, tt.total)
			}
		})
	}
}

// Each point can be reached, and its position is the part of the policy that it describes.
func TestCoverPlaces(t *testing.T) {
	t.Parallel()
	c := covered(t, tested(t, coverPolicy, "version: 1\ntests: [{command: ls, want: none}]\n"))
	lines := strings.Split(strings.TrimLeft(coverPolicy, "\n"), "\n")
	for _, h := range c.Policies[0].Hooks {
		for _, p := range h.Points {
			if p.Line < 1 || p.Line > len(lines) || p.Col < 1 {
				t.Fatalf("%+v", p)
			}
			at := lines[p.Line-1][p.Col-1:]
			if p.Text != "" && p.Group == policytest.MatcherGroup && !strings.HasPrefix(p.At, "after") && !strings.HasPrefix(strings.Trim(at, `"'`), p.Text) {
				t.Errorf("%s: %q points at %q", h.Name, p.Text, at)
			}
		}
	}
}

func TestCoverPack(t *testing.T) {
	t.Parallel()
	tests := tested(t, "version: 1\n", "version: 1\npack: destructive\ntests:\n  - {command: git push --force, want: {rule: no-force-push}}\n")
	c := covered(t, tests)
	p := c.Policies[0]
	i := slices.IndexFunc(p.Hooks, func(h policytest.HookCovered) bool { return h.Name == "no-force-push" })
	if p.Policy != "pack destructive" || i < 0 || p.Hooks[i].Events != 1 || !p.Hooks[i].Points[0].Reached || p.Total.Rules.Reached < 1 {
		t.Errorf("%+v", p.Total)
	}
}
