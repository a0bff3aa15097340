package service

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// health returns the daemon's status report, and whether all its parts work.
func (d *daemon) health() (report any, well bool) {
	health := map[string]any{
		"version": hookcmd.Version, "pid": os.Getpid(), "since": d.begun.UTC().Format(time.RFC3339), "answered": d.answered.Load(), "declined": d.declined.Load(),
	}
	store := d.storeHealth()
	if store != (server.StoreHealth{}) {
		health["store"] = store
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.failed) > 0 {
		health["failed"] = maps.Clone(d.failed)
	}
	return health, len(d.failed) == 0 && store.Well()
}

// storeHealth returns whether Records or deliveries are lost or in danger.
func (d *daemon) storeHealth() server.StoreHealth {
	c := d.records.Condition()
	h := server.StoreHealth{Lost: int64(c.Removed), Unrecorded: max(d.unrecorded.Load(), d.countedLosses())}
	d.mu.Lock()
	err := cmp.Or(d.unkept, c.Err)
	d.mu.Unlock()
	if err != nil {
		h.Error = err.Error()
	}
	q := d.queue.Condition()
	h.Queue.Lost = q.Lost
	if q.Err != nil {
		h.Queue.Error = q.Err.Error()
	}
	return h
}

// appendFailed stores why the last Records could not be appended; nil = they were.
func (d *daemon) appendFailed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unkept = err
}

// tryAppend finds out whether Records can be appended again, so that the health report does not wait for the next
// event.
func (d *daemon) tryAppend() {
	d.mu.Lock()
	failed := d.unkept != nil
	d.mu.Unlock()
	if failed {
		d.appendFailed(d.journal.Try())
	}
}

// countedLosses returns the number of replies since the start of the daemon that have no Record,
// as counted in a file by all processes. The daemon counts its own replies in memory, too, because
// the file may be on a read-only disk.
func (d *daemon) countedLosses() int64 {
	l := spool.ReadLosses(d.place.State, time.Now())
	if l.First.Equal(d.oldLosses.First) {
		return int64(l.Replies - d.oldLosses.Replies)
	}
	return int64(l.Replies)
}

// losses returns the values of storeHealth for the metrics.
func (d *daemon) losses() telemetry.Losses {
	h := d.storeHealth()
	return telemetry.Losses{Failing: h.Error != "", Segments: h.Lost, Answers: h.Unrecorded}
}

// noRecord counts a reply without a Record. It logs only the first, because many follow while a
// disk is full.
func (d *daemon) noRecord(err error) {
	if d.unrecorded.Add(1) == 1 {
		d.log.Error("record lost", "error", err)
	}
}

func (d *daemon) noteFile() string { return File(d.place, NoteName) }

// note writes the daemon's status file.
func (d *daemon) note() error {
	report, _ := d.health()
	data, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return os.WriteFile(d.noteFile(), data, 0o600)
}
