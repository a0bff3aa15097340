package packs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// using loads a policy that only uses these packs.
func using(t *testing.T, names ...string) *grapnel.Engine {
	t.Helper()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nuse: ["+strings.Join(names, ", ")+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Must: true}}, Packs: registry(t)})
	if loaded := set.Files[0]; loaded.State != load.Valid {
		t.Fatalf("a policy that uses %s is %s: %v", names, loaded.State, loaded.Errors)
	}
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// event returns a tool call in the format of Claude Code, in a temporary home directory.
func event(t *testing.T, name, tool string, input map[string]any) *grapnel.Event {
	t.Helper()
	payload, err := json.Marshal(map[string]any{
		"hook_event_name": name, "session_id": t.Name(), "cwd": "/home/dev/project", "tool_name": tool, "tool_input": input,
		"tool_response": map[string]any{"stdout": input["stdout"], "stderr": "", "interrupted": false, "isImage": false},
	})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// An answer is the expected result of an event: the hooks that gave a reason, in the order of the
// pack, and the decision.
type answer struct {
	hooks string
	want  grapnel.Decision
}

// answers checks the result of one pack for each line. A line is a shell command, or a tool with
// its file: "Read ~/.netrc", "Write /etc/hosts".
func answers(t *testing.T, pack string, events map[string]answer) {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	e := using(t, pack)
	for line, tt := range events {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			tool, input := "Bash", map[string]any{"command": line}
			if name, path, _ := strings.Cut(line, " "); name == "Read" || name == "Write" {
				tool, input = name, map[string]any{"file_path": strings.Replace(path, "~", home, 1), "content": "x"}
			}
			v := e.Fire(context.Background(), event(t, "PreToolUse", tool, input))
			var hooks []string
			for _, r := range v.Reasons {
				_, hook, _ := strings.Cut(r.Hook, "::")
				hooks = append(hooks, hook)
			}
			if got := strings.Join(hooks, " "); got != tt.hooks || v.Decision != tt.want {
				t.Errorf("%s on %q: %v by %q, want %v by %q", pack, line, v.Decision, got, tt.want, tt.hooks)
			}
		})
	}
}

// shipped returns the packs as policies.
func shipped(t *testing.T) map[string]*policyfile.Policy {
	t.Helper()
	all := map[string]*policyfile.Policy{}
	for _, name := range registry(t).Names() {
		data, err := fs.ReadFile(packs.Files(), name+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		p, errs := policy.Parse(name+".yaml", data)
		if len(errs) > 0 || p.Pack == nil {
			t.Fatalf("%s.yaml is no pack: %v", name, errs)
		}
		all[name] = p
	}
	return all
}

// A hook of a pack never allows anything, runs no program, and has a reason and an incident.
func TestPacks(t *testing.T) {
	t.Parallel()
	for name, p := range shipped(t) {
		for i := range p.Hooks {
			h := &p.Hooks[i]
			if h.Decide == "allow" || h.Run != nil || h.Builtin != nil {
				t.Errorf("%s.yaml:%d: hook %s allows something, or starts a program", name, h.Line, h.Name)
			}
			if h.Decide != "" && h.Reason == "" {
				t.Errorf("%s.yaml:%d: hook %s gives no reason", name, h.Line, h.Name)
			}
			if h.Incident == "" && name != "secrets" { // the hooks of secrets do not name an incident yet
				t.Errorf("%s.yaml:%d: hook %s names no incident", name, h.Line, h.Name)
			}
		}
	}
}

var update = flag.Bool("update", false, "rewrite compiled_gen.go and testdata/*.golden")

// TestPromises compares each pack with testdata/NAME.golden: the version, a digest of the hooks at
// that version, and the names of the hooks. Policies exclude hooks by name, so a name must never
// disappear.
func TestPromises(t *testing.T) {
	t.Parallel()
	goldens, err := filepath.Glob("testdata/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	all := shipped(t)
	for _, golden := range goldens {
		if all[strings.TrimSuffix(filepath.Base(golden), ".golden")] == nil {
			t.Errorf("%s is about a pack that is gone: policies name it", golden)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		data, err := fs.ReadFile(packs.Files(), name+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		tree, err := yaml.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(tree.Get("hooks").JSON()) // without comments
		head := fmt.Sprintf("version %d %s", all[name].Pack.Version, hex.EncodeToString(sum[:4]))
		var now []string
		for _, h := range all[name].Hooks {
			now = append(now, h.Name)
		}
		golden := filepath.Join("testdata", name+".golden")
		text, err := os.ReadFile(golden)
		if err != nil && !*update {
			t.Fatalf("%v (-update writes it)", err)
		}
		was := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		gone := slices.DeleteFunc(slices.Clone(was[1:]), func(h string) bool { return slices.Contains(now, h) })
		if len(gone) > 0 {
			t.Errorf("the pack %s has lost the hooks %s: their names stand in policies", name, strings.Join(gone, ", "))
			now = append(now, gone...)
		}
		fresh := head + "\n" + strings.Join(now, "\n") + "\n"
		switch {
		case string(text) == fresh:
		case *update:
			if err := os.WriteFile(golden, []byte(fresh), 0o600); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s has %q, and the pack is %q: raise its version when a shipped one changes, then -update\nwas %v\nnow %v", golden, was[0], head, was[1:], now)
		}
	}
}

// registry reads the packs from their files. It does not use the generated table.
func registry(t *testing.T) load.Packs {
	t.Helper()
	packs, errs := load.ReadPacks(packs.Files())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return packs
}
