package server

import (
	"encoding/json"
	"fmt"
	"strings"
)

// StoreHealth is the part of a daemon's health about its Records, under "store". The zero value
// means no problems since the start of the daemon.
type StoreHealth struct {
	Error      string `json:"error,omitempty"`      // why Records cannot be stored now
	Lost       int64  `json:"lost,omitempty"`       // segments of the log that another program removed, replaced or truncated
	Unrecorded int64  `json:"unrecorded,omitempty"` // replies without a Record

	Queue QueueHealth `json:"queue,omitzero"`
}

// QueueHealth is the part of a daemon's health about its deliveries. The zero value has no problems.
type QueueHealth struct {
	Error string `json:"error,omitempty"` // why deliveries cannot be stored now
	Lost  int64  `json:"lost,omitempty"`  // how often the database was removed, replaced or damaged, and the waiting deliveries were lost
}

// Well reports whether no Record and no delivery is lost or in danger.
func (h StoreHealth) Well() bool {
	return h.Error == "" && h.Lost == 0 && h.Unrecorded == 0 && h.Queue == QueueHealth{}
}

// Problem returns a description of the problems for the user, or "".
func (h StoreHealth) Problem() string {
	var parts []string
	if h.Error != "" {
		parts = append(parts, "cannot store records: "+h.Error)
	}
	if h.Lost > 0 {
		parts = append(parts, fmt.Sprintf("another program removed, replaced or truncated %d files of the log", h.Lost))
	}
	if h.Unrecorded > 0 {
		parts = append(parts, fmt.Sprintf("%d replies have no record", h.Unrecorded))
	}
	if h.Queue.Error != "" {
		parts = append(parts, "cannot store deliveries: "+h.Queue.Error)
	}
	if h.Queue.Lost > 0 {
		parts = append(parts, fmt.Sprintf("waiting deliveries were lost: their database was removed, replaced or damaged %d times", h.Queue.Lost))
	}
	return strings.Join(parts, "; ")
}

// Store returns the daemon's report about its Records.
func (f *Found) Store() (h StoreHealth) {
	_ = json.Unmarshal(f.Health["store"], &h) // the member is missing if there were no problems
	return h
}
