package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

func TestMain(m *testing.M) { await.Main(m) }

// epoch is the time of an entry.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// entry returns a firing of a shell tool that a hook blocks.
func entry(id string) spool.Entry {
	return spool.Entry{Record: grapnel.Record{
		ID: id, Time: epoch, Agent: "claude-code", Session: "s1", Event: grapnel.ToolBefore, Tool: "Bash",
		Decision: grapnel.Block, Hooks: []grapnel.HookRun{{Name: "no-ls", Source: "user", Decision: grapnel.Block, Cause: grapnel.CauseDecision, MS: 0.25}},
		Reasons: []grapnel.Reason{{Hook: "user::no-ls", Text: "No listing here, says Zoë.", Cause: grapnel.CauseDecision}}, MS: 1.5,
		Input: &grapnel.Event{ID: id, Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Input: []byte(`{"command":"ls wintermute"}`)}},
	}}
}

// entries returns entries with the IDs 000 to n-1, a second apart.
func entries(n int) []spool.Entry {
	list := make([]spool.Entry, n)
	for i := range list {
		list[i] = entry(fmt.Sprintf("%03d", i))
		list[i].Time = epoch.Add(time.Duration(i) * time.Second)
	}
	return list
}

func idsOf(list []spool.Entry) []string {
	ids := []string{}
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	return ids
}

// lineOf returns the object of an entry in the journal.
func lineOf(e spool.Entry) []byte {
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err) // an Entry has only strings and numbers
	}
	return raw
}

// A place is a log that a test writes. It ends the test at every error.
type place struct {
	Log
	t testing.TB
	w *journal.Writer
}

// begin returns a place without any file.
func begin(t testing.TB) *place {
	t.Helper()
	return in(t, t.TempDir())
}

func in(t testing.TB, dir string) *place {
	p := &place{Log: Log{State: filepath.Join(dir, "state"), Index: filepath.Join(dir, "index")}, t: t}
	p.w = &journal.Writer{Dir: p.journal()}
	t.Cleanup(func() { p.ok(p.w.Close()) })
	return p
}

func (p *place) journal() string { return filepath.Join(p.State, spool.JournalDir) }

func (p *place) db() string { return filepath.Join(p.Index, "index.db") }

func (p *place) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// put appends lines.
func (p *place) put(list ...spool.Entry) {
	p.t.Helper()
	for chunk := range slices.Chunk(list, 500) {
		var lines [][]byte
		for _, e := range chunk {
			lines = append(lines, lineOf(e))
		}
		_, err := p.w.AppendAll(false, lines...)
		p.ok(err)
	}
}

// segment returns the name of a segment.
func (p *place) segment(number int) string {
	return filepath.Join(p.journal(), fmt.Sprintf("%08d.jsonl", number))
}

func (p *place) numbers() []int {
	p.t.Helper()
	numbers, err := journal.Numbers(p.journal())
	p.ok(err)
	return numbers
}

// raw appends bytes to the newest segment, without a checksum.
func (p *place) raw(text string) {
	p.t.Helper()
	numbers := p.numbers()
	f, err := os.OpenFile(p.segment(numbers[len(numbers)-1]), os.O_APPEND|os.O_WRONLY, 0o600)
	p.ok(err)
	_, err = f.WriteString(text)
	p.ok(errors.Join(err, f.Close()))
}

// next closes the newest segment. A Writer that does not know it yet only finds it at first.
func (p *place) next() {
	p.t.Helper()
	for range 3 {
		made, err := p.w.Next()
		p.ok(err)
		if made {
			return
		}
	}
	p.t.Fatal("the segment was not closed")
}

// retire keeps the closed segments behind which there are less than n lines.
func (p *place) retire(n int) {
	p.t.Helper()
	_, err := journal.Retire(p.journal(), journal.Limits{MaxRecords: n}, time.Now())
	p.ok(err)
}

// keep opens the index. A problem that it notes ends the test, unless opts says something else.
func (p *place) keep(opts *Options) *Index {
	p.t.Helper()
	if opts == nil {
		opts = &Options{Note: func(err error) { p.t.Errorf("Note: %v", err) }}
	}
	x, err := p.Keep(opts)
	p.ok(err)
	p.t.Cleanup(func() { p.ok(x.Close()) })
	return x
}

// run runs an Index until the test, or stop, ends it.
func (p *place) run(x *Index) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				p.t.Errorf("Run: %v", err)
			}
		})
	}
	p.t.Cleanup(stop)
	return stop
}

// all waits until the index has the whole journal.
func (p *place) all() {
	p.t.Helper()
	await.Until(p.t, "the index has the whole journal", func() bool {
		r := p.Open()
		defer r.Close()
		lag, err := r.Lag(p.t.Context())
		return err == nil && lag == Lag{}
	})
}

// catchUp adds the rest of the journal to an index that does not run.
func (p *place) catchUp(x *Index) {
	p.t.Helper()
	log, err := spool.OpenLog(p.State, time.Time{})
	p.ok(err)
	for more := true; more; {
		more, err = x.batch(p.t.Context(), log)
		p.ok(err)
	}
	p.ok(log.Close())
}

// index makes or updates the index, as a daemon does that then ends.
func (p *place) index() {
	p.t.Helper()
	x, err := p.Keep(nil)
	p.ok(err)
	p.catchUp(x)
	p.ok(x.Close())
}

// states calls check for logs with the same lines, of which the index has none, a half, or all.
func states(t *testing.T, list []spool.Entry, check func(*testing.T, *place)) {
	t.Helper()
	for _, state := range []string{"absent", "behind", "complete"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			p := begin(t)
			p.put(list[:len(list)/2]...)
			if state != "absent" {
				p.index()
			}
			p.put(list[len(list)/2:]...)
			if state == "complete" {
				p.index()
			}
			check(t, p)
		})
	}
}

// rows returns the rows that match a Query.
func (p *place) rows(q Query) []Row {
	p.t.Helper()
	r := p.Open()
	defer r.Close()
	return p.rowsOf(r, q)
}

func (p *place) rowsOf(r *Reader, q Query) (rows []Row) {
	p.t.Helper()
	for row, err := range r.Records(context.Background(), q) {
		if err != nil {
			p.t.Fatalf("Records(%+v): %v", q, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// want compares the IDs of the rows that match a Query.
func (p *place) want(q Query, ids ...string) {
	p.t.Helper()
	got := []string{}
	for _, row := range p.rows(q) {
		got = append(got, row.ID)
	}
	if !slices.Equal(got, ids) {
		p.t.Errorf("Records(%+v) = %v, want %v", q, got, ids)
	}
}

// shown returns the IDs that Read yields; "!" is an error.
func (p *place) shown(q Query) []string {
	p.t.Helper()
	out := []string{}
	for k, err := range p.Read(context.Background(), q) {
		if err != nil {
			p.t.Logf("%v", err)
			k.ID = "!"
		}
		out = append(out, k.ID)
	}
	return out
}

func (p *place) wantShown(q Query, want ...string) {
	p.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), p.shown(q)); diff != "" {
		p.t.Errorf("Read of %+v (-want +got):\n%s", q, diff)
	}
}

// bare returns the same log without an index.
func (p *place) bare() *place {
	return &place{Log: Log{State: p.State, Index: filepath.Join(p.Index, "none")}, t: p.t}
}

// sameCounts are the options for the comparison of counts, whose times are rounded.
var sameCounts = cmp.Options{cmpopts.IgnoreUnexported(stats.Hook{}, stats.Agent{}), cmpopts.EquateApprox(0.0101, 0.001), cmpopts.EquateEmpty()}

// agree compares what readers get with the index, and without: in the second case it compares with what the
// lines of the journal say.
func (p *place) agree(when string, r *Reader, queries ...Query) {
	p.t.Helper()
	bare := p.bare()
	short := func(rows []Row) (list []string) {
		for _, row := range rows {
			list = append(list, fmt.Sprintf("%d %s %s", row.Seq, row.ID, row.Line))
		}
		return list
	}
	for _, q := range append(queries, Query{Oldest: true}) {
		want := p.naive(q)
		if diff := cmp.Diff(short(want), short(bare.rows(q))); diff != "" {
			p.t.Errorf("%s, without the index: Records(%+v) (-want +got):\n%s", when, q, diff)
		}
		if diff := cmp.Diff(short(want), short(p.rowsOf(r, q))); diff != "" {
			p.t.Errorf("%s, with the index: Records(%+v) (-want +got):\n%s", when, q, diff)
		}
		if q.Limit > 0 {
			continue
		}
		q.After, q.Before = 0, 0
		want, with, without := p.naive(q), p.shown(q), bare.shown(q)
		ids := []string{}
		for _, row := range want {
			if ids = append(ids, row.ID); row.Event == spool.Torn {
				ids[len(ids)-1] = "!"
			}
		}
		for _, list := range [][]string{ids, with, without} {
			slices.Sort(list)
		}
		if diff := cmp.Diff(ids, without); diff != "" {
			p.t.Errorf("%s, without the index: Read(%+v) (-want +got):\n%s", when, q, diff)
		}
		if diff := cmp.Diff(ids, with); diff != "" {
			p.t.Errorf("%s, with the index: Read(%+v) (-want +got):\n%s", when, q, diff)
		}
	}
	for _, since := range []time.Time{{}, epoch.Add(5 * time.Second)} {
		want, err := bare.Count(context.Background(), since)
		got, err2 := r.Count(context.Background(), since)
		if diff := cmp.Diff(want.Summary(), got.Summary(), sameCounts); diff != "" || err != nil || err2 != nil {
			p.t.Errorf("%s: Count since %v, %v, %v (-without the index +with it):\n%s", when, since, err, err2, diff)
		}
	}
	with, without := p.IDs(context.Background()), bare.IDs(context.Background())
	defer with.Close()
	defer without.Close()
	for _, prefix := range []string{"", "0", "r", "r00"} {
		want, err := without.Find(context.Background(), prefix, 1000)
		got, err2 := with.Find(context.Background(), prefix, 1000)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil || err2 != nil {
			p.t.Errorf("%s: Find(%q), %v, %v (-without the index +with it):\n%s", when, prefix, err, err2, diff)
		}
		for _, id := range want {
			if a, b := with.Short(context.Background(), id), without.Short(context.Background(), id); a != b {
				p.t.Errorf("%s: Short(%s) = %s with the index, %s without", when, id, a, b)
			}
		}
	}
}

// naive returns the rows of a Query without Text, from the journal alone and in the simplest way.
func (p *place) naive(q Query) (rows []Row) {
	p.t.Helper()
	log, err := spool.OpenLog(p.State, time.Time{})
	p.ok(err)
	defer log.Close()
	first := map[string]bool{}
	for line, err := range log.From(0) {
		p.ok(err)
		if line.Text == nil {
			continue
		}
		name := fmt.Sprint(line.Entry.ID, line.Entry.Decision)
		if line.Entry.Late {
			name += string(line.Text)
		}
		if first[name] {
			continue
		}
		first[name] = true
		if !q.selects(&line.Entry) || line.At <= q.After || q.Before > 0 && line.At >= q.Before {
			continue
		}
		if q.Text != "" && !strings.Contains(string(line.Text), q.Text) {
			continue
		}
		text, err := line.Whole(p.State)
		p.ok(err)
		rows = append(rows, Row{Seq: line.At, Entry: line.Entry, Line: text})
	}
	if !q.Oldest {
		slices.Reverse(rows)
	}
	if q.Limit > 0 && len(rows) > q.Limit {
		rows = rows[:q.Limit]
	}
	return rows
}

// sql returns a number from the index.
func (p *place) sql(r *Reader, query string) (n int64) {
	p.t.Helper()
	p.ok(r.read(context.Background(), func(v *database.View) error {
		_, err := v.Row(query, nil, &n)
		return err
	}))
	return n
}
