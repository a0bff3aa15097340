// Package shared implements "grapnel serve --all-users": one daemon that root runs for all users of a
// machine.
//
//	err := shared.Run(ctx, log, shared.Options{})
//
// The process of root answers no event and reads no file of a user. It accepts connections on a
// socket that all users reach, asks the kernel for the user of each connection, and passes the
// connection to a process that runs as this user: "grapnel serve --as ...". That process is the
// daemon of the user, with the user's state, policies and workers. Because root has started it, and
// the user cannot read or trace it, grapnel-hook also accepts its replies if root has policies.
package shared

import "time"

// Options are settings of Run.
type Options struct {
	Metrics string // serve the metrics of all users at this address from service.MetricsAddress; empty = nowhere
}

// Directory has a file for each user whose daemon starts together with the daemon of root.
const Directory = "/var/lib/grapnel/users"

// Times and limits.
const (
	firstPause = time.Second      // before the daemon of a user starts again after a failure
	longPause  = 5 * time.Minute  // the same after many failures
	leave      = 20 * time.Second // for a process to end
	maxUsers   = 4096
	maxQueue   = 64 // connections of one user that wait for a process
)
