package doctor

import (
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
)

func init() {
	peculiar["gemini-cli"] = func(f *facts, a *agent) []Finding { return folderTrust(f, a, true) }
	peculiar["qwen-code"] = func(f *facts, a *agent) []Finding { return folderTrust(f, a, false) }
}

// folderTrust checks agents that run no hooks in an untrusted folder. asks is whether they ask
// for trust by default.
func folderTrust(f *facts, a *agent, asks bool) []Finding {
	dir := strings.TrimSuffix(a.Setup().User, "/settings.json")
	for _, l := range a.layers {
		if on, ok := at(l.tree, "security.folderTrust.enabled"); ok && l.scope != string(install.Project) {
			asks = on == true
		}
	}
	l := a.layer(install.User, dir+"/trustedFolders.json")
	if !asks || l == nil || f.dir == "" {
		return nil
	}
	best, trust := "", ""
	for folder, v := range l.tree {
		word, _ := v.(string)
		if word == "TRUST_PARENT" {
			folder = filepath.Dir(folder)
		}
		if within(f.dir, folder) && len(folder) > len(best) {
			best, trust = folder, word
		}
	}
	switch {
	case trust == "DO_NOT_TRUST":
		return []Finding{{ID: "trust.folder", Level: Bad, Subject: best, What: a.Title + " is set not to trust " + best, Why: "it runs no hooks in an untrusted folder", Hint: "trust it in " + l.file + ", or with /permissions in the agent"}}
	case trust == "":
		return []Finding{{ID: "trust.folder", Level: Info, Subject: f.dir, What: a.Title + " has not been asked yet whether to trust " + f.dir, Why: "it runs no hooks in an untrusted folder", Hint: "start it here once and answer its question"}}
	}
	return nil
}
