package allow

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// Calls that passed with a grant without a Record are listed. If retention has removed the beginning of the log, the
// grants of the calls of the first day may have been there.
func TestUnlogged(t *testing.T) {
	t.Parallel()
	begin := time.Now().Add(-90 * 24 * time.Hour)
	call := func(id, grant string, after time.Duration) *spool.Entry {
		return &spool.Entry{Record: grapnel.Record{ID: id, Time: begin.Add(after), Agent: "claude-code", Event: grapnel.ToolBefore, Approval: grant}}
	}
	logs := func(id, grant string, after time.Duration) *spool.Entry {
		rec := call(id, grant, after)
		rec.Event, rec.Reasons = records.Own+granted, []grapnel.Reason{{Hook: "grapnel", Text: "grant " + grant}}
		return rec
	}
	late := call("late", "nobody", 50*time.Hour)
	late.Late = true
	discarded := call("own", "nobody", 50*time.Hour)
	discarded.Event = records.Own + discard
	place := local.Place{State: t.TempDir()}
	w := journal.Writer{Dir: place.Journal()}
	for _, rec := range []*spool.Entry{
		call("first", "", 0), call("early", "before", time.Hour),
		logs("grant", "known", 30*time.Hour), call("passed", "known", 31*time.Hour), call("forged", "nobody", 32*time.Hour),
		late, discarded, call("newest", "other", 60*time.Hour), logs("after", "other", 61*time.Hour),
	} {
		line, err := json.Marshal(rec)
		if err == nil {
			_, err = w.Append(line)
		}
		if err == nil && rec.ID == "grant" { // a segment of its own with the lines so far
			if _, err = w.Next(); err == nil {
				err = os.Chtimes(filepath.Join(place.Journal(), "00000001.jsonl"), rec.Time, rec.Time)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Append([]byte(`{"id":"torn","approval":"nobody"}`)); err != nil { // no Record
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		since   time.Duration // negative = the beginning of the log
		removed bool
		want    string
	}{
		"whole log":                  {-1, false, "early forged"},
		"the beginning is removed":   {-1, true, "forged"},
		"since before the forged":    {31 * time.Hour, false, "forged"},
		"since after it":             {40 * time.Hour, false, ""},
		"a day after another forged": {2 * time.Hour, true, "forged"},
	} {
		var since time.Time
		if tt.since >= 0 {
			since = begin.Add(tt.since)
		}
		list, err := Unlogged(t.Context(), place, since, tt.removed)
		var ids []string
		for _, text := range list {
			ids = append(ids, strings.Fields(text)[4])
		}
		if diff := cmp.Diff(tt.want, strings.Join(ids, " ")); diff != "" || err != nil {
			t.Errorf("%s: %q, %v (-want +got):\n%s", name, list, err, diff)
		}
	}
}
