package machines

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// row returns a machine that was seen some time ago.
func row(host string, ago time.Duration, revision string, alive any) postgres.Machine {
	m := postgres.Machine{ID: host, Host: host, Seen: now.Add(-ago)}
	if alive != nil {
		native, _ := json.Marshal(alive)
		e := spool.Entry{Record: grapnel.Record{ID: "x", Time: now.Add(-ago), Event: spool.Alive, PolicyRevision: revision, Input: &grapnel.Event{Kind: spool.Alive, Native: native}}}
		m.Alive, _ = json.Marshal(e)
	}
	return m
}

func TestList(t *testing.T) {
	t.Parallel()
	lost := row("lost", time.Minute, "42", Alive{})
	lost.Missed = 7
	list := List([]postgres.Machine{
		row("fine", time.Minute, "42", Alive{Version: "1", Agents: []Agent{{Name: "codex", Version: "9"}, {Name: "cursor"}}}),
		row("silent", 30*time.Hour, "42", Alive{}),
		row("old", time.Minute, "41", Alive{}),
		row("none", time.Minute, "", Alive{}),
		row("expired", time.Minute, "42 (expired)", Alive{}),
		row("future", 48*time.Hour, "99", Alive{}), // does not count: nothing is known about it now
		row("mute", time.Minute, "", nil),
		row("failing", time.Minute, "42", Alive{Failing: []Failing{{Hook: "audit", Times: 3}}, Forward: []Target{{To: "nats://n", Error: "away"}}}),
		row("odd", time.Minute, "x", "not an object"),
		lost,
	}, 24*time.Hour, now)
	got := map[string]string{}
	for _, m := range list {
		got[m.Host] = strings.Join(m.Problems, "; ")
	}
	want := map[string]string{
		"fine":    "",
		"silent":  "silent since " + now.Add(-30*time.Hour).Local().Format("2006-01-02 15:04"),
		"old":     "its policy is old (revision 41, the newest is 42)",
		"none":    "its policy is old (revision 0, the newest is 42)",
		"expired": "its policy has expired (revision 42)",
		"future":  "silent since " + now.Add(-48*time.Hour).Local().Format("2006-01-02 15:04"),
		"mute":    "no heartbeat: its daemon does not run",
		"failing": "hook audit failed open 3 times; cannot send to nats://n: away",
		"odd":     "its policy is old (revision 0, the newest is 42)",
		"lost":    "retention removed 7 Records before they were sent",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if last := list[len(list)-1]; last.Host != "fine" || last.AgentNames() != "codex 9, cursor" {
		t.Errorf("the last machine is %+v, want the one without problems", last)
	}
	if !slices.IsSortedFunc(list[:len(list)-1], func(a, b Machine) int { return strings.Compare(a.Host, b.Host) }) {
		t.Error("machines with problems are not sorted by name")
	}
}

// TestBeat stores a heartbeat, and reads it as a database does.
func TestBeat(t *testing.T) {
	t.Parallel()
	place := local.Place{State: t.TempDir(), Policy: "/nonexistent/grapnel.yaml"}
	if id, err := Beat(t.Context(), place); err != nil || id == "" {
		t.Fatal(err)
	}
	for e, err := range spool.Read(place.State, spool.Filter{Events: []grapnel.Kind{spool.Alive}}) {
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(e)
		m := read(&postgres.Machine{Alive: text})
		if e.Machine != place.Identity().Machine || m.Beat.IsZero() || m.Version == "" || m.System == "" {
			t.Errorf("heartbeat %s: %+v", text, m)
		}
		return
	}
	t.Error("no heartbeat in the log")
}
