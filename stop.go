package grapnel

import (
	"fmt"
	"sync"
)

// A StopCounter counts how many consecutive times hooks kept an agent from stopping. The engine
// calls Blocked for each Block of a stop, before the Verdict is returned. If ev.Stop is not
// Active, the agent wanted to stop by itself, and the count restarts at 1. An error means that
// the count is unknown.
type StopCounter interface {
	Blocked(ev *Event) (inARow int, err error)
}

// letStop removes a Block of a stop if it exceeds the limit of consecutive Blocks. Otherwise a
// hook and a model that never agree would continue forever.
func (f *firing) letStop(v *Verdict) {
	if v.Decision != Block || f.contract.MaxStops == 0 {
		return
	}
	inARow, err := f.engine.opts.Stops.Blocked(f.first)
	again := f.first.Stop != nil && f.first.Stop.Active
	why := ""
	switch {
	case err != nil && again:
		why = fmt.Sprintf("the agent may stop, because the number of prevented stops is unknown: %v", err)
		v.Messages = append(v.Messages, "grapnel: "+why)
	case err == nil && inARow > f.contract.MaxStops:
		why = fmt.Sprintf("hooks prevented the agent from stopping %d times in a row; it may stop now", f.contract.MaxStops)
		v.Messages = append(v.Messages, "grapnel: "+why+": "+v.Reason())
	default:
		return
	}
	v.Unsupported = append(v.Unsupported, "block: not sent, "+why)
	v.Decision, v.Reasons, v.Changes = None, nil, nil
}

// maxCounted is the maximum number of sessions in stopCounts. If it is reached, all counts
// restart.
const maxCounted = 10_000

// stopCounts is an in-memory StopCounter.
type stopCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// Blocked counts Blocks per session and sub-agent.
func (c *stopCounts) Blocked(ev *Event) (int, error) {
	key := StopKey(ev)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.Stop == nil || !ev.Stop.Active {
		delete(c.counts, key)
	}
	if c.counts == nil || len(c.counts) >= maxCounted {
		c.counts = map[string]int{}
	}
	c.counts[key]++
	return c.counts[key], nil
}

// StopKey returns the key under which Blocks of a stop are counted: the kind of event, the
// session, and the sub-agent that wants to stop.
func StopKey(ev *Event) string {
	key := string(ev.Kind) + "\x00" + ev.Session.ID
	if ev.Session.Subagent != nil {
		key += "\x00" + ev.Session.Subagent.ID
	}
	return key
}
