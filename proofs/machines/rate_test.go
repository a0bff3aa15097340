//go:build e2e && linux

package machines

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	backend "github.com/grapnel-dev/grapnel/backend/nats"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/forward"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// least is the least rate of a forwarder in relation to the bulk load of the engine itself.
const least = 0.3

// TestRates compares the rate of a forwarder with the rate at which the engine loads the same Records
// in bulk: COPY into a table with the same columns, partitions and indexes, and messages that are published
// without waiting for each answer.
func TestRates(t *testing.T) {
	s := postgrestest.Start(t)
	n := startNATS(t, "")
	setUp(t, s, n)
	const count = 20_000
	for _, engine := range []struct {
		name string
		dial func(ctx context.Context, machine string) (forward.Target, error)
		bulk func(*testing.T, []string) time.Duration
		size func(*testing.T) int64 // bytes of all Records, with indexes
	}{
		{
			"PostgreSQL", func(ctx context.Context, machine string) (forward.Target, error) {
				return postgres.Open(ctx, postgres.Options{URL: s.URL("postgres", "postgres"), Credentials: s.Passwords()}, machine)
			},
			func(t *testing.T, lines []string) time.Duration { return copyLines(t, s, lines) },
			func(t *testing.T) int64 { return databaseSize(t, s) },
		},
		{
			"JetStream", func(ctx context.Context, machine string) (forward.Target, error) {
				return backend.Open(ctx, backend.Options{URL: n.url()}, machine)
			},
			func(t *testing.T, lines []string) time.Duration { return publishLines(t, n, lines) },
			func(t *testing.T) int64 { return streamSize(t, n) },
		},
	} {
		// A busy machine slows both of a run, so only times of the same run are compared.
		best := 0.0
		for run := 0; run < 3 || run < 10 && best < least; run++ {
			forwarded := forwardLines(t, engine.dial, count)
			if run == 0 {
				t.Logf("%s: %d bytes per Record of %d bytes", engine.name, engine.size(t)/count, len(record(one, count)))
			}
			bulk := engine.bulk(t, lines(t, count))
			ratio := bulk.Seconds() / forwarded.Seconds()
			t.Logf("%s: %.0f Records/s forwarded, %.0f loaded in bulk: ratio %.2f", engine.name, count/forwarded.Seconds(), count/bulk.Seconds(), ratio)
			best = max(best, ratio)
		}
		if best < least {
			t.Errorf("%s: the ratio to the bulk load is %.2f, want at least %.1f", engine.name, best, least)
		}
	}
}

// TestSmallBatches logs the rate of many machines that send a Record at a time, as daemons do, to servers
// that flush to disk.
func TestSmallBatches(t *testing.T) {
	s := postgrestest.Start(t, "fsync=on")
	n := startNATS(t, "")
	setUp(t, s, n)
	for name, dial := range map[string]func(machine string) (forward.Target, error){
		"PostgreSQL": func(machine string) (forward.Target, error) {
			return postgres.Open(t.Context(), postgres.Options{URL: s.URL("postgres", "postgres"), Credentials: s.Passwords()}, machine)
		},
		"JetStream": func(machine string) (forward.Target, error) {
			return backend.Open(t.Context(), backend.Options{URL: n.url()}, machine)
		},
	} {
		const machines, each = 32, 200
		errs := make(chan error, machines)
		begun := time.Now()
		for i := range machines {
			go func() { errs <- sendSingly(t.Context(), dial, fmt.Sprintf("%032x", i), each) }()
		}
		for range machines {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		t.Logf("%s: %.0f Records/s from %d machines, one at a time", name, machines*each/time.Since(begun).Seconds(), machines)
	}
}

// sendSingly sends Records of a machine, each in a batch of its own.
func sendSingly(ctx context.Context, dial func(string) (forward.Target, error), machine string, count int) error {
	target, err := dial(machine)
	if err != nil {
		return err
	}
	defer target.Close()
	from, err := target.Position(ctx)
	for i := 0; i < count && err == nil; i++ {
		text := record(machine, i)
		l := forward.Line{Seq: int64(i + 1), ID: fmt.Sprint(i), Part: "none", Text: text, Digest: sha256.Sum256(text)}
		err = target.Send(ctx, from, []forward.Line{l}, 0)
		from = at(l)
	}
	return err
}

// forwardLines forwards the Records of a new machine.
func forwardLines(t *testing.T, dial func(context.Context, string) (forward.Target, error), count int) time.Duration {
	t.Helper()
	m := newMachine(t, "")
	m.fill(t, 0, count)
	place := m.place(t)
	log := records.Log(place).Open()
	defer log.Close()
	f := &forward.Forwarder{Source: log, Dial: func(ctx context.Context) (forward.Target, error) { return dial(ctx, place.Identity().Machine) }}
	begun := time.Now()
	if err := f.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun) // must fire: only the ratio to another time is judged
}

// databaseSize returns the size of the tables of Records.
func databaseSize(t *testing.T, s *postgrestest.Server) (size int64) {
	t.Helper()
	conn := connect(t, s)
	err := conn.QueryRow(t.Context(), "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'grapnel.record'::regclass").Scan(&size)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// streamSize returns the size of the messages of the stream.
func streamSize(t *testing.T, n *stream) int64 {
	t.Helper()
	js := n.client(t)
	s, err := js.Stream(t.Context(), backend.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	return int64(s.CachedInfo().State.Bytes)
}

// lines returns Records of a new machine.
func lines(t *testing.T, count int) []string {
	t.Helper()
	m := newMachine(t, "")
	id := m.place(t).Identity().Machine
	all := make([]string, count)
	for i := range all {
		all[i] = string(record(id, i))
	}
	return all
}

// copyLines loads Records with COPY.
func copyLines(t *testing.T, s *postgrestest.Server, lines []string) time.Duration {
	t.Helper()
	conn := connect(t, s)
	rows := make([][]any, len(lines))
	for i, line := range lines {
		var e index.Row
		if err := json.Unmarshal([]byte(line), &e.Entry); err != nil {
			t.Fatal(err)
		}
		rows[i] = []any{e.Machine, int64(i), e.ID, e.Decision.String(), e.Time, e.Agent, e.Session, string(e.Event), e.Tool, e.Decision.String(), e.Host, e.User, e.PolicyDigest, e.MS, false, line}
	}
	begun := time.Now()
	_, err := conn.CopyFrom(t.Context(), pgx.Identifier{"grapnel", "record"}, []string{"machine", "seq", "id", "part", "time", "agent", "session", "event", "tool", "decision", "host", "user", "policy_digest", "ms", "late", "record"}, pgx.CopyFromRows(rows))
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(begun) // must fire: only the ratio to another time is judged
}

// publishLines publishes Records without waiting for each answer.
func publishLines(t *testing.T, n *stream, lines []string) time.Duration {
	t.Helper()
	js := n.client(t, jetstream.WithPublishAsyncMaxPending(4000))
	begun := time.Now()
	for _, line := range lines {
		if _, err := js.PublishAsync("grapnel.records.bulk", []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	took := time.Since(begun) // must fire: only the ratio to another time is judged
	if info, err := js.Stream(t.Context(), backend.DefaultStream); err != nil || info.CachedInfo().State.Msgs == 0 {
		t.Fatalf("the stream has no messages: %v", err)
	}
	return took
}
