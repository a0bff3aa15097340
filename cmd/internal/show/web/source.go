package web

import (
	"context"
	"iter"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/hooks"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A Source is everything that the pages read and change. An [index.Index] has the first
// methods and a [queue.Queue] the methods for deliveries, so the Source of one machine embeds both. All methods must be safe for concurrent
// use.
type Source interface {
	Records(ctx context.Context, q index.Query) iter.Seq2[index.Row, error]
	Back(ctx context.Context, before int64, n int) (int64, error) // the row that is n rows before another; 0 = the first
	Subscribe(ctx context.Context) <-chan index.Live              // signals new Records; the pages read them with Records
	Totals(ctx context.Context, since time.Time) (stats.Totals, error)
	Deliveries(ctx context.Context, q queue.Query) ([]delivery.Job, error)
	Targets(ctx context.Context) ([]queue.Target, error)
	Retry(ctx context.Context, ids ...string) (int, error)

	// Policies returns the policies in force for an agent that starts in a directory; empty = outside
	// of all projects.
	Policies(ctx context.Context, dir string) (Policies, error)

	// Explain fires the event of a Record again, without effects, under the policies of today.
	Explain(ctx context.Context, id string) (Explanation, error)

	// Machines returns the state of each machine that stores its Records here.
	Machines(ctx context.Context) ([]Machine, error)
}

// Policies are policy files and their hooks, in the order in which the hooks run.
type Policies struct {
	Files []load.Loaded
	Hooks []hooks.Hook
}

// An Explanation is how a verdict is made, and the reply that the agent gets.
type Explanation struct {
	Text           string // masked
	Stdout, Stderr string // masked
	Exit           int
}

// A Machine is the state of a daemon and its store, or of a machine whose Records are in a database.
type Machine struct {
	ID, Name, Version  string
	PID                int
	Since              time.Time
	Answered, Declined int
	Records            int           // in the log
	Bytes              int64         // of the log
	Lag                time.Duration // age of the oldest Record that the index does not have yet
	Problems           []string      // empty = all parts work

	// Only of a machine whose Records are in a database.
	Seen     time.Time
	Revision string // of its policy
	Agents   string // that are set up, with their versions
}
