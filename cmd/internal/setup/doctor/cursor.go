package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
)

func init() { peculiar["cursor"] = cursorEntries }

// cursorEntries finds entries that make Cursor silently ignore a whole file, including Grapnel's
// entries (seen in its engine, 1.0.32).
func cursorEntries(_ *facts, a *agent) []Finding {
	var found []Finding
	for i := range a.layers {
		l := &a.layers[i]
		if l.rel != "" || !l.is || l.err != "" {
			continue
		}
		for _, what := range cursorFaults(l) {
			found = append(found, Finding{
				ID: "settings.void", Level: Bad, Subject: l.file, What: fmt.Sprintf("Cursor does not read %s: %s", l.file, what), Why: "one wrong entry makes it ignore the whole file", Hint: "repair or remove it",
			})
		}
	}
	return found
}

func cursorFaults(l *layer) (wrong []string) {
	if v, _ := l.tree["version"].(float64); v < 1 || v != math.Trunc(v) {
		wrong = append(wrong, "its version is not a whole number above 0")
	}
	for i := range l.hooks {
		for _, what := range cursorEntryFaults(&l.hooks[i]) {
			wrong = append(wrong, fmt.Sprintf("an entry for %s %s", l.hooks[i].Event, what))
		}
	}
	l.entries(func(event string, entry map[string]any) {
		if _, nested := entry["hooks"]; nested {
			wrong = append(wrong, fmt.Sprintf("an entry for %s has a list of hooks, which only Claude Code supports", event))
		}
	})
	if text := slash(l.tree); text != "" {
		wrong = append(wrong, fmt.Sprintf("%q contains // or /*, which Cursor reads as a comment", cut(text, 60)))
	}
	return wrong
}

func cursorEntryFaults(h *install.Found) (wrong []string) {
	var entry map[string]any
	_ = json.Unmarshal(h.Entry, &entry) // entryOf has encoded it
	for _, name := range []string{"timeout", "loop_limit"} {
		value, ok := entry[name]
		if n, _ := value.(float64); ok && n <= 0 && (value != nil || name == "timeout") {
			wrong = append(wrong, "has a "+name+" that is not a number above 0")
		}
	}
	if matcher, ok := entry["matcher"]; ok {
		if text, is := matcher.(string); !is || text != "*" && !validRegexp(text) {
			wrong = append(wrong, "has a matcher that is not a regular expression")
		}
	}
	switch kind, given := entry["type"]; {
	case given && kind != "command" && kind != "prompt":
		wrong = append(wrong, "is neither a command nor a prompt")
	case kind != "prompt" && h.Command == "":
		wrong = append(wrong, "has no command")
	}
	return wrong
}

// slash returns a string with // or /* in it, which Cursor reads as a comment.
func slash(v any) string {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "//") || strings.Contains(v, "/*") {
			return v
		}
	case []any:
		for _, item := range v {
			if text := slash(item); text != "" {
				return text
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if text := cmp.Or(slash(key), slash(v[key])); text != "" {
				return text
			}
		}
	}
	return ""
}

// validRegexp reports whether text may be a JavaScript regular expression: it is valid in Go, or
// has (?, which may begin a lookaround.
func validRegexp(text string) bool {
	_, err := regexp.Compile(text)
	return err == nil || strings.Contains(text, "(?")
}
