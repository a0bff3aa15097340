package doctor

import (
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Request is the input of Look.
type Request struct {
	Place   local.Place
	Dir     string   // current directory of the user, an absolute path
	Agents  []string // names or aliases; empty = all
	Set     load.Set // of the place, with hooks that are never called
	Program string   // grapnel-hook of this Grapnel; empty = not found
	Root    string   // --root

	Programs []policyfile.Command // of the hooks in Set
	Stuck    []string             // hooks in Set that cannot work now, and why
	Damaged  []load.Corruption    // result of policy.CheckIntegrity from before Set was loaded, because loading repairs some damage

	// Events are the events that the policy needs in addition to the default sets, by agent, as
	// for install.
	Events map[string][]string

	Approve map[grapnel.Kind]time.Duration // how long a person may take to answer, by kind of event

	NoRun  bool // start no programs: neither the agents nor the hook
	glance bool // like NoRun; also read one day of the log instead of a week, and write nothing

	// Slow is the median duration of a reply above which there is a warning; 0 means 60 times the
	// duration of a program that does nothing.
	Slow time.Duration
	Now  time.Time // zero = time.Now
}

// NewRequest returns a Request about the policies that are in force in a directory.
func NewRequest(place local.Place, dir, root string) Request {
	// Without its program, the check compares the installation with itself.
	program, _ := install.HookProgram(install.User)
	req := Request{Place: place, Dir: dir, Root: root, Program: program}
	look := check.Look(place)
	run := dryrun.Runners(func(c dryrun.Call) (grapnel.Hook, error) {
		hook, err := look(c)
		stuck := func(format string, why error) {
			if why != nil { // the hook is active, but fails
				req.Stuck = append(req.Stuck, fmt.Sprintf("hook "+format, c.Name, why))
			}
		}
		switch {
		case c.Webhook != nil:
			return hook, err
		case c.Program != nil:
			req.Programs = append(req.Programs, *c.Program)
		case c.Server != nil:
			stuck("%s is %v", ask.Circuit(place, c.Server, time.Now()))
			stuck("%s cannot reach its server: %v", err)
		case c.Target != nil:
			stuck("%s cannot send notifications: %v", err)
		}
		return nil, nil
	})
	req.Damaged = load.CheckIntegrity(place.Snapshots(), place.Trusts())
	req.Set = load.Policies(place.Request(place.Files(nil, place.DirsOf(dir)), run))
	needs := install.PolicyNeeds(place)
	req.Events, req.Approve = needs.Events, needs.Approve
	return req
}
