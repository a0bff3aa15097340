package allow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// granted is the end of the kind of the Records that log a grant.
const granted = "Allow"

// Record returns the Record that logs a grant, for a caller that adds the ID and the time. It names
// the content of the grant.
func Record(g *approval.Grant) grapnel.Record {
	text := fmt.Sprintf("grant %s (content %s) lets %s pass %v: %s %s in %s; without effect: %s",
		g.ID, g.Content(), g.Record, g, g.Scope.Agent, strings.TrimSpace(g.Scope.Tool+" "+g.Call), g.Scope.Dir, strings.Join(g.Hooks, ", "))
	if g.Reason != "" {
		text += "; reason: " + g.Reason
	}
	return grapnel.Record{
		Approval: g.ID, CallDigest: g.Digest, User: g.By,
		Reasons: []grapnel.Reason{{Hook: "grapnel", Text: text, Cause: grapnel.CauseDecision}},
	}
}

// Unlogged describes grants without a Record that logs exactly them: something else than "grapnel
// allow" wrote or changed their files. It looks at the grants that are valid now, and at the calls
// that a grant let pass since a time. The zero time is the beginning of the log; if retention has
// removed that (removed), the calls of the first day are left out, since their grants may be older.
func Unlogged(ctx context.Context, place local.Place, since time.Time, removed bool) ([]string, error) {
	query := index.Query{Lean: true}
	if !since.IsZero() {
		query.Since = since.Add(-approval.Max)
	}
	logged := map[string]string{} // text about the grant, by the ID of the Record
	known := map[string]bool{}    // by the ID of the grant
	var passed []spool.Entry
	for k, err := range records.Log(place).Read(ctx, query) {
		switch {
		case errors.Is(err, spool.ErrTorn): // others report it
			continue
		case err != nil:
			return nil, err
		case removed && since.IsZero():
			since = k.Time.Add(approval.Max)
		}
		switch {
		case k.Record.Event == records.Own+granted && len(k.Reasons) > 0:
			logged[k.ID], known[k.Approval] = k.Reasons[0].Text, true
		case k.Approval != "" && !k.Late && !k.Time.Before(since) && !strings.HasPrefix(string(k.Record.Event), records.Own):
			passed = append(passed, k.Entry)
		}
	}
	var list []string
	grants, err := place.Approvals().Valid(time.Now())
	for i := range grants {
		g := &grants[i]
		if text, ok := logged[g.Logged]; !ok || !strings.Contains(text, "grant "+g.ID+" (content "+g.Content()+")") {
			list = append(list, fmt.Sprintf("grant %s (%s) was not made by \"grapnel allow\": no record names it as it is now", printable.Line(g.ID), printable.Line(strings.TrimSpace(g.Scope.Agent+" "+g.Scope.Tool+" "+g.Call))))
		}
	}
	for i := range passed {
		if e := &passed[i]; !known[e.Approval] {
			list = append(list, fmt.Sprintf("the call of record %s passed with grant %s, which no record names", printable.Line(e.ID), printable.Line(e.Approval)))
		}
	}
	return list, err
}
