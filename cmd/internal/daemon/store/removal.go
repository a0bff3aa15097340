package store

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// The reasons of a Removal.
const (
	byAge    = "age"
	byNumber = "number"
)

// A Removal states that retention removed the oldest rows. It is a row of the chain itself, so it
// cannot be added, changed or removed later without breaking the chain.
type Removal struct {
	Seq     int64     `json:"seq"` // its own row
	Time    time.Time `json:"time"`
	First   int64     `json:"first"`   // first removed row
	Last    int64     `json:"last"`    // last removed row
	Records int64     `json:"records"` // number of removed Records; other rows of the chain are not counted
	Reason  string    `json:"reason"`  // "age" or "number"

	// The limits that were in force.
	MaxAge     int64 `json:"max_age_seconds"`
	MaxRecords int   `json:"max_records"`

	Before Hash `json:"before"` // hash of the row before First; zero = First was row 1
	After  Hash `json:"after"`  // hash of Last

	// The input of the hash of Last. It proves the time of that row, because the row after Last
	// is chained to After.
	Prior  Hash      `json:"prior"` // hash of the row before Last
	Digest Hash      `json:"digest"`
	Wrote  time.Time `json:"wrote"` // time of Last
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

// implausible returns why retention cannot have made this removal, or "". before is the previous
// Removal, or nil if the store has none.
func (r *Removal) implausible(before *Removal, limitAge time.Duration, limitRecords int, now time.Time) string {
	age := time.Duration(r.MaxAge) * time.Second
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
	case r.Reason == byAge && age < limitAge:
		return fmt.Sprintf("it states a retention of %v, but the limit is %v", age, limitAge)
	case r.Reason == byAge && !r.Wrote.Before(r.Time.Add(-age)):
		return fmt.Sprintf("row %d was written on %s, and was not older than %v on %s", r.Last, r.Wrote.Format(time.RFC3339), age, r.Time.Format(time.RFC3339))
	case r.Reason == byNumber && r.MaxRecords < limitRecords:
		return fmt.Sprintf("it states a retention of %d records, but the limit is %d", r.MaxRecords, limitRecords)
	case r.Reason == byNumber && behind < int64(r.MaxRecords):
		return fmt.Sprintf("the log had only %d rows after row %d, but retention keeps %d records", behind, r.Last, r.MaxRecords)
	case r.Reason != byAge && r.Reason != byNumber:
		return fmt.Sprintf("unknown reason %q", r.Reason)
	}
	return ""
}
