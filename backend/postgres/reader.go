package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Reader reads the Records of all machines, with the rights of grapnel_reader. It is safe for
// concurrent use.
type Reader struct {
	options Options
	pool    *pgxpool.Pool
}

// queryTime limits each query, so that a search through many Records does not use the database for
// long.
const queryTime = 20 * time.Second

// OpenReader connects to a database.
func OpenReader(ctx context.Context, o Options) (*Reader, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["statement_timeout"] = fmt.Sprint(queryTime.Milliseconds())
	config.RuntimeParams["default_transaction_read_only"] = "on"
	pool.ConnConfig, pool.MaxConns = config, 4
	r := &Reader{options: o}
	if r.pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return nil, o.explain(err)
	}
	var n int
	if err = r.pool.QueryRow(ctx, "SELECT n FROM grapnel.version").Scan(&n); err != nil {
		err = o.explain(err)
	} else {
		err = known(n)
	}
	if err != nil {
		r.pool.Close()
		return nil, err
	}
	return r, nil
}

// Close ends all connections.
func (r *Reader) Close() { r.pool.Close() }

// A Query selects Records. Empty fields match all.
type Query struct {
	Machine, Agent, Session, ID string
	Hook                        string   // that ran: its name, or source::name
	Events, Decisions           []string // one of them
	NotEvent                    string   // not this event
	Would                       bool     // only events that hooks in observe mode would have blocked or asked about
	Words                       []string // that all occur in the Record
	Since                       time.Time
	After, Before               int64 // row numbers; 0 = no limit
	Oldest                      bool  // oldest first, else newest first
	Limit                       int
}

// A Row is a Record with its row number.
type Row struct {
	Num    int64
	Record []byte // as a line of the log
}

// Newest returns the number of the newest row; 0 = none.
func (r *Reader) Newest(ctx context.Context) (n int64, err error) {
	if err = r.pool.QueryRow(ctx, "SELECT coalesce(max(num), 0) FROM grapnel.records").Scan(&n); err != nil {
		err = r.options.explain(err)
	}
	return n, err
}

// where returns the condition of a Query.
func (q *Query) where() (string, pgx.NamedArgs) {
	conds, args := []string{"true"}, pgx.NamedArgs{}
	add := func(name string, value any, wanted bool, cond string) {
		if wanted {
			conds, args[name] = append(conds, cond), value
		}
	}
	add("machine", q.Machine, q.Machine != "", "machine = @machine")
	add("agent", q.Agent, q.Agent != "", "agent = @agent")
	add("session", q.Session, q.Session != "", "session = @session")
	add("id", q.ID, q.ID != "", "id = @id")
	add("events", q.Events, len(q.Events) > 0, "event = ANY(@events)")
	add("decisions", q.Decisions, len(q.Decisions) > 0, "NOT late AND decision = ANY(@decisions)")
	add("notEvent", q.NotEvent, q.NotEvent != "", "event IS DISTINCT FROM @notEvent")
	add("since", q.Since, !q.Since.IsZero(), "time >= @since")
	add("after", q.After, q.After > 0, "num > @after")
	add("before", q.Before, q.Before > 0, "num < @before")
	add("hook", q.Hook, q.Hook != "", `EXISTS (SELECT FROM jsonb_array_elements(CASE jsonb_typeof(record->'hooks') WHEN 'array' THEN record->'hooks' ELSE '[]' END) h
		WHERE @hook IN (h->>'name', (h->>'source') || '::' || (h->>'name')))`)
	if q.Would {
		conds = append(conds, "NOT late AND (would = 'block' AND decision <> 'block' OR would = 'ask' AND decision NOT IN ('ask', 'block'))")
	}
	for i, word := range q.Words {
		name := fmt.Sprintf("word%d", i)
		add(name, "%"+strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(word)+"%", true, "record::text ILIKE @"+name)
	}
	return strings.Join(conds, " AND "), args
}

// Records returns the Records of a Query.
func (r *Reader) Records(ctx context.Context, q Query) ([]Row, error) {
	cond, args := q.where()
	order := "DESC"
	if q.Oldest {
		order = "ASC"
	}
	args["limit"] = q.Limit
	rows, err := r.pool.Query(ctx, "SELECT num, record FROM grapnel.records WHERE "+cond+" ORDER BY num "+order+" LIMIT @limit", args)
	return collect[Row](r, rows, err)
}

// A Decision is how often a decision was made in a quarter of an hour.
type Decision struct {
	Begin           int64 // of the quarter, in seconds since 1970
	Decision, Would string
	Firings, Errors int
	FailOpen        int // in which a hook failed and the action continued
}

// Decisions counts the decisions of each quarter of an hour since a time.
func (r *Reader) Decisions(ctx context.Context, since time.Time) ([]Decision, error) {
	rows, err := r.pool.Query(ctx, `SELECT floor(extract(epoch FROM time) / 900)::bigint * 900, coalesce(decision, 'none'), coalesce(would, 'none'), count(*), count(error), count(*) FILTER (WHERE record->'hooks' @> '[{"fail_open": true}]')
		FROM grapnel.records WHERE time >= $1 AND NOT late AND event IS DISTINCT FROM 'native.grapnel.alive' GROUP BY 1, 2, 3`, since)
	return collect[Decision](r, rows, err)
}

// A Hook has the counts of a hook. Times are in milliseconds.
type Hook struct {
	Name, Source             string
	Runs                     int
	Errors, Timeouts, Opened int
	LastError                string
	P50, P95, Max            float64
}

// Hooks counts the runs of each hook in the newest rows.
func (r *Reader) Hooks(ctx context.Context, after int64) ([]Hook, error) {
	rows, err := r.pool.Query(ctx, `SELECT coalesce(hook, ''), coalesce(source, ''), count(*), count(error), count(*) FILTER (WHERE cause = 'timeout'), count(*) FILTER (WHERE fail_open),
			coalesce((array_agg(error ORDER BY num DESC) FILTER (WHERE error IS NOT NULL))[1], ''),
			percentile_cont(0.5) WITHIN GROUP (ORDER BY coalesce(ms, 0)), percentile_cont(0.95) WITHIN GROUP (ORDER BY coalesce(ms, 0)), max(coalesce(ms, 0))
		FROM grapnel.hook_runs WHERE num > $1 GROUP BY 1, 2 ORDER BY 9 DESC LIMIT 1000`, after)
	return collect[Hook](r, rows, err)
}

// Machines returns all machines.
func (r *Reader) Machines(ctx context.Context) ([]Machine, error) {
	rows, err := r.pool.Query(ctx, `SELECT machine, host, "user", login, first_seen, last_seen, missed, repaired, alive FROM grapnel.machines`)
	return collect[Machine](r, rows, err)
}

// collect reads all rows of a query.
func collect[T any](r *Reader, rows pgx.Rows, err error) ([]T, error) {
	var list []T
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		err = r.options.explain(err)
	}
	return list, err
}
