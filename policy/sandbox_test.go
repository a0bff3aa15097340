package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// The sandbox of a hook's program comes from the hook, from the file's defaults, or does not
// exist.
func TestSandboxOf(t *testing.T) {
	t.Parallel()
	project := &policyfile.Sandbox{Read: []string{"{root}"}}
	tests := map[string]struct {
		defaults, hook string
		want           *policyfile.Sandbox
		description    string
	}{
		"none":       {"", "run: a", nil, "no sandbox"},
		"true":       {"", "run: a\n    sandbox: true", project, "sandbox: reads the project, writes nothing, no network"},
		"false":      {"true", "run: a\n    sandbox: false", &policyfile.Sandbox{Off: true}, "no sandbox"},
		"a default":  {"true", "run: a", project, "sandbox: reads the project, writes nothing, no network"},
		"of a rule":  {"true", "context: {text: x}", nil, "no sandbox"},
		"of context": {"true", "context: {run: a}", project, "sandbox: reads the project, writes nothing, no network"},
		"its own":    {"true", "run: a\n    sandbox: {read: [], write: out, net: [443, 80], required: false}", &policyfile.Sandbox{Write: []string{"out"}, Ports: []uint16{443, 80}, Optional: true}, "sandbox: reads nothing, writes out, TCP to port 443, 80; optional on systems without sandboxes"},
		"unread":     {"", "run: a\n    sandbox: {net: any}", &policyfile.Sandbox{Read: []string{"{root}"}, Net: true}, "sandbox: reads the project, writes nothing, any network"},
		"net":        {"", "run: a\n    sandbox: {read: [., ~/x, '{cwd}/y'], net: none}", &policyfile.Sandbox{Read: []string{".", "~/x", "{cwd}/y"}}, "sandbox: reads the directory of the policy, ~/x, {cwd}/y, writes nothing, no network"},
		"a worker":   {"true", "worker: a", &policyfile.Sandbox{Read: []string{"."}}, "sandbox: reads the directory of the policy, writes nothing, no network"},
		"a worker's": {"", "worker: a\n    sandbox: {write: ['{root}/out']}", &policyfile.Sandbox{Read: []string{"."}, Write: []string{"./out"}}, "sandbox: reads the directory of the policy, writes ./out, no network"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "version: 1\nhooks:\n  - name: x\n    on: session.start\n    " + test.hook + "\n"
			if test.defaults != "" {
				text += "defaults: {sandbox: " + test.defaults + "}\n"
			}
			p, errs := policy.Parse("p.yaml", []byte(text))
			if len(errs) > 0 {
				t.Fatalf("%v\n%s", errs, text)
			}
			cmd := p.Hooks[0].Run
			if c := p.Hooks[0].Context; c != nil {
				cmd = c.Run
			}
			if cmd == nil {
				cmd = &policyfile.Command{}
			}
			if diff := cmp.Diff(test.want, cmd.Sandbox); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got := cmd.Sandbox.Describe(); got != test.description {
				t.Errorf("it says %q, want %q", got, test.description)
			}
		})
	}
}
