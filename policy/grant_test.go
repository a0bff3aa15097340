package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/policy"
)

func TestGrantErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"grants: x":   "grants must be a list",
		"grants: [x]": "grants must be a mapping",
		"grants: [{source: src/**, may: [allow]}]":              `"src/**" is not an absolute path`,
		"grants: [{source: '**x', may: [allow]}]":               `"**x" is not an absolute path`,
		"grants: [{source: ~/src, may: [alow]}]":                `did you mean "allow"?`,
		"grants: [{source: ~/src, may: [networks]}]":            "want one of allow, run, http",
		"grants: [{source: ~/src}]":                             "the entry has no `may`",
		"grants: [{may: [run]}]":                                "the entry has no `source`",
		"grants: [{source: '~/[', may: [run]}]":                 "is not a path pattern",
		"grants: [{source: ~/src, may: [run], env: [X]}]":       `unknown key "env"`,
		"trust: [{source: ~/src, digest: abc}]":                 `"abc" is not a digest`,
		"trust: [{source: ~/src, digest: 'sha256:../../../x'}]": "is not a digest",
		"trust: [{source: ~/src}]":                              "the entry has no `digest`",
		"use_only_managed: maybe":                               "",
		"pack: {version: 1}\ngrants: []":                        "a pack cannot contain `grants`",
		"pack: {version: 1}\ntrust: []":                         "a pack cannot contain `trust`",
		"pack: {version: 1}\nuse_only_managed: true":            "a pack cannot contain `use_only_managed`",
	} {
		_, errs := policy.Parse("p.yaml", []byte("version: 1\n"+text+"\n"))
		all := fmt.Sprint(errs)
		if len(errs) == 0 || !strings.Contains(all, want) {
			t.Errorf("%s: %s, want %q", text, all, want)
		}
	}
}
