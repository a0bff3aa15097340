package store

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/daemon/deliver"
	"github.com/grapnel-dev/grapnel/spool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func entry(id string) spool.Entry {
	return spool.Entry{Record: grapnel.Record{
		ID: id, Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Agent: "claude-code", Session: "s1", Event: grapnel.ToolBefore, Tool: "Bash",
		Decision: grapnel.Block, Hooks: []grapnel.HookRun{{Name: "no-ls", Source: "user", Decision: grapnel.Block, Cause: grapnel.CauseDecision, MS: 0.25}},
		Reasons: []grapnel.Reason{{Hook: "user::no-ls", Text: "No listing here, says Zoë.", Cause: grapnel.CauseDecision}}, MS: 1.5,
		Input: &grapnel.Event{ID: id, Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Input: []byte(`{"command":"ls wintermute"}`)}},
	}}
}

func lineOf(t testing.TB, e spool.Entry) []byte {
	t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return append(raw, '\n')
}

func openTest(t testing.TB, dir string, opts *Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSmoke(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t, t.TempDir()+"/a b?c#d%20", nil)
	for i := range 300 {
		id := fmt.Sprint("r", i)
		err := s.Put(ctx, Item{Line: lineOf(t, entry(id)), Jobs: []deliver.Job{{ID: "j" + id, Record: id, Target: "user::tell", Event: []byte(`{}`)}}, Mark: &Mark{"f", int64(i)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "wintermute", "zoe list*", `"says zoë" -`} {
		n := 0
		for row, err := range s.Records(ctx, Query{Text: text, Filter: spool.Filter{Hook: "user::no-ls", Decisions: []grapnel.Decision{grapnel.Block}, Since: time.Unix(5, 0)}}) {
			if err != nil {
				t.Fatal(err)
			}
			if row.Input == nil {
				t.Fatal("no input")
			}
			n++
		}
		if n != 300 {
			t.Errorf("%q: %d", text, n)
		}
	}
	jobs, err := s.Lease(ctx, time.Now(), time.Minute, 10, nil)
	if err != nil || len(jobs) != 10 || jobs[0].ID != "jr0" {
		t.Fatal(jobs, err)
	}
	if err := s.Settle(ctx, []deliver.Result{{ID: "jr0", State: deliver.Delivered, Status: 200, At: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	rep, err := s.Verify(ctx)
	t.Log(rep, err)
	if !rep.OK() || err != nil || rep.Rows != 300 {
		t.Fatal("verify")
	}
	t.Log(s.Targets(ctx))
	t.Log(s.Stats(ctx, time.Time{}))
	t.Log(s.NextDue(ctx))
	if err := s.Prune(ctx, time.Now().Add(1000*time.Hour*24)); err != nil {
		t.Fatal(err)
	}
	rep, err = s.Verify(ctx)
	t.Log(rep, err)
}
