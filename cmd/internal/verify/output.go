package verify

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/verify/model"
)

// call is a call of tool with these members, names and values in turn.
func call(tool string, members ...any) model.Call {
	input := map[string]any{}
	for i := 0; i+1 < len(members); i += 2 {
		input[members[i].(string)] = members[i+1]
	}
	return model.Call{Tool: tool, Input: input}
}

// jsonLines yields the lines of an agent's output that are JSON of this form:
// most agents that print one object per line print other lines between them.
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

// encode is v as JSON for people and settings files. It panics on what is no JSON,
// of which the drivers have none.
func encode(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		panic("verify: " + err.Error())
	}
	return b.String()
}

// object is what the settings files of the drivers are made of.
type object = map[string]any
