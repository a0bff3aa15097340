package approval_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/notice"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 500, time.UTC)

func call(command string) *grapnel.Event {
	input, _ := json.Marshal(map[string]string{"command": command}) // strings can be encoded
	return &grapnel.Event{
		Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "codex"}, Session: grapnel.Session{ID: "s", CWD: "/work"},
		Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: input},
	}
}

func grant(t *testing.T, s approval.Store, ev *grapnel.Event, at time.Time, length time.Duration, uses int) *approval.Grant {
	t.Helper()
	g := &approval.Grant{By: "ada", Uses: uses, Digest: s.Digest(ev), Hooks: []string{"user::a"}, Call: "make", Record: "r"}
	if err := g.New(at, length); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(g); err != nil {
		t.Fatal(err)
	}
	return g
}

// Each use belongs to exactly one of many calls at the same time.
func TestOneUse(t *testing.T) {
	t.Parallel()
	for uses, want := range map[int]int64{1: 1, 3: 3, 0: 40} {
		s := approval.Store(t.TempDir())
		g := grant(t, s, call("make"), now, time.Hour, uses)
		var passed atomic.Int64
		var wait sync.WaitGroup
		found := make([]*approval.Grant, 40) // before the first use
		for i := range found {
			var ok bool
			if found[i], ok = s.Find(g.Digest, "", now.Add(time.Minute)); !ok {
				t.Fatal("the grant is missing")
			}
		}
		for _, own := range found {
			wait.Go(func() {
				if s.Use(own, "e") {
					passed.Add(1)
				}
			})
		}
		wait.Wait()
		if passed.Load() != want {
			t.Errorf("%d of 40 calls used a grant with %d uses, want %d", passed.Load(), uses, want)
		}
		if _, ok := s.Find(g.Digest, "", now.Add(time.Minute)); ok != (uses == 0) {
			t.Errorf("with %d uses, the grant is open after them: %v", uses, ok)
		}
		if uses > 0 { // a new grant for the same call has new uses
			if again := grant(t, s, call("make"), now, time.Hour, 1); !s.Use(again, "e") || s.Use(again, "e") {
				t.Error("the new grant has not exactly one use")
			}
		}
	}
}

// A Grant is active from its start to its end, for any clock and any content of its file.
func TestGrantAndTheClock(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{0, time.Millisecond, -time.Hour, approval.Max + 1} {
		if err := (&approval.Grant{}).New(now, length); err == nil {
			t.Errorf("a grant for %v is valid", length)
		}
	}
	s := approval.Store(t.TempDir())
	var g *approval.Grant
	for after, want := range map[time.Duration]bool{
		-time.Minute: false, 0: true, 9 * time.Minute: true, 10 * time.Minute: false, 48 * time.Hour: false,
	} {
		g = grant(t, s, call("make"), now, 10*time.Minute, 1)
		if _, ok := s.Find(g.Digest, "", now.Add(after)); ok != want {
			t.Errorf("after %v the grant is active: %v, want %v", after, ok, want)
		}
		if _, ok := s.Find(g.Digest, "", now.Add(time.Minute)); ok != want {
			t.Errorf("once read after %v, it is active a minute after it was given: %v, want %v", after, ok, want)
		}
	}
	g = grant(t, s, call("make"), now, 10*time.Minute, 1)
	file := filepath.Join(string(s), g.Digest+".json")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{
		"", "{", "[]", string(good[:len(good)/2]), strings.Replace(string(good), `"until":"2026`, `"until":"2126`, 1),
		strings.Replace(string(good), g.Digest, strings.Repeat("0", 64), 1), strings.Replace(string(good), `"uses":1`, `"uses":-1`, 1),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := s.Find(g.Digest, "", now.Add(time.Minute)); ok {
			t.Errorf("%.60q is the grant %+v", content, got)
		}
	}
	for _, name := range []string{"", "../x", strings.Repeat("0", 64)} {
		if _, ok := s.Find(name, "", now); ok {
			t.Errorf("Find(%q) found a grant", name)
		}
	}
}

// The content of a Grant is all of it except the Record that logs it, also after it was stored.
func TestContent(t *testing.T) {
	t.Parallel()
	s := approval.Store(t.TempDir())
	g := grant(t, s, call("make"), now, time.Hour, 1)
	content := g.Content()
	g.Logged = "r2"
	if err := s.Add(g); err != nil {
		t.Fatal(err)
	}
	if !s.Use(g, "e") {
		t.Fatal("the grant has no use")
	}
	got, err := s.Valid(now.Add(time.Minute))
	if err != nil || len(got) != 1 || got[0].Content() != content || got[0].Logged != "r2" {
		t.Fatalf("Valid = %+v, %v, want the used grant with the content %s", got, err, content)
	}
	for name, change := range map[string]func(*approval.Grant){
		"hooks": func(g *approval.Grant) { g.Hooks = append(g.Hooks, "user::b") },
		"uses":  func(g *approval.Grant) { g.Uses = 0 },
		"until": func(g *approval.Grant) { g.Until = g.Until.Add(time.Second) },
		"call":  func(g *approval.Grant) { g.Digest = "x" },
	} {
		other := *g
		if change(&other); other.Content() == content {
			t.Errorf("other %s have the same content", name)
		}
	}
}

func TestListAndRevoke(t *testing.T) {
	t.Parallel()
	s := approval.Store(filepath.Join(t.TempDir(), "approvals"))
	if got, err := s.List(now); got != nil || err != nil {
		t.Errorf("List of nothing = %v, %v", got, err)
	}
	old := grant(t, s, call("make old"), now.Add(-30*time.Hour), time.Hour, 1)
	first := grant(t, s, call("make"), now, time.Hour, 1)
	second := grant(t, s, call("make test"), now.Add(time.Second), time.Hour, 0)
	replaced := grant(t, s, call("make"), now.Add(2*time.Second), time.Hour, 1)
	got, err := s.List(now.Add(time.Minute))
	if diff := cmp.Diff([]approval.Grant{*second, *replaced}, got); diff != "" || err != nil {
		t.Errorf("List: %v\n%s\nold: %v, replaced: %v", err, diff, old, first)
	}
	for range 2 {
		if err := s.Revoke(second); err != nil {
			t.Error(err)
		}
	}
	if got, err := s.List(now.Add(time.Minute)); err != nil || len(got) != 1 {
		t.Errorf("List after Revoke = %v, %v", got, err)
	}
	// A new grant removes the files of those that ended long ago.
	past := time.Now().Add(-72 * time.Hour)
	for _, name := range []string{old.Digest + ".json", "x.used0"} {
		file := filepath.Join(string(s), name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, past, past); err != nil {
			t.Fatal(err)
		}
	}
	last := grant(t, s, call("make last"), time.Now(), time.Hour, 1)
	entries, err := os.ReadDir(string(s))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"key", second.ID + ".revoked", replaced.Digest + ".json", last.Digest + ".json"}
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
}

// Equal calls have equal digests: neither the spelling of the JSON nor the remarks of the model
// count. Each other difference counts.
func TestDigest(t *testing.T) {
	t.Parallel()
	s := approval.Store(t.TempDir())
	with := func(change func(*grapnel.Event)) string {
		ev := call("make")
		ev.ID, ev.Time, ev.Tool.ID, ev.Session.ID = fmt.Sprint(time.Now()), time.Now(), "call-7", "another"
		change(ev)
		return s.Digest(ev)
	}
	want := s.Digest(call("make"))
	for name, change := range map[string]func(*grapnel.Event){
		"the same": func(*grapnel.Event) {},
		"spelling": func(ev *grapnel.Event) { ev.Tool.Input = []byte("{ \"command\" : \"m\\u0061ke\" }") },
		"remarks":  func(ev *grapnel.Event) { ev.Tool.Input = []byte(`{"description":"Build it","command":"make"}`) },
	} {
		if got := with(change); got != want {
			t.Errorf("%s: another digest", name)
		}
	}
	seen := map[string]string{want: "the same"}
	for name, change := range map[string]func(*grapnel.Event){
		"command":   func(ev *grapnel.Event) { ev.Tool.Input = []byte(`{"command":"make all"}`) },
		"parameter": func(ev *grapnel.Event) { ev.Tool.Input = []byte(`{"command":"make","unsafe":true}`) },
		"no remark": func(ev *grapnel.Event) {
			ev.Tool.Class, ev.Tool.Input = grapnel.ClassMCP, []byte(`{"command":"make","description":"x"}`)
		},
		"not JSON":    func(ev *grapnel.Event) { ev.Tool.Input = []byte(`{"command":`) },
		"tool":        func(ev *grapnel.Event) { ev.Tool.Name = "Shell" },
		"server":      func(ev *grapnel.Event) { ev.Tool.MCP = &grapnel.MCP{Server: "a", Tool: "Bash"} },
		"agent":       func(ev *grapnel.Event) { ev.Agent.Name = "claude-code" },
		"directory":   func(ev *grapnel.Event) { ev.Session.CWD = "/home/dev/shop/sub" },
		"event":       func(ev *grapnel.Event) { ev.Kind = grapnel.PermissionBefore },
		"large":       func(ev *grapnel.Event) { ev.Tool.Input = []byte(`{"command":"` + strings.Repeat("x", 1<<20) + `"}`) },
		"large again": func(ev *grapnel.Event) { ev.Tool.Input = []byte(`{"command": "` + strings.Repeat("x", 1<<20) + `"}`) },
	} {
		got := with(change)
		if other, ok := seen[got]; ok || got == "" {
			t.Errorf("%s: the digest %q is also that of: %s", name, got, other)
		}
		seen[got] = name
	}
	prompt := &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hello"}}
	message := &grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Content: "hello"}}
	if a, b := s.Digest(prompt), s.Digest(message); a == "" || b == "" || a == b {
		t.Errorf("digests %q, %q", a, b)
	}
	after := call("make")
	after.Kind = grapnel.ToolAfter
	if got := s.Digest(after); got != "" {
		t.Errorf("an event after its call has the digest %s", got)
	}
	if other := approval.Store(t.TempDir()).Digest(call("make")); other == want {
		t.Error("the digest does not depend on the key of the store")
	}
	if got := approval.Store("/dev/null/x").Digest(call("make")); got != "" {
		t.Errorf("without a store, the digest is %s", got)
	}
}

// All processes that need the key first get the same one.
func TestKey(t *testing.T) {
	t.Parallel()
	s := approval.Store(filepath.Join(t.TempDir(), "approvals"))
	var got [20]string
	var wait sync.WaitGroup
	for i := range got {
		wait.Go(func() { got[i] = s.Digest(call("make")) })
	}
	wait.Wait()
	for _, d := range got {
		if d == "" || d != got[0] {
			t.Fatalf("digests %q", got)
		}
	}
	if err := os.WriteFile(filepath.Join(string(s), "key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.Digest(call("make")); got != "" {
		t.Errorf("with a damaged key: %s", got)
	}
}

// A person can answer each question except those of Grapnel itself, and can pass only rules of the
// user's own file and of the packs that it uses.
func TestOriginOf(t *testing.T) {
	t.Parallel()
	source := func(scope grapnel.Scope, name, file string) grapnel.Source {
		return grapnel.Source{Name: name, Scope: scope, File: file}
	}
	user := source(grapnel.ScopeUser, "/f.yaml", "/f.yaml")
	rule := grapnel.PhaseRule
	for name, tt := range map[string]struct {
		spec       grapnel.Spec
		block, ask approval.Origin
	}{
		"rule":            {grapnel.Spec{Phase: rule, Source: user}, approval.Approvable, approval.Approvable},
		"pack":            {grapnel.Spec{Phase: rule, Source: source(grapnel.ScopeUser, "/f.yaml#secrets", "/f.yaml")}, approval.Approvable, approval.Approvable},
		"program":         {grapnel.Spec{Source: user}, approval.OfProgram, approval.Approvable},
		"rewrite":         {grapnel.Spec{Phase: grapnel.PhaseRewrite, Source: user}, approval.OfProgram, approval.Approvable},
		"loaded":          {grapnel.Spec{Phase: rule, Source: source(grapnel.ScopeUser, "claude:/s.json", "/s.json")}, approval.OfForeign, approval.Approvable},
		"managed":         {grapnel.Spec{Phase: rule, Source: source(grapnel.ScopeManaged, "/m.yaml", "/m.yaml")}, approval.OfManaged, approval.Approvable},
		"project":         {grapnel.Spec{Phase: rule, Source: source(grapnel.ScopeProject, "/p.yaml", "/p.yaml")}, approval.OfProject, approval.Approvable},
		"plugin":          {grapnel.Spec{Phase: rule, Source: source(grapnel.ScopePlugin, "/p.yaml", "/p.yaml")}, approval.OfPlugin, approval.Approvable},
		"session":         {grapnel.Spec{Phase: rule, Source: source(grapnel.ScopeSession, "/s.yaml", "/s.yaml")}, approval.OfSession, approval.Approvable},
		"self-protection": {grapnel.Spec{Phase: rule, Source: source(grapnel.ScopeManaged, "grapnel#self-protection", notice.OwnFile)}, approval.OfGrapnel, approval.OfGrapnel},
		"locked":          {notice.Lock(user, "broken"), approval.OfGrapnel, approval.OfGrapnel},
	} {
		if got := approval.OriginOf(&tt.spec, grapnel.Block); got != tt.block {
			t.Errorf("a block of a %s is of %q, want %q", name, got, tt.block)
		}
		if got := approval.OriginOf(&tt.spec, grapnel.Ask); got != tt.ask {
			t.Errorf("a question of a %s is of %q, want %q", name, got, tt.ask)
		}
	}
}

// allows reports whether an approval of a Block exists and can be used for the event.
func allows(t *testing.T, a approval.Approvals, ev *grapnel.Event, hook *grapnel.Spec) bool {
	t.Helper()
	found := a.Find(t.Context(), ev, hook, grapnel.Block)
	return found.ID != "" && found.Use(t.Context(), ev)
}

// Approvals finds the grants of a session, and a dry run does not use them up.
func TestApprovals(t *testing.T) {
	t.Parallel()
	s := approval.Store(t.TempDir())
	spec := &grapnel.Spec{Name: "a", Phase: grapnel.PhaseRule, Source: grapnel.Source{Name: "user", File: "user"}}
	other := &grapnel.Spec{Name: "b", Phase: grapnel.PhaseRule, Source: grapnel.Source{Name: "user", File: "user"}}
	a := approval.Approvals{Store: s}
	ctx := t.Context()
	if got := a.Find(ctx, call("make"), spec, grapnel.Block); got.ID != "" || got.How == "" {
		t.Errorf("without a grant: %+v", got)
	}
	if entries, err := os.ReadDir(string(s)); err != nil || len(entries) > 0 {
		t.Errorf("the question wrote %v, %v", entries, err)
	}
	g := &approval.Grant{Digest: s.Digest(call("make")), Hooks: []string{"user::a"}, Uses: 1, Scope: approval.Scope{Session: "s"}}
	if err := g.New(time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(g); err != nil {
		t.Fatal(err)
	}
	elsewhere := call("make")
	elsewhere.Session.ID = "t"
	for name, tt := range map[string]struct {
		ev   *grapnel.Event
		hook *grapnel.Spec
		want string
	}{
		"the call": {call("make"), spec, g.ID}, "another hook": {call("make"), other, ""},
		"another call": {call("make all"), spec, ""}, "another session": {elsewhere, spec, ""},
	} {
		if got := a.Find(ctx, tt.ev, tt.hook, grapnel.Block); got.ID != tt.want {
			t.Errorf("%s: %+v, want the ID %q", name, got, tt.want)
		}
	}
	dry := approval.Approvals{Store: s, DryRun: true}
	found := a.Find(ctx, call("make"), spec, grapnel.Block)
	for i, want := range []bool{true, true, false} {
		if got := allows(t, dry, call("make"), spec); got != want {
			t.Errorf("dry run %d = %v", i, got)
		}
		if i == 1 && (found.Use(ctx, call("make all")) || !found.Use(ctx, call("make")) || found.Use(ctx, call("make"))) {
			t.Error("the use does not belong to exactly one call")
		}
	}
}

// A process that gave up waiting for a daemon has the use that the daemon took for the same event.
// Nobody else has it.
func TestRetry(t *testing.T) {
	t.Parallel()
	spec := &grapnel.Spec{Name: "a", Phase: grapnel.PhaseRule, Source: grapnel.Source{Name: "user", File: "user"}}
	for uses := range 2 { // 0: the grant has no limit
		s := approval.Store(t.TempDir())
		event := func(id string) *grapnel.Event {
			ev := call("make")
			ev.ID = id
			return ev
		}
		g := grant(t, s, event(""), time.Now(), time.Hour, uses)
		daemon, other := approval.Approvals{Store: s}, approval.Approvals{Store: s, Retry: "e2"}
		if !allows(t, daemon, event("e1"), spec) {
			t.Fatal("the daemon cannot use the grant")
		}
		again := approval.Approvals{Store: s, Retry: "e1"}
		for range 2 {
			if got := again.Find(t.Context(), event("e1"), spec, grapnel.Block); got.ID != g.ID || !got.Use(t.Context(), event("e1")) {
				t.Errorf("%d uses: the process that asked the daemon finds %+v", uses, got)
			}
		}
		for name, passes := range map[string]bool{
			"another event":      allows(t, other, event("e2"), spec),
			"without a daemon":   allows(t, daemon, event("e1"), spec),
			"an ID of the agent": allows(t, again, event("e9"), spec),
		} {
			if passes != (uses == 0) {
				t.Errorf("%d uses: %s passes: %v", uses, name, passes)
			}
		}
	}
}
