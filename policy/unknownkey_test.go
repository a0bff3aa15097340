package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/policy"
)

// TestKeyHints checks the ways out for unknown keys: no key is known to the mapping that has a hint for
// it, and each action that is written in the wrong place names its place. More of them are in
// cmd/grapnel/testdata/wrong-policies.txtar.
func TestKeyHints(t *testing.T) {
	t.Parallel()
	for _, row := range policy.Meant() {
		for word := range strings.FieldsSeq(row.Words) {
			text := map[string]string{
				"the policy": "version: 1\nKEY: x\n",
				"a hook":     hook("    block: a\n    KEY: x\n"),
				"match":      hook("    block: a\n    match: {KEY: x}\n"),
				"http":       hook("    http: {url: 'https://example.com', KEY: x}\n"),
				"notify":     hook("    notify: {url: 'https://example.com', KEY: x}\n"),
				"use":        "version: 1\nuse: [{pack: a, KEY: x}]\n",
			}[row.What]
			_, errs := policy.Parse("p.yaml", []byte(strings.ReplaceAll(text, "KEY", word)))
			if len(errs) != 1 || errs[0].Hint != row.Hint {
				t.Errorf("%q in %s: %v, want the hint %q", word, row.What, errs, row.Hint)
			}
		}
	}
	for _, action := range policy.ActionNames() {
		for _, text := range []string{"version: 1\n" + action + ": x\n", hook("    block: a\n    match: {" + action + ": x}\n")} {
			_, errs := policy.Parse("p.yaml", []byte(text))
			if len(errs) == 0 || !slices.ContainsFunc([]string{"is a key of a hook", "is a key of the hook"}, func(want string) bool { return strings.Contains(errs[0].Hint, want) }) {
				t.Errorf("%s: %v", text, errs)
			}
		}
	}
}
