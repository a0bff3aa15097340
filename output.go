package grapnel

import (
	"bytes"
	"encoding/json"
)

// An Output is the result of one run of a hook's program, or a response of a hook's server. It may
// contain secrets, so it is in memory only, for the caller of the engine: it is not in the JSON of
// a Record. (The Error of a failed hook quotes the end of its stderr.) Its size is limited by the
// hook: by process.Command.MaxOutput, 1 MiB by default, for stdout and for stderr each, and to 1 MiB
// for a response.
type Output struct {
	Exit   int // exit code of the program; -1 = a signal ended it
	Stdout []byte
	Stderr []byte
	Cut    int // bytes of both streams that exceeded the limit and are missing

	Status int // HTTP status of the response, whose body is in Stdout; 0 = a program ran
}

// Object returns the members of the JSON object on Stdout. It returns nil if Stdout is anything
// else, for example text, a list, or an object with text next to it.
func (o *Output) Object() map[string]json.RawMessage {
	if o == nil || !isObject(o.Stdout) {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimSpace(o.Stdout), &members) != nil {
		return nil
	}
	return members
}
