//go:build e2e && linux

package machines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	backend "github.com/grapnel-dev/grapnel/backend/nats"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/proofs/records"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
	"github.com/grapnel-dev/grapnel/local"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// The size of TestFleet.
const (
	fleet   = 200  // machines
	each    = 1000 // Records of a machine
	kills   = 50   // of each side
	workers = 4    // machines that send at the same time
)

// A machine is a state directory below a root.
type machine struct{ root string }

// place returns the place below the root, as --root finds it.
func (m machine) place(t testing.TB) local.Place {
	t.Helper()
	place, err := local.Locate(m.root, "")
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// newMachine returns a machine with a policy.
func newMachine(t testing.TB, policy string) machine {
	t.Helper()
	m := machine{t.TempDir()}
	if err := os.WriteFile(filepath.Join(m.root, "grapnel.yaml"), []byte("version: 1\n"+policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// forwardTo returns a policy with targets.
func forwardTo(s *postgrestest.Server, n *stream) string {
	return fmt.Sprintf("records:\n  forward:\n    - to: %q\n      credentials: %s\n    - to: %s\n", s.URL("postgres", "postgres"), s.Passwords(), n.url())
}

// fill appends Records to the log of a machine.
func (m machine) fill(t testing.TB, from, n int) {
	t.Helper()
	place := m.place(t)
	id := place.Identity()
	err := records.Store(place, func(yield func([]byte, error) bool) {
		for i := range n {
			if !yield(record(id.Machine, from+i), nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tear leaves the beginning of a line at the end of the log, as a program that is killed while it appends.
func (m machine) tear(t testing.TB) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(m.place(t).State, spool.JournalDir, "*[0-9].jsonl"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments: %q, %v", segments, err)
	}
	f, err := os.OpenFile(segments[0], os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("\n" + `{"id":"019a0b3c","ti`)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// record returns a Record of a usual size.
func record(machine string, n int) []byte {
	at := time.Now().Add(time.Duration(n-1000) * time.Second).UTC().Format(time.RFC3339Nano)
	return fmt.Appendf(nil, `{"id":"%08d%.8s","time":%q,"agent":"claude-code","session":"s%d","event":"tool.before","tool":"Bash","decision":"none",`+
		`"hooks":[{"name":"no-force-push","source":"git","line":12,"decision":"none","ms":0.02}],"host":"laptop","user":"ann","machine":%q,`+
		`"policy_digest":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","ms":0.4,"input":{"kind":"tool.before","agent":{"name":"claude-code","event":"PreToolUse"},`+
		`"session":{"id":"s%d","cwd":"/home/ann/src/shop"},"tool":{"name":"Bash","class":"shell","input":{"command":"go test ./... -run Test%d -count=1","description":"Run the tests"}}}}`,
		n, machine, at, n/100, machine, n/100, n)
}

// setUp prepares both servers.
func setUp(t testing.TB, s *postgrestest.Server, n *stream) {
	t.Helper()
	if _, _, err := postgres.Setup(context.Background(), postgres.Options{URL: s.URL("postgres", "postgres"), Credentials: s.Passwords()}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := backend.Setup(context.Background(), backend.Options{URL: n.url()}, 0); err != nil {
		t.Fatal(err)
	}
}

// running are processes that can be killed.
type running struct {
	mu    sync.Mutex
	procs map[int]*os.Process
	kills int
}

// run runs a command to its end, if it is not killed.
func (r *running) run(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	r.mu.Lock()
	r.procs[cmd.Process.Pid] = cmd.Process
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.procs, cmd.Process.Pid)
		r.mu.Unlock()
	}()
	return cmd.Wait()
}

// kill kills one process.
func (r *running) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.procs {
		if p.Signal(syscall.SIGKILL) == nil {
			r.kills++
		}
		return
	}
}

// TestFleet: the Records of many machines arrive in both places exactly once and in the order of
// each machine, although programs and servers are killed all the time. A program that is killed while it
// appends its heartbeat leaves a torn line, which arrives, too. One machine has such a line from the beginning.
func TestFleet(t *testing.T) {
	s := postgrestest.Start(t)
	n := startNATS(t, "")
	setUp(t, s, n)
	policy := forwardTo(s, n)
	queue := make(chan machine, fleet)
	for i := range fleet {
		m := newMachine(t, policy)
		m.fill(t, 0, each)
		if i == 0 {
			m.tear(t)
		}
		queue <- m
	}
	procs := &running{procs: map[int]*os.Process{}}
	var left, work sync.WaitGroup
	left.Add(fleet)
	var failed sync.Map
	for range workers {
		work.Go(func() {
			for m := range queue {
				cmd := exec.Command(grapnel, "forward", "--root", m.root)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				err := procs.run(cmd)
				if err == nil {
					left.Done()
					continue
				}
				failed.Store(cmd.Process.Pid, out.String())
				queue <- m
			}
		})
	}
	all := make(chan struct{})
	go func() { left.Wait(); close(queue); work.Wait(); close(all) }()
	serverKills, late := 0, time.After(4*time.Minute)
	for ended := false; !ended; {
		select {
		case <-all:
			ended = true
		case <-late:
			failed.Range(func(pid, out any) bool { t.Logf("process %v: %s", pid, out); return true })
			t.Fatal("the machines do not send their Records")
		case <-time.After(20*time.Millisecond + rand.N(100*time.Millisecond)): // must fire: it kills at a random moment
			procs.kill()
			if serverKills < kills {
				s.Kill()
				n.kill()
				serverKills++
				n.run()
				s.Run()
			}
		}
	}
	t.Logf("%d machines with %d Records each: %d kills of programs, %d of each server", fleet, each, procs.kills, serverKills)
	if procs.kills < kills || serverKills < kills {
		t.Errorf("%d kills of programs and %d of servers, want at least %d: the test ends too soon", procs.kills, serverKills, kills)
	}
	rows, torn := checkPostgres(t, s, fleet*each)
	if torn < 1 || torn > 1+procs.kills {
		t.Errorf("PostgreSQL: %d torn lines, want the first one, and at most one of each of %d killed programs", torn, procs.kills)
	}
	checkNATS(t, n, rows)
}

// connect returns a connection of the owner to a database until the test ends.
func connect(t *testing.T, s *postgrestest.Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL("postgres", "postgres")+"&passfile="+s.Passwords())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// checkPostgres checks that the database has a number of Records and any number of heartbeats and torn lines, in the
// order of each machine. It returns the number of all of them, and of torn lines.
func checkPostgres(t *testing.T, s *postgrestest.Server, want int) (rows, torn int) {
	t.Helper()
	conn := connect(t, s)
	var records, ids, disorder, machines, missed, repaired int
	err := conn.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE event = $1), count(*) FILTER (WHERE event <> ALL (ARRAY[$1, $2])), count(DISTINCT (machine, id)), count(*) FILTER (WHERE seq <= before)
		FROM (SELECT *, lag(seq) OVER (PARTITION BY machine ORDER BY num) AS before FROM grapnel.record) r`, spool.Torn, spool.Alive).Scan(&rows, &torn, &records, &ids, &disorder)
	if err == nil {
		err = conn.QueryRow(t.Context(), "SELECT count(*), sum(missed), sum(repaired) FROM grapnel.machines").Scan(&machines, &missed, &repaired)
	}
	if err != nil {
		t.Fatal(err)
	}
	if records != want || ids != rows || disorder != 0 || missed != 0 || repaired != 0 {
		t.Errorf("PostgreSQL: %d rows, %d IDs, %d Records of %d machines, %d torn lines, %d not in order, %d missed, %d repaired; want %d Records",
			rows, ids, records, machines, torn, disorder, missed, repaired, want)
	}
	return rows, torn
}

// checkNATS does the same for the stream.
func checkNATS(t *testing.T, n *stream, want int) {
	t.Helper()
	js := n.client(t)
	consumer, err := js.OrderedConsumer(t.Context(), backend.DefaultStream, jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	messages, twice, disorder := 0, 0, 0
	seen, last := map[string]bool{}, map[string]int64{}
	for {
		batch, err := consumer.FetchNoWait(5000)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for m := range batch.Messages() {
			got++
			key := m.Subject() + m.Headers().Get("Grapnel-Key")
			if seen[key] {
				twice++
			}
			seen[key] = true
			seq, err := strconv.ParseInt(m.Headers().Get("Grapnel-Seq"), 10, 64)
			if err != nil || seq <= last[m.Subject()] {
				disorder++
			}
			last[m.Subject()] = seq
		}
		messages += got
		if got == 0 {
			break
		}
	}
	if messages != want || twice != 0 || disorder != 0 {
		t.Errorf("JetStream: %d messages of %d machines, %d twice, %d not in order; want %d", messages, len(last), twice, disorder, want)
	}
}
