//go:build e2e

package readers

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/proofs/readers/tools"
)

// A completer is a shell that completes lines. Its script gets the lines as arguments. For each
// line it prints "? LINE", and then one line per offered word.
type completer struct {
	tool   tools.Program
	file   string // destination of "grapnel completion" below the home directory, as in its help
	args   []string
	script string
}

var completers = []completer{
	{
		tool: tools.Bash, file: ".local/share/bash-completion/completions/grapnel", args: []string{"--noprofile", "--norc"},
		// Like in bash: the first TAB after a name loads its file, by the package
		// bash-completion.
		script: `
source /usr/share/bash-completion/bash_completion
compopt() { :; } # is for a line that somebody types
_completion_loader grapnel
function=$(complete -p grapnel | sed 's/.* -F \([^ ]*\) .*/\1/')
for COMP_LINE; do
	printf '? %s\n' "$COMP_LINE"
	COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_KEY=9 COMPREPLY=()
	# Its words are split where COMP_WORDBREAKS says.
	mapfile -t COMP_WORDS < <(grep -oE '[^[:space:]:=]+|[:=]+' <<<"$COMP_LINE")
	if [[ $COMP_LINE == *[[:space:]:=] ]]; then COMP_WORDS+=(''); fi
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	"$function" grapnel "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	for word in "${COMPREPLY[@]}"; do printf '%s\n' "$word"; done
done
`,
	},
	{
		tool: tools.Zsh, file: "functions/_grapnel", args: []string{"-f"},
		// Presses TAB in a zsh on a terminal, and prints the words that zsh would add.
		script: `
zmodload zsh/zpty
zpty z zsh -f -i
until_seen() {
	local chunk
	REPLY=
	while [[ $REPLY != *$1* ]]; do zpty -r z chunk || exit 3; REPLY+=$chunk; done
}
cat >$HOME/setup <<'SETUP'
PROMPT= PS2= RPS1=
unset zle_bracketed_paste
unsetopt prompt_sp prompt_cr
fpath=(~/functions $fpath)
autoload -Uz compinit
compinit -u -d ~/dump
compadd() {
	local -a words
	if [[ ${@[1,(i)(-|--)]} == *-[OAD]\ * ]]; then builtin compadd "$@"; return; fi
	builtin compadd -A words "$@"
	print -rl -- "<"${^words}">"
}
complete-it() { zle complete-word; print -r -- DO''NE; zle kill-whole-line; }
zle -N complete-it
bindkey '^I' complete-it
print -r -- REA''DY
SETUP
zpty -w z 'source ~/setup'
until_seen READY
for line; do
	print -r -- "? $line"
	zpty -w -n z "$line"$'\t'
	until_seen DONE
	for found in ${(f)REPLY//$'\r'/}; do
		[[ $found == *\<*\> ]] && print -r -- ${${found##*\<}%\>}
	done
done
zpty -d z
`,
	},
	{
		tool: tools.Fish, file: ".config/fish/completions/grapnel.fish",
		script: `
for line in $argv
	echo "? $line"
	complete -C $line
end
`,
	},
}

// Each shell loads the output of "grapnel completion" from the location in its help text, and
// offers commands, flags, agents, the hooks of the policy, and sessions.
func TestCompletion(t *testing.T) {
	t.Parallel()
	cases := []struct {
		line string   // ROOT is a directory for policy and state
		want []string // words that must be offered
		not  []string // prefixes that no offered word may have
	}{
		{"grapnel che", []string{"check"}, []string{"install"}},
		{"grapnel daemon ", []string{"start", "stop", "status", "unit"}, nil},
		{"grapnel install ", []string{"claude-code", "codex", "opencode"}, []string{"grapnel"}},
		{"grapnel install claude-code co", []string{"codex", "copilot-cli"}, []string{"claude-code", "cline"}},
		{"grapnel log --se", []string{"--session"}, []string{"--hook"}},
		{"grapnel log --agent gem", []string{"gemini-cli"}, []string{"codex"}},
		{"grapnel log --event tool.", []string{"tool.before", "tool.after"}, []string{"prompt.before"}},
		{"grapnel log --root ROOT --hook no-", []string{"no-force-push"}, []string{"remote-code", "told"}},
		{"grapnel log --root ROOT --session se", []string{"session-1", "session-2"}, []string{"agent:"}},
		{"grapnel log --root ROOT --session ag", []string{"agent:main:1"}, []string{"session"}},
		{"grapnel install --scope ", []string{"user", "project", "managed"}, nil},
		{"grapnel schema ", []string{"policy", "test"}, nil},
		{"grapnel check de", []string{"demo.yaml"}, nil},
	}
	for _, sh := range completers {
		t.Run(sh.tool.Name, func(t *testing.T) {
			t.Parallel()
			path := sh.tool.Path(t)
			grapnel := offline.Program(t, "grapnel")
			home := t.TempDir()
			env := []string{"HOME=" + home, "PATH=" + filepath.Dir(grapnel) + ":" + os.Getenv("PATH"), "TERM=dumb", "LC_ALL=C.UTF-8"}
			write := func(name, text string) string {
				name = filepath.Join(home, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return name
			}
			run := func(stdin, name string, args ...string) string {
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir, cmd.Env, cmd.Stdin = home, env, strings.NewReader(stdin)
				var problems strings.Builder
				cmd.Stderr = &problems
				out, err := cmd.Output()
				if err != nil || problems.Len() > 0 {
					t.Fatalf("%s %v: %v\n%s\n%s", name, args, err, problems.String(), out)
				}
				return string(out)
			}
			root := filepath.Join(home, "root")
			cases := slices.Clone(cases)
			for i := range cases {
				cases[i].line = strings.ReplaceAll(cases[i].line, "ROOT", root)
			}
			write("root/grapnel.yaml", `version: 1
hooks:
  - {name: no-force-push, on: tool.before, match: {command: git push --force}, block: Push a new branch.}
  - {name: told, on: session.start, context: Be kind.}
`)
			write("demo.yaml", "version: 1\n")
			for _, session := range []string{"session-1", "session-2", "agent:main:1"} {
				run(`{"hook_event_name":"PreToolUse","session_id":"`+session+`","cwd":"/tmp","tool_name":"Bash","tool_input":{"command":"git status"}}`, grapnel, "hook", "claude-code", "--root", root)
			}
			write(sh.file, run("", grapnel, "completion", sh.tool.Name))
			args := append(slices.Clone(sh.args), write("ask", sh.script))
			for _, c := range cases {
				args = append(args, c.line)
			}
			offered := map[string][]string{}
			line := ""
			for l := range strings.Lines(run("", path, args...)) {
				l = strings.TrimRight(l, "\n")
				if asked, ok := strings.CutPrefix(l, "? "); ok {
					line = asked
					continue
				}
				word, _, _ := strings.Cut(l, "\t") // the description follows
				offered[line] = append(offered[line], strings.TrimSpace(word))
			}
			for _, c := range cases {
				for _, want := range c.want {
					if !slices.Contains(offered[c.line], want) {
						t.Errorf("for %q it offers %q, want %q among that", c.line, offered[c.line], want)
					}
				}
				for _, not := range c.not {
					if slices.ContainsFunc(offered[c.line], func(w string) bool { return strings.HasPrefix(w, not) }) {
						t.Errorf("for %q it offers %q, want nothing with %q", c.line, offered[c.line], not)
					}
				}
			}
		})
	}
}
