//go:build system && unix

package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// foreignFiles are guards in the formats of other systems, each with the file that `load:` finds
// next to the policy. Every guard blocks rm -rf with the same reason.
var foreignFiles = map[string]struct{ name, text string }{
	"claude-code": {".claude/settings.json", `{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "grep -q 'rm -rf' && { echo 'Not this one.' >&2; exit 2; }; exit 0"}]}]}}`},
	"gemini-cli":  {".gemini/settings.json", `{"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "grep -q 'rm -rf' && { echo 'Not this one.' >&2; exit 2; }; exit 0"}]}]}}`},
	"miniclaw":    {".config/mini-claw/settings.json", `{"hooks": {"pre_tool": [{"command": "env | grep -q 'rm -rf' && { echo 'Not this one.' >&2; exit 1; }; exit 0"}]}}`},
	"flyto":       {"flyto-hooks.json", `[{"type": "pre_tool_use", "command": "grep -q 'rm -rf' && { echo '{\"decision\": \"block\", \"reason\": \"Not this one.\"}'; exit 2; }; exit 0"}]`},
	"openclaw":    {".openclaw/hooks.json", `{"hooks": [{"event": "before_tool_call", "command": "grep -q 'rm -rf' && { echo 'Not this one.' >&2; exit 2; }; exit 0"}]}`},
	"ironclaw":    {"hooks/hooks.json", `{"rules": [{"name": "no-rm", "points": ["beforeToolCall"], "when_regex": "rm -rf", "reject_reason": "Not this one."}]}`},
}

// loads returns a world whose policy loads files of a format.
func loads(t *testing.T, format string) world {
	t.Helper()
	w := newWorld(t, "version: 1\nload: ["+format+"]\n")
	w.plant(t, foreignFiles[format].name, foreignFiles[format].text)
	return w
}

func (w world) plant(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(w.root, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	w.write(t, name, text)
}

// from returns a command with a program in dir: grapnel-hook, or "grapnel hook".
func (w world) from(t *testing.T, dir, program string, stdin string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := w.hook(t, strings.NewReader(stdin), args...)
	cmd.Path = filepath.Join(dir, program)
	if cmd.Args[0] = cmd.Path; program == "grapnel" {
		cmd.Args = append([]string{cmd.Path, "hook"}, cmd.Args[1:]...)
	}
	return cmd
}

// hookOnlyDir returns a directory with grapnel-hook, but without grapnel.
func hookOnlyDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Link(filepath.Join(built, "grapnel-hook"), filepath.Join(dir, "grapnel-hook")); err != nil {
		data, err := os.ReadFile(filepath.Join(built, "grapnel-hook"))
		if err != nil {
			t.Fatal(err)
		}
		programs.Write(t, filepath.Join(dir, "grapnel-hook"), string(data))
	}
	return dir
}

// records returns the stored Records.
func (w world) records(t *testing.T) (list []spool.Entry) {
	t.Helper()
	for e, err := range spool.Read(filepath.Join(w.root, "state"), spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// With hook files of other systems, the reply of grapnel-hook, which needs no other program, has the
// same bytes as the reply of "grapnel hook", and there is one Record.
func TestLoad(t *testing.T) {
	t.Parallel()
	for format := range foreignFiles {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			alone := hookOnlyDir(t)
			for speaker, a := range agents {
				if a.name == format {
					continue // the agent runs them itself
				}
				for name, text := range map[string]string{
					"guarded": a.write(a.call(rm)), "harmless": a.write(a.call(ls)), "broken": `{"hook_event_name":"PreTool`, "empty": "", "no UTF-8": "\xff\xfe",
				} {
					hook, full := loads(t, format), loads(t, format)
					got := run(t, hook.from(t, alone, "grapnel-hook", text, a.args...))
					want := run(t, full.from(t, built, "grapnel", text, a.args...))
					as := strings.NewReplacer(full.root, hook.root)
					if got.stdout != as.Replace(want.stdout) || got.exit != want.exit || got.stderr != as.Replace(want.stderr) {
						t.Errorf("%s, %s: grapnel-hook answers\n\t%v\ngrapnel hook\n\t%v", speaker, name, got, want)
					}
					if e := heeds(t, a.name, got); name == "guarded" && (!e.blocked || !strings.Contains(got.stdout, "Not this one.")) || name == "harmless" && e != (effect{}) {
						t.Errorf("%s, %s: %v", speaker, name, got)
					}
					if n, m := len(hook.records(t)), len(full.records(t)); n != 1 || m != 1 {
						t.Errorf("%s, %s: there are %d Records, and %d, want 1", speaker, name, n, m)
					}
				}
			}
		})
	}
}

// The same is true for rules for secrets in the format of gitleaks.
func TestLoadRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "version: 1\nsecrets: {rules: rules.toml}\nhooks:\n  - {name: no-secrets, on: tool.before, match: {secret: true}, block: Not this one.}\n")
	w.write(t, "rules.toml", "[[rules]]\nid = \"ours\"\nregex = '''OURS-[0-9]{8}'''\n")
	if r := blocked(t, w.hook(t, stdin(`"echo OURS-12345678"`), claude.args...)); !strings.Contains(r.stdout, "Not this one.") {
		t.Errorf("%v", r)
	}
	if r := run(t, w.hook(t, stdin(ls), claude.args...)); heeds(t, claude.name, r) != (effect{}) {
		t.Errorf("%v", r)
	}
}

// An untrusted project's policy neither delays nor blocks the agent.
func TestLoadOfStrangers(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"load":  "version: 1\nload: [ironclaw]\n",
		"rules": "version: 1\nsecrets: {rules: rules.toml}\nhooks:\n  - {name: no-secrets, on: tool.before, match: {secret: true}, block: No.}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, guard)
			project := filepath.Join(w.dir, "project")
			if err := os.MkdirAll(filepath.Join(project, ".grapnel"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{".grapnel.yaml", "grapnel.yaml", ".grapnel/grapnel.yaml"} {
				if err := os.WriteFile(filepath.Join(project, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := claude.call(ls)
			c.cwd = quoted(project)
			r := run(t, w.from(t, built, "grapnel-hook", claude.write(c), claude.args...))
			if heeds(t, claude.name, r) != (effect{}) {
				t.Errorf("%v", r)
			}
		})
	}
}

// Both programs run foreign hooks in the same directory, with the same environment and the same
// GRAPNEL_DEPTH.
func TestLoadSurroundings(t *testing.T) {
	t.Parallel()
	surroundings := func(program string) string {
		w := newWorld(t, "version: 1\nload: [flyto]\nhooks:\n  - {name: own, on: tool.before, priority: 300, run: 'true'}\n")
		out := filepath.Join(w.dir, "seen")
		w.write(t, "flyto-hooks.json", `[{"type": "pre_tool_use", "command": `+quoted("{ pwd; env | grep -v '^_=' | sort; } > "+out)+`}]`)
		cmd := w.from(t, built, program, claude.write(claude.call(ls)), claude.args...)
		cmd.Env = append(cmd.Env, "GRAPNEL_DEPTH=1", "SECRET=x", "ODD=a\nb")
		cmd.Dir = w.root
		run(t, cmd)
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), w.dir, "")
	}
	strip := func(text string) string {
		var keep []string
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "GRAPNEL_EVENT_ID=") {
				keep = append(keep, line)
			}
		}
		return strings.Join(keep, "")
	}
	got, want := strip(surroundings("grapnel-hook")), strip(surroundings("grapnel"))
	if got != want || !strings.Contains(got, "GRAPNEL_DEPTH=2") {
		t.Errorf("a hook sees\n%s\nwant\n%s", got, want)
	}
}

// Foreign hooks work with all other arguments of the command line.
func TestLoadCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "version: 1\nload: [ironclaw]\n")
	w.plant(t, foreignFiles["ironclaw"].name, foreignFiles["ironclaw"].text)
	w.write(t, "more one.yaml", strings.Replace(guard, "rm -rf", "ls", 1))
	w.write(t, "--two.yaml", strings.Replace(guard, "rm -rf", "pwd", 1))
	for _, command := range []string{ls, rm, `"pwd"`} {
		cmd := w.hook(t, stdin(command), "claude-code", "PreToolUse", "--policy", "more one.yaml", "--policy=--two.yaml")
		cmd.Dir = w.root
		if r := blocked(t, cmd); !strings.Contains(r.stdout, "Not this one.") {
			t.Errorf("%v", r)
		}
	}
}

// A foreign hook sees a payload of the maximum size completely. A larger payload is unreadable.
func TestLoadLarge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		size int
		want string
	}{"fits": {31 << 20, "Not this one."}, "too large": {33 << 20, "more than"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := loads(t, "ironclaw")
			w.write(t, "grapnel.yaml", "version: 1\nstrict: true\nload: [ironclaw]\n")
			c := claude.call(rm)
			c.tool, c.input = `"Task"`, `{"prompt":"rm -rf / `+strings.Repeat("x", tt.size)+`"}` // the limit for a shell line is lower
			text := claude.write(c)
			cmd := w.from(t, built, "grapnel-hook", text, claude.args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			if got := stdout.String(); !strings.Contains(got, tt.want) || !strings.Contains(got, "deny") || len(got) > 1<<20 {
				t.Errorf("%.600q, %.600q", got, stderr.String())
			}
		})
	}
}

// An observing hook of a foreign file runs once.
func TestLoadObserves(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"grapnel-hook", "grapnel"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "version: 1\nload: [openclaw]\n")
			seen := filepath.Join(w.dir, "seen")
			w.plant(t, ".openclaw/hooks.json", `{"hooks": [{"event": "after_tool_call", "command": `+quoted("sleep 0.5; echo x >> "+seen)+`}]}`)
			run(t, w.from(t, built, program, `{"hook_event_name":"PostToolUse","session_id":"s1","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":"x"}`, claude.args...))
			await.Until(t, "the observing hook runs", func() bool { _, err := os.Stat(seen); return err == nil })
			time.Sleep(100 * time.Millisecond)
			if text, _ := os.ReadFile(seen); string(text) != "x\n" {
				t.Errorf("it ran %d times", len(text)/2)
			}
		})
	}
}

// If an agent reports an action twice, there is one Record, even if both reports come at the same
// time.
func TestLoadDuplicates(t *testing.T) {
	t.Parallel()
	reports := []struct{ args, text string }{
		{"copilot-cli preToolUse", `{"sessionId":"s1","timestamp":1,"cwd":"/","toolName":"bash","toolArgs":"{\"command\":\"rm -rf /\"}"}`},
		{"copilot-cli PreToolUse", `{"hook_event_name":"PreToolUse","session_id":"s1","timestamp":"2026-11-21T00:00:00Z","cwd":"/","tool_name":"bash","tool_input":{"command":"rm -rf /"}}`},
	}
	count := func(policy string, both func(a, b func())) (int, string) {
		w := newWorld(t, policy)
		w.plant(t, foreignFiles["ironclaw"].name, foreignFiles["ironclaw"].text)
		var out [2]string
		ask := func(i int) func() {
			return func() {
				cmd := w.from(t, built, "grapnel-hook", reports[i].text, strings.Fields(reports[i].args)...)
				text, err := cmd.Output()
				out[i] = fmt.Sprint(string(text), err)
			}
		}
		both(ask(0), ask(1))
		return len(w.records(t)), out[0] + out[1]
	}
	for name, both := range map[string]func(a, b func()){
		"one after the other": func(a, b func()) { a(); b() },
		"at the same time": func(a, b func()) {
			done := make(chan struct{})
			go func() { defer close(done); a() }()
			b()
			<-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, wantOut := count(guard, both)
			got, gotOut := count("version: 1\nload: [ironclaw]\n", both)
			if want != got || strings.Count(gotOut, "Not this one.") != strings.Count(wantOut, "Not this one.") || strings.Count(wantOut, "Not this one.") != 2 {
				t.Errorf("there are %d Records, and without foreign files %d: %s, %s", got, want, gotOut, wantOut)
			}
		})
	}
}

// If an agent ends grapnel-hook with a signal that a process can catch, the processes that it started
// end too, and so do their child processes.
func TestLoadEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signal syscall.Signal
		group  bool
		trap   string
	}{
		"asked":          {syscall.SIGTERM, false, ""},
		"interrupted":    {syscall.SIGINT, false, ""},
		"its group":      {syscall.SIGTERM, true, ""},
		"a deaf program": {syscall.SIGTERM, false, "trap '' TERM INT HUP; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "version: 1\nload: [flyto]\n")
			pid := filepath.Join(w.dir, "pid")
			w.write(t, "flyto-hooks.json", `[{"type": "pre_tool_use", "command": `+quoted(tt.trap+"echo $$ $PPID > "+pid+".new; mv "+pid+".new "+pid+"; while :; do sleep 0.2; done")+`}]`)
			cmd := w.from(t, built, "grapnel-hook", claude.write(claude.call(ls)), claude.args...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the hook begins", func() bool { _, err := os.Stat(pid); return err == nil })
			to := cmd.Process.Pid
			if tt.group {
				to = -to
			}
			if err := syscall.Kill(to, tt.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			text, err := os.ReadFile(pid)
			if err != nil {
				t.Fatal(err)
			}
			for word := range strings.FieldsSeq(string(text)) {
				n, err := strconv.Atoi(word)
				if err != nil {
					t.Fatal(err)
				}
				await.Until(t, "process "+word+" ends", func() bool { return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) || zombie(n) })
			}
		})
	}
}

// grapnel-hook --serve answers each event separately.
func TestLoadServed(t *testing.T) {
	t.Parallel()
	w := loads(t, "ironclaw")
	var in strings.Builder
	const events = 6
	for i := range events {
		command := rm
		if i%2 == 1 {
			command = ls
		}
		fmt.Fprintf(&in, `{"grapnel":1,"type":"event","id":"%d","event":%s}`+"\n", i, claude.write(claude.call(command)))
	}
	cmd := w.from(t, built, "grapnel-hook", in.String(), "claude-code", "--serve")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for line := range strings.Lines(string(out)) {
		var m struct {
			Type, ID string
			Reply    struct{ Stdout string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.Type != "answer" {
			continue
		}
		answers++
		if n, _ := strconv.Atoi(m.ID); strings.Contains(m.Reply.Stdout, "Not this one.") != (n%2 == 0) {
			t.Errorf("%s", line)
		}
	}
	if answers != events || len(w.records(t)) != events {
		t.Errorf("%d answers and %d Records, want %d", answers, len(w.records(t)), events)
	}
}

// If a foreign file becomes invalid or is deleted, its last valid content stays active.
func TestLoadKeeps(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(file string) error{
		"broken": func(file string) error { return os.WriteFile(file, []byte("{"), 0o600) },
		"gone":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for format, f := range foreignFiles {
				if format == "claude-code" {
					continue // the agent runs them itself
				}
				w := loads(t, format)
				for range 3 {
					run(t, w.hook(t, stdin(ls), claude.args...))
				}
				if err := change(filepath.Join(w.root, f.name)); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if r := blocked(t, w.hook(t, stdin(rm), claude.args...)); !strings.Contains(r.stdout, "Not this one.") {
						t.Errorf("%s: %v", format, r)
					}
				}
				// The same is true for an invalid policy.
				w.write(t, "grapnel.yaml", "version: 1\nload: [")
				if r := blocked(t, w.hook(t, stdin(rm), claude.args...)); !strings.Contains(r.stdout, "Not this one.") {
					t.Errorf("%s, with a broken policy: %v", format, r)
				}
			}
		})
	}
}
