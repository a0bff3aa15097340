package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func TestParseContain(t *testing.T) {
	t.Parallel()
	parse := func(contain string) (*policyfile.Policy, []*policyfile.Error) {
		return policy.Parse("p.yaml", []byte("version: 1\nhooks:\n  - name: x\n    on: tool.before\n    contain: "+contain+"\n"))
	}
	for text, want := range map[string]policyfile.Hook{
		"true":       {Contain: &policyfile.Sandbox{Read: []string{"{root}"}}},
		"{}":         {Contain: &policyfile.Sandbox{Read: []string{"{root}"}}},
		"unknown":    {Contain: &policyfile.Sandbox{Read: []string{"{root}"}}, Reason: "unknown"},
		"{read: []}": {Contain: &policyfile.Sandbox{}},
		"{read: [project, ~/.gitconfig, '{cwd}/x'], write: [tmp, '{root}/out', /var/cache/x], net: [443], reason: why}": {
			Contain: &policyfile.Sandbox{Read: []string{"{root}", "~/.gitconfig", "{cwd}/x"}, Write: []string{"tmp", "{root}/out", "/var/cache/x"}, Ports: []uint16{443}}, Reason: "why",
		},
		"{write: project, net: any}": {Contain: &policyfile.Sandbox{Read: []string{"{root}"}, Write: []string{"{root}"}, Net: true}},
		"{net: none}":                {Contain: &policyfile.Sandbox{Read: []string{"{root}"}}},
	} {
		p, errs := parse(text)
		if len(errs) > 0 {
			t.Errorf("%s: %v", text, errs)
			continue
		}
		if diff := cmp.Diff(want, policyfile.Hook{Contain: p.Hooks[0].Contain, Reason: p.Hooks[0].Reason}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"false":                   "contain must be true, the reason, or a mapping",
		"[project]":               "contain must be true, the reason, or a mapping",
		"{net: [example.com]}":    `"example.com" is not a port (write ` + "`any`, `none`, or a list of ports as [443]: the kernel can restrict ports, but not hosts",
		"{net: example.com}":      `not "example.com" (write ` + "`any`, `none`, or a list of ports as [443]: the kernel can restrict ports, but not hosts",
		"{write: out}":            `"out" is not an absolute path (write project, tmp, {root}/out`,
		"{write: projects}":       `"projects" is not an absolute path`,
		"{write: '{home}'}":       "only {root} and {cwd} are replaced",
		"{write: '{root}/../x'}":  "must stay below it",
		"{write: '/x/*'}":         "is a pattern",
		"{required: false}":       `unknown key "required" in contain`,
		"true\n    sandbox: true": "`sandbox` needs `run`",
		"true\n    block: no":     "has several actions: contain, block",
	} {
		if _, errs := parse(text); len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: %v, want %q", text, errs, want)
		}
	}
	for kind, want := range map[string]string{
		"tool.after":        "has no shell line that could run in a sandbox: use tool.before",
		"permission.before": "has no shell line that could run in a sandbox: use tool.before",
	} {
		if _, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks: [{name: x, on: "+kind+", contain: true}]\n")); len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: %v, want %q", kind, errs, want)
		}
	}
	if _, errs := policy.Parse("p.yaml", []byte("version: 1\npack: {version: 1, summary: x}\nhooks: [{name: x, on: tool.before, contain: true}]\n")); len(errs) == 0 || !strings.Contains(errs[len(errs)-1].Error(), "a pack cannot run programs, which `contain` does") {
		t.Errorf("in a pack: %v", errs)
	}
}
