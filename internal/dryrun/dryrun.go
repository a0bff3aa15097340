// Package dryrun answers for the programs and servers of the hooks of a policy, so that commands and tests can
// load, show and run a policy without effects.
//
// A caller decides about each [Call] with one function. Its answer is fixed (a test states it),
// recorded (a Record has it) or real (the program runs). Most callers mix them.
package dryrun

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Call is a hook of a policy that leaves the process. One of its pointers is not nil.
type Call struct {
	Name    string // of the hook
	Program *policyfile.Command
	Server  *policyfile.HTTP    // its reply counts
	Target  *policyfile.HTTP    // of a `notify:`
	Webhook *policyfile.Webhook // of another system
}

// Observes reports whether no reply of the hook can change what the agent does.
func (c *Call) Observes() bool { return c.Target != nil || c.Webhook != nil }

// Answer returns the hook that answers for a call, or nil for one without effect. An error means that
// the hook is invalid; for a program, it is the error of each event.
type Answer func(Call) (grapnel.Hook, error)

// Runners returns the Runners that let answer decide about each call, without Contain.
func Runners(answer Answer) policy.Runners {
	hook := func(c Call) (grapnel.Hook, error) {
		hook, err := answer(c)
		if hook == nil {
			hook = noop.Hook{}
		}
		return hook, err
	}
	return policy.Runners{
		Command: func(c policyfile.Command) grapnel.Hook {
			made, err := hook(Call{Name: c.Name, Program: &c})
			if err != nil {
				return Failing(err)
			}
			return made
		},
		HTTP:    func(h policyfile.HTTP) (grapnel.Hook, error) { return hook(Call{Name: h.Name, Server: &h}) },
		Notify:  func(h policyfile.HTTP) (grapnel.Hook, error) { return hook(Call{Name: h.Name, Target: &h}) },
		Webhook: func(w policyfile.Webhook) (grapnel.Hook, error) { return hook(Call{Name: w.Name, Webhook: &w}) },
	}
}

// Silent returns Runners whose hooks have no effect.
func Silent() policy.Runners {
	return Runners(func(Call) (grapnel.Hook, error) { return nil, nil })
}

// Failing returns a hook that fails for each event.
func Failing(err error) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, err })
}

// NoServer returns the hook for a server that a test has no answer for. says names where to write one.
func NoServer(file, hook, says string) grapnel.Hook {
	return Failing(fmt.Errorf("%s: tests call no servers: set the answer of the hook %s in %s", file, hook, says))
}
