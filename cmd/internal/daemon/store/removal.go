package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// The reasons of a Removal.
const (
	byAge    = "age"
	byNumber = "number"
	bySize   = "size"

	newLimits = "limits" // nothing was removed: the row states limits that are in force from there on
)

// Limits are the limits of retention. For each, 0 is the default.
type Limits struct {
	MaxAge     int64 `json:"max_age_seconds"`
	MaxRecords int   `json:"max_records"`
	MaxBytes   int64 `json:"max_bytes,omitempty"` // of the lines of all Records; 0 = no limit
}

// DefaultLimits are the limits if no policy sets others.
var DefaultLimits = Limits{MaxAge: 90 * 24 * 60 * 60, MaxRecords: 1_000_000}

// LimitsOf returns the limits that policies set.
func LimitsOf(set *load.Set) Limits {
	r := set.Retention
	return Limits{MaxAge: int64(r.Days) * 24 * 60 * 60, MaxRecords: r.Records, MaxBytes: r.Size}.orDefault()
}

func (l Limits) orDefault() Limits {
	l.MaxAge, l.MaxRecords = cmp.Or(l.MaxAge, DefaultLimits.MaxAge), cmp.Or(l.MaxRecords, DefaultLimits.MaxRecords)
	return l
}

// String returns the limits for people.
func (l Limits) String() string {
	text := fmt.Sprintf("%s, %s", printable.Count(int(l.MaxAge/(24*60*60)), "day"), printable.Count(l.MaxRecords, "Record"))
	switch {
	case l.MaxBytes == 0:
		return text
	case l.MaxBytes%1e9 == 0:
		return text + fmt.Sprintf(", %d GB", l.MaxBytes/1e9)
	}
	return text + fmt.Sprintf(", %d MB", l.MaxBytes/1e6)
}

// Age returns the maximum age of a Record.
func (l Limits) Age() time.Duration { return time.Duration(l.MaxAge) * time.Second }

// SetLimits changes the limits that the next Prune uses and that Verify permits.
func (r *Reader) SetLimits(l Limits) {
	l = l.orDefault()
	r.limits.Store(&l)
}

// stricter returns how these limits remove more for a reason than others do, or "".
func (l Limits) stricter(reason string, than Limits) string {
	switch {
	case reason == byAge && l.MaxAge < than.MaxAge:
		return fmt.Sprintf("it states a retention of %v, but the limit is %v", l.Age(), than.Age())
	case reason == byNumber && l.MaxRecords < than.MaxRecords:
		return fmt.Sprintf("it states a retention of %d records, but the limit is %d", l.MaxRecords, than.MaxRecords)
	case reason == bySize && than.MaxBytes == 0:
		return fmt.Sprintf("it states a retention of %d bytes, but there is no such limit", l.MaxBytes)
	case reason == bySize && l.MaxBytes < than.MaxBytes:
		return fmt.Sprintf("it states a retention of %d bytes, but the limit is %d", l.MaxBytes, than.MaxBytes)
	}
	return ""
}

// A Removal states that retention removed the oldest rows. It is a row of the chain itself, so it
// cannot be added, changed or removed later without breaking the chain.
type Removal struct {
	Seq     int64     `json:"seq"` // its own row
	Time    time.Time `json:"time"`
	First   int64     `json:"first"`   // first removed row
	Last    int64     `json:"last"`    // last removed row
	Records int64     `json:"records"` // number of removed Records; other rows of the chain are not counted
	Reason  string    `json:"reason"`  // "age", "number" or "size"

	Limits // that were in force

	Before Hash `json:"before"` // hash of the row before First; zero = First was row 1
	After  Hash `json:"after"`  // hash of Last

	// The input of the hash of Last. It proves the time of that row, because the row after Last
	// is chained to After.
	Prior  Hash      `json:"prior"` // hash of the row before Last
	Digest Hash      `json:"digest"`
	Wrote  time.Time `json:"wrote"` // time of Last
}

// A LimitChange is a row of the chain that states new limits of retention.
type LimitChange struct {
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	Limits
}

// stateLimits adds a row that states the limits, unless the last statement in the chain is the same.
func (c *change) stateLimits(limits Limits, now time.Time) error {
	var line []byte
	if _, err := c.row("SELECT line FROM removal ORDER BY seq DESC LIMIT 1", nil, &line); err != nil {
		return err
	}
	last := Removal{Limits: DefaultLimits}
	if line != nil && json.Unmarshal(line, &last) != nil {
		last.Limits = Limits{} // Verify reports the row
	}
	if last.Limits == limits {
		return nil
	}
	return c.putRemoval(&Removal{Time: unstamp(stamp(now)), Reason: newLimits, Limits: limits})
}

// putRemoval adds a Removal to the chain.
func (c *change) putRemoval(r *Removal) error {
	r.Seq = c.head.Seq + 1
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	digest := Hash(sha256.Sum256(line))
	head := c.head.next(r.Seq, stamp(r.Time), digest)
	if err := c.run("INSERT INTO removal(seq, time, last, after, line, digest, hash) VALUES (?,?,?,?,?,?,?)",
		r.Seq, stamp(r.Time), r.Last, r.After[:], line, digest[:], head.Hash[:]); err != nil {
		return err
	}
	c.head = head
	return nil
}

// maxAhead is how far the time of a row or a removal may be in the future. Clocks of one
// machine do not differ by more.
const maxAhead = time.Hour

// implausible returns why retention with the limits that this removal states cannot have made it, or
// "". before is the previous Removal, or nil if the store has none.
func (r *Removal) implausible(before *Removal, now time.Time) string {
	age := r.Age()
	wrote := Head{Seq: r.Last - 1, Hash: r.Prior}.next(r.Last, stamp(r.Wrote), r.Digest)
	behind := r.Seq - 1 - r.Last // rows when the removal was made
	switch {
	case r.First < 1 || r.Last < r.First || r.Last >= r.Seq || r.Records < 0 || r.Records > r.Last-r.First+1:
		return "this is not a valid range of earlier rows"
	case before != nil && (r.First != before.Last+1 || r.Before != before.After):
		return fmt.Sprintf("the previous removal, in row %d, ended at row %d", before.Seq, before.Last)
	case r.First == 1 && r.Before != Hash{}:
		return "it states a hash for the row before row 1, which does not exist"
	case wrote.Hash != r.After:
		return fmt.Sprintf("it does not prove when row %d was written", r.Last)
	case r.Time.After(now.Add(maxAhead)):
		return fmt.Sprintf("its time, %s, is in the future", r.Time.Format(time.RFC3339))
	case r.Reason == byAge && !r.Wrote.Before(r.Time.Add(-age)):
		return fmt.Sprintf("row %d was written on %s, and was not older than %v on %s", r.Last, r.Wrote.Format(time.RFC3339), age, r.Time.Format(time.RFC3339))
	case r.Reason == byNumber && behind < int64(r.MaxRecords):
		return fmt.Sprintf("the log had only %d rows after row %d, but retention keeps %d records", behind, r.Last, r.MaxRecords)
	case r.Reason == bySize && r.MaxBytes <= 0:
		return "it states no limit of the size"
	case r.Reason != byAge && r.Reason != byNumber && r.Reason != bySize:
		return fmt.Sprintf("unknown reason %q", r.Reason)
	}
	return ""
}
