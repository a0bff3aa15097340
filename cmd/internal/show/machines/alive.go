// Package machines has the heartbeat of a machine, and lists the machines whose Records meet in one database.
package machines

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// Every is the time between the heartbeats of a daemon.
const Every = 5 * time.Minute

// Alive is the content of a heartbeat, in addition to the fields of its Record that name the
// machine and its policies.
type Alive struct {
	Version string    `json:"version"`           // of Grapnel
	System  string    `json:"system"`            // such as linux/amd64
	Agents  []Agent   `json:"agents,omitempty"`  // that are set up
	Failing []Failing `json:"failing,omitempty"` // hooks that failed open in the last 24 hours
	Forward []Target  `json:"forward,omitempty"`
}

// An Agent is an agent that is set up on a machine.
type Agent struct {
	Name    string    `json:"name"`
	Version string    `json:"version,omitempty"` // if it says it in its events, or said it to "grapnel install"
	Last    time.Time `json:"last,omitzero"`     // time of its last event; zero = none in seven days
}

// Failing is a hook that fails.
type Failing struct {
	Hook  string `json:"hook"`
	Times int    `json:"times"`
	Error string `json:"error,omitempty"` // the last one
}

// A Target is how far a target of Records is.
type Target struct {
	To     string `json:"to"`
	Behind int64  `json:"behind,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Beat stores a heartbeat of a place as a Record, and returns the ID of the Record. It stores what it
// knows, also with an error.
func Beat(ctx context.Context, place local.Place) (id string, err error) {
	alive, errs := look(ctx, place)
	text, err := json.Marshal(alive)
	if err != nil {
		return "", err
	}
	set := place.Settings()
	rec := grapnel.Record{Time: time.Now(), Input: &grapnel.Event{Kind: spool.Alive, Native: text}}
	place.Identity().Mark(&rec, &set, set.Digest())
	id, err = records.Put(place, grapnel.Kind(strings.TrimPrefix(string(spool.Alive), records.Own)), rec)
	return id, errors.Join(errs, err)
}

// look collects the content of a heartbeat.
func look(ctx context.Context, place local.Place) (*Alive, error) {
	a := &Alive{Version: hookcmd.Version, System: runtime.GOOS + "/" + runtime.GOARCH}
	count, err := records.Log(place).Count(ctx, time.Now().Add(-24*time.Hour))
	errs := []error{err}
	if count != nil {
		for _, h := range count.Totals().Hooks {
			if h.FailOpen > 0 {
				a.Failing = append(a.Failing, Failing{Hook: h.Name, Times: h.FailOpen, Error: h.LastError})
			}
		}
	}
	reports, err := forwarding.Reports(ctx, place)
	errs = append(errs, err)
	for i := range reports {
		r := &reports[i]
		a.Forward = append(a.Forward, Target{To: r.To, Behind: r.Behind, Error: r.Error})
	}
	for _, dir := range []string{place.Installs(), filepath.Join(place.Managed, "installs")} {
		list, err := installation.List(dir)
		errs = append(errs, err)
		for i := range list {
			a.add(Agent{Name: list[i].Agent, Version: list[i].AgentVersion})
		}
	}
	log := records.Log(place).Open()
	defer log.Close()
	for i := range a.Agents {
		errs = append(errs, a.Agents[i].read(ctx, log))
	}
	return a, errors.Join(errs...)
}

// add adds an agent, once for all its installations.
func (a *Alive) add(agent Agent) {
	i := slices.IndexFunc(a.Agents, func(known Agent) bool { return known.Name == agent.Name })
	if i < 0 {
		a.Agents = append(a.Agents, agent)
		return
	}
	a.Agents[i].Version = cmp.Or(a.Agents[i].Version, agent.Version)
}

// read reads the last event of an agent.
func (a *Agent) read(ctx context.Context, log *index.Reader) error {
	query := index.Query{Filter: spool.Filter{Agent: a.Name, Since: time.Now().Add(-7 * 24 * time.Hour)}, Limit: 1}
	for row, err := range log.Records(ctx, query) {
		if err != nil {
			return err
		}
		a.Last = row.Time
		if row.Input != nil {
			a.Version = cmp.Or(row.Input.Agent.Version, a.Version)
		}
	}
	return nil
}
