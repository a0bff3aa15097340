//go:build system

package hookcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// swapped returns a payload with every text changed, including texts that contain JSON.
func swapped(v any, text func(string) string) any {
	switch v := v.(type) {
	case string:
		var inner any
		if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &inner) == nil {
			data, _ := json.Marshal(swapped(inner, text)) // it was decoded from JSON
			return string(data)
		}
		return text(v)
	case []any:
		for i := range v {
			v[i] = swapped(v[i], text)
		}
	case map[string]any:
		for name := range v {
			v[name] = swapped(v[name], text)
		}
	}
	return v
}

// calls returns the events before an agent's tools run, from recordings and from tests based on
// the agent's documentation.
func calls(t *testing.T, d *dialect.Dialect) map[string]dialect.Input {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "dialect", "testdata", d.Name, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]dialect.Input{}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		event, _, _ := strings.Cut(strings.TrimPrefix(name, "recorded-"), "-")
		for _, f := range ar.Files {
			if !strings.HasPrefix(f.Name, "stdin") {
				continue
			}
			in := dialect.Input{Payload: f.Data, Event: event}
			if got := dialect.Receive(d, in); got.Err == nil && got.Event.Kind == grapnel.ToolBefore && got.Event.Tool != nil {
				found[name] = in
			}
		}
	}
	return found
}

// states are states that a model could have caused, or could wait for.
var states = map[string]func(t *testing.T, place local.Place){
	"no policy":       func(*testing.T, local.Place) {},
	"an empty policy": func(t *testing.T, place local.Place) { t.Helper(); put(t, place.Policy, "version: 1\n") },
	"without it": func(t *testing.T, place local.Place) {
		t.Helper()
		put(t, place.Policy, "version: 1\nuse: [{pack: self-protection, mode: observe, except: [no-grapnel-switches, ask-before-agent-hooks]}]\n")
	},
	"an allow": func(t *testing.T, place local.Place) {
		t.Helper()
		put(t, place.Policy, "version: 1\nhooks: [{name: yes, on: tool.before, allow: Yes.}]\n")
	},
	"a pause": func(t *testing.T, place local.Place) {
		t.Helper()
		pause, err := pause.New(time.Now(), time.Hour)
		if err == nil {
			err = pause.Write(place.Pause())
		}
		if err != nil {
			t.Fatal(err)
		}
	},
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// For any policy, a model that uses a tool of any agent can neither disable Grapnel nor change
// the hooks of an agent. It can read all of them.
func TestAlwaysForEveryAgent(t *testing.T) {
	t.Parallel()
	for _, d := range dialect.All() {
		if d.Name == dialect.Plain().Name {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			shells, writes := 0, 0
			for name, in := range calls(t, d) {
				ev := dialect.Receive(d, in).Event
				var from, to string
				reads := false
				switch {
				case ev.Tool.Class == grapnel.ClassShell && len(ev.Tool.Commands) == 1:
					shells++
					from, to = ev.Tool.Commands[0], "cd /tmp && grapnel untrust /home/dev/project"
				case len(ev.Tool.Paths) == 1 && ev.Tool.MCP == nil && ev.Tool.Class != grapnel.ClassOther:
					writes++
					from, to = ev.Tool.Paths[0].Path, "/home/dev/.claude/settings.json"
					if d.Setup() != nil && d.Setup().User != "" {
						to = "/home/dev/" + strings.TrimPrefix(d.Setup().User, "/")
					}
					reads = ev.Tool.Paths[0].Use == grapnel.UseRead
				default:
					continue
				}
				var tree any
				if err := json.Unmarshal(in.Payload, &tree); err != nil {
					continue // odd on purpose
				}
				rel := strings.TrimPrefix(strings.TrimPrefix(from, ev.Session.CWD), "/")
				data, err := json.Marshal(swapped(tree, func(s string) string {
					if s == from || s == rel {
						return to
					}
					return strings.ReplaceAll(s, " File: "+rel+"\n", " File: "+to+"\n")
				}))
				if err != nil {
					t.Fatal(err)
				}
				changed := in
				changed.Payload = data
				for state, prepare := range states {
					place := local.Place{Policy: filepath.Join(t.TempDir(), "grapnel.yaml"), State: filepath.Join(t.TempDir(), "state")}
					prepare(t, place)
					reply, _ := answer(t.Context(), invocation{agent: d.Name, event: in.Event}, d, changed, place, nil)
					rec := lastRecord(t, place)
					expected := rec.Decision == grapnel.Block.String() || to != "cd /tmp && grapnel untrust /home/dev/project" && rec.Decision == grapnel.Ask.String()
					if reads {
						expected = rec.Decision == "" || rec.Decision == grapnel.None.String() || state == "an allow"
					}
					if !expected {
						t.Errorf("%s, %s: %s is answered with %q: %s%s", name, state, to, rec.Decision, reply.Stdout, reply.Stderr)
					}
					if silent := len(bytes.TrimSpace(reply.Stdout)) == 0 && reply.Exit == 0; !reads && silent {
						t.Errorf("%s, %s: nothing is said: %+v", name, state, rec)
					}
				}
			}
			if shells == 0 && writes == 0 {
				t.Errorf("no call was recorded")
			}
			t.Logf("%d shells, %d files", shells, writes)
		})
	}
}

func lastRecord(t *testing.T, place local.Place) (rec struct{ Decision string }) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(place.State, spool.JournalDir, "00000001.jsonl"))
	if err != nil {
		if os.IsNotExist(err) {
			return rec
		}
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &rec); err != nil {
		t.Fatal(err)
	}
	return rec
}
