package stats

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// A Would is the output of "grapnel stats --would --json": the events that hooks in observe mode
// would have decided more strictly.
type Would struct {
	Since     time.Time   `json:"since,omitzero"`
	Calls     int         `json:"would_block"` // events that would have been blocked
	Questions int         `json:"would_ask"`   // events that would have been a question to the user
	Sessions  int         `json:"sessions"`    // with such events
	Hooks     []WouldHook `json:"hooks"`       // most results first
}

// A WouldHook is a hook in observe mode.
type WouldHook struct {
	Name     string                   `json:"name"`
	Source   string                   `json:"source"`
	Would    map[grapnel.Decision]int `json:"would"`
	Commands []Frequency              `json:"commands"` // or paths, or addresses; most frequent first
}

// Would returns the counts of hooks in observe mode.
func (c *Counter) Would() *Would {
	t := c.Totals()
	w := &Would{Since: t.Since, Calls: t.Would[grapnel.Block], Questions: t.Would[grapnel.Ask], Sessions: len(c.sessions), Hooks: []WouldHook{}}
	all := map[string][]Frequency{}
	for _, f := range top(c.would, len(c.would)) {
		if name := f.Hook; len(all[name]) < maxTop {
			f.Hook = ""
			all[name] = append(all[name], f)
		}
	}
	for i := range t.Hooks {
		h := &t.Hooks[i]
		if h.Would[grapnel.Block]+h.Would[grapnel.Ask] == 0 {
			continue
		}
		w.Hooks = append(w.Hooks, WouldHook{h.Name, h.Source, h.Would, append([]Frequency{}, all[h.Source+"::"+h.Name]...)})
	}
	slices.SortFunc(w.Hooks, func(a, b WouldHook) int {
		return cmp.Or(cmp.Compare(b.Would[grapnel.Block], a.Would[grapnel.Block]), cmp.Compare(b.Would[grapnel.Ask], a.Would[grapnel.Ask]),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Source, b.Source))
	})
	return w
}
