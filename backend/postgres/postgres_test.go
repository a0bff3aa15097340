//go:build e2e && unix

package postgres_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/internal/forward"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
)

// The machines of the tests.
const (
	first  = "0123456789abcdef0123456789abcdef"
	second = "fedcba9876543210fedcba9876543210"
)

// world is a prepared database with the logins alice and bob, who may write, and carol, who may read.
func world(t *testing.T) *postgrestest.Server {
	t.Helper()
	s := postgrestest.Start(t)
	if before, after, err := postgres.Setup(t.Context(), options(s, "postgres"), 0); err != nil || before != 0 || after != postgres.Version() {
		t.Fatalf("Setup: %d to %d, %v", before, after, err)
	}
	exec(t, s, `CREATE ROLE alice LOGIN PASSWORD 'a' IN ROLE grapnel_writer; CREATE ROLE bob LOGIN PASSWORD 'b' IN ROLE grapnel_writer;
		CREATE ROLE carol LOGIN PASSWORD 'c' IN ROLE grapnel_reader; CREATE ROLE dora LOGIN PASSWORD 'd'`)
	file, err := os.OpenFile(s.Passwords(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alice", "bob", "carol", "dora"} {
		fmt.Fprintf(file, "*:*:*:%s:%s\n", name, name[:1])
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

func options(s *postgrestest.Server, user string) postgres.Options {
	return postgres.Options{URL: s.URL(user, "postgres"), Credentials: s.Passwords()}
}

// login connects without Grapnel.
func login(t *testing.T, s *postgrestest.Server, user string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL(user, "postgres")+"&passfile="+s.Passwords())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, s *postgrestest.Server, query string) {
	t.Helper()
	if _, err := login(t, s, "postgres").Exec(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func one[T any](t *testing.T, s *postgrestest.Server, query string, args ...any) (value T) {
	t.Helper()
	if err := login(t, s, "postgres").QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func open(t *testing.T, s *postgrestest.Server, user, machine string) *postgres.Target {
	t.Helper()
	target, err := postgres.Open(t.Context(), options(s, user), machine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	return target
}

// line returns a line with these members beside those that each Record has.
func line(seq int64, id, members string) forward.Line {
	text := fmt.Sprintf(`{"id":%q,"time":"2026-11-29T10:00:00.123456789Z","agent":"codex","session":"s","event":"tool.before","decision":"none","hooks":[],"ms":0.5%s}`, id, members)
	return forward.Line{Seq: seq, ID: id, Part: "none", Text: []byte(text), Digest: sha256.Sum256([]byte(text))}
}

// decided returns a line with a decision. more makes texts different.
func decided(seq int64, id, decision, more string) forward.Line {
	l := line(seq, id, more)
	l.Text = []byte(strings.Replace(string(l.Text), `"decision":"none"`, fmt.Sprintf(`"decision":%q`, decision), 1))
	l.Part, l.Digest = decision, sha256.Sum256(l.Text)
	return l
}

func after(l forward.Line) forward.Position { return forward.Position{Seq: l.Seq, Digest: l.Digest} }

func TestOnce(t *testing.T) {
	t.Parallel()
	s := world(t)
	target := open(t, s, "alice", first)
	if at, err := target.Position(t.Context()); err != nil || at != (forward.Position{}) {
		t.Fatalf("of a new machine: %v, %v", at, err)
	}
	late := line(3, "a", `,"late":true`)
	late.Part = fmt.Sprintf("%x", late.Digest[:16])
	lines := []forward.Line{line(1, "a", `,"host":"h1","user":"u1","tool":"Bash","tokens_in":7`), line(2, "b", ""), late}
	if err := target.Send(t.Context(), forward.Position{}, lines, 5); err != nil {
		t.Fatal(err)
	}
	if at, err := target.Position(t.Context()); err != nil || at != after(late) {
		t.Fatalf("after three lines: %v, %v", at, err)
	}
	if err := target.Send(t.Context(), forward.Position{}, lines, 0); !errors.Is(err, forward.ErrMoved) {
		t.Errorf("from an old position: %v, want ErrMoved", err)
	}
	if err := target.Send(t.Context(), after(late), append(lines, line(4, "c", "")), 0); err != nil { // as after Rewind
		t.Fatal(err)
	}
	if n := one[int](t, s, "SELECT count(*) FROM grapnel.records"); n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
	if row := one[string](t, s, "SELECT machine || host || \"user\" || tool || tokens_in || late || (record->>'id') FROM grapnel.records WHERE id = 'a' AND NOT late"); row != first+"h1u1Bash7falsea" {
		t.Error(row)
	}
	if missed := one[int](t, s, "SELECT missed FROM grapnel.machines"); missed != 5 {
		t.Errorf("missed %d, want 5", missed)
	}
}

// A firing has a row for each of its decisions, in one batch and in several, and also if lines are sent again.
func TestTwoDecisions(t *testing.T) {
	t.Parallel()
	s := world(t)
	late := line(5, "a", `,"late":true,"error":"1"`)
	late.Part = "0123456789abcdef0123456789abcdef"
	other := line(6, "a", `,"late":true,"error":"2"`)
	other.Part = "fedcba9876543210fedcba9876543210"
	lines := []forward.Line{
		decided(1, "a", "none", ""), decided(2, "a", "block", `,"hooks":[{"name":"h","source":"s","decision":"block"}]`), decided(3, "a", "none", `,"error":"again"`),
		decided(4, "a", "block", `,"error":"again"`), late, other, late,
	}
	for i := range lines {
		lines[i].Seq = int64(i + 1)
	}
	reader, err := postgres.OpenReader(t.Context(), options(s, "carol"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for size := 1; size <= len(lines); size++ {
		machine := fmt.Sprintf("%032x", size)
		target, from := open(t, s, "alice", machine), forward.Position{}
		for range 2 { // the second time as after Rewind
			for batch := range slices.Chunk(lines, size) {
				if err := target.Send(t.Context(), from, batch, 0); err != nil {
					t.Fatal(err)
				}
				from = after(batch[len(batch)-1])
			}
		}
		got := one[string](t, s, "SELECT string_agg(concat_ws(' ', decision, late, error), ', ' ORDER BY num) FROM grapnel.records WHERE machine = $1 AND id = 'a'", machine)
		if want := "none f, block f, none t 1, none t 2"; got != want {
			t.Errorf("batches of %d: the rows are %q, want %q", size, got, want)
		}
		rows, err := reader.Records(t.Context(), postgres.Query{Machine: machine, ID: "a", Decisions: []string{"block"}, Limit: 10})
		if err != nil || len(rows) != 1 || !strings.Contains(string(rows[0].Record), `"decision": "block"`) || strings.Contains(string(rows[0].Record), "again") {
			t.Errorf("batches of %d: %d blocked rows, %v, want the first block", size, len(rows), err)
		}
		if n := one[int](t, s, "SELECT count(*) FROM grapnel.hook_runs WHERE machine = $1", machine); n != 1 {
			t.Errorf("batches of %d: %d runs of hooks, want 1", size, n)
		}
	}
	counts, err := reader.Decisions(t.Context(), time.Time{})
	firings := map[string]int{}
	for _, c := range counts {
		firings[c.Decision] += c.Firings
	}
	if want := map[string]int{"none": len(lines), "block": len(lines)}; err != nil || !maps.Equal(firings, want) {
		t.Errorf("decisions %v, %v, want %v", firings, err, want)
	}
}

// A login can neither read nor write anything of a machine of another login.
func TestAnotherMachine(t *testing.T) {
	t.Parallel()
	s := world(t)
	if err := open(t, s, "alice", first).Send(t.Context(), forward.Position{}, []forward.Line{line(1, "a", "")}, 0); err != nil {
		t.Fatal(err)
	}
	bob := open(t, s, "bob", first)
	if at, err := bob.Position(t.Context()); err != nil || at != (forward.Position{}) {
		t.Errorf("the position of another login: %v, %v", at, err)
	}
	if err := bob.Send(t.Context(), forward.Position{}, []forward.Line{line(1, "forged", "")}, 0); err == nil || !strings.Contains(err.Error(), "the role alice writes for machine "+first) {
		t.Errorf("a Record for the machine of alice: %v", err)
	}
	// The machine in a line means nothing.
	if err := open(t, s, "bob", second).Send(t.Context(), forward.Position{}, []forward.Line{line(1, "x", `,"machine":"`+first+`"`)}, 0); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, s, "SELECT machine FROM grapnel.records WHERE id = 'x'"); got != second {
		t.Errorf("the machine of the Record is %s, want %s", got, second)
	}
	for user, queries := range map[string][]string{
		"bob": {
			"SELECT 1 FROM grapnel.record", "SELECT 1 FROM grapnel.records", "SELECT 1 FROM grapnel.machine", "INSERT INTO grapnel.machine(machine, login) VALUES ('" + second + "', 'bob')",
			"DELETE FROM grapnel.record", "SELECT grapnel.prune()", "SELECT grapnel.prepare('2026-11-29')", "DROP TABLE grapnel.record", "CREATE TABLE grapnel.x()", "UPDATE grapnel.setting SET days = 1",
		},
		"carol": {"SELECT grapnel.position('" + first + "')", "DELETE FROM grapnel.record", "UPDATE grapnel.machine SET login = 'carol'", "UPDATE grapnel.setting SET days = 1"},
		"dora":  {"SELECT 1 FROM grapnel.records", "SELECT grapnel.position('" + first + "')"},
	} {
		conn := login(t, s, user)
		for _, query := range queries {
			if _, err := conn.Exec(t.Context(), query); err == nil || !strings.Contains(err.Error(), "(SQLSTATE 42501)") {
				t.Errorf("%s: %s: %v, want that it is refused", user, query, err)
			}
		}
	}
	if err := login(t, s, "carol").QueryRow(t.Context(), "SELECT FROM grapnel.records, grapnel.hook_runs, grapnel.machines").Scan(); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("carol cannot read: %v", err)
	}
}

// Hostile content is stored as content.
func TestHostileLines(t *testing.T) {
	t.Parallel()
	s := world(t)
	target := open(t, s, "alice", first)
	random := make([]byte, 4000)
	_, _ = rand.Read(random) // it never fails
	letters := hex.EncodeToString(random)
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	lines := []forward.Line{
		line(1, "sql", `,"tool":"'); DROP TABLE grapnel.record; --","host":"$1 {1,2} \\ \" NULL"`),
		line(2, "nul", `,"tool":"a\u0000b\\u0000\\\u0000"`),
		line(3, "half", `,"tool":"\ud83d\ude00 \ud83d \ude00"`),
		line(4, "bytes", ",\"tool\":\"\xff\xfe\""),
		line(5, "number", `,"tool":1e999999999`),
		line(6, "deep", `,"input":`+deep),
		line(7, "type", `,"tokens_in":"many","ms":{}`),
		line(8, "array", `,"hooks":{"name":1}`),
		{Seq: 9, ID: "i\x00d", Text: []byte(`{"id":"i\u0000d","time":"0000-01-01T00:00:00Z"}`)},
		{Seq: 10, ID: "json", Text: []byte(`{"id":`)},
		{Seq: 11, ID: "empty", Text: []byte(`{}`)},
		line(12, "end", ""),
		line(13, "late", `,"late":true,"tool":1e999999999`),
		line(14, "late", `,"late":"yes"`),
		line(15, "late", `,"late":null,"tool":1e999999999`),
		line(16, letters, ""),
		line(17, letters+"b", ""),
	}
	for i := range lines[12:] {
		lines[12+i].Part = fmt.Sprint(i)
	}
	if err := target.Send(t.Context(), forward.Position{}, lines, 0); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, s, "SELECT count(*) FROM grapnel.records"); n != len(lines) {
		t.Errorf("%d rows, want %d", n, len(lines))
	}
	for id, want := range map[string]string{
		"sql":   "'); DROP TABLE grapnel.record; --",
		"nul":   `a` + "\ufffd" + `b\u0000\` + "\ufffd",
		"half":  "\U0001F600 \ufffd \ufffd",
		"bytes": "\ufffd",
	} {
		if got := one[string](t, s, "SELECT tool FROM grapnel.records WHERE id = $1", id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if got := one[string](t, s, "SELECT error FROM grapnel.records WHERE id = 'number'"); !strings.Contains(got, "the database cannot hold this Record") {
		t.Errorf("number: %q", got)
	}
	if got := one[string](t, s, "SELECT string_agg(late::text, ' ' ORDER BY num) FROM grapnel.records WHERE id = 'late'"); got != "true false false" {
		t.Errorf("late: %s", got)
	}
	if n := one[int](t, s, "SELECT count(*) FROM grapnel.hook_runs"); n != 0 {
		t.Errorf("%d hook runs, want 0", n)
	}
	if n := one[int](t, s, "SELECT repaired FROM grapnel.machines"); n < 6 {
		t.Errorf("%d repaired, want at least 6", n)
	}
}

// Each mistake has an error with a way out, without a password.
func TestMistakes(t *testing.T) {
	t.Parallel()
	s := world(t)
	exec(t, s, "CREATE DATABASE empty")
	exec(t, s, "ALTER ROLE bob SET default_transaction_read_only = on")
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("*:*:*:*:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options postgres.Options
		want    string
	}{
		"no URL":            {postgres.Options{URL: "postgres://u:hunter2@%zz/"}, "it is not a URL"},
		"no server":         {postgres.Options{URL: "postgres://alice@/postgres?host=" + t.TempDir()}, "check the address, and whether the server runs"},
		"wrong password":    {postgres.Options{URL: s.URL("alice", "postgres"), Credentials: wrong}, "check the user in the URL, and the password file"},
		"no database":       {postgres.Options{URL: s.URL("alice", "missing"), Credentials: s.Passwords()}, "create the database, then run: grapnel forward setup postgres:///missing"},
		"no schema":         {postgres.Options{URL: s.URL("alice", "empty"), Credentials: s.Passwords()}, "run as its owner: grapnel forward setup postgres:///empty"},
		"no right":          {options(s, "dora"), "GRANT grapnel_writer TO it"},
		"a reader":          {options(s, "carol"), "GRANT grapnel_writer TO it"},
		"a server to read":  {options(s, "bob"), "name the primary server"},
		"a closed relation": {postgres.Options{URL: s.URL("alice", "postgres") + "&sslmode=verify-full", Credentials: s.Passwords()}, ""},
	} {
		target, err := postgres.Open(t.Context(), c.options, second)
		if err == nil {
			if _, err = target.Position(t.Context()); err == nil {
				err = target.Send(t.Context(), forward.Position{}, []forward.Line{line(1, "a", "")}, 0)
			}
			_ = target.Close()
		}
		if c.want == "" {
			continue // a socket needs no certificate
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q and no password", name, err, c.want)
		}
	}
}

// A newer program has made the schema: writing continues, setup does not touch it.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	s := world(t)
	exec(t, s, "UPDATE grapnel.version SET n = 99")
	if _, _, err := postgres.Setup(t.Context(), options(s, "postgres"), 0); err == nil || !strings.Contains(err.Error(), "version 99, and this program knows 1: update Grapnel") {
		t.Errorf("Setup of a newer schema: %v", err)
	}
	if err := open(t, s, "alice", first).Send(t.Context(), forward.Position{}, []forward.Line{line(1, "a", "")}, 0); err != nil {
		t.Errorf("an older program cannot write: %v", err)
	}
}

// Many programs set up and write at once.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	errs := make(chan error)
	for range 8 {
		go func() {
			_, _, err := postgres.Setup(t.Context(), options(s, "postgres"), 30)
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i := range 8 {
		go func() {
			target, err := postgres.Open(t.Context(), options(s, "postgres"), fmt.Sprintf("%032x", i))
			for n := int64(1); n <= 20 && err == nil; n++ {
				var at forward.Position
				if at, err = target.Position(t.Context()); err == nil {
					l := line(n, fmt.Sprint(n), "")
					l.Text = []byte(strings.Replace(string(l.Text), "2026-11-29", fmt.Sprintf("2026-11-%02d", n+5), 1))
					err = target.Send(t.Context(), at, []forward.Line{l}, 0)
				}
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := one[int](t, s, "SELECT count(*) FROM grapnel.records"); n != 160 {
		t.Errorf("%d rows, want 160", n)
	}
}

// Records of old days are removed with their partitions, and others not.
func TestRetention(t *testing.T) {
	t.Parallel()
	s := world(t)
	target := open(t, s, "alice", first)
	days := one[[]string](t, s, "SELECT array_agg(to_char(now() - n * interval '1 day', 'YYYY-MM-DD')) FROM generate_series(0, 5) n")
	from := forward.Position{}
	for i, day := range append([]string{"1970-01-01", "9999-01-01"}, days...) {
		l := line(int64(i+1), day, "")
		l.Text = []byte(strings.Replace(string(l.Text), "2026-11-29", day, 1))
		if err := target.Send(t.Context(), from, []forward.Line{l}, 0); err != nil {
			t.Fatal(err)
		}
		from = after(l)
	}
	partitions := "SELECT count(*)::int FROM pg_inherits WHERE inhparent = 'grapnel.record'::regclass"
	if n := one[int](t, s, partitions); n != 7 {
		t.Errorf("%d partitions, want 6 days and the others", n)
	}
	if _, _, err := postgres.Setup(t.Context(), options(s, "postgres"), 2); err != nil {
		t.Fatal(err)
	}
	exec(t, s, "SELECT grapnel.prune()")
	if got := one[[]string](t, s, "SELECT array_agg(id ORDER BY num) FROM grapnel.records"); len(got) != 4 || got[0] != "9999-01-01" {
		t.Errorf("Records of the days %q remain, want three days and a wrong clock", got)
	}
}
