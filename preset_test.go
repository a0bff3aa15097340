package grapnel_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/presets"
)

// under fires one event through hooks under a Preset.
func under(t *testing.T, preset grapnel.Preset, ev *grapnel.Event, specs ...grapnel.Spec) grapnel.Verdict {
	t.Helper()
	engine, err := grapnel.New(specs, &grapnel.Options{Preset: preset})
	if err != nil {
		t.Fatal(err)
	}
	return engine.Fire(t.Context(), ev)
}

func namedPreset(t *testing.T, name string) grapnel.Preset {
	t.Helper()
	p, ok := grapnel.FindPreset(name)
	if !ok {
		t.Fatalf("no preset %q", name)
	}
	return p
}

// adds returns a hook that records the command it got and appends its name to it.
func adds(d *diary, name string) grapnel.Spec {
	return grapnel.Spec{Name: name, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		d.write(name + " " + ev.Tool.Commands[0])
		return setCommand(ev.Tool.Commands[0] + name), nil
	})}
}

// TestPresetChanges shows the difference between the systems: three hooks change the same command,
// and each system has its own order, input and result.
//
// Proves: OC-08
func TestPresetChanges(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		log  []string // sorted if hooks run together
		want string
	}{
		"grapnel":    {[]string{"c x", "a xc", "b xc", "b xca"}, "xcab"},
		"claude":     {[]string{"a x", "b x", "c x"}, "xc"},
		"agenthooks": {[]string{"a x", "b x", "c x", "b xa", "c xab"}, "xabc"},
		"gemini":     {[]string{"a x", "b x", "c x"}, "xc"},
		"ironclaw":   {[]string{"c x", "a xc", "b xca"}, "xcab"},
		"openclaw":   {[]string{"c x", "a x", "b x"}, "xb"},
		"miniclaw":   {[]string{"a x", "b x", "c x"}, "xc"},
		"flyto":      {[]string{"a x", "b x", "c x"}, "x"},
	}
	for _, p := range allPresets() {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			tt, ok := tests[p.String()]
			if !ok {
				t.Fatal("no expectation for this preset")
			}
			var d diary
			c := adds(&d, "c")
			c.Priority = -1
			v := under(t, p, toolEvent("x"), adds(&d, "a"), adds(&d, "b"), c)
			log := d.read()
			if p.String() == "openclaw" { // hooks of one step run at the same time
				slices.Sort(log[1:]) // only c has another priority
			}
			if !slices.Equal(log, tt.log) {
				t.Errorf("hooks saw %q, want %q", log, tt.log)
			}
			if got := v.Event.Tool.Commands[0]; got != tt.want {
				t.Errorf("the command became %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPresetAfterABlock(t *testing.T) {
	t.Parallel()
	stops := map[string]bool{"grapnel": true, "ironclaw": true, "miniclaw": true}
	for _, p := range allPresets() {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			var d diary
			no := grapnel.Spec{Name: "no", Hook: decides(grapnel.Block, "no")}
			never := grapnel.Spec{Name: "never", Hook: decides(grapnel.Block, "never")}
			late := adds(&d, "late")
			late.Priority = 1
			v := under(t, p, toolEvent("x"), no, never, late)
			if ran := len(d.read()) > 0; ran == stops[p.String()] {
				t.Errorf("the hook after the block ran: %t", ran)
			}
			if v.Decision != grapnel.Block || len(v.Changes) > 0 {
				t.Errorf("verdict %v with changes %v, want a block and none", v.Decision, v.Changes)
			}
			want := "no"
			if row, _ := presets.Find(p.String()); row.Reasons != presets.ReasonsFirst {
				want = "no\nnever"
			}
			if v.Reason() != want {
				t.Errorf("reason %q, want %q", v.Reason(), want)
			}
		})
	}
}

// TestPresetGeminiSequential covers Gemini CLI: one sequential definition makes the whole plan
// sequential. A hook gets the members that others set, but only the last object runs.
func TestPresetGeminiSequential(t *testing.T) {
	t.Parallel()
	var seen []string
	sets := func(name, value string) grapnel.Spec {
		return grapnel.Spec{Name: name, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			seen = append(seen, string(ev.Tool.Input))
			return set(grapnel.FieldInput, value), nil
		})}
	}
	a, b := sets("a", `{"dir":"/"}`), sets("b", `{"command":"y"}`)
	b.Sequential = true
	c := grapnel.Spec{Name: "c", Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		seen = append(seen, string(ev.Tool.Input))
		return grapnel.Outcome{Reason: "fine"}, nil
	})}
	v := under(t, namedPreset(t, "gemini"), toolEvent("x"), a, b, c)
	if want := []string{`{"command":"x"}`, `{"command":"x","dir":"/"}`, `{"command":"y","dir":"/"}`}; !slices.Equal(seen, want) {
		t.Errorf("hooks saw %q, want %q", seen, want)
	}
	if got := string(v.Event.Tool.Input); got != `{"command":"y"}` {
		t.Errorf("what runs is %s", got)
	}
	if v.Reason() != "fine" {
		t.Errorf("reason %q, want that of every hook that gives one", v.Reason())
	}
}

// TestSequential checks that under Grapnel's default a sequential hook makes its step a chain.
func TestSequential(t *testing.T) {
	t.Parallel()
	var d diary
	a, b, c := adds(&d, "a"), adds(&d, "b"), adds(&d, "c")
	b.Sequential = true
	v := under(t, grapnel.Preset{}, toolEvent("x"), a, b, c)
	if log := d.read(); !slices.Equal(log, []string{"a x", "b xa", "c xab"}) || v.Event.Tool.Commands[0] != "xabc" {
		t.Errorf("hooks saw %q, the command became %q", log, v.Event.Tool.Commands[0])
	}
	engine, err := grapnel.New([]grapnel.Spec{a, b, c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range engine.Plan(toolEvent("x")).Entries {
		if e.Step != i+1 {
			t.Errorf("hook %s is in step %d of the plan, want %d", e.Hook, e.Step, i+1)
		}
	}

	block := grapnel.Spec{Name: "no", Hook: decides(grapnel.Block, "no"), Sequential: true}
	d = diary{}
	v = under(t, grapnel.Preset{}, toolEvent("x"), block, adds(&d, "late"))
	if v.Decision != grapnel.Block || len(d.read()) != 0 {
		t.Errorf("after a block in turn: %v, %q ran", v.Decision, d.read())
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	for once, want := range map[bool]string{false: "a b c d e", true: "a b d"} {
		var specs []grapnel.Spec
		var d diary
		for _, s := range []struct{ name, key string }{{"a", "k"}, {"b", "l"}, {"c", "k"}, {"d", ""}, {"e", "l"}} {
			specs = append(specs, grapnel.Spec{Name: s.name, Key: s.key, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				d.write(s.name)
				return grapnel.Outcome{}, nil
			})})
		}
		p := presets.Of(presets.Row{Unranked: true, Once: once}).(grapnel.Preset)
		under(t, p, toolEvent("x"), specs...)
		if got := strings.Join(d.read(), " "); got != want {
			t.Errorf("once %t: %q ran, want %q", once, got, want)
		}
		engine, err := grapnel.New(specs, &grapnel.Options{Preset: p})
		if err != nil {
			t.Fatal(err)
		}
		var planned []string
		for _, e := range engine.Plan(toolEvent("x")).Entries {
			planned = append(planned, e.Hook)
		}
		if got := strings.Join(planned, " "); got != want {
			t.Errorf("once %t: the plan is %q, want %q", once, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	var d diary
	first, other, again := adds(&d, "a"), adds(&d, "b"), adds(&d, "c")
	again.Name = "a"
	for name, want := range map[string][]string{
		"ironclaw": {"c x", "b xc"}, // replaces the first one
		"miniclaw": {"a x", "b x", "c x"},
	} {
		d = diary{}
		under(t, namedPreset(t, name), toolEvent("x"), first, other, again)
		if log := d.read(); !slices.Equal(log, want) {
			t.Errorf("%s: %q ran, want %q", name, log, want)
		}
	}
	if _, err := grapnel.New([]grapnel.Spec{first, again}, nil); err == nil || !strings.Contains(err.Error(), "names must be unique") {
		t.Errorf("Grapnel took two hooks of one name: %v", err)
	}
}

// Under Flyto's preset a hook cannot change an event, but it can add text to a summary.
func TestFlytoSummary(t *testing.T) {
	t.Parallel()
	adds := func(text string) grapnel.Spec {
		return step(text, returns(set(grapnel.FieldSummary, `"`+text+`"`)))
	}
	v := under(t, namedPreset(t, "flyto"), &grapnel.Event{Kind: grapnel.CompactAfter, Compact: &grapnel.Compact{}}, adds("one"), adds("two"))
	if got := string(v.Changes[grapnel.FieldSummary]); got != `"one\ntwo"` {
		t.Errorf("summary %s", got)
	}
	v = under(t, namedPreset(t, "flyto"), toolEvent("x"), step("sets", returns(set(grapnel.FieldInput, `{}`))))
	if len(v.Changes) > 0 {
		t.Errorf("changes %v", v.Changes)
	}
}

// TestToolsetMerges checks that Gemini CLI extends the tools to those that any hook lists, and
// Grapnel limits them to those that all hooks list. The strictest mode wins in both.
func TestToolsetMerges(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"grapnel": `["a"]`, "gemini": `["a","b","c"]`} {
		hook := func(name, tools, mode string) grapnel.Spec {
			return grapnel.Spec{Name: name, Hook: returns(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{
				grapnel.FieldTools: json.RawMessage(tools), grapnel.FieldMode: json.RawMessage(mode),
			}})}
		}
		ev := &grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{}}
		v := under(t, namedPreset(t, name), ev, hook("1", `["b","a"]`, `"any"`), hook("2", `["c","a"]`, `"none"`), hook("3", `["a"]`, `"auto"`))
		if got := string(v.Changes[grapnel.FieldTools]); got != want {
			t.Errorf("%s: tools %s, want %s", name, got, want)
		}
		if got := string(v.Changes[grapnel.FieldMode]); got != `"none"` {
			t.Errorf("%s: mode %s, want none", name, got)
		}
	}
}

func TestPresetDefaults(t *testing.T) {
	t.Parallel()
	p := namedPreset(t, "ironclaw")
	for given, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: time.Second, time.Minute: 30 * time.Second} {
		if got := p.Defaults(grapnel.Spec{Timeout: given}); got.Timeout != want || got.OnError != grapnel.OnErrorOpen {
			t.Errorf("timeout %v became %v (on_error %v), want %v", given, got.Timeout, got.OnError, want)
		}
	}
	limited := presets.Of(presets.Row{MaxTimeout: time.Second}).(grapnel.Preset) // also a Spec that would have no limit
	if got := limited.Defaults(grapnel.Spec{}); got.Timeout != time.Second {
		t.Errorf("no timeout became %v, want 1s", got.Timeout)
	}
	if got := p.Defaults(grapnel.Spec{OnError: grapnel.OnErrorClosed}); got.OnError != grapnel.OnErrorClosed {
		t.Errorf("on_error closed became %v", got.OnError)
	}
	if _, ok := grapnel.FindPreset("homeclaw"); ok {
		t.Error("found a preset nobody wrote")
	}
}

// TestAllowOfAProjectDoesNotCount checks that a project cannot give consent for the user.
func TestAllowOfAProjectDoesNotCount(t *testing.T) {
	t.Parallel()
	for scope, want := range map[grapnel.Scope]grapnel.Decision{
		grapnel.ScopeManaged: grapnel.Allow, grapnel.ScopeUser: grapnel.Allow, grapnel.ScopeSession: grapnel.Allow,
		grapnel.ScopeProject: grapnel.None, grapnel.ScopePlugin: grapnel.None,
	} {
		s := grapnel.Spec{Name: "yes", Source: grapnel.Source{Name: "s", Scope: scope}, Hook: decides(grapnel.Allow, "fine")}
		v, rec := fire(t, toolEvent("x"), s)
		if v.Decision != want {
			t.Errorf("an allow of scope %v gives %v, want %v", scope, v.Decision, want)
		}
		if r := run(t, rec, "yes"); r.Decision != grapnel.Allow || r.Expired != (want == grapnel.None) {
			t.Errorf("scope %v: its run is recorded as %+v", scope, r)
		}
	}
}

func TestEnableAndRemove(t *testing.T) {
	t.Parallel()
	engine, err := grapnel.New([]grapnel.Spec{{Name: "a", Hook: decides(grapnel.Block, "a"), OnError: grapnel.OnErrorClosed}, {Name: "b", Hook: decides(grapnel.Block, "b")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want grapnel.Decision, reason string) {
		t.Helper()
		if v := engine.Fire(t.Context(), toolEvent("x")); v.Decision != want || v.Reason() != reason {
			t.Errorf("%s: %v %q, want %v %q", when, v.Decision, v.Reason(), want, reason)
		}
	}
	engine.Enable(false)
	check("switched off", grapnel.None, "")
	if v := unreadable(t.Context(), engine, toolEvent("x"), errors.New("not JSON")); v.Decision != grapnel.None {
		t.Errorf("hooks that are switched off failed: %v", v.Decision)
	}
	engine.Enable(true)
	check("switched on", grapnel.Block, "a\nb")
	if n := engine.Remove(func(s *grapnel.Spec) bool { return s.Name == "a" }); n != 1 {
		t.Errorf("removed %d hooks, want 1", n)
	}
	check("a removed", grapnel.Block, "b")
}

// TestPresetGeminiPatchesAndLateAnswers checks three rules: a patch applies to the event as it
// was fired, the next hook does not get changes of a failed hook, and answers after the timeout
// are ignored.
func TestPresetGeminiPatchesAndLateAnswers(t *testing.T) {
	t.Parallel()
	shown := ""
	patch := grapnel.Spec{Name: "patch", Sequential: true, Hook: returns(grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{
		grapnel.FieldInput: json.RawMessage(`{"dir":"/"}`),
	}})}
	failed := grapnel.Spec{Name: "failed", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return set(grapnel.FieldInput, `{"command":"failed"}`), errors.New("exit 1")
	})}
	late := grapnel.Spec{Name: "late", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "late"}, grapnel.ErrTimeout
	})}
	last := grapnel.Spec{Name: "last", Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		shown = string(ev.Tool.Input)
		return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"last":true}`)}}, nil
	})}
	v := under(t, namedPreset(t, "gemini"), toolEvent("x"), patch, failed, late, last)
	if want := `{"command":"x","dir":"/"}`; shown != want {
		t.Errorf("the last hook saw %s, want %s", shown, want)
	}
	if got, want := string(v.Event.Tool.Input), `{"command":"x","last":true}`; got != want || v.Decision != grapnel.None {
		t.Errorf("what runs is %s (%v), want %s", got, v.Decision, want)
	}
}

// TestPresetChainEndsAtANotice covers IronClaw: a Block ends the chain even on a notice, which it
// cannot stop.
func TestPresetChainEndsAtANotice(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]grapnel.Spec{
		"a block":        {Name: "no", Hook: decides(grapnel.Block, "no")},
		"a closed guard": {Name: "no", Hook: fails(errors.New("broken")), OnError: grapnel.OnErrorClosed},
	} {
		ran := false
		later := grapnel.Spec{Name: "later", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			ran = true
			return grapnel.Outcome{}, nil
		})}
		v := under(t, namedPreset(t, "ironclaw"), &grapnel.Event{Kind: grapnel.SessionStart}, hook, later)
		if v.Decision != grapnel.None || ran {
			t.Errorf("after %s at session.start: %v, the next hook ran: %t", name, v.Decision, ran)
		}
	}
}

func TestPresetGivesTheFirstHalt(t *testing.T) {
	t.Parallel()
	halt := func(name string) grapnel.Spec {
		return grapnel.Spec{Name: name, Hook: returns(grapnel.Outcome{Halt: name})}
	}
	if v := under(t, namedPreset(t, "flyto"), &grapnel.Event{Kind: grapnel.AgentAfter}, halt("one"), halt("two")); v.Halt != "one" {
		t.Errorf("halt %q, want that of the first", v.Halt)
	}
}

// FL-34: the preset flyto ignores changes, but hooks of post_compact add to the summary.
func TestPresetFlytoSummary(t *testing.T) {
	t.Parallel()
	says := func(name, text string, phase grapnel.Phase) grapnel.Spec {
		return grapnel.Spec{Name: name, Phase: phase, Hook: returns(set(grapnel.FieldSummary, string(encoded(text))))}
	}
	ev := &grapnel.Event{Kind: grapnel.CompactAfter, Compact: &grapnel.Compact{Summary: "the agent's"}}
	v := under(t, namedPreset(t, "flyto"), ev, says("a", "one", grapnel.PhaseStep), says("b", "two", grapnel.PhaseStep), says("c", "replaced", grapnel.PhaseRewrite))
	if got := string(v.Changes[grapnel.FieldSummary]); got != `"the agent's\none\ntwo"` {
		t.Errorf("summary %s, want both texts below the agent's own", got)
	}
}

func TestPresetGeminiShowsNoResponses(t *testing.T) {
	t.Parallel()
	saw := "none"
	answers := grapnel.Spec{Name: "answers", Sequential: true, Hook: returns(set(grapnel.FieldResponse, `{"text":"hi"}`))}
	next := grapnel.Spec{Name: "next", Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if raw, ok := ev.Get(grapnel.FieldResponse); ok {
			saw = string(raw)
		}
		return grapnel.Outcome{}, nil
	})}
	ev := &grapnel.Event{Kind: grapnel.ModelBefore, Model: &grapnel.Model{Request: json.RawMessage(`{}`)}}
	v := under(t, namedPreset(t, "gemini"), ev, answers, next)
	if saw != "none" || string(v.Changes[grapnel.FieldResponse]) != `{"text":"hi"}` {
		t.Errorf("the next hook saw %s, the verdict has %s", saw, v.Changes[grapnel.FieldResponse])
	}
}

// TestPresetGeminiTools checks that hooks limit the tools to those that any hook
// allows. The agent's original list is ignored.
//
// Proves: GC-08, GC-15
func TestPresetGeminiTools(t *testing.T) {
	t.Parallel()
	preset, _ := grapnel.FindPreset("gemini")
	allows := func(name, tools string) grapnel.Spec {
		return grapnel.Spec{Name: name, On: []grapnel.Kind{grapnel.ToolsetBefore}, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return set(grapnel.FieldTools, tools), nil
		})}
	}
	for name, tt := range map[string]struct {
		specs []grapnel.Spec
		want  string
	}{
		"one":             {[]grapnel.Spec{allows("a", `["read"]`)}, `["read"]`},
		"two":             {[]grapnel.Spec{allows("a", `["write"]`), allows("b", `["read"]`)}, `["read","write"]`},
		"one that allows": {[]grapnel.Spec{allows("a", `["read","shell","write"]`), allows("b", `["read"]`)}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := grapnel.New(tt.specs, &grapnel.Options{Preset: preset})
			if err != nil {
				t.Fatal(err)
			}
			v := e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{Allowed: []string{"read", "shell", "write"}}})
			if got := string(v.Changes[grapnel.FieldTools]); got != tt.want {
				t.Errorf("tools %s, want %s", got, tt.want)
			}
		})
	}
}

// TestUnite covers GC-15: the tools of the hooks of one group are united, and all groups and all
// other hooks narrow them, in any order.
//
// Proves: GC-15
func TestUnite(t *testing.T) {
	t.Parallel()
	chooses := func(name, group string, scope grapnel.Scope, tools string) grapnel.Spec {
		return grapnel.Spec{
			Name: name, Unite: group, Source: grapnel.Source{Name: scope.String(), Scope: scope},
			Hook: returns(set(grapnel.FieldTools, tools)),
		}
	}
	user, plugin := grapnel.ScopeUser, grapnel.ScopePlugin
	read, ab := chooses("read", "g", user, `["read_file","a"]`), chooses("ab", "g", user, `["b","a"]`)
	all := []string{"a", "b", "c", "read_file"}
	for name, tt := range map[string]struct {
		offered []string
		specs   []grapnel.Spec
		want    string
	}{
		"one group":         {all, []grapnel.Spec{read, ab}, `["a","b","read_file"]`},
		"unknown list":      {nil, []grapnel.Spec{read, ab}, `["a","b","read_file"]`},
		"not offered":       {[]string{"b", "c"}, []grapnel.Spec{read, ab}, `["b"]`},
		"another hook":      {all, []grapnel.Spec{read, ab, chooses("policy", "", user, `["b","c"]`)}, `["b"]`},
		"another group":     {all, []grapnel.Spec{read, ab, chooses("x", "h", user, `["c"]`), chooses("y", "h", user, `["a"]`)}, `["a"]`},
		"a weaker scope":    {all, []grapnel.Spec{read, ab, chooses("c", "g", plugin, `["a","c"]`)}, `["a"]`},
		"nothing in common": {all, []grapnel.Spec{read, chooses("policy", "", user, `["c"]`)}, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range tt.specs {
				specs := slices.Concat(tt.specs[i:], tt.specs[:i])
				for _, inTurn := range []bool{false, true} {
					for j := range specs {
						specs[j].Sequential = inTurn
					}
					v, _ := fire(t, &grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{Allowed: tt.offered}}, specs...)
					if got := string(v.Changes[grapnel.FieldTools]); got != tt.want {
						t.Errorf("from hook %s on: tools %s, want %s", specs[0].Name, got, tt.want)
					}
				}
			}
		})
	}
}

// TestUniteLayers checks that a session's hook cannot widen the list of a group outside the session.
func TestUniteLayers(t *testing.T) {
	t.Parallel()
	chooses := func(tools string) grapnel.Spec {
		return grapnel.Spec{Name: tools, Unite: "g", Hook: returns(set(grapnel.FieldTools, tools))}
	}
	session, err := newEngine(t, nil, chooses(`["a"]`)).With(chooses(`["b"]`))
	if err != nil {
		t.Fatal(err)
	}
	v := session.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{}})
	if got := string(v.Changes[grapnel.FieldTools]); got != `[]` {
		t.Errorf("tools %s, want none", got)
	}
}

// TestNoToolToCall checks that a model which must call a tool has one.
func TestNoToolToCall(t *testing.T) {
	t.Parallel()
	must := grapnel.Spec{Name: "must", Hook: returns(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{
		grapnel.FieldTools: json.RawMessage(`["a"]`), grapnel.FieldMode: json.RawMessage(`"any"`),
	}})}
	narrow := grapnel.Spec{Name: "narrow", Hook: returns(set(grapnel.FieldTools, `["b"]`))}
	v, _ := fire(t, &grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{}}, must, narrow)
	if got := string(encoded(v.Changes)); got != `{"mode":"none","tools":[]}` || v.Event.Toolset.Mode != "none" {
		t.Errorf("changes %s, event %+v; want no tools and the mode none", got, v.Event.Toolset)
	}
}
