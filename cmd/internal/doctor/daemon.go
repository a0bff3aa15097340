package doctor

import (
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/daemon/relay"
)

// judgeDaemon is about who answers from one warm process. Nobody needs one: that there is
// none is no finding.
func judgeDaemon(f *facts) []Finding {
	d := &f.daemon
	finding := func(id string, level Level, what, why, hint string) []Finding {
		return []Finding{{ID: id, Level: level, Subject: d.socket, What: what, Why: why, Hint: hint}}
	}
	const without = "grapnel-hook answers by itself, a little slower"
	switch {
	case errors.Is(d.err, relay.ErrDead):
		return finding("daemon.dead", Warn, "the daemon has died, and has left its socket", without, `grapnel daemon start; without one, grapnel daemon stop removes what is left`)
	case errors.Is(d.err, relay.ErrAbsent), d.err == nil && d.found == nil:
		return nil
	case errors.Is(d.err, relay.ErrSilent):
		return finding("daemon.silent", Warn, "a daemon listens, and does not say how it is: "+cut(d.err.Error(), 200), "each event waits for it a moment before grapnel-hook answers by itself", "grapnel daemon restart")
	case d.err != nil:
		return finding("daemon.refused", Bad, "whoever listens for events is not believed: "+cut(d.err.Error(), 200), without, "grapnel daemon status")
	}
	version := d.found.Text("version")
	what := fmt.Sprintf("the daemon runs: process %d, version %s", d.found.PID, version)
	switch {
	case version != f.version:
		return finding("daemon.version", Warn, what+"; this is "+f.version, "programs of another version do not ask it", "grapnel daemon restart")
	case !d.found.Well:
		return finding("daemon.ill", Warn, what+", and says that a part of it does not work", "", "grapnel daemon status")
	default:
		return finding("daemon.running", OK, what, "", "")
	}
}
