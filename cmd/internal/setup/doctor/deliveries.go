package doctor

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
)

// judgeDeliveries judges whether the targets of `notify:` hooks accept deliveries.
func judgeDeliveries(f *facts) []Finding {
	if f.refusedErr != nil {
		return []Finding{{ID: "notify.unknown", Level: Warn, What: "cannot see whether targets refuse deliveries: " + cut(f.refusedErr.Error(), 200), Hint: "grapnel deliveries"}}
	}
	var found []Finding
	for i := range f.refused {
		r := &f.refused[i]
		found = append(found, Finding{
			ID: "notify.refused", Level: Warn, Subject: r.Target, What: fmt.Sprintf("hook %s: its target refuses deliveries: %s", r.Target, cut(r.Error, 400)),
			Why: "it does not get the events; Slack, Teams and ntfy need body: slack, teams or ntfy", Hint: control.RefusalHint(r),
		})
	}
	return found
}
