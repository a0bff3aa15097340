package hookcmd

import (
	"os"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/process"
)

// daemonBudget is how long a working daemon may take. About as much of the agent's timeout then
// remains for this program to reply itself.
const daemonBudget = 30 * time.Second

// askDaemon sends the event to the daemon of the place. It returns nil if this program has to
// reply itself: no daemon runs, the daemon is slow or has another version, it cannot run one of
// the hooks, or it does not run as root while managed policies of root apply here.
func (inv *invocation) askDaemon(place local.Place, input dialect.Input) *client.Answer {
	if input.Err != nil || process.Depth() > 0 {
		return nil
	}
	socket, asRoot := socketFor(place)
	if socket == "" {
		return nil
	}
	q := &client.Question{
		Version: Version, Agent: inv.agent, Event: inv.event, ID: inv.id, Root: inv.root, Policies: local.Absolute(inv.policies), Firing: spool.NewID(time.Now()),
		Parent: os.Getenv("TRACEPARENT"), Payload: input.Payload, Budget: daemonBudget,
		AsRoot: asRoot,
	}
	if inv.root != "" {
		q.Home = place.Home
	}
	answer, err := client.Ask(socket, q)
	if err != nil {
		inv.firing = q.Firing // the daemon may have stored its Record already
		return nil
	}
	return answer
}

// socketFor returns the socket of the daemon that may answer events of a place; empty = none listens.
// With managed policies, asRoot means that root must have started the daemon.
func socketFor(place local.Place) (socket string, asRoot bool) {
	own, all := files.Exists(client.Socket(place.State)), !place.Standing && files.Exists(client.All)
	if !own && !all {
		return "", false
	}
	asRoot = !place.Standing && len(place.ManagedFiles()) > 0
	switch {
	case own && (!asRoot || os.Getuid() == 0):
		return client.Socket(place.State), asRoot
	case all:
		return client.All, asRoot
	}
	return "", asRoot
}
