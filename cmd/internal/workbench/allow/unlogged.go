package allow

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// namesGrant is in each line of a Record that names a grant.
var namesGrant = []byte(`"approval":`)

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
func Unlogged(ctx context.Context, place local.Place, since time.Time, removed bool) (list []string, err error) {
	from := since
	if !since.IsZero() {
		from = since.Add(-approval.Max)
	}
	log, err := spool.OpenLog(place.State, from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	logged := map[string]string{} // text about the grant, by the ID of the Record
	known := map[string]bool{}    // by the ID of the grant
	passed := map[string]string{} // IDs of grants, by the Records of the calls
	for line, err := range log.Raw(0) {
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			return nil, err
		}
		first := removed && since.IsZero()
		if line.Text == nil || !first && !bytes.Contains(line.Text, namesGrant) {
			continue // most lines: to decode them takes longer than to read them
		}
		if line.Decode(); line.Torn != nil { // others report it
			continue
		}
		e := &line.Entry
		if first {
			since = e.Time.Add(approval.Max)
		}
		switch {
		case e.Event == records.Own+granted && len(e.Reasons) > 0:
			logged[e.ID], known[e.Approval] = e.Reasons[0].Text, true
		case e.Approval != "" && !e.Late && !e.Time.Before(since) && !strings.HasPrefix(string(e.Event), records.Own):
			passed[e.ID] = e.Approval
		}
	}
	grants, err := place.Approvals().Valid(time.Now())
	for i := range grants {
		g := &grants[i]
		if text, ok := logged[g.Logged]; !ok || !strings.Contains(text, "grant "+g.ID+" (content "+g.Content()+")") {
			list = append(list, fmt.Sprintf("grant %s (%s) was not made by \"grapnel allow\": no record names it as it is now", printable.Line(g.ID), printable.Line(strings.TrimSpace(g.Scope.Agent+" "+g.Scope.Tool+" "+g.Call))))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(passed)) {
		if grant := passed[id]; !known[grant] {
			list = append(list, fmt.Sprintf("the call of record %s passed with grant %s, which no record names", printable.Line(id), printable.Line(grant)))
		}
	}
	return list, err
}
