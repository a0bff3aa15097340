//go:build system && unix

package hookfile_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/systems/internal/loadtest"
)

// TestGeminiToolSelection covers GC-15 for a loaded configuration: its hooks unite their tools, and
// every other source narrows them. An extension cannot add a tool to those of the user's settings.
//
// Proves: GC-15
func TestGeminiToolSelection(t *testing.T) {
	t.Parallel()
	choose := func(mode, names string) string {
		return fmt.Sprintf(`{"hooks":[{"type":"command","command":"echo '{\"hookSpecificOutput\":{\"toolConfig\":{\"mode\":\"%s\",\"allowedFunctionNames\":[%s]}}}'"}]}`,
			mode, strings.ReplaceAll(names, `"`, `\"`))
	}
	hooks := func(defs ...string) string {
		return `{"hooks":{"BeforeToolSelection":[` + strings.Join(defs, ",") + `]}}`
	}
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"united": {
			map[string]string{".gemini/settings.json": hooks(choose("ANY", `"read_file","a"`), choose("AUTO", `"b"`))},
			`{"mode":"any","tools":["a","b","read_file"]}`,
		},
		"none": {
			map[string]string{".gemini/settings.json": hooks(choose("ANY", `"a"`), choose("NONE", `"b"`))},
			`{"mode":"none","tools":[]}`,
		},
		"narrowed by the policy": {
			map[string]string{
				".gemini/settings.json": hooks(choose("ANY", `"read_file","a"`), choose("AUTO", `"b"`)),
				"grapnel.yaml":          "hooks: [{name: few, on: toolset.before, set: {tools: [b, c]}}]\n",
			},
			`{"mode":"any","tools":["b"]}`,
		},
		"an extension": {
			map[string]string{
				".gemini/settings.json":                 hooks(choose("ANY", `"a"`), choose("AUTO", `"b"`)),
				".gemini/extensions/x/hooks/hooks.json": hooks(choose("AUTO", `"b","c"`)),
			},
			`{"mode":"any","tools":["b"]}`,
		},
		"nothing in common": {
			map[string]string{
				".gemini/settings.json": hooks(choose("ANY", `"a"`)),
				"grapnel.yaml":          "hooks: [{name: few, on: toolset.before, set: {tools: [c]}}]\n",
			},
			`{"mode":"none","tools":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := loadtest.Load(t, t.TempDir(), "gemini-cli", tt.files)
			v := e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{Allowed: []string{"a", "b", "c", "read_file", "shell"}, Mode: "auto"}})
			changes, err := json.Marshal(v.Changes)
			if err != nil || string(changes) != tt.want {
				t.Errorf("changes %s (%v, %q), want %s", changes, err, v.Messages, tt.want)
			}
		})
	}
}
