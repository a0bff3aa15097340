package main

import (
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// held says, behind what a hook does, what its program is held to.
func held(h *policyfile.Hook) string {
	if cmd := programOf(h); cmd != nil && cmd.Sandbox != nil {
		return "\n" + cmd.Sandbox.Describe()
	}
	return ""
}

// programOf is what a hook starts, or nil.
func programOf(h *policyfile.Hook) *policyfile.Command {
	if h.Context != nil {
		return h.Context.Run
	}
	return h.Run
}

// unsandboxed names the hooks that this machine cannot hold to their sandboxes.
func unsandboxed(file string, p *policyfile.Policy) []finding {
	var found []finding
	for i := range p.Hooks {
		h := &p.Hooks[i]
		cmd := programOf(h)
		if cmd == nil {
			continue
		}
		if err := local.Unsandboxed(*cmd); err != nil {
			what := "it fails"
			if cmd.Sandbox.Optional {
				what = "it runs all the same"
			}
			found = append(found, notSandboxed.finding(&policyfile.Error{
				File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q %v: %s", h.Name, err, what),
			}))
		}
	}
	return found
}

// sandboxState is what "grapnel status" says of the sandbox of a hook.
type sandboxState struct {
	Hook    string `json:"hook"`
	Sandbox string `json:"sandbox"`
	Problem string `json:"problem,omitempty"`
}

// sandboxes has a request note the sandboxes of the hooks that it loads.
func sandboxes(req *policy.Request) *[]sandboxState {
	var found []sandboxState
	command := req.Command
	req.Command = func(c policyfile.Command) grapnel.Hook {
		if c.Sandbox != nil {
			s := sandboxState{Hook: c.Name, Sandbox: c.Sandbox.Describe()}
			if err := local.Unsandboxed(c); err != nil {
				s.Problem = err.Error()
			}
			found = append(found, s)
		}
		return command(c)
	}
	return &found
}
