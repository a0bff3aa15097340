package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/internal/webhook"
)

// A Query selects deliveries. Empty fields match all.
type Query struct {
	State   delivery.State
	Target  string
	Session string
	ID      string
	Record  string
	Limit   int // 0 = no limit
}

// Deliveries returns the deliveries that match a Query, newest first.
func (r *Reader) Deliveries(ctx context.Context, q Query) ([]delivery.Job, error) {
	conds, args := []string{"1"}, []any(nil)
	for _, c := range []struct{ cond, value string }{
		{"state = ?", string(q.State)}, {"target = ?", q.Target}, {"session = ?", q.Session}, {"id = ?", q.ID}, {"record = ?", q.Record},
	} {
		if c.value != "" {
			conds, args = append(conds, c.cond), append(args, c.value)
		}
	}
	limit := q.Limit
	if limit <= 0 {
		limit = -1
	}
	var jobs []delivery.Job
	err := r.db.Read(ctx, func(v *database.View) error {
		return v.Each("SELECT "+jobColumns+" FROM job WHERE "+strings.Join(conds, " AND ")+" ORDER BY num DESC LIMIT ?", append(args, limit),
			func(scan func(into ...any) error) error {
				job, err := scanJob(scan)
				jobs = append(jobs, job)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the deliveries: %w", err)
	}
	return jobs, nil
}

// A Target is a hook that deliveries go to, by its full name.
type Target struct {
	Name      string    `json:"name"`
	Off       bool      `json:"off,omitempty"`   // deliveries are disabled
	Since     time.Time `json:"since,omitzero"`  // when it was disabled
	Why       string    `json:"why,omitempty"`   // why it was disabled
	Waiting   int       `json:"waiting"`         // number of waiting jobs
	Dead      int       `json:"dead"`            // number of dead jobs
	Delivered int       `json:"delivered"`       // number of delivered jobs that are still stored
	Oldest    time.Time `json:"oldest,omitzero"` // creation time of the oldest waiting job
}

// Targets returns all targets with known deliveries, by name.
func (r *Reader) Targets(ctx context.Context) ([]Target, error) {
	var targets []Target
	err := r.db.Read(ctx, func(v *database.View) error {
		return v.Each(`SELECT j.name, off.target IS NOT NULL, coalesce(off.since, 0), coalesce(off.why, ''), j.waiting, j.dead, j.delivered, j.oldest
			FROM (SELECT target AS name, sum(state = 'waiting') AS waiting, sum(state = 'dead') AS dead, sum(state = 'delivered') AS delivered,
					coalesce(min(CASE state WHEN 'waiting' THEN created END), 0) AS oldest FROM job GROUP BY target
				UNION ALL SELECT target, 0, 0, 0, 0 FROM off WHERE target NOT IN (SELECT target FROM job)) j
			LEFT JOIN off ON off.target = j.name ORDER BY j.name`, nil, func(scan func(into ...any) error) error {
			var t Target
			var since, oldest int64
			err := scan(&t.Name, &t.Off, &since, &t.Why, &t.Waiting, &t.Dead, &t.Delivered, &oldest)
			t.Since, t.Oldest = database.Time(since), database.Time(oldest)
			targets = append(targets, t)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the targets: %w", err)
	}
	return targets, nil
}

// A Refusal is the newest delivery that a target refused for a reason that time does not cure.
type Refusal struct {
	Target string `json:"target"`
	ID     string `json:"id"`
	Status int    `json:"status"`
	Error  string `json:"error"` // with the beginning of the target's answer
	Off    bool   `json:"off,omitempty"`
}

// Refusals returns the targets that refused the delivery of an event since then and have accepted no later
// event, by name. A
// refusal is a status from 400 to 499, except those that mean "later" in HTTP (408, 425, 429) or SMTP
// (421, 432, 450 to 459), or a status of an e-mail server that ended a delivery before its last attempt.
func (r *Reader) Refusals(ctx context.Context, since time.Time) ([]Refusal, error) {
	var found []Refusal
	err := r.db.Read(ctx, func(v *database.View) error {
		return v.Each(`SELECT target, id, status, error, target IN (SELECT target FROM off) FROM job WHERE num IN (
				SELECT max(num) FROM job j WHERE state <> 'delivered' AND status >= 400
					AND (status < 500 AND status NOT IN (408, 421, 425, 429, 432) AND status NOT BETWEEN 450 AND 459 OR status >= 500 AND state = 'dead' AND tries < ?)
					AND created > ? AND created > coalesce((SELECT max(created) FROM job d WHERE d.target = j.target AND d.state = 'delivered'), 0)
				GROUP BY target)
			ORDER BY target`, []any{len(webhook.Schedule()) + 1, database.Stamp(since)}, func(scan func(into ...any) error) error {
			var one Refusal
			err := scan(&one.Target, &one.ID, &one.Status, &one.Error, &one.Off)
			found = append(found, one)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read which deliveries were refused: %w", err)
	}
	return found, nil
}

const jobColumns = "id, record, target, session, ordered, state, tries, next, status, error, created, ended, hook, event"

// scanJob scans the columns of jobColumns.
func scanJob(scan func(into ...any) error) (delivery.Job, error) {
	var j delivery.Job
	var next, created, ended int64
	var hook, event []byte
	err := scan(&j.ID, &j.Record, &j.Target, &j.Session, &j.Ordered, &j.State, &j.Tries, &next, &j.Status, &j.Error, &created, &ended, &hook, &event)
	if err != nil {
		return j, err
	}
	j.Next, j.Created, j.Ended = database.Time(next), database.Time(created), database.Time(ended)
	if len(event) > 0 {
		j.Event = event
	}
	return j, json.Unmarshal(hook, &j.Hook)
}
