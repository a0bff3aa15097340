package hookcmd

import (
	"os"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/process"
)

// daemonBudget is how long a daemon that is at work may take, and the time that is left to
// a program behind it.
const daemonBudget = 30 * time.Second

// askDaemon has the daemon of the place answer, nil where this program has to: there is
// none, it is slow or of another version, it cannot speak for a hook, or it is not root's
// and root says something here.
func (inv *invocation) askDaemon(place local.Place, input dialect.Input) *client.Answer {
	socket := client.Socket(place.State)
	if _, err := os.Lstat(socket); err != nil || inv.handover || input.Err != nil || process.Depth() > 0 {
		return nil
	}
	q := &client.Question{
		Version: Version, Agent: inv.agent, Event: inv.event, ID: inv.id, Root: inv.root, Policies: local.Absolute(inv.policies), Firing: spool.NewID(time.Now()),
		Parent: os.Getenv("TRACEPARENT"), Payload: input.Payload, Budget: daemonBudget,
		AsRoot: !place.Standing && len(place.ManagedFiles()) > 0,
	}
	if inv.root != "" {
		q.Home = place.Home
	}
	answer, err := client.Ask(socket, q)
	if err != nil {
		inv.firing = q.Firing // its Record may be kept already
		return nil
	}
	return answer
}
