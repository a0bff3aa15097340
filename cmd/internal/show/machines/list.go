package machines

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Machine is a state directory that sends its Records to a database.
type Machine struct {
	ID       string    `json:"machine"`
	Host     string    `json:"host"`
	User     string    `json:"user"`
	Login    string    `json:"login"` // the role of the database that writes for it
	First    time.Time `json:"first_seen"`
	Seen     time.Time `json:"last_seen"` // by the clock of the database
	Beat     time.Time `json:"heartbeat,omitzero"`
	Digest   string    `json:"policy_digest,omitempty"`
	Revision string    `json:"policy_revision,omitempty"`
	Missed   int64     `json:"missed,omitempty"`   // Records that were removed before they could be sent
	Repaired int64     `json:"repaired,omitempty"` // Records that the database cannot hold as they are
	Alive

	Problems []string `json:"problems"` // in a few words; empty = none is known
}

// List returns the machines of a database with their problems: those with problems first, then by
// name. A machine is silent if it sent nothing for this long.
func List(rows []postgres.Machine, silent time.Duration, now time.Time) []Machine {
	list := make([]Machine, len(rows))
	newest := 0
	for i := range rows {
		list[i] = read(&rows[i])
		if n, _ := list[i].revision(); now.Sub(list[i].Seen) < silent {
			newest = max(newest, n)
		}
	}
	for i := range list {
		list[i].judge(silent, newest, now)
	}
	slices.SortFunc(list, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Problems)), min(1, len(a.Problems))), cmp.Compare(a.Host, b.Host), cmp.Compare(a.User, b.User), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// read returns a row without judging it.
func read(row *postgres.Machine) Machine {
	m := Machine{
		ID: row.ID, Host: row.Host, User: row.User, Login: row.Login, First: row.First, Seen: row.Seen, Missed: row.Missed, Repaired: row.Repaired, Problems: []string{},
	}
	var e spool.Entry
	if json.Unmarshal(row.Alive, &e) != nil {
		return m // without a heartbeat
	}
	m.Beat, m.Digest, m.Revision = e.Time, e.PolicyDigest, e.PolicyRevision
	if e.Input != nil {
		_ = json.Unmarshal(e.Input.Native, &m.Alive) // of another version: what can be read
	}
	return m
}

// revision returns the revision of the policies, and whether they have expired; 0 = they have none.
func (m *Machine) revision() (n int, expired bool) {
	number, rest, _ := strings.Cut(m.Revision, " ")
	n, _ = strconv.Atoi(number)
	return n, rest != ""
}

// judge adds the problems of a machine.
func (m *Machine) judge(silent time.Duration, newest int, now time.Time) {
	add := func(format string, args ...any) { m.Problems = append(m.Problems, fmt.Sprintf(format, args...)) }
	if now.Sub(m.Seen) >= silent {
		add("silent since %s", m.Seen.Local().Format("2006-01-02 15:04"))
	}
	if m.Beat.IsZero() {
		add("no heartbeat: its daemon does not run")
	}
	switch n, expired := m.revision(); {
	case expired:
		add("its policy has expired (revision %d)", n)
	case n < newest && !m.Beat.IsZero():
		add("its policy is old (revision %d, the newest is %d)", n, newest)
	}
	for _, f := range m.Failing {
		add("hook %s failed open %s", f.Hook, printable.Count(f.Times, "time"))
	}
	for _, t := range m.Forward {
		if t.Error != "" {
			add("cannot send to %s: %s", t.To, t.Error)
		}
	}
	if m.Missed > 0 {
		add("retention removed %s before they were sent", printable.Count(int(m.Missed), "Record"))
	}
}

// AgentNames returns the names of the agents with their versions.
func (m *Machine) AgentNames() string {
	names := make([]string, len(m.Agents))
	for i, a := range m.Agents {
		names[i] = strings.TrimSpace(a.Name + " " + a.Version)
	}
	return strings.Join(names, ", ")
}
