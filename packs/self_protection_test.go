package packs_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

func TestSelfProtection(t *testing.T) {
	t.Parallel()
	answers(t, "self-protection", map[string]answer{
		"sudo grapnel pause 10m":                            {"no-grapnel-switches", grapnel.Block},
		"grapnel pause --off":                               {},
		"echo y | /usr/bin/grapnel allow":                   {"no-grapnel-switches", grapnel.Block},
		"script -qc 'grapnel allow --for 1h' /dev/null":     {"no-grapnel-switches", grapnel.Block},
		"grapnel allow --list":                              {},
		"grapnel status && grapnel log":                     {},
		"grapnel install":                                   {"ask-before-grapnel-setup", grapnel.Ask},
		"grapnel install --dry-run":                         {},
		"killall grapnel-hook":                              {"no-stopping-grapnel", grapnel.Block},
		"kill $(pgrep grapnel)":                             {"no-killing-grapnel", grapnel.Block},
		"rm -r ~/.local/state/grapnel":                      {"no-writing-grapnel-state", grapnel.Block},
		"ls ~/.local/state/grapnel":                         {},
		"Write /etc/grapnel/policy.d/a.yaml":                {"no-writing-grapnel-state", grapnel.Block},
		"Write /home/dev/project/sub/grapnel.yaml":          {"ask-before-grapnel-policy", grapnel.Ask},
		"Read /home/dev/project/grapnel.yaml":               {},
		"sed -i s/block/ask/ grapnel.yaml":                  {"ask-before-grapnel-policy", grapnel.Ask},
		"tee ~/.claude/settings.json < x":                   {"ask-before-agent-hooks", grapnel.Ask},
		"cat ~/.claude/settings.json":                       {},
		"mv ~/.claude /tmp/x":                               {"ask-before-agent-hooks ask-before-undoing-guards", grapnel.Ask},
		"claude --dangerously-skip-permissions -p x":        {"ask-before-unguarded-agent", grapnel.Ask},
		"git commit -m 'no --dangerously-skip-permissions'": {},
		"CLAUDE_CONFIG_DIR=/tmp/x claude -p hi":             {"ask-before-moved-config", grapnel.Ask},
		"codex -c features.hooks=false exec x":              {"no-hooks-switched-off-in-shell", grapnel.Block},
	})
}

// The pack guards the settings of every agent that Grapnel supports: the files that contain hooks,
// and the files that can switch hooks off. The test fails if a new agent is missing.
func TestSelfProtectionKnowsEveryAgent(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	e := using(t, "self-protection")
	const project = "/home/dev/project"
	asks := func(t *testing.T, file string) {
		t.Helper()
		v := e.Fire(context.Background(), event(t, "PreToolUse", "Write", map[string]any{"file_path": file, "content": "x"}))
		if v.Decision != grapnel.Ask {
			t.Errorf("writing %s is answered with %v, want ask", file, v.Decision)
		}
		line := "rm " + file
		if strings.Contains(file, " ") {
			line = "rm '" + file + "'"
		}
		if v := e.Fire(context.Background(), event(t, "PreToolUse", "Bash", map[string]any{"command": line})); v.Decision != grapnel.Ask {
			t.Errorf("%q is answered with %v, want ask", line, v.Decision)
		}
		if v := e.Fire(context.Background(), event(t, "PreToolUse", "Read", map[string]any{"file_path": file})); v.Decision != grapnel.None {
			t.Errorf("reading %s is answered with %v, want none", file, v.Decision)
		}
	}
	for _, d := range dialect.All() {
		if d.Setup() == nil {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			s := d.Setup()
			below := map[string]bool{s.User: true, s.Project: true}
			for _, off := range s.Off {
				if strings.HasPrefix(off.File, "/") {
					asks(t, off.File)
				} else {
					below[off.File] = true
				}
			}
			for _, over := range s.Over {
				below[filepath.Join(filepath.Dir(s.User), over)] = true
			}
			for _, file := range s.Managed[:2] {
				if file != "" {
					asks(t, file)
				}
			}
			for file := range below {
				if file == "" {
					continue
				}
				names := []string{file}
				if s.Shape == dialect.ShapeFiles {
					names = nil
					for _, name := range s.Files {
						names = append(names, file+"/"+strings.ReplaceAll(name, "$event", d.Events[0].Native))
					}
				}
				for _, name := range names {
					asks(t, filepath.Join(home, name))
					asks(t, filepath.Join(project, name))
				}
			}
			if s.MovedBy != "" && s.MovedBy != "XDG_CONFIG_HOME" {
				line := s.MovedBy + "=/tmp/x " + s.Program + " hi"
				if v := e.Fire(context.Background(), event(t, "PreToolUse", "Bash", map[string]any{"command": line})); v.Decision != grapnel.Ask {
					t.Errorf("%q is answered with %v, want ask", line, v.Decision)
				}
			}
		})
	}
}

// TestSelfProtectionLines gives lines with which an agent could approve itself or switch Grapnel off
// to an agent's shell and to a server that runs lines. SECURITY.md describes those that pass.
func TestSelfProtectionLines(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/self-protection.json")
	if err != nil {
		t.Fatal(err)
	}
	var lines []struct {
		ID, Command string
		Stopped     bool
	}
	if err := json.Unmarshal(data, &lines); err != nil {
		t.Fatal(err)
	}
	e := using(t, "self-protection", "destructive", "secrets", "exfiltration")
	for _, line := range lines {
		for _, tool := range []string{"Bash", "mcp__sh__run"} {
			v := e.Fire(context.Background(), event(t, "PreToolUse", tool, map[string]any{"command": line.Command}))
			if stopped := v.Decision == grapnel.Block || v.Decision == grapnel.Ask; stopped != line.Stopped {
				t.Errorf("%s, %s: %v by %v, want stopped: %v\n%s", line.ID, tool, v.Decision, v.Reasons, line.Stopped, line.Command)
			}
		}
	}
}
