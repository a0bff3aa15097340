package main

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/install"
)

// Two tables name the events of an agent: the dialect that speaks them and the
// installer that asks for them. They agree on what there is and on the default set.
func TestInstallKnowsTheDialects(t *testing.T) {
	t.Parallel()
	for _, agent := range install.Agents() {
		d, ok := dialect.Find(agent.Name)
		if !ok {
			t.Errorf("install knows %s and dialect does not", agent.Name)
			continue
		}
		for _, ev := range agent.Events {
			row, byDefault := d.Row(ev.Name), ev.Not == "" && ev.Never == ""
			if row == nil {
				t.Errorf("%s: install knows %s and dialect does not", agent.Name, ev.Name)
			} else if row.Install != byDefault {
				t.Errorf("%s %s: default in dialect %v, in install %v", agent.Name, ev.Name, row.Install, byDefault)
			}
		}
		for _, row := range d.Events {
			if !slices.ContainsFunc(agent.Events, func(ev install.Event) bool { return ev.Name == row.Native }) {
				t.Errorf("%s: dialect knows %s and install does not", agent.Name, row.Native)
			}
		}
	}
}
