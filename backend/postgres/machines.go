package postgres

import "time"

// A Machine is a row of the view grapnel.machines.
type Machine struct {
	ID, Host, User, Login string
	First, Seen           time.Time
	Missed, Repaired      int64
	Alive                 []byte // the Record of its newest heartbeat; nil = none
}
