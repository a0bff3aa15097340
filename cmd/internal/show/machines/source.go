package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/web"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Source shows the Records of all machines in the browser page. It only reads.
type Source struct {
	DB     *postgres.Reader
	Silent time.Duration // see List
}

var _ web.Source = Source{}

const (
	pageRows = 200             // rows that are read at once
	hookRows = 200_000         // newest rows whose hooks are counted
	lookNew  = 2 * time.Second // how often new rows are looked for
)

// errElsewhere is the error for facts that only the machine itself has.
var errElsewhere = errors.New("only the machine itself knows this: run \"grapnel ui\" there")

// Records yields the rows of a query. Text matches words and parts of words.
func (s Source) Records(ctx context.Context, q index.Query) iter.Seq2[index.Row, error] {
	want := queryOf(&q)
	return func(yield func(index.Row, error) bool) {
		for left := q.Limit; ; {
			want.Limit = pageRows
			if q.Limit > 0 {
				want.Limit = min(pageRows, left)
			}
			rows, err := s.DB.Records(ctx, want)
			if err != nil {
				yield(index.Row{}, err)
				return
			}
			for i := range rows {
				if !yield(rowOf(&rows[i], q.Lean)) {
					return
				}
			}
			left -= len(rows)
			if len(rows) < want.Limit || q.Limit > 0 && left <= 0 {
				return
			}
			if last := rows[len(rows)-1].Num; q.Oldest {
				want.After = last
			} else {
				want.Before = last
			}
		}
	}
}

func queryOf(q *index.Query) postgres.Query {
	out := postgres.Query{
		Machine: q.Machine, Agent: q.Agent, Session: q.Session, ID: q.ID, Hook: q.Hook, Would: q.Would, Since: q.Since,
		Words: strings.Fields(strings.NewReplacer(`"`, " ", "*", " ").Replace(q.Text)), After: q.After, Before: q.Before, Oldest: q.Oldest,
	}
	for _, k := range q.Events {
		out.Events = append(out.Events, string(k))
	}
	for _, d := range q.Decisions {
		out.Decisions = append(out.Decisions, d.String())
	}
	if q.ID == "" && len(q.Events) == 0 {
		out.NotEvent = string(spool.Alive)
	}
	return out
}

func rowOf(r *postgres.Row, lean bool) (index.Row, error) {
	row := index.Row{Seq: r.Num, Line: r.Record}
	err := json.Unmarshal(r.Record, &row.Entry)
	if lean {
		row.Input = nil
	}
	if err != nil {
		err = fmt.Errorf("cannot read record %d of the database: %w", r.Num, err)
	}
	return row, err
}

// Back returns the row that is n rows before another.
func (Source) Back(_ context.Context, before int64, n int) (int64, error) {
	return max(0, before-1-int64(n)), nil
}

// Subscribe signals new rows.
func (s Source) Subscribe(ctx context.Context) <-chan index.Live {
	out := make(chan index.Live)
	go func() {
		defer close(out)
		last, _ := s.DB.Newest(ctx) // after an error the first look signals
		tick := time.NewTicker(lookNew)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n, err := s.DB.Newest(ctx)
			if err != nil || n <= last {
				continue // a page that is loaded shows the error
			}
			last = n
			select {
			case out <- index.Live{Row: index.Row{Seq: n}}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// Totals counts the Records since a time, and the hooks of the newest rows.
func (s Source) Totals(ctx context.Context, since time.Time) (stats.Totals, error) {
	t := stats.Totals{Since: since, Decisions: map[grapnel.Decision]int{}, Would: map[grapnel.Decision]int{}}
	counts, err := s.DB.Decisions(ctx, since)
	if err != nil {
		return t, err
	}
	quarters := stats.Quarters{}
	for i := range counts {
		c := &counts[i]
		decision, would := decisionOf(c.Decision), decisionOf(c.Would)
		t.Firings += c.Firings
		t.Errors += c.Errors
		t.FailOpen += c.FailOpen
		t.Decisions[decision] += c.Firings
		quarters.Add(time.Unix(c.Begin, 0), decision, c.Firings)
		if would > decision {
			t.Would[would] += c.Firings
		}
	}
	t.Days = quarters.Days(since.Location())
	newest, err := s.DB.Newest(ctx)
	if err != nil {
		return t, err
	}
	hooks, err := s.DB.Hooks(ctx, max(0, newest-hookRows))
	for i := range hooks {
		h := &hooks[i]
		t.Hooks = append(t.Hooks, stats.Hook{
			Name: h.Name, Source: h.Source, Runs: h.Runs, Errors: h.Errors, Timeouts: h.Timeouts, FailOpen: h.Opened, LastError: h.LastError, P50: h.P50, P95: h.P95, Max: h.Max,
		})
	}
	return t, err
}

func decisionOf(word string) (d grapnel.Decision) {
	_ = d.UnmarshalText([]byte(word)) // of a newer version: none
	return d
}

// Machines returns all machines.
func (s Source) Machines(ctx context.Context) ([]web.Machine, error) {
	rows, err := s.DB.Machines(ctx)
	if err != nil {
		return nil, err
	}
	list := List(rows, s.Silent, time.Now())
	out := make([]web.Machine, len(list))
	for i := range list {
		m := &list[i]
		out[i] = web.Machine{
			ID: m.ID, Name: m.User + "@" + m.Host, Version: m.Version, Since: m.First, Seen: m.Seen, Revision: m.Revision, Agents: m.AgentNames(), Problems: m.Problems,
		}
	}
	return out, nil
}

// Deliveries returns nothing: the deliveries of a machine are on the machine.
func (Source) Deliveries(context.Context, queue.Query) ([]delivery.Job, error) {
	return nil, nil
}

// Targets returns nothing, see Deliveries.
func (Source) Targets(context.Context) ([]queue.Target, error) { return nil, nil }

// Retry is not possible from here.
func (Source) Retry(context.Context, ...string) (int, error) { return 0, errElsewhere }

// Policies are not in the database.
func (Source) Policies(context.Context, string) (web.Policies, error) {
	return web.Policies{}, errElsewhere
}

// Explain is not possible from here.
func (Source) Explain(context.Context, string) (web.Explanation, error) {
	return web.Explanation{}, errElsewhere
}
