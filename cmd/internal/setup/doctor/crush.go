package doctor

import (
	"encoding/json"
	"fmt"
	"regexp"
)

func init() { peculiar["crush"] = crushEntries }

// crushEntries finds entries that prevent Crush from starting, because its validation is fatal
// (seen live, 0.86.0).
func crushEntries(_ *facts, a *agent) []Finding {
	var found []Finding
	for _, l := range a.layers {
		for _, h := range l.hooks {
			var entry map[string]any
			_ = json.Unmarshal(h.Entry, &entry)
			why := ""
			if _, err := regexp.Compile(h.Matcher); err != nil {
				why = fmt.Sprintf("the matcher %q is not a regular expression", h.Matcher)
			} else if command, _ := entry["command"].(string); command == "" {
				why = "it has no command"
			}
			if why != "" {
				found = append(found, fatal(&l, h.Event, why))
			}
		}
		l.entries(func(event string, entry map[string]any) {
			if _, nested := entry["hooks"]; nested {
				found = append(found, fatal(&l, event, "it has a list of hooks, which only Claude Code supports, and no command"))
			}
		})
	}
	return found
}

func fatal(l *layer, event, why string) Finding {
	return Finding{
		ID: "settings.fatal", Level: Bad, Subject: l.file, What: fmt.Sprintf("an entry for %s in %s: %s", event, l.file, why), Why: "Crush does not start with this entry", Hint: "repair or remove it",
	}
}
