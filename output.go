package grapnel

import (
	"bytes"
	"encoding/json"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// An Output is the result of a hook's program, or the response of its server. It may
// contain secrets, so it is in memory only, and of limited size.
type Output struct {
	Exit   int // exit code of the program; -1 = a signal ended it
	Stdout []byte
	Stderr []byte
	Cut    int // missing bytes of both streams, beyond the limit
	Status int // HTTP status of the response, whose body is in Stdout; 0 = a program ran
}

// Object returns the members of the JSON object on Stdout, or nil.
func (o *Output) Object() map[string]json.RawMessage {
	if o == nil || !rawjson.IsObject(o.Stdout) {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimSpace(o.Stdout), &members) != nil {
		return nil
	}
	return members
}
