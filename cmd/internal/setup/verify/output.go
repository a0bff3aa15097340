package verify

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// call returns a call of tool with these members, names and values in turn.
func call(tool string, members ...any) model.Call {
	input := map[string]any{}
	for i := 0; i+1 < len(members); i += 2 {
		input[members[i].(string)] = members[i+1]
	}
	return model.Call{Tool: tool, Input: input}
}

// jsonLines yields the lines of an agent's output that are JSON of type T. Most agents that print
// one object per line also print other lines.
func jsonLines[T any](stdout string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for text := range strings.Lines(stdout) {
			var line T
			if json.Unmarshal([]byte(text), &line) == nil && !yield(line) {
				return
			}
		}
	}
}

// indented returns v as indented JSON for users and settings files. It panics if v cannot be encoded,
// which does not happen in the drivers.
func indented(v any) string {
	text, err := rawjson.Lines(v)
	if err != nil {
		panic("verify: " + err.Error())
	}
	return string(text)
}

// object is a JSON object in a settings file.
type object = map[string]any
