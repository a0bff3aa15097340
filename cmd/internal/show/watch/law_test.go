package watch

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// hostile is text that can control a terminal, break lines, or have another width than it seems
// to have.
var hostile = rapid.OneOf(
	rapid.String(),
	rapid.StringN(0, 5),
	rapid.SampledFrom([]string{
		"\x1b[2J\x1b[H", "\x1b]0;title\a", "\x1b]52;c;cm0gLXJm\x1b\\", "\x1b[31mred", "\u009b31m", "\x1bP+q\x1b\\", "\r\n", "\n\n\n", "\t\t", "\b\b", "\x00", "\x7f",
		"\u202eevil", "\u2066\u2069", "\u2028\u2029", "日本語日本語", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "❤️", "e" + strings.Repeat("\u0301", 500), "\ufe0f\ufe0f", "\xff\xfe\x80", "ｆｕｌｌ", "\u00ad\u200b",
		strings.Repeat("x", 5000), strings.Repeat("宽", 3000), strings.Repeat("a\n", 2000), "", "%s%d", "::", "native.x.",
	}),
)

func drawItem(t *rapid.T, n string) *recordview.Item {
	text := func(what string) string { return hostile.Draw(t, n+what) }
	quoted := func(what string) json.RawMessage {
		b, err := json.Marshal(text(what))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	e := &spool.Entry{Late: rapid.Bool().Draw(t, n+"late")}
	e.ID, e.Agent, e.Session, e.Event, e.Tool = text("id"), text("agent"), text("session"), grapnel.Kind(text("event")), text("tool")
	e.Time = time.Unix(rapid.Int64Range(-1<<33, 1<<33).Draw(t, n+"time"), 0)
	e.Decision = grapnel.Decision(rapid.IntRange(0, 3).Draw(t, n+"decision"))
	e.Halt, e.Error, e.Unsupported, e.Context, e.Conflicts = text("halt"), text("error"), []string{text("lost")}, []string{text("context")}, []string{text("conflict")}
	e.MS = rapid.Float64Range(0, 1e12).Draw(t, n+"ms")
	e.Changed = []grapnel.Field{grapnel.FieldInput, grapnel.Field(text("field"))}
	e.Changes = map[grapnel.Field]json.RawMessage{grapnel.FieldInput: quoted("after")}
	e.Reasons = []grapnel.Reason{{Hook: text("by"), Text: text("reason"), Cause: grapnel.Cause(text("cause"))}}
	for range rapid.IntRange(0, 3).Draw(t, n+"hooks") {
		e.Hooks = append(e.Hooks, grapnel.HookRun{
			Name: text("hook"), Source: text("source"), Line: rapid.Int().Draw(t, n+"line"), Decision: e.Decision, Error: text("failed"),
			Cause: e.Reasons[0].Cause, FailOpen: e.Late, Observed: rapid.Bool().Draw(t, n+"observed"), Changed: e.Changed, MS: e.MS, Round: 2,
		})
	}
	e.Input = &grapnel.Event{
		Kind: e.Event, Agent: grapnel.Agent{Name: rapid.SampledFrom([]string{"claude-code", "codex", "copilot-cli", "?"}).Draw(t, n+"known")},
		Session: grapnel.Session{CWD: text("dir")}, Tool: &grapnel.Tool{Input: quoted("input"), Commands: []string{text("command")}},
	}
	if rapid.Bool().Draw(t, n+"native") {
		e.Input.Tool, e.Input.Session = nil, grapnel.Session{}
		e.Input.Native = json.RawMessage(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":` + string(quoted("name")) + `,"tool_input":{"command":` + string(quoted("line")) + `}}`)
	}
	return recordview.NewItem(e)
}

var looks = regexp.MustCompile(`\x1b\[[0-9]+m`)

// checkScreen checks the conditions for every screen: it has the right number of lines and
// columns, and contains only text and styles.
func checkScreen(t *rapid.T, m *Model) {
	view := m.View()
	lines := strings.Split(view, "\n")
	if len(lines) != m.height && m.width > 0 && m.height > 0 {
		t.Fatalf("%d lines, want %d:\n%q", len(lines), m.height, view)
	}
	for _, text := range lines {
		plain := looks.ReplaceAllString(text, "")
		if !utf8.ValidString(plain) {
			t.Fatalf("not UTF-8: %q", text)
		}
		for _, r := range plain {
			if unicode.Is(unicode.C, r) || unicode.In(r, unicode.Zl, unicode.Zp) {
				t.Fatalf("%U is on the screen: %q", r, text)
			}
		}
		if n := ansi.StringWidthWc(plain); n > m.width {
			t.Fatalf("%d columns, want %d at most: %q", n, m.width, text)
		}
	}
}

// For any filter, pause and focus, the screen shows exactly the matching events, in their order.
func TestShownIsWanted(t *testing.T) {
	t.Parallel()
	keys := []string{"up", "down", "space", "f", "s", "esc", "enter", "tab"}
	rapid.Check(t, func(t *rapid.T) {
		m := New(Options{Keep: 6})
		t.Repeat(map[string]func(*rapid.T){
			"batch": func(t *rapid.T) {
				e := &spool.Entry{}
				e.Agent, e.Session = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "session")
				m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(e), recordview.NewItem(e)}})
			},
			"key": func(t *rapid.T) { m.Update(Key{Name: rapid.SampledFrom(keys).Draw(t, "key")}) },
			"filter": func(t *rapid.T) {
				m.setFilter(rapid.SampledFrom([]string{"", "agent:a", "-agent:a"}).Draw(t, "filter"))
			},
			"": func(t *rapid.T) {
				var want []*item
				behind := 0
				for _, it := range m.items {
					switch {
					case m.focus != nil && (it.Agent != m.focus.agent || it.Session != m.focus.session), !m.filter.Wants(it.Item, m.slow):
					case m.paused && it.seq > m.last:
						behind++
					default:
						want = append(want, it)
					}
				}
				if len(want) != len(m.shown) || behind != m.behind {
					t.Fatalf("%d are shown and %d behind the pause, want %d and %d", len(m.shown), m.behind, len(want), behind)
				}
				for i := range want {
					if want[i] != m.shown[i] {
						t.Fatalf("shown at %d is %d, want %d", i, m.shown[i].seq, want[i].seq)
					}
				}
				if len(m.items) > 6 || m.gone+len(m.items) != m.seq {
					t.Fatalf("%d are kept and %d gone of %d", len(m.items), m.gone, m.seq)
				}
			},
		})
	})
}

func BenchmarkView(b *testing.B) {
	m := sample(b, Options{})
	for i := range 5000 {
		m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(entry(b, i, work[i%len(work)]))}})
	}
	m.Update(Resize{120, 40})
	press(m, "enter")
	for b.Loop() {
		m.View()
	}
}

func BenchmarkNewItem(b *testing.B) {
	e := entry(b, 0, work[6])
	for b.Loop() {
		recordview.NewItem(e)
	}
}
