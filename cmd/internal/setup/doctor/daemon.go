package doctor

import (
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
)

// judgeDaemon judges the state of the daemon. A daemon is optional, so its absence is not a
// finding.
func judgeDaemon(f *facts) []Finding {
	d := &f.daemon
	finding := func(id string, level Level, what, why, hint string) []Finding {
		return []Finding{{ID: id, Level: level, Subject: d.socket, What: what, Why: why, Hint: hint}}
	}
	const without = "grapnel-hook answers itself, a little slower"
	switch {
	case errors.Is(d.err, server.ErrDead):
		return finding("daemon.dead", Warn, "the daemon has died and left its socket behind", without, `grapnel daemon start; without a daemon, grapnel daemon stop removes leftover files`)
	case errors.Is(d.err, server.ErrAbsent), d.err == nil && d.found == nil:
		return nil
	case errors.Is(d.err, server.ErrSilent):
		return finding("daemon.silent", Warn, "a daemon listens, but does not report its state: "+cut(d.err.Error(), 200), "each event waits a moment for the daemon before grapnel-hook answers itself", "grapnel daemon restart")
	case d.err != nil:
		return finding("daemon.refused", Bad, "cannot trust the process that listens for events: "+cut(d.err.Error(), 200), without, "grapnel daemon status")
	}
	return append(judgeStore(f), judgeRunning(f, finding)...)
}

// judgeStore judges whether Records or deliveries are lost or in danger.
func judgeStore(f *facts) []Finding {
	store := f.daemon.found.Store()
	if store.Problem() == "" {
		return nil
	}
	finding := Finding{ID: "daemon.store", Level: Bad, Subject: f.daemon.socket, What: cut(store.Problem(), 300), Hint: "grapnel log verify; grapnel daemon restart resets the counts"}
	switch {
	case store.Error != "":
		finding.Why = "until then, grapnel-hook writes records to files; if that fails too, a strict policy blocks"
	case store.Well():
		finding.Level, finding.Why = Warn, "no program of Grapnel deletes this database"
	case store.Lost > 0 || store.Unrecorded > 0:
		finding.Why = "the log has a gap"
	default:
		finding.Why, finding.Hint = "webhooks about events are not sent", "grapnel deliveries; grapnel daemon restart resets the counts"
	}
	return []Finding{finding}
}

// judgeRunning judges a daemon that reports its health.
func judgeRunning(f *facts, finding func(id string, level Level, what, why, hint string) []Finding) []Finding {
	d := &f.daemon
	version := d.found.Text("version")
	what := fmt.Sprintf("the daemon runs: process %d, version %s", d.found.PID, version)
	switch {
	case version != f.version:
		return finding("daemon.version", Warn, what+"; this program is "+f.version, "programs of another version do not use this daemon", "grapnel daemon restart")
	case d.found.Health["failed"] != nil, !d.found.Well && d.found.Store().Well():
		return finding("daemon.ill", Warn, what+", but one of its parts failed", "", "grapnel daemon status")
	default:
		return finding("daemon.running", OK, what, "", "")
	}
}
