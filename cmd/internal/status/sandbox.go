package status

import (
	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Sandbox is the sandbox of a hook in the output of "grapnel status".
type Sandbox struct {
	Hook    string `json:"hook"`
	Sandbox string `json:"sandbox"`
	Problem string `json:"problem,omitempty"`
}

// noteSandboxes changes a request so that loading it collects the sandboxes of the hooks.
func noteSandboxes(req *policy.Request) *[]Sandbox {
	var found []Sandbox
	command := req.Command
	req.Command = func(c policyfile.Command) grapnel.Hook {
		if c.Sandbox != nil {
			s := Sandbox{Hook: c.Name, Sandbox: c.Sandbox.Describe()}
			if err := local.Unsandboxed(c); err != nil {
				s.Problem = err.Error()
			}
			found = append(found, s)
		}
		return command(c)
	}
	return &found
}
