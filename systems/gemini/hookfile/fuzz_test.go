package hookfile_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	gemini "github.com/grapnel-dev/grapnel/systems/gemini/hookfile"
)

// FuzzLoadGemini: any configuration of Gemini CLI results in hooks that an engine accepts, or
// in warnings, and firing them does not crash.
func FuzzLoadGemini(f *testing.F) {
	for _, hooks := range []string{
		`{"BeforeTool":[{"matcher":"write_file|edit","sequential":true,"hooks":[{"type":"command","command":"true","name":"x","timeout":100}]}]}`,
		`{"BeforeTool":[{"hooks":[{"command":"a"},{"type":"command","command":"a"},{"type":"command","command":"a"},null,7]}],"enabled":["x"],"Nothing":[]}`,
		`{"SessionStart":[{"matcher":"startup","hooks":[{"type":"command","command":"$X","env":{"A":1}}]}],"AfterTool":{"0":[]}}`,
		`{"BeforeTool":[{"matcher":"(?<a>x)\\k<a>[","hooks":[{"type":"command","command":"a","timeout":-1}]}]}`, `[]`, `{`, `{"BeforeTool":[{"matcher":"*"}]}`,
	} {
		f.Add([]byte(hooks), "x", false)
	}
	preset, ok := grapnel.FindPreset("gemini")
	if !ok {
		f.Fatal("there is no preset for Gemini CLI")
	}
	f.Fuzz(func(t *testing.T, hooks []byte, disabled string, untrusted bool) {
		specs, warnings := gemini.Load(gemini.Request{
			Files: []gemini.Hooks{
				{Source: grapnel.Source{Name: "settings"}, Hooks: hooks},
				{Source: grapnel.Source{Name: "extension", Scope: grapnel.ScopePlugin}, Hooks: hooks, Extension: true},
			},
			Disabled: []string{disabled}, Untrusted: untrusted, Command: noCommand,
		})
		for _, w := range warnings {
			if w.Msg == "" {
				t.Errorf("a warning about %q says nothing", hooks)
			}
		}
		for i := range specs {
			if untrusted && specs[i].Source.Name == "settings" {
				t.Errorf("%q of a folder that is not trusted runs %q", hooks, specs[i].Name)
			}
			specs[i] = preset.Defaults(specs[i])
		}
		e, err := grapnel.New(specs, &grapnel.Options{Preset: preset})
		if err != nil {
			t.Fatalf("the hooks of %q are none for an engine: %v", hooks, err)
		}
		call := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: []byte(`{"command":"ls"}`), Commands: []string{"ls"}}}
		for _, ev := range []*grapnel.Event{call, {Kind: grapnel.SessionStart, Cause: "startup"}, {Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{}}} {
			if v := e.Fire(t.Context(), ev); v.Decision != grapnel.None || strings.Contains(strings.Join(v.Messages, "\n"), grapnel.ErrPanic.Error()) {
				t.Errorf("%q makes %+v", hooks, v)
			}
		}
	})
}
