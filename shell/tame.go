package shell

import (
	"slices"
	"strings"
)

// tameTools lists tools that print names, numbers and dates: output that is never a command line
// if it is inserted into one. A slash separates a tool and its subcommand.
const tameTools = " pwd mktemp date dirname basename realpath readlink id whoami hostname uname nproc arch getconf seq ls lsof pgrep pidof wc " +
	"head tail grep cut sort uniq git/rev-parse git/describe git/branch git/symbolic-ref git/merge-base git/rev-list git/diff git/ls-files git/log " +
	"docker/ps docker/container docker/images docker/inspect docker/compose docker-compose/ps podman/ps kubectl/get kubectl/config npm/prefix npm/root npm/bin " +
	"yarn/bin pnpm/bin go/env go/list brew/--prefix python/--version python3/--version node/--version node/-v gcloud/config "

// tame reports whether a command substitution, given as written, only uses tools of tameTools:
// $(mktemp -d), $(docker ps -q | head -1).
func tame(text string) bool {
	inner, ok := strings.CutPrefix(text, "$(")
	if ok {
		inner, ok = strings.CutSuffix(inner, ")")
	} else if len(text) > 2 && text[0] == '`' && text[len(text)-1] == '`' {
		inner, ok = text[1:len(text)-1], true
	}
	if inner = strings.ReplaceAll(inner, "2>/dev/null", ""); !ok || strings.ContainsAny(inner, ";&`<>\n") || strings.Contains(inner, "$(") {
		return false
	}
	for stage, more := "", true; more; {
		stage, inner, more = strings.Cut(inner, "|")
		words := strings.Fields(stage)
		if len(words) == 0 {
			return false
		}
		if words[0] == "awk" && len(words) == 3 && words[1] == "'{print" && strings.HasPrefix(words[2], "$") {
			continue
		}
		if !strings.Contains(tameTools, " "+words[0]+" ") && (len(words) < 2 || !strings.Contains(tameTools, " "+words[0]+"/"+words[1]+" ")) {
			return false
		}
	}
	return true
}

// tainted records a variable to which the line gives an unknown value.
func (w *walker) tainted(name string) {
	if len(w.taint) < maxVars {
		w.taint = append(w.taint, name)
	}
}

// fromEnvironment reports whether a word comes from the environment or from a harmless
// substitution. It may have any value, but not one that the line itself read or fetched.
func (w *walker) fromEnvironment(show string) bool {
	if strings.HasPrefix(show, "$(") || strings.HasPrefix(show, "`") {
		return tame(show)
	}
	if show == "{}" {
		return true
	}
	name, ok := strings.CutPrefix(show, "$")
	if !ok || name == "" {
		return false
	}
	if name[0] == '{' {
		if name = name[1:]; strings.ContainsAny(name, "$`<>(!@") {
			return false
		}
	}
	end := 0
	for end < len(name) && nameByte(name[end]) {
		end++
	}
	return end > 0 && !slices.Contains(w.taint, name[:end])
}

// givenHoles reports whether all computed pieces of a nested line come from the environment or
// from harmless substitutions. If one of them is a command name, the command itself reports it.
func (w *walker) givenHoles(text string) bool {
	for {
		i := strings.IndexByte(text, hole)
		if i < 0 {
			return true
		}
		show, n := w.holeAt(text[i:])
		if !w.fromEnvironment(show) {
			return false
		}
		text = text[i+n:]
	}
}

// oneWord reports whether a word consists of plain text and variables from the environment, as in
// $USER@$HOST. In the position of a name it is that name.
func (w *walker) oneWord(word Word) bool {
	if word.c == nil {
		return true
	}
	if strings.HasPrefix(word.c.head, "-") {
		return false
	}
	return word.c.feed == nil && word.c.glob == "" && word.c.code != "" && w.givenHoles(word.c.code)
}

// helps reports whether a command only requests help: its last word is a help option, and the
// words before it are names of subcommands. A program that may treat the words as files ("rm src
// --help") does not match.
func helps(row *program, args []Word) bool {
	last := len(args) - 1
	if last < 0 || !args[last].Literal {
		return false
	}
	switch text := args[last].Text; {
	case text == "--help" || text == "--version" || text == "-help" && row != nil && row.style&dashed != 0:
	case text == "-h" && last > 0 && row != nil && row.words > 0 && !has(row.args, "h"):
	case text == "help" && last > 0 && row != nil && row.name == "aws":
	default:
		return false
	}
	if last > 0 && row != nil && (row.style&flat != 0 || row.runs != runsNothing) {
		return false
	}
	for _, a := range args[:last] {
		if !a.Literal || a.Text == "" {
			return false
		}
		for i := 0; i < len(a.Text); i++ {
			if b := a.Text[i]; (b < 'a' || b > 'z') && (i == 0 || b != '-' && b != ':' && b != '_' && (b < '0' || b > '9')) {
				return false
			}
		}
	}
	return true
}
