package hookfile_test

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

func ExampleLoad() {
	set := ironclaw.Load(ironclaw.Request{Files: []ironclaw.File{{
		Source: "workspace:hooks/hooks.json",
		Path:   "hooks/hooks.json",
		Data: []byte(`{"rules": [
  {"name": "no-keys", "points": ["beforeInbound"], "replacements": [{"pattern": "sk-[a-z0-9]+", "replacement": "sk-***"}]},
  {"name": "never", "points": ["beforeInbound"], "when_regex": "(no", "reject_reason": "no"}
]}`),
	}}})
	for _, err := range set.Errors {
		fmt.Println(err)
	}
	preset, _ := grapnel.FindPreset("ironclaw")
	engine, err := grapnel.New(set.Specs, &grapnel.Options{Preset: preset})
	if err != nil {
		panic(err)
	}
	v := engine.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "my key is sk-abc123"}})
	fmt.Printf("%d hook: %s\n", set.Summary.Total(), v.Changes[grapnel.FieldPrompt])
	// Output:
	// hooks/hooks.json:3:3: hook "never": when_regex "(no": error parsing regexp: missing closing ): `(no`
	// 1 hook: "my key is sk-***"
}
