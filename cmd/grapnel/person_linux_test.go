//go:build system

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/display"
)

const personPolicy = `version: 1
hooks:
  - {name: ask-push, on: tool.before, match: {command: git push}, ask: Push now?}
`

// A command that a person must run refuses below an agent, at a terminal that the agent made, and
// below a shell or script of the agent. Below a shell of the user it runs.
func TestCommandsForPersons(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("it needs bash")
	}
	below := t.TempDir()
	scripts := map[string]string{
		"shell":        "exec " + bash + " -c '\"$@\"; exit $?' bash \"$@\"",
		"claude":       "\"$@\"; exit $?", // a script: its interpreter is the process
		"shell-of-one": below + "/claude " + bash + " -c '\"$@\"; exit $?' bash \"$@\"; exit $?",
		"renamed":      "exec -a codex " + bash + " -c '\"$@\"; exit $?' bash \"$@\"",
		"copied":       below + "/gemini -c '\"$@\"; exit $?' bash \"$@\"",
		"argument":     bash + " -c '\"$@\"; exit $?' claude \"$@\"; exit $?", // $0 of a line is no script
	}
	for name, text := range scripts {
		programs.Write(t, filepath.Join(below, name), "#!"+bash+"\n"+text+"\n")
	}
	shell, err := os.ReadFile(bash)
	if err != nil {
		t.Fatal(err)
	}
	programs.Write(t, filepath.Join(below, "gemini"), string(shell))
	agents := map[string]string{
		"shell": "", "argument": "", "claude": "Claude Code (process [0-9]+, claude)",
		"shell-of-one": "Claude Code (process [0-9]+, claude)", "renamed": "Codex CLI (process [0-9]+, bash)", "copied": "Gemini CLI (process [0-9]+, gemini)",
	}
	event := `{"session_id":"s","turn_id":"t","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git push"}}`
	for args, want := range map[string]string{
		"allow":                                  "allow a call",
		"pause 10m":                              "pause",
		"hooks disable ask-push --reason x":      "switch a hook off",
		"trust p/grapnel.yaml":                   "trust a policy",
		"trust p/grapnel.yaml --digest sha256:0": "trust a policy",
		"untrust gone.yaml":                      "end the trust in a policy",
		"uninstall --all":                        "uninstall Grapnel",
		"uninstall --all --yes":                  "uninstall Grapnel",
		"uninstall codex --digest sha256:0":      "uninstall Grapnel",
		"daemon stop":                            "stop the daemon",
		"daemon restart":                         "restart the daemon",
		"ui --confirm 1234-5678":                 "confirm a browser",
		"bundle sign p/grapnel.yaml":             "sign a policy",
		// A person decides nothing with these.
		"pause --off":                          "",
		"allow --list":                         "",
		"trust --list":                         "",
		"uninstall --all --dry-run":            "",
		"bundle sign p/grapnel.yaml --dry-run": "",
		"daemon status":                        "",
	} {
		for parent, agent := range agents {
			if args == "daemon restart" && agent == "" {
				continue // it would start a daemon; the scripts about daemons do
			}
			t.Run(args+" below "+parent, func(t *testing.T) {
				t.Parallel()
				dir, home := t.TempDir(), t.TempDir()
				for name, content := range map[string]string{"r/grapnel.yaml": personPolicy, "p/grapnel.yaml": personPolicy} {
					programs.Write(t, filepath.Join(dir, name), content)
				}
				if err := settle(dir); err != nil {
					t.Fatal(err)
				}
				env := append(os.Environ(), "HOME="+home, "CI=", "XDG_CONFIG_HOME=")
				stop := exec.Command("grapnel-hook", "codex", "--root", "r")
				stop.Dir, stop.Env, stop.Stdin = dir, env, strings.NewReader(event)
				if out, err := stop.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				program, err := exec.LookPath("grapnel")
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(filepath.Join(below, parent), append([]string{program, "--root", "r"}, strings.Fields(args)...)...)
				cmd.Dir, cmd.Env = dir, env
				term := display.Start(t, cmd, 160, 60)
				term.Press(t, "n\n")
				exit := term.Exit(t)
				shown := strings.Join(strings.Fields(term.Raw()), " ")
				refusal := regexp.MustCompile(strings.NewReplacer("(", `\(`, ")", `\)`).Replace(agent) + " runs this command, and only a person can " + want + " .*hint: the user runs it, in a terminal of their own")
				if refused := refusal.MatchString(shown); agent != "" && want != "" && (exit != exitFailure || !refused) {
					t.Errorf("exit %d:\n%s\nwant exit %d and %s", exit, term.Raw(), exitFailure, refusal)
				} else if (agent == "" || want == "") && strings.Contains(shown, "runs this command") {
					t.Errorf("exit %d:\n%s\nwant no refusal", exit, term.Raw())
				}
			})
		}
	}
}
