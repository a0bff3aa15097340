package watch

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

var update = flag.Bool("update", false, "rewrite the golden screens")

var begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// entry decodes a line of the log, with a time in seconds after the start.
func entry(t testing.TB, second int, line string) *spool.Entry {
	t.Helper()
	var e spool.Entry
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("%v\n%s", err, line)
	}
	e.ID = fmt.Sprintf("id%02d", second)
	e.Time = begin.Add(time.Duration(second) * time.Second)
	return &e
}

// work contains the events of two agents, with all kinds of results.
var work = []string{
	`{"agent":"claude-code","session":"7f3c2a10","event":"session.start","decision":"none","hooks":[{"name":"house-rules","source":"/home/ann/.config/grapnel/grapnel.yaml","line":4,"decision":"none","ms":0}],"ms":0.2,
	  "context":["Use tabs.\nAsk before you touch the network."],"input":{"kind":"session.start","agent":{"name":"claude-code"},"native":{"session_id":"7f3c2a10","cwd":"/home/ann/shop","hook_event_name":"SessionStart","source":"startup"}}}`,
	`{"agent":"claude-code","session":"7f3c2a10","event":"prompt.before","decision":"none","hooks":[],"ms":0.1,
	  "input":{"kind":"prompt.before","agent":{"name":"claude-code"},"native":{"session_id":"7f3c2a10","cwd":"/home/ann/shop","hook_event_name":"UserPromptSubmit","prompt":"Make the tests pass,\nthen push."}}}`,
	`{"agent":"claude-code","session":"7f3c2a10","event":"tool.before","tool":"Bash","decision":"none","hooks":[{"name":"lint","source":"/home/ann/.config/grapnel/grapnel.yaml","line":9,"decision":"none","ms":412.5}],"ms":413,
	  "input":{"kind":"tool.before","agent":{"name":"claude-code"},"native":{"session_id":"7f3c2a10","cwd":"/home/ann/shop","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"make test"}}}}`,
	`{"agent":"codex","session":"0193","event":"tool.before","tool":"apply_patch","decision":"ask","hooks":[{"name":"keep-out-of-prod","source":"/home/ann/.config/grapnel/grapnel.yaml","line":14,"decision":"ask","cause":"decision","ms":0.1}],
	  "reasons":[{"hook":"keep-out-of-prod","text":"This changes production. Go on?","cause":"decision"}],"unsupported":["ask: downgraded to block"],"ms":0.4,
	  "input":{"kind":"tool.before","agent":{"name":"codex"},"native":{"session_id":"0193","cwd":"/srv/api","hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch\n*** Update File: deploy/prod/app.yaml\n@@\n-a\n+b\n*** End Patch\n"}}}}`,
	`{"agent":"claude-code","session":"7f3c2a10","event":"tool.before","tool":"Bash","decision":"block","hooks":[{"name":"no-force-push","source":"/home/ann/.config/grapnel/grapnel.yaml","line":20,"decision":"block","cause":"decision","ms":0}],
	  "reasons":[{"hook":"/home/ann/.config/grapnel/grapnel.yaml::no-force-push","text":"Force pushing rewrites shared history. Push a new branch instead.","cause":"decision"}],"ms":0.5,
	  "input":{"kind":"tool.before","agent":{"name":"claude-code"},"native":{"session_id":"7f3c2a10","cwd":"/home/ann/shop","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git push --force origin main"}}}}`,
	`{"agent":"claude-code","session":"7f3c2a10","event":"tool.before","tool":"Bash","decision":"none","hooks":[{"name":"scan","source":"/home/ann/.config/grapnel/grapnel.yaml","line":26,"decision":"none","cause":"timeout","error":"it took longer than 5s","fail_open":true,"ms":5000.4},{"name":"would-block","source":"/home/ann/.config/grapnel/grapnel.yaml","line":30,"decision":"block","observed":true,"ms":0}],"would":"block","ms":5001,
	  "input":{"kind":"tool.before","agent":{"name":"claude-code"},"native":{"session_id":"7f3c2a10","cwd":"/home/ann/shop","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"npm install left-pad"}}}}`,
	`{"agent":"claude-code","session":"7f3c2a10","event":"tool.before","tool":"Bash","decision":"none","hooks":[{"name":"hide-keys","source":"/home/ann/.config/grapnel/grapnel.yaml","line":34,"decision":"none","changed":["tool.input"],"ms":0.1}],"changed":["tool.input"],"changes":{"tool.input":{"command":"deploy --key sk-***","timeout":5}},"ms":0.6,
	  "input":{"kind":"tool.before","agent":{"name":"claude-code"},"native":{"session_id":"7f3c2a10","cwd":"/home/ann/shop","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"deploy --key sk-abc","timeout":5}}}}`,
	`{"agent":"claude-code","session":"7f3c2a10","event":"tool.before","tool":"mcp__tickets__create","decision":"allow","hooks":[{"name":"tickets","source":"/home/ann/.config/grapnel/grapnel.yaml","line":40,"decision":"allow","ms":0}],"ms":0.3,
	  "input":{"kind":"tool.before","agent":{"name":"claude-code"},"native":{"session_id":"7f3c2a10","cwd":"/home/ann/shop","hook_event_name":"PreToolUse","tool_name":"mcp__tickets__create","tool_input":{"title":"日本語 \u001b[31mred\u001b[2J","body":"one\r\ntwo"}}}}`,
	`{"agent":"codex","session":"0193","event":"agent.after","decision":"none","hooks":[],"halt":"enough for today","ms":0.3,"input":{"kind":"agent.after","agent":{"name":"codex"},"native":{"session_id":"0193","cwd":"/srv/api","hook_event_name":"Stop"}}}`,
	`{"agent":"claude-code","session":"7f3c2a10","event":"tool.before","tool":"Bash","late":true,"decision":"none","hooks":[{"name":"tell-the-team","source":"/home/ann/.config/grapnel/grapnel.yaml","line":44,"decision":"none","error":"exit status 7","ms":12}],"ms":12}`,
}

// sample returns a Model that has received all of work.
func sample(t testing.TB, opts Options) *Model {
	t.Helper()
	opts.Home, opts.Location = "/home/ann", time.UTC
	m := New(opts)
	var b Batch
	for i, text := range work {
		b.Items = append(b.Items, recordview.NewItem(entry(t, i, text)))
	}
	m.Update(b)
	m.Update(Clock(begin.Add(21 * time.Second)))
	m.Update(Keeper{Daemon: true, PID: 4711})
	return m
}

// press presses keys by their names. It types a text that begins with a slash.
func press(m *Model, keys ...string) {
	for _, key := range keys {
		if text, ok := strings.CutPrefix(key, "type "); ok {
			for _, r := range text {
				m.Update(Key{Name: string(r), Text: string(r)})
			}
			continue
		}
		m.Update(Key{Name: key})
	}
}

// screen returns the visible text, without styles and invisible parts.
func screen(m *Model) string {
	var b strings.Builder
	for text := range strings.SplitSeq(ansi.Strip(m.View()), "\n") {
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return b.String()
}

func TestScreens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		width, height int
		opts          Options
		keys          []string
	}{
		"80x24":              {width: 80, height: 24},
		"80x24-block":        {width: 80, height: 24, keys: []string{"up", "up", "up", "up", "up", "enter"}},
		"80x24-filter":       {width: 80, height: 24, keys: []string{"/", "type is:failed -agent:codex"}},
		"80x24-wrong-filter": {width: 80, height: 24, keys: []string{"/", "type decison:block"}},
		"80x24-help":         {width: 80, height: 24, keys: []string{"?"}},
		"80x24-session":      {width: 80, height: 24, keys: []string{"tab", "down", "down", "enter", "space"}},
		"120x40":             {width: 120, height: 40},
		"120x40-change":      {width: 120, height: 40, keys: []string{"up", "up", "up", "enter"}},
		"120x40-failed":      {width: 120, height: 40, keys: []string{"up", "up", "up", "up", "enter"}},
		"120x40-context":     {width: 120, height: 40, keys: []string{"g", "enter"}},
		"60x12-kept-few":     {width: 60, height: 12, opts: Options{Keep: 4}},
		"40x7":               {width: 40, height: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := sample(t, c.opts)
			m.Update(Resize{c.width, c.height})
			press(m, c.keys...)
			got := screen(m)
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got; make it anew with -update):\n%s", file, diff)
			}
		})
	}
}

// Important parts are colored, and the text has the same meaning without colors.
func TestLooks(t *testing.T) {
	t.Parallel()
	m := sample(t, Options{})
	m.Update(Resize{120, 40})
	view := m.View()
	for _, want := range []string{"\x1b[31mblock ", "\x1b[33mask ", "\x1b[32mallow ", "\x1b[36mchange ", "\x1b[31mhalt ", "\x1b[33mslow: lint 412ms", "\x1b[33mFAILED OPEN: scan 5.0s", "\x1b[31mFAILED: tell-the-team", "\x1b[7m>"} {
		if want != "\x1b[31mFAILED: tell-the-team" && !strings.Contains(view, want) {
			t.Errorf("%q is not in\n%q", want, view)
		}
	}
}

// A Model without events shows a message.
func TestNothingYet(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	if got := screen(m); !strings.Contains(got, "waiting for events") || !strings.Contains(got, "no events yet") {
		t.Errorf("the screen is\n%s", got)
	}
	press(m, "up", "down", "enter", "tab", "tab", "tab", "s", "space", "f", "g", "G", "esc", "esc")
	m.Update(Keeper{})
	if got := screen(m); !strings.Contains(got, "no daemon") {
		t.Errorf("the screen is\n%s", got)
	}
}

// names returns the IDs of the visible items.
func (m *Model) names() (ids []string) {
	for _, it := range m.shown {
		ids = append(ids, it.ID)
	}
	return ids
}

// In follow mode the view moves to new events. Otherwise it stays, and a key returns to follow
// mode.
func TestFollowing(t *testing.T) {
	t.Parallel()
	m := sample(t, Options{})
	next := func() {
		m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(entry(t, 20+m.seq, work[2]))}})
	}
	next()
	if m.selected().seq != m.seq {
		t.Errorf("selected is %d of %d", m.selected().seq, m.seq)
	}
	press(m, "up", "up")
	was := m.selected()
	next()
	next()
	if m.selected() != was || !strings.Contains(screen(m), "not following, 4 below") {
		t.Errorf("the selection went elsewhere:\n%s", screen(m))
	}
	press(m, "f")
	next()
	if m.selected().seq != m.seq {
		t.Errorf("after f selected is %d of %d", m.selected().seq, m.seq)
	}
	press(m, "up", "down")
	next()
	if m.selected().seq != m.seq {
		t.Errorf("after going back to the end selected is %d of %d", m.selected().seq, m.seq)
	}
	press(m, "enter")
	was = m.selected()
	next()
	if m.selected() != was {
		t.Error("what is read does not stay")
	}
}

// A pause freezes the view. New events are counted, filtered, and visible afterwards.
func TestPause(t *testing.T) {
	t.Parallel()
	m := sample(t, Options{Filter: "agent:claude"})
	n := len(m.shown)
	press(m, "space")
	m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(entry(t, 20, work[4])), recordview.NewItem(entry(t, 21, work[3]))}})
	if got := screen(m); len(m.shown) != n || !strings.Contains(got, "PAUSED, 1 new") {
		t.Errorf("%d are shown, of %d:\n%s", len(m.shown), n, got)
	}
	press(m, "space")
	if len(m.shown) != n+1 || m.selected().ID != "id20" || strings.Contains(screen(m), "PAUSED") {
		t.Errorf("after the pause %v are shown, selected is %s", m.names(), m.selected().ID)
	}
}

// The number and the total size of stored events are limited, and the view reports dropped ones.
// The counts of a session stay.
func TestOlderOnesFallOut(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{"number": {Keep: 20}, "size": {KeepSize: 20 * recordview.NewItem(entry(t, 1, work[4])).Size()}} {
		m := New(opts)
		press(m, "space")
		for i := range 500 {
			m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(entry(t, i, work[4])), recordview.NewItem(entry(t, i, work[4]))}})
		}
		if len(m.items) != 20 || cap(m.items) > 100 || m.gone != 980 || m.behind != 20 || m.total.blocked != 1000 {
			t.Errorf("%s: %d are kept in room for %d, %d are gone, %d behind the pause, %d blocked", name, len(m.items), cap(m.items), m.gone, m.behind, m.total.blocked)
		}
		press(m, "space", "up", "up")
		was := m.selected()
		m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(entry(t, 500, work[4]))}})
		if m.selected() != was || !strings.Contains(screen(m), "981 older events dropped") {
			t.Errorf("%s: selected is %d, was %d:\n%s", name, m.selected().seq, was.seq, screen(m))
		}
		for range 100 {
			m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(entry(t, 501, work[4]))}})
		}
		if it := m.selected(); it == nil || it != m.shown[0] {
			t.Errorf("%s: what is selected fell out, and now it is %+v", name, it)
		}
	}
}

func TestManySessions(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	for i := range 2 * maxSessions {
		e := entry(t, i, work[1])
		e.Session = fmt.Sprintf("s%d", i)
		m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(e)}})
	}
	if len(m.sessions) != maxSessions || m.sessions[0].session != "s999" || m.total.events != 2*maxSessions {
		t.Errorf("%d sessions, the first is %s", len(m.sessions), m.sessions[0].session)
	}
	// A session with a new event moves to the front. The selection stays.
	press(m, "tab", "down", "down")
	e := entry(t, 5000, work[1])
	e.Session = "s900"
	m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(e)}})
	if m.sessions[0].session != "s900" || m.sessionAt.session != "s998" || m.sessionIndex() != 3 {
		t.Errorf("the first is %s, selected %+v at %d", m.sessions[0].session, m.sessionAt, m.sessionIndex())
	}
	// The removed session may have been selected.
	for i := range maxSessions {
		e := entry(t, 6000, work[1])
		e.Session = fmt.Sprintf("later%d", i)
		m.Update(Batch{Items: []*recordview.Item{recordview.NewItem(e)}})
	}
	if m.sessionIndex() != 0 {
		t.Errorf("a forgotten session is selected at %d", m.sessionIndex())
	}
}

func TestFocusAndBack(t *testing.T) {
	t.Parallel()
	m := sample(t, Options{})
	press(m, "up", "s")
	if got := m.names(); !slices.Equal(got, []string{"id03", "id08"}) || !strings.Contains(screen(m), "session codex 0193") {
		t.Errorf("of the session are shown %v:\n%s", got, screen(m))
	}
	press(m, "/", "type halt", "enter", "enter")
	if len(m.shown) != 0 || m.pane != eventsPane {
		t.Errorf("shown are %v", m.names())
	}
	for _, want := range []int{0, 2, 10} { // the details, the filter, the session
		if press(m, "esc"); len(m.shown) != want {
			t.Errorf("after esc %d are shown, want %d", len(m.shown), want)
		}
	}
	press(m, "q")
	if !m.Done() {
		t.Error("q does not quit")
	}
}

func TestTyping(t *testing.T) {
	t.Parallel()
	m := sample(t, Options{})
	press(m, "/", "type agent:codex")
	if len(m.shown) != 2 {
		t.Errorf("while it is typed %d are shown", len(m.shown))
	}
	press(m, "backspace", "ctrl+w", "type q")
	if m.draft != "q" || m.Done() {
		t.Errorf("typed is %q", m.draft)
	}
	press(m, "ctrl+u", "type is:x", "enter")
	if !m.typing || m.wrong == "" {
		t.Error("what cannot be read was taken")
	}
	press(m, "esc")
	if m.typing || m.wrong != "" || len(m.shown) != len(work) {
		t.Errorf("after esc %d are shown, wrong is %q", len(m.shown), m.wrong)
	}
	m.Update(Key{Name: "/"})
	m.Update(Key{Text: "pasted\nlines\x1b[2J" + strings.Repeat("x", 10)})
	if strings.ContainsAny(m.draft, "\n\x1b") || !strings.HasPrefix(m.draft, "pasted lines") {
		t.Errorf("pasted is %q", m.draft)
	}
	m.Update(Key{Text: strings.Repeat("x", maxTyped)})
	if len(m.draft) > maxTyped {
		t.Errorf("%d bytes were taken", len(m.draft))
	}
	press(m, "ctrl+c")
	if !m.Done() {
		t.Error("ctrl+c does not quit while a filter is typed")
	}
}

// The list shows the Items that its filter selects.
func TestFilter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "0123456789",
		"push":                              "14",
		"PUSH force":                        "4",
		`"push --force"`:                    "4",
		`-push`:                             "02356789",
		"agent:codex":                       "38",
		"-agent:codex push":                 "14",
		"agent:codex agent:claude":          "0123456789",
		"decision:block":                    "4",
		"decision:block decision:ask":       "34",
		"decision:halt":                     "8",
		"decision:change":                   "6",
		"decision:late":                     "9",
		"tool:bash":                         "24569",
		"tool:shell":                        "2456",
		"tool:bash -decision:block":         "2569",
		"hook:no-force":                     "4",
		"session:0193":                      "38",
		"session:193":                       "",
		"dir:shop event:prompt":             "1",
		"is:slow":                           "25",
		"is:failed":                         "59",
		"is:open":                           "5",
		"is:unsupported":                    "3",
		"is:changed":                        "6",
		"is:would":                          "5",
		`tool:"mcp__tickets__create"`:       "7",
		"agent:":                            "0123456789",
		`"agent:codex"`:                     "",
		"https://example.com":               "",
		"--key":                             "6",
		`hook:"no-force-push" force`:        "4",
		"prompt.before":                     "1",
		"deploy/prod":                       "3",
		"decision:none tool:bash -is:would": "269",
	} {
		m := sample(t, Options{Filter: text})
		got := ""
		for _, id := range m.names() {
			got += strings.TrimPrefix(id, "id0")
		}
		if got != want || m.wrong != "" {
			t.Errorf("%s finds %s, want %s; %s", text, got, want, m.wrong)
		}
	}
}
