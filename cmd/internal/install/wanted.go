package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Names returns the names of all agents.
func Names() []string {
	var names []string
	for _, a := range Agents() {
		names = append(names, a.Name)
	}
	return names
}

// HookProgram returns the path of grapnel-hook in the directory of this program.
func HookProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find grapnel-hook: %w", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	program := filepath.Join(filepath.Dir(self), "grapnel-hook")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err != nil {
		return "", cli.WithHint(fmt.Errorf("grapnel-hook is not in the directory of %s", self), "install both: go install github.com/grapnel-dev/grapnel/cmd/...@latest")
	}
	return program, nil
}

// installable reports whether an event of an agent can be installed.
func installable(agent, event string) bool {
	a, err := Lookup(agent)
	return err == nil && a.May(event) == nil
}

// PolicyEvents returns, per agent, the events that the policy needs and that are not in the
// default set.
func PolicyEvents(place local.Place) map[string][]string {
	set := policyOf(place, nil)
	events := map[string][]string{}
	for _, d := range dialect.All() {
		for _, row := range d.Events {
			wanted := slices.ContainsFunc(set.Specs, func(s grapnel.Spec) bool { return slices.Contains(s.On, row.Kind) })
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

// PolicyTimeout returns the timeout that agents need for the hooks of the policy, at least
// DefaultTimeout.
func PolicyTimeout(place local.Place) time.Duration {
	return max(DefaultTimeout, HookTime(policyOf(place, nil).Specs)+replyMargin)
}

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
			at := step{s.Phase, grapnel.DefaultPriority}
			if s.Priority != nil {
				at.priority = *s.Priority
			}
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

// policyOf loads the policy for inspection, and calls command for each command in it.
func policyOf(place local.Place, command func(policyfile.Command)) policy.Set {
	return policy.Load(place.Request(place.Files(nil, nil), func(c policyfile.Command) grapnel.Hook {
		if command != nil {
			command(c)
		}
		return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })
	}))
}

// PolicyPrograms returns, per agent, the events at which a hook of the policy starts a program,
// with the name of the first such hook.
func PolicyPrograms(place local.Place) map[string]map[string]string {
	programs := map[string]bool{}
	set := policyOf(place, func(c policyfile.Command) {
		if !c.Worker { // the daemon keeps workers running
			programs[c.Name] = true
		}
	})
	events := map[string]map[string]string{}
	for i := range set.Specs {
		s := &set.Specs[i]
		if !programs[s.Name] {
			continue
		}
		for _, d := range dialect.All() {
			for j := range d.Events {
				row := &d.Events[j]
				if len(s.On) > 0 && !slices.ContainsFunc(s.On, func(k grapnel.Kind) bool { return k == row.Kind || k == row.Failed }) {
					continue
				}
				if events[d.Name] == nil {
					events[d.Name] = map[string]string{}
				}
				if events[d.Name][row.Native] == "" {
					events[d.Name][row.Native] = s.FullName()
				}
			}
		}
	}
	return events
}
