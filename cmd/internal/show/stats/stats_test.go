package stats_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

var (
	now        = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	counted    = cmpopts.IgnoreUnexported(stats.Hook{}, stats.Agent{})
	errNoEvent = errors.New("no event")
	noLoad     = func() error { return errNoEvent }
	withHook   = func(name string, ms float64, change func(*grapnel.HookRun)) grapnel.HookRun {
		h := grapnel.HookRun{Name: name, Source: "user", MS: ms}
		if change != nil {
			change(&h)
		}
		return h
	}
)

// twenty are firings of three hooks, and the late result of one of them.
func twenty() []spool.Entry {
	var list []spool.Entry
	for i := range 20 {
		e := spool.Entry{Record: grapnel.Record{
			ID: fmt.Sprint(i), Time: now, Agent: "codex", Event: grapnel.ToolBefore, MS: float64(i + 2),
			Hooks: []grapnel.HookRun{withHook("quick", float64(i+1), nil)},
		}}
		switch i {
		case 0:
			e.Decision, e.Would, e.Reasons = grapnel.Block, grapnel.Ask, []grapnel.Reason{{Hook: "slow", Text: "not \n this"}}
			e.Hooks = append(e.Hooks, withHook("slow", 900, func(h *grapnel.HookRun) { h.Decision = grapnel.Block }))
		case 1:
			e.Hooks = append(e.Hooks,
				withHook("slow", 1000, func(h *grapnel.HookRun) {
					h.Error, h.Cause, h.FailOpen = "took longer", grapnel.CauseTimeout, true
				}),
				withHook("later", 0, func(h *grapnel.HookRun) { h.Async = true }))
		case 2:
			e.Error = "the payload is empty"
		}
		list = append(list, e)
	}
	return append(list, spool.Entry{Late: true, Record: grapnel.Record{ID: "1", Time: now.Add(time.Hour), Hooks: []grapnel.HookRun{
		withHook("later", 50, func(h *grapnel.HookRun) { h.Async, h.Error, h.Cause = true, "exit code 1", grapnel.CauseError }),
	}}})
}

func count(since time.Time, list []spool.Entry) *stats.Counter {
	c := stats.NewCounter(since)
	for i := range list {
		c.Add(&list[i], noLoad)
	}
	return c
}

func TestSummary(t *testing.T) {
	t.Parallel()
	c := count(now.Add(-time.Hour), twenty())
	c.Unreadable()
	c.Again(2)
	got := c.Summary()
	none := grapnel.None
	want := &stats.Summary{
		Totals: stats.Totals{
			Since: now.Add(-time.Hour), Last: now, Firings: 20, Errors: 1, FailOpen: 1, Unreadable: 1, Again: 2,
			Decisions: map[grapnel.Decision]int{none: 19, grapnel.Block: 1}, Would: map[grapnel.Decision]int{},
			Days: []stats.Day{{Begin: now.Truncate(24 * time.Hour), Decisions: map[grapnel.Decision]int{none: 19, grapnel.Block: 1}}},
			Hooks: []stats.Hook{
				{
					Name: "slow", Source: "user", Runs: 2, Decisions: map[grapnel.Decision]int{none: 1, grapnel.Block: 1}, Would: map[grapnel.Decision]int{},
					Errors: 1, Timeouts: 1, FailOpen: 1, LastError: "took longer", P50: 900, P95: 1000, Max: 1000,
				},
				{
					Name: "later", Source: "user", Runs: 1, Decisions: map[grapnel.Decision]int{none: 1}, Would: map[grapnel.Decision]int{}, Errors: 1, LastError: "exit code 1",
					P50: 50, P95: 50, Max: 50,
				},
				{Name: "quick", Source: "user", Runs: 20, Decisions: map[grapnel.Decision]int{none: 20}, Would: map[grapnel.Decision]int{}, P50: 10, P95: 19, Max: 20},
			},
		},
		Agents: []stats.Agent{{
			Agent: "codex", Event: grapnel.ToolBefore, Firings: 20, Decisions: map[grapnel.Decision]int{none: 19, grapnel.Block: 1},
			Errors: 2, FailOpen: 1, P50: 11, P95: 20, Max: 21,
		}},
		Commands: []stats.Frequency{}, Reasons: []stats.Frequency{{Times: 1, Hook: "slow", Text: "not this"}}, WouldCommands: []stats.Frequency{},
	}
	if diff := cmp.Diff(want, got, counted); diff != "" {
		t.Errorf("Summary (-want +got):\n%s", diff)
	}
	raw, err := json.Marshal(got)
	if err != nil || !strings.Contains(string(raw), `"decisions":{"block":1,"none":19}`) || !strings.Contains(string(raw), `"p95_ms":1000`) {
		t.Errorf("as JSON: %s, %v", raw, err)
	}
	if empty := stats.NewCounter(time.Time{}).Summary(); empty.Firings != 0 || empty.Hooks == nil || empty.Agents == nil {
		t.Errorf("Summary of nothing = %+v", empty)
	}
}

// Counters that were stored give the same counts as one Counter of all Entries, with durations
// that differ by at most 1 %.
func TestAddStored(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var list []spool.Entry
	for range 50 {
		part := twenty()
		for i := range part {
			part[i].MS *= random.ExpFloat64()
			for j := range part[i].Hooks {
				part[i].Hooks[j].MS *= random.ExpFloat64()
			}
		}
		list = append(list, part...)
	}
	want := count(time.Time{}, list)
	got := stats.NewCounter(time.Time{})
	for at := 0; at < len(list); at += 210 {
		part := list[at : at+210]
		if at == 420 { // not all parts are stored
			for i := range part {
				got.Add(&part[i], noLoad)
			}
			continue
		}
		raw, err := json.Marshal(count(time.Time{}, part))
		if err != nil {
			t.Fatal(err)
		}
		if err := got.AddStored(raw); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want.Summary(), got.Summary(), counted, cmpopts.EquateApprox(0.0101, 0)); diff != "" {
		t.Errorf("Summary of stored counts (-want +got):\n%s", diff)
	}
	for _, h := range got.Totals().Hooks {
		for _, exact := range want.Totals().Hooks {
			if h.Name == exact.Name && h.Max != exact.Max {
				t.Errorf("the maximum of %s is %v, want %v", h.Name, h.Max, exact.Max)
			}
		}
	}
	for _, bad := range []string{"", "[]", `{"hooks":[{"name":"a"}]}`, `{"agents":[{}],"AgentTimes":[]}`, `{"hooks":[{"name":"a"}],"HookTimes":["/w=="]}`, `{"hooks":[{"name":"a"}],"HookTimes":["AP//////"]}`} {
		if err := got.AddStored([]byte(bad)); err == nil || !strings.Contains(err.Error(), "cannot read stored counts") {
			t.Errorf("AddStored(%q) = %v, want an error", bad, err)
		}
	}
}

// The numbers of texts are limited in the output, in a stored Counter, and in memory.
func TestManyTexts(t *testing.T) {
	t.Parallel()
	c := stats.NewCounter(time.Time{})
	for i := range 21_000 {
		c.Add(&spool.Entry{Record: grapnel.Record{ID: fmt.Sprint(i), Time: now, Decision: grapnel.Block, Reasons: []grapnel.Reason{
			{Hook: "h", Text: fmt.Sprint("reason ", i)}, {Hook: "h", Text: "often " + strings.Repeat("x", 300)},
		}}}, noLoad)
	}
	s := c.Summary()
	if len(s.Reasons) != 10 || s.Reasons[0].Times != 21_000 || len(s.Reasons[0].Text) > 210 {
		t.Errorf("Reasons = %d, first %+v", len(s.Reasons), s.Reasons[0])
	}
	raw, err := json.Marshal(c)
	if err != nil || len(raw) > 50_000 {
		t.Errorf("the stored form has %d bytes, %v", len(raw), err)
	}
}

// Results of hooks in observe mode are counted apart from decisions, with the commands of each
// hook. Counters that were stored give the same counts.
func TestWould(t *testing.T) {
	t.Parallel()
	call := func(session, command string, decision, would grapnel.Decision, hooks ...grapnel.HookRun) spool.Entry {
		return spool.Entry{Record: grapnel.Record{
			ID: session + command, Time: now, Agent: "codex", Session: session, Event: grapnel.ToolBefore, Decision: decision, Would: would, Hooks: hooks,
			Input: &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "plain"}, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{command}}},
		}}
	}
	observed := func(name string, decision grapnel.Decision) grapnel.HookRun {
		return withHook(name, 1, func(h *grapnel.HookRun) { h.Observed, h.Decision = true, decision })
	}
	list := []spool.Entry{
		call("a", "npm install x", grapnel.None, grapnel.Block, observed("npm", grapnel.Block), observed("net", grapnel.Ask)),
		call("a", "npm install y", grapnel.None, grapnel.Block, observed("npm", grapnel.Block)),
		call("b", "npm install x", grapnel.None, grapnel.Block, observed("npm", grapnel.Block)),
		call("b", "curl x", grapnel.None, grapnel.Ask, observed("net", grapnel.Ask), observed("npm", grapnel.None)),
		call("c", "rm -rf /", grapnel.Block, grapnel.Block, observed("npm", grapnel.Block), withHook("no-rm", 1, func(h *grapnel.HookRun) { h.Decision = grapnel.Block })),
	}
	counter := func(list []spool.Entry) *stats.Counter {
		c := stats.NewCounter(now)
		for i := range list {
			c.Add(&list[i], func() error { return nil })
		}
		return c
	}
	want := &stats.Would{Since: now, Calls: 3, Questions: 1, Sessions: 2, Hooks: []stats.WouldHook{
		{
			Name: "npm", Source: "user", Would: map[grapnel.Decision]int{grapnel.Block: 4},
			Commands: []stats.Frequency{{Times: 2, Text: "npm install x"}, {Times: 1, Text: "npm install y"}},
		},
		{
			Name: "net", Source: "user", Would: map[grapnel.Decision]int{grapnel.Ask: 2},
			Commands: []stats.Frequency{{Times: 1, Text: "curl x"}, {Times: 1, Text: "npm install x"}},
		},
	}}
	c := counter(list)
	if diff := cmp.Diff(want, c.Would()); diff != "" {
		t.Errorf("Would (-want +got):\n%s", diff)
	}
	if s := c.Summary(); s.Decisions[grapnel.Block] != 1 || s.Would[grapnel.Block] != 3 || s.WouldSessions != 2 || len(s.WouldCommands) != 4 {
		t.Errorf("Summary = %+v", s)
	}
	merged := stats.NewCounter(now)
	for _, part := range [][]spool.Entry{list[:2], list[2:]} {
		raw, err := json.Marshal(counter(part))
		if err != nil {
			t.Fatal(err)
		}
		if err := merged.AddStored(raw); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, merged.Would()); diff != "" {
		t.Errorf("Would of stored counts (-want +got):\n%s", diff)
	}
	if empty := stats.NewCounter(now).Would(); empty.Calls != 0 || empty.Hooks == nil {
		t.Errorf("Would of nothing = %+v", empty)
	}
}
