package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Machine is a row of the view grapnel.machines.
type Machine struct {
	ID, Host, User, Login string
	First, Seen           time.Time
	Missed, Repaired      int64
	Alive                 []byte // the Record of its newest heartbeat; nil = none
}

// Machines returns all machines, with the rights of grapnel_reader.
func Machines(ctx context.Context, o Options) ([]Machine, error) {
	conn, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `SELECT machine, host, "user", login, first_seen, last_seen, missed, repaired, alive FROM grapnel.machines`)
	if err != nil {
		return nil, o.explain(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Machine])
	if err != nil {
		return nil, o.explain(err)
	}
	return list, nil
}
