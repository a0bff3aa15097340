package service

import (
	"encoding/json"
	"maps"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
)

// health is what is said of the daemon, and whether all its parts work.
func (d *daemon) health() (said any, well bool) {
	health := map[string]any{
		"version": hookcmd.Version, "pid": os.Getpid(), "since": d.begun.UTC().Format(time.RFC3339), "answered": d.answered.Load(), "declined": d.declined.Load(),
	}
	if http := d.http.health(); http != nil {
		health["http"] = http
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

// storeHealth says whether Records are lost or in danger.
func (d *daemon) storeHealth() server.StoreHealth {
	c := d.store.Condition()
	h := server.StoreHealth{Restored: c.Restored, Lost: c.Lost, Unrecorded: d.unrecorded.Load()}
	if c.Err != nil {
		h.Error = c.Err.Error()
	}
	return h
}

// losses counts for the metrics what storeHealth says.
func (d *daemon) losses() telemetry.Losses {
	h := d.storeHealth()
	return telemetry.Losses{Failing: h.Error != "", Restored: h.Restored, Rows: h.Lost, Answers: h.Unrecorded}
}

// noRecord counts an answer of which no Record could be kept. The first is logged: more
// follow while a disk is full.
func (d *daemon) noRecord(err error) {
	if d.unrecorded.Add(1) == 1 {
		d.log.Error("a record was lost", "error", err)
	}
}

func (d *daemon) noteFile() string { return File(d.place, NoteName) }

// note writes down which daemon this is.
func (d *daemon) note() error {
	said, _ := d.health()
	data, err := json.Marshal(said)
	if err != nil {
		return err
	}
	return os.WriteFile(d.noteFile(), data, 0o600)
}
