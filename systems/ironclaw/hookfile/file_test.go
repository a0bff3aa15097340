package hookfile

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
	"github.com/grapnel-dev/grapnel/systems/internal/systemtest"
)

// The files that are found and their source names in IronClaw.
//
// Proves: IC-36, IC-38
func TestIronClawSources(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"hooks/hooks.json":                          "workspace:hooks/hooks.json",
		"hooks/.hook.json":                          "workspace:hooks/.hook.json",
		"hooks/a/b/c.hook.json":                     "workspace:hooks/a/b/c.hook.json",
		"tools/git.capabilities.json":               "plugin.tool:git",
		"tools/git/capabilities.json":               "plugin.tool:git",
		"channels/chat.capabilities.json":           "plugin.channel:chat",
		"channels/tools/capabilities.json":          "plugin.channel:tools",
		".ironclaw/tools/a.b.capabilities.json":     "plugin.tool:a.b",
		".ironclaw/channels/chat.capabilities.json": "plugin.channel:chat",
		"tools-src/git/git-tool.capabilities.json":  "plugin.dev_tool:git-tool",

		"hooks/other.json":       "",
		"hooks/sub/hooks.json":   "",
		"hooks/x.hook.json.bak":  "",
		"x.hook.json":            "",
		"sub/hooks/x.hook.json":  "",
		"tools/capabilities.txt": "",
	} {
		found := false
		for _, pattern := range Format.Project {
			found = found || glob.Match(pattern, path)
		}
		if found != (want != "") {
			t.Errorf("%s is found: %v", path, found)
		}
		if got := sourceOf(&hookfiles.File{Name: path, Path: "/p/" + path}); found && got != want {
			t.Errorf("the source of %s is %q, want %q", path, got, want)
		}
	}
	if got := sourceOf(&hookfiles.File{Name: "capabilities.json", Path: "/p/tools/git/capabilities.json"}); got != "plugin.tool:git" {
		t.Errorf("the source of a file that is named is %q", got)
	}
}

// If the same file is in the home directory and next to the policy, the guards of both are in
// force.
func TestIronClawSameFileTwice(t *testing.T) {
	t.Parallel()
	const bundle = `[{"name": "guard", "points": ["beforeInbound"], "reject_reason": "no"}]`
	var files []hookfiles.File
	for _, dir := range []string{"/home/dev/", "/home/dev/.config/grapnel/"} {
		files = append(files, hookfiles.File{Name: "hooks/hooks.json", Path: dir + "hooks/hooks.json", Data: []byte(bundle)})
	}
	f := Format.Parse(append(files, files[0]), false) // the first file is found twice
	if len(f.Hooks) != 2 || f.Hooks[0].FileIndex == f.Hooks[1].FileIndex || len(f.Notes)+len(f.Errors)+len(f.Broken) > 0 {
		t.Errorf("%s", systemtest.Text(f))
	}
}
