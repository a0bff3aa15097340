package install

import (
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Names returns the names of all agents.
func Names() []string {
	var names []string
	for _, a := range Agents() {
		names = append(names, a.Name)
	}
	return names
}

// installable reports whether an event of an agent can be installed.
func installable(agent, event string) bool {
	a, err := Lookup(agent)
	return err == nil && a.May(event) == nil
}

// Needs are the requirements of a policy for the settings of agents.
type Needs struct {
	Events  map[string][]string // per agent, events that are not in the default set
	Timeout time.Duration       // timeout that the hooks of the policy need, at least DefaultTimeout

	Approve map[grapnel.Kind]time.Duration // see Request
}

// PolicyNeeds returns the requirements of the policies of a place.
func PolicyNeeds(place local.Place) Needs {
	set := load.Policies(place.Request(place.Files(nil, nil), dryrun.Silent()))
	return Needs{
		Events:  eventsOf(set.Specs),
		Timeout: max(DefaultTimeout, HookTime(set.Specs)+replyMargin),
		Approve: approveOf(set.Specs),
	}
}

// approveOf returns the longest time for a person's answer, by kind of event.
func approveOf(specs []grapnel.Spec) map[grapnel.Kind]time.Duration {
	times := map[grapnel.Kind]time.Duration{}
	for i := range specs {
		if a := approval.Terms(&specs[i]); a != nil {
			for _, kind := range specs[i].On {
				times[kind] = max(times[kind], time.Duration(a.Within))
			}
		}
	}
	return times
}

// eventsOf returns, per agent, the events that hooks need and that are not in the default set.
func eventsOf(specs []grapnel.Spec) map[string][]string {
	events := map[string][]string{}
	for _, d := range dialect.All() {
		for _, row := range d.Events {
			wanted := slices.ContainsFunc(specs, func(s grapnel.Spec) bool { return slices.Contains(s.On, row.Kind) })
			if wanted && !row.Install && installable(d.Name, row.Native) {
				events[d.Name] = append(events[d.Name], row.Native)
			}
		}
	}
	return events
}

// replyMargin is the time that Grapnel needs besides the hooks to reply before the agent's
// timeout ends.
const replyMargin = 5 * time.Second

// HookTime returns the longest time that the hooks may take at one event. Hooks of different
// priority run one after the other.
func HookTime(specs []grapnel.Spec) time.Duration {
	type step struct {
		phase    grapnel.Phase
		priority int
	}
	var longest time.Duration
	for _, c := range grapnel.Contracts() {
		steps := map[step]time.Duration{}
		for i := range specs {
			s := &specs[i]
			if s.Phase == grapnel.PhaseObserve || len(s.On) > 0 && !slices.Contains(s.On, c.Kind) {
				continue
			}
			at := step{s.Phase, s.Priority}
			steps[at] = max(steps[at], s.Timeout)
		}
		var sum time.Duration
		for _, d := range steps {
			sum += d
		}
		longest = max(longest, sum)
	}
	return longest
}
