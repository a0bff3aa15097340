package doctor

func init() { peculiar["copilot-cli"] = copilotFile }

// copilotFile checks the version, because Copilot CLI rejects a file with another one (seen live,
// 1.0.102).
func copilotFile(_ *facts, a *agent) []Finding {
	var found []Finding
	for i := range a.layers {
		l := &a.layers[i]
		if version, ok := l.tree["version"]; ok && (l.rel == "" || l.rel == besideOurs) && version != 1.0 {
			found = append(found, void(a, l, "its version is not 1"))
		}
	}
	return found
}
