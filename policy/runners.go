package policy

import (
	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Runners are the ways in which the hooks of a policy leave the process. Hooks of a kind whose function
// is nil are skipped. An error of a function makes the whole policy invalid.
type Runners struct {
	Command func(policyfile.Command) grapnel.Hook          // a `run:` or a `worker:`
	HTTP    func(policyfile.HTTP) (grapnel.Hook, error)    // an `http:`
	Notify  func(policyfile.HTTP) (grapnel.Hook, error)    // a `notify:`
	Webhook func(policyfile.Webhook) (grapnel.Hook, error) // an address in a hook file of another system

	// Contain returns the path of grapnel-hook, if it can contain shell lines in a project. With nil,
	// `contain:` asks about each line.
	Contain func(box *policyfile.Sandbox, root string) (program string, err error)
}
