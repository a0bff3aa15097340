//go:build e2e && linux

package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	backend "github.com/grapnel-dev/grapnel/backend/nats"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	stored "github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/proofs/records"
	"github.com/grapnel-dev/grapnel/internal/forward"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
)

// answers returns lines of a log: events that were answered twice, with the same decision and with another one.
// "late" is in place of a decision.
func answers(words ...string) (lines []string) {
	for i, word := range words {
		id, decision, _ := strings.Cut(word, " ")
		members := fmt.Sprintf(`"decision":%q,"hooks":[{"name":"h","source":"s","decision":%q,"ms":1}],"ms":%d`, decision, decision, i)
		if decision == "late" {
			members = fmt.Sprintf(`"hooks":[{"name":"h","source":"s","decision":"block","ms":1}],"ms":%d,"late":true`, i)
		}
		at := time.Date(2026, 11, 29, 23, 59, 50+4*i, 0, time.UTC) // the second answer can be on another day
		lines = append(lines, fmt.Sprintf(`{"id":%q,"time":%q,"agent":"codex","session":"s","event":"tool.before",%s}`, id, at.Format(time.RFC3339), members))
	}
	return lines
}

// store appends lines to the log of a machine.
func (m machine) store(t *testing.T, lines []string) {
	t.Helper()
	err := records.Store(m.place(t), func(yield func([]byte, error) bool) {
		for _, line := range lines {
			if !yield([]byte(line), nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDecisions: each decision of a firing goes from the log to a server once, wherever a connection ends, and if
// the log is sent again. Second answers with a decision that the server has stay on the machine.
func TestDecisions(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	n := startNATS(t, "")
	setUp(t, s, n)
	lines := answers("a none", "b block", "a none", "a late", "a block", "b block", "a late", "a block", "b none")
	want := []string{"a none 0", "b block 1", "a late 3", "a block 4", "a late 6", "b none 8"}
	for name, server := range map[string]struct {
		dial func(ctx context.Context, machine string) (forward.Target, error)
		read func(t *testing.T, machine string) []string
	}{
		"PostgreSQL": {
			func(ctx context.Context, machine string) (forward.Target, error) {
				return postgres.Open(ctx, postgres.Options{URL: s.URL("postgres", "postgres"), Credentials: s.Passwords()}, machine)
			},
			func(t *testing.T, machine string) []string { return rowsOf(t, s, machine) },
		},
		"JetStream": {
			func(ctx context.Context, machine string) (forward.Target, error) {
				return backend.Open(ctx, backend.Options{URL: n.url()}, machine)
			},
			func(t *testing.T, machine string) []string { return messagesOf(t, n, machine) },
		},
	} {
		for split := range len(lines) + 1 {
			id := fmt.Sprintf("%032x", split)
			send := func(m machine) {
				log := stored.Log(m.place(t)).Open()
				defer log.Close()
				f := &forward.Forwarder{Source: log, Dial: func(ctx context.Context) (forward.Target, error) { return server.dial(ctx, id) }}
				if err := f.Once(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			m := newMachine(t, "")
			m.store(t, lines[:split])
			send(m)
			m.store(t, lines[split:])
			send(m)
			send(m)
			if diff := cmp.Diff(want, server.read(t, id)); diff != "" {
				t.Errorf("%s, in two parts, after line %d (-want +got):\n%s", name, split, diff)
			}
			other := newMachine(t, "") // a log without the position: the first line has another length
			other.store(t, slices.Concat([]string{strings.Replace(lines[0], `"ms":0`, `"ms":0.25`, 1)}, lines[1:], answers("c none", "a ask")))
			send(other)
			send(other)
			if diff := cmp.Diff(append(want, "c none 0", "a ask 1"), server.read(t, id)); diff != "" {
				t.Errorf("%s, sent again, after line %d (-want +got):\n%s", name, split, diff)
			}
		}
	}
}

// rowsOf returns what the database has of a machine.
func rowsOf(t *testing.T, s *postgrestest.Server, machine string) (all []string) {
	t.Helper()
	conn := connect(t, s)
	_, found := rows(t, conn, fmt.Sprintf("SELECT concat_ws(' ', id, CASE WHEN late THEN 'late' ELSE decision END, ms) FROM grapnel.records WHERE machine = '%s' ORDER BY num", machine))
	for _, row := range found {
		all = append(all, row[0].(string))
	}
	return all
}

// messagesOf returns what the stream has of a machine.
func messagesOf(t *testing.T, n *stream, machine string) (all []string) {
	t.Helper()
	for _, body := range bodies(t, n, "grapnel.records."+machine) {
		var rec struct {
			ID, Decision string
			Late         bool
			MS           float64
		}
		if err := json.Unmarshal([]byte(body), &rec); err != nil {
			t.Fatal(err)
		}
		if rec.Late {
			rec.Decision = "late"
		}
		all = append(all, fmt.Sprint(rec.ID, " ", rec.Decision, " ", rec.MS))
	}
	return all
}
