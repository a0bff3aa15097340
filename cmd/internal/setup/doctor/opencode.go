package doctor

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
)

func init() { peculiar["opencode"] = openCodePlugin }

// openCodePlugin judges the plugin for OpenCode 2, which needs a default export. Without one,
// OpenCode 2 writes a line to its log and runs the agent without the plugin.
func openCodePlugin(_ *facts, a *agent) []Finding {
	if a.version == "" || install.Older(a.version, "2") {
		return nil
	}
	found := []Finding{{
		ID: "agent.documented", Level: Info, What: fmt.Sprintf("%s %s was not tested", a.Title, a.version),
		Why: "Grapnel knows the hooks of version 2 only from its source and reports", Hint: "check with a harmless command that a rule blocks it",
	}}
	for _, in := range a.installs {
		if in.named && in.void == "" {
			found = append(found, Finding{
				ID: "settings.void", Level: Bad, Subject: in.Settings, What: fmt.Sprintf("%s %s does not load %s: it is a plugin for version 1", a.Title, a.version, in.Settings),
				Why: "the agent does not call Grapnel", Hint: fmt.Sprintf("grapnel install %s --scope %s", a.Name, in.Scope),
			})
		}
	}
	return found
}
