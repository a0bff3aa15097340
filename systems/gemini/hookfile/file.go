// Package hookfile reads the settings files of Gemini CLI and the hook files of its extensions.
//
// It is exported because package policy needs it, and is not an API.
package hookfile

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/presets"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// Format is the format of Gemini CLI: the members `hooks` and `hooksConfig` of its settings,
// which may contain comments, and the hooks/hooks.json of its extensions. The lists of all files
// are combined. The last `enabled` is used, and all `disabled` lists are combined.
//
// Grapnel does not check whether Gemini CLI trusts the folder. The policy that loads these files
// permits them, and project files are pinned like any policy.
var Format = &hookfiles.Format{
	Name:    "gemini-cli",
	Agent:   "gemini-cli",
	User:    []string{".gemini/settings.json", ".gemini/extensions/" + enablementFile, ".gemini/extensions/*/hooks/hooks.json"},
	Project: []string{".gemini/settings.json"},
	Managed: []string{
		"/etc/gemini-cli/system-defaults.json", "/etc/gemini-cli/settings.json",
		"/Library/Application Support/GeminiCli/settings.json", "C:/ProgramData/gemini-cli/settings.json",
	},
	Preset: "gemini",
	Parse:  parse,
}

// enablementFile is the file in which Gemini CLI stores the folders where extensions are
// disabled.
const enablementFile = "extension-enablement.json"

func parse(files []hookfiles.File, brief bool) hookfiles.Found {
	r := newReader(files, nil, brief)
	r.short = true
	roots := make([]*tree.Node, len(files))
	enablement := -1
	var off *tree.Node
	for i := range files {
		roots[i] = r.Open(i, hookfiles.WithoutComments(files[i].Data), tree.Object)
		if path.Base(filepath.ToSlash(files[i].Path)) == enablementFile {
			enablement = i
		}
		config := roots[i].Get("hooksConfig")
		if enabled := config.Get("enabled"); enabled.Is(tree.Bool) {
			if off = nil; !enabled.IsTrue() {
				off = enabled
			}
		}
		if disabled := config.Get("disabled"); disabled != nil {
			for _, name := range disabled.Items {
				r.disabled = append(r.disabled, name.Text)
			}
		}
	}
	if off != nil {
		r.At = slices.IndexFunc(roots, func(root *tree.Node) bool { return root.Get("hooksConfig").Get("enabled") == off })
		r.Note(off, "hooksConfig.enabled", "", "is false: none of these hooks runs")
		return r.Found
	}
	for i, root := range roots {
		r.At, r.extension = i, ""
		if slashed := filepath.ToSlash(files[i].Path); path.Base(slashed) == "hooks.json" {
			r.extension = filepath.FromSlash(path.Dir(path.Dir(slashed)))
		}
		hooks := root.Get("hooks")
		switch {
		case hooks == nil || i == enablement:
		case r.extension != "" && enablement >= 0 && isOff(roots[enablement].Get(filepath.Base(r.extension))):
			r.Note(hooks, "hooks", "load its file by name", "the extension is switched off, at least in some folders, so its hooks do not run")
		default:
			r.events(hooks)
		}
	}
	out := r.Found
	for i := range out.Hooks {
		out.Hooks[i].Off = out.Hooks[i].Run.Args == nil // an error was already reported
	}
	row, _ := presets.Find("gemini")
	for i := range out.Hooks {
		h := &out.Hooks[i]
		h.Timeout = policyfile.Duration(policyfile.FirstDuration(h.Timeout, policyfile.Duration(row.Timeout)))
		if slashed := filepath.ToSlash(files[h.FileIndex].Path); path.Base(slashed) == "hooks.json" {
			h.Run.Scope = grapnel.ScopePlugin
		}
	}
	return out
}

// isOff reports whether an extension is disabled in any folder. Overrides are folder patterns,
// and a pattern with ! disables the extension.
func isOff(extension *tree.Node) bool {
	overrides := extension.Get("overrides")
	return overrides != nil && slices.ContainsFunc(overrides.Items, func(n *tree.Node) bool { return strings.HasPrefix(n.Text, "!") })
}
