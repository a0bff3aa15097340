package status

import (
	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Sandbox is what "grapnel status" says of the sandbox of a hook.
type Sandbox struct {
	Hook    string `json:"hook"`
	Sandbox string `json:"sandbox"`
	Problem string `json:"problem,omitempty"`
}

// noteSandboxes has a request note the sandboxes of the hooks that it loads.
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
