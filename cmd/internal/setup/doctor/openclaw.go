package doctor

import (
	"path/filepath"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/installation"
)

func init() { peculiar["openclaw"] = openclawGrants }

// openclawGrants checks the setting that OpenClaw requires before a plugin may see conversations.
// Without it, OpenClaw drops the plugin's hooks silently (seen live).
func openclawGrants(_ *facts, a *agent) []Finding {
	var found []Finding
	for _, in := range a.installs {
		l := a.layerOf(in.Settings)
		if l == nil || l.tree == nil {
			continue
		}
		if granted, ok := at(l.tree, "plugins.entries.grapnel.hooks.allowConversationAccess"); !ok || granted != true && granted != false {
			found = append(found, Finding{
				ID: "settings.grant", Level: Bad, Subject: l.file, What: "plugins.entries.grapnel.hooks.allowConversationAccess is not true in " + l.file,
				Why: "so Grapnel silently gets no prompts, answers and turns", Hint: "grapnel install " + a.Name,
			})
		}
		if len(in.Files) > 0 && !slices.ContainsFunc(in.Files, func(f installation.File) bool {
			paths, _ := at(l.tree, "plugins.load.paths")
			list, _ := paths.([]any)
			return slices.Contains(list, any(filepath.ToSlash(filepath.Dir(f.Path))))
		}) {
			found = append(found, Finding{
				ID: "settings.grant", Level: Bad, Subject: l.file, What: "plugins.load.paths in " + l.file + " does not contain the plugin of Grapnel", Why: "OpenClaw does not load it", Hint: "grapnel install " + a.Name,
			})
		}
		if list, ok := at(l.tree, "plugins.allow"); ok {
			names, _ := list.([]any)
			if !slices.Contains(names, any("grapnel")) {
				found = append(found, Finding{
					ID: "settings.grant", Level: Bad, Subject: l.file, What: "plugins.allow in " + l.file + " does not name grapnel", Why: "OpenClaw loads only the plugins in this list", Hint: "grapnel install " + a.Name,
				})
			}
		}
	}
	return found
}
