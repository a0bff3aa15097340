package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
)

// peculiar has the checks that are specific to one agent, by its name: kinds of trust, and files that
// prevent it from starting. They run only if Grapnel is installed. The file of each agent adds its own
// check, so that a new agent changes no shared file.
var peculiar = map[string]func(*facts, *agent) []Finding{}

// layer returns the file of a scope that Switch.File would name.
func (a *agent) layer(scope install.Scope, rel string) *layer {
	for i := range a.layers {
		if l := &a.layers[i]; l.scope == string(scope) && l.rel == rel {
			return l
		}
	}
	return nil
}

// entries calls see for all entries of a file, sorted by event, in the order of the lists.
func (l *layer) entries(see func(event string, entry map[string]any)) {
	events, _ := l.tree["hooks"].(map[string]any)
	for _, event := range slices.Sorted(maps.Keys(events)) {
		list, _ := events[event].([]any)
		for _, v := range list {
			if entry, ok := v.(map[string]any); ok {
				see(event, entry)
			}
		}
	}
}

// void returns the finding for a file that its agent ignores completely.
func void(a *agent, l *layer, what string) Finding {
	return Finding{
		ID: "settings.void", Level: Bad, Subject: l.file, What: fmt.Sprintf("%s does not read %s: %s", a.Title, l.file, what),
		Why: "so it ignores the whole file", Hint: "repair or remove it",
	}
}
