package match

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

// hasEnded reports whether an event contains the result of a call.
func hasEnded(ev *grapnel.Event) bool {
	return ev.Tool != nil && (ev.Kind == grapnel.ToolAfter || ev.Kind == grapnel.ToolFailed || ev.Kind == grapnel.ToolBatchAfter)
}

// Failed reports whether a call failed: the agent reports a failure, or the result of a shell line
// has a non-zero exit code. Agents differ in which of these they report. If an agent reports
// neither, Failed returns false.
func (f *Facts) Failed() bool {
	t := f.Event.Tool
	switch {
	case t == nil:
		return false
	case t.Failed || f.Event.Kind == grapnel.ToolFailed:
		return true
	case !hasEnded(f.Event) || len(t.Commands) == 0 && t.Class != grapnel.ClassShell:
		return false
	}
	code, ok := exitCode(t.Output, 0)
	return ok && code != 0
}

// exitNames lists the members of results that contain an exit code, in lower case and without
// separators.
var exitNames = [...]string{"exitcode", "exitstatus", "exit"}

// exitCode finds an exit code in a result: in a member of an object, or in a line of a text.
func exitCode(raw json.RawMessage, depth int) (int, bool) { //nolint:gocognit // one case for each way in which agents report an exit code
	const deep = 4
	if depth > deep || len(raw) == 0 {
		return 0, false
	}
	switch raw[0] {
	case '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return 0, false
		}
		if text = strings.TrimSpace(text); strings.HasPrefix(text, "{") && json.Valid([]byte(text)) { // JSON in a text, as in Cursor
			return exitCode(json.RawMessage(text), depth+1)
		}
		return exitLine(text)
	case '[':
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return 0, false
		}
		for _, item := range items {
			if code, ok := exitCode(item, depth+1); ok {
				return code, true
			}
		}
	case '{':
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return 0, false
		}
		var names []string
		for name := range members {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			plain := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
			if slices.Contains(exitNames[:], plain) {
				if code, err := strconv.Atoi(string(members[name])); err == nil {
					return code, true
				}
			}
		}
		for _, name := range names {
			if code, ok := exitCode(members[name], depth+1); ok {
				return code, true
			}
		}
	}
	return 0, false
}

// exitLine finds the exit code that agents write for the model, in the first line or in one of the
// last lines. Output of the program may follow it.
func exitLine(text string) (int, bool) {
	const tail = 6
	lines := strings.Split(text, "\n")
	for i := len(lines) - 1; i >= max(0, len(lines)-tail); i-- {
		if code, ok := exitWord(lines[i]); ok {
			return code, true
		}
	}
	return exitWord(lines[0])
}

// exitWord parses "Exit code: 1", "Exit Code: 1", "Exit code 1" and "<shellId: 0 completed with
// exit code 1>".
func exitWord(line string) (int, bool) {
	line = strings.ToLower(strings.TrimSpace(line))
	rest, ok := strings.CutPrefix(line, "exit code")
	if !ok && strings.HasPrefix(line, "<shellid:") {
		_, rest, ok = strings.Cut(strings.TrimSuffix(line, ">"), "completed with exit code")
	}
	if !ok {
		return 0, false
	}
	code, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(rest, ":")))
	return code, err == nil
}
