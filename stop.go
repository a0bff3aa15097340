package grapnel

import (
	"fmt"
	"sync"
)

// A StopCounter counts how often in a row an agent was kept from stopping. The
// engine asks it about each Block of a stop, before the answer is given. Where
// ev.Stop is not Active the agent was about to stop of its own, and the count
// begins at 1. An error means that nobody knows the count.
type StopCounter interface {
	Blocked(ev *Event) (inARow int, err error)
}

// letStop lifts a Block of a stop that would be one too many in a row: two that
// never agree, a hook and a model, must not keep each other busy for ever.
func (f *firing) letStop(v *Verdict) {
	if v.Decision != Block || f.contract.MaxStops == 0 {
		return
	}
	inARow, err := f.engine.opts.Stops.Blocked(f.first)
	again := f.first.Stop != nil && f.first.Stop.Active
	why := ""
	switch {
	case err != nil && again:
		why = fmt.Sprintf("the agent may stop, since nobody knows how often it was kept from it: %v", err)
		v.Messages = append(v.Messages, "grapnel: "+why)
	case err == nil && inARow > f.contract.MaxStops:
		why = fmt.Sprintf("the agent was kept from stopping %d times in a row and may stop now", f.contract.MaxStops)
		v.Messages = append(v.Messages, "grapnel: "+why+": "+v.Reason())
	default:
		return
	}
	v.Unsupported = append(v.Unsupported, "block: not told, "+why)
	v.Decision, v.Reasons, v.Changes = None, nil, nil
}

// maxCounted is how many sessions stopCounts remembers. The rest begin anew.
const maxCounted = 10_000

// stopCounts is a StopCounter in memory.
type stopCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// Blocked counts by session and sub-agent.
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

// StopKey names what blocks of a stop are counted for: the session, or the
// sub-agent of it that wants to stop.
func StopKey(ev *Event) string {
	key := string(ev.Kind) + "\x00" + ev.Session.ID
	if ev.Session.Subagent != nil {
		key += "\x00" + ev.Session.Subagent.ID
	}
	return key
}
