package server

import (
	"encoding/json"
	"fmt"
	"strings"
)

// StoreHealth is what a daemon says of its Records, under "store". The zero value means that
// nothing has happened to them since the daemon was started.
type StoreHealth struct {
	Error      string `json:"error,omitempty"`      // why they cannot be stored now
	Restored   int64  `json:"restored,omitempty"`   // times that the database was removed, replaced or truncated, and restored
	Lost       int64  `json:"lost,omitempty"`       // rows of the log that could not be restored
	Unrecorded int64  `json:"unrecorded,omitempty"` // answers of which neither the store nor the spool could keep a Record
}

// Well reports whether no Record is lost or in danger.
func (h StoreHealth) Well() bool { return h.Error == "" && h.Lost == 0 && h.Unrecorded == 0 }

// Problem returns what a person should know, or "".
func (h StoreHealth) Problem() string {
	var parts []string
	if h.Error != "" {
		parts = append(parts, "records cannot be stored: "+h.Error)
	}
	if h.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%d rows of the log were lost", h.Lost))
	}
	if h.Unrecorded > 0 {
		parts = append(parts, fmt.Sprintf("%d answers have no record", h.Unrecorded))
	}
	if h.Restored > 0 {
		parts = append(parts, fmt.Sprintf("the database was removed, replaced or truncated, and restored without loss: %d times", h.Restored))
	}
	return strings.Join(parts, "; ")
}

// Store returns what a daemon says of its Records.
func (f *Found) Store() (h StoreHealth) {
	_ = json.Unmarshal(f.Health["store"], &h) // nothing is said when nothing has happened
	return h
}
