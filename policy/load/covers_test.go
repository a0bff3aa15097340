package load

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func TestCovers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wide, narrow string
		want         bool
	}{
		"a longer command":        {"match: {command: git push}", "match: {command: git push --force}", true},
		"the other way round":     {"match: {command: git push --force}", "match: {command: git push}", false},
		"one of several":          {"match: {command: [git push, git reset]}", "match: {command: git push --force}", true},
		"only some of them":       {"match: {command: git push}", "match: {command: [git push, git reset]}", false},
		"whatever there is":       {"message: x", "match: {command: git push}", true},
		"of whatever there is":    {"match: {command: git push}", "message: x", false},
		"one more key":            {"match: {command: git push}", "match: {command: git push, agent: codex}", true},
		"one key less":            {"match: {command: git push, agent: codex}", "match: {command: git push}", false},
		"the same":                {"match: {path: .env, text: /a.b/}", "match: {path: .env, text: /a.b/}", true},
		"an exception":            {"match: {command: git}, except: {command: git push}", "match: {command: git push}", false},
		"an exception of its own": {"match: {command: git}", "match: {command: git push}, except: {command: git push x}", true},
		"a condition":             {"match: {command: git}, when: tool.failed", "match: {command: git push}", false},
		"something before":        {"match: {command: git}, after: {event: tool.failed}", "match: {command: git push}", false},
		"turned around":           {"match: {not: {command: git push}}", "match: {command: git push}", false},
		"another event":           {"on: tool.after, match: {command: git}", "match: {command: git push}", false},
	} {
		hook := func(text string) *policyfile.Hook {
			if text[:3] != "on:" {
				text = "on: tool.before, " + text
			}
			p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks: [{name: x, block: no, "+text+"}]\n"))
			if len(errs) > 0 {
				t.Fatalf("%s: %v", text, errs)
			}
			return &p.Hooks[0]
		}
		if got := match.Covers(hook(c.wide), hook(c.narrow)); got != c.want {
			t.Errorf("%s: Covers(%s; %s) = %v, want %v", name, c.wide, c.narrow, got, c.want)
		}
	}
}
