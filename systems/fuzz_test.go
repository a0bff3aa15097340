package systems_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// fuzzForeign: for any file content, an engine accepts each parsed hook, and each error names
// its file. The names of the files select what is read.
func fuzzForeign(f *testing.F, system string, paths ...string) {
	f.Helper()
	names, err := filepath.Glob(system + "/hookfile/testdata/*.txtar")
	if err != nil || len(names) == 0 {
		f.Fatalf("there are no conversations: %v", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(data).Files {
			if file.Name != "want" {
				f.Add(file.Data, []byte("{}"))
			}
		}
	}
	f.Add([]byte(strings.Repeat("[", 1000)), []byte(`{"hooks":`+strings.Repeat(`{"a":`, 300)))
	parse := formatOf(system).Parse
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: dialect.GeminiCLI().Name}, Tool: &grapnel.Tool{Name: "x", Class: grapnel.ClassOther}}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var files []hookfiles.File
		for i, path := range paths {
			file := foreignFileOf(path, one)
			if i%2 == 1 {
				file.Data = two
			}
			files = append(files, file)
		}
		found := parse(files, false)
		sameBriefly(t, formatOf(system), files, found)
		im := formatOf(system).AsPolicy(files, policy.Parse)
		if _, errs := policy.Parse("imported", im.Policy); len(errs) > 0 {
			t.Errorf("what is imported is no policy: %v\n%s", errs, im.Policy)
		}
		if len(found.Hooks) > hookfiles.MaxHooks {
			t.Errorf("%d hooks", len(found.Hooks))
		}
		for i := range found.Hooks {
			h := &found.Hooks[i]
			spec := grapnel.Spec{Name: h.Name, Source: files[h.FileIndex].Source, On: h.On, Match: h.Matcher, Priority: policyfile.SpecPriority(h.Priority), Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })}
			if _, err := grapnel.New([]grapnel.Spec{spec}, nil); err != nil {
				t.Errorf("%s: %v", h.At, err)
			}
			if h.Matcher != nil {
				_, _ = h.Matcher.Match(ev, nil)
			}
			if _, err := (&match.FactCache{}).Matcher(h.Match, nil, "", match.Reading{}); err != nil {
				t.Errorf("%s: %v", h.At, err)
			}
			if h.Match != nil && slices.Contains(h.Match.Tool, "") {
				t.Errorf("%s: a match of nothing", h.At)
			}
			if h.Off {
				continue
			}
			runs := h.Run != nil && (strings.TrimSpace(h.Run.Line) != "" || len(h.Run.Args) > 0)
			if len(h.On) == 0 || h.At == "" || h.Line < 1 || h.Timeout < 0 || !runs && h.Rule == nil && h.Webhook == nil {
				t.Errorf("hook %+v of %q, %+v", h.Hook, h.At, h.Run)
			}
		}
		for _, err := range slices.Concat(found.Broken, found.Errors, found.Notes) {
			if err.File == "" || err.Msg == "" || err.Line < 0 {
				t.Errorf("it says %+v", err)
			}
		}
		if len(found.Broken) > len(files) {
			t.Errorf("of %d files %d are broken", len(files), len(found.Broken))
		}
	})
}

func FuzzForeignClaude(f *testing.F) {
	fuzzForeign(f, "claude", "/h/.claude/settings.json", "/h/.claude/plugins/installed_plugins.json", "/h/.claude/plugins/cache/tools/fmt/1.1.0/hooks/hooks.json")
}

func FuzzForeignGemini(f *testing.F) {
	fuzzForeign(f, "gemini", "/h/.gemini/settings.json", "/h/.gemini/extensions/extension-enablement.json", "/h/.gemini/extensions/guard/hooks/hooks.json")
}

func FuzzForeignMiniclaw(f *testing.F) {
	fuzzForeign(f, "miniclaw", "/p/.mini-claw/config.toml", "/p/.mini-claw/settings.json")
}

func FuzzForeignFlyto(f *testing.F) { fuzzForeign(f, "flyto", "/p/.flyto/hooks.json") }

func FuzzForeignOpenClaw(f *testing.F) {
	fuzzForeign(f, "openclaw", "/h/.openclaw/openclaw.json", "/h/.openclaw/hooks.json")
}

func FuzzForeignIronClaw(f *testing.F) {
	fuzzForeign(f, "ironclaw", "/p/hooks/hooks.json", "/p/tools/x.capabilities.json")
}
