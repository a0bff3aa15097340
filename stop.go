package grapnel

import (
	"fmt"
	"sync"
)

// letStop removes a Block of a stop if it exceeds the limit of consecutive Blocks. Otherwise a
// hook and a model that never agree would continue forever.
func (f *firing) letStop(v *Verdict) {
	if v.Decision != Block || f.contract.MaxStops == 0 {
		return
	}
	again := f.first.Stop != nil && f.first.Stop.Active
	inARow, err := f.engine.opts.Stops(stopKey(f.first), again)
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

// stopCounts is the counter in memory of Options.Stops.
type stopCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// blocked counts Blocks per key.
func (c *stopCounts) blocked(key string, again bool) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !again {
		delete(c.counts, key)
	}
	if c.counts == nil || len(c.counts) >= maxCounted {
		c.counts = map[string]int{}
	}
	c.counts[key]++
	return c.counts[key], nil
}

// stopKey returns the key under which Blocks of a stop are counted: the kind of event, the
// session, and the sub-agent that wants to stop.
func stopKey(ev *Event) string {
	key := string(ev.Kind) + "\x00" + ev.Session.ID
	if ev.Session.Subagent != nil {
		key += "\x00" + ev.Session.Subagent.ID
	}
	return key
}
