package install

import (
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/shell"
)

// hookProgram is the base name of the program in every installed command. It is used to recognize
// entries of Grapnel.
const hookProgram = "grapnel-hook"

// A Hook describes the installed command and how it finds its installation.
type Hook struct {
	Program string // absolute path of grapnel-hook
	ID      string // token of the installation, see newToken
	Root    string // if set, the command has --root instead of the token
}

// Command returns the shell line for the event in the agent's settings.
//
// It is a line for a POSIX shell and not a program with a list of arguments, because only newer
// versions of Claude Code support the latter.
func (h Hook) Command(a Agent, event string) string {
	words := append([]string{filepath.ToSlash(h.Program)}, h.args(a, event)...)
	for i, w := range words {
		words[i] = shell.QuoteWord(w)
	}
	return strings.Join(words, " ")
}

// args returns the arguments of the hook program. event is empty for a plugin, which sends the
// names of its events.
func (h Hook) args(a Agent, event string) []string {
	var words []string
	if !a.Setup.Anonymous {
		if words = append(words, a.Name); event != "" {
			words = append(words, event)
		}
	}
	if h.Root != "" {
		return append(words, "--root", filepath.ToSlash(h.Root))
	}
	return append(words, "--id", h.ID)
}

// powershell returns the line of Command for PowerShell, where a quoted program needs the call
// operator.
func (h Hook) powershell(a Agent, event string) string {
	words := append([]string{filepath.ToSlash(h.Program)}, h.args(a, event)...)
	for i, w := range words {
		if shell.QuoteWord(w) != w || strings.ContainsAny(w, ",@") { // these would be a list and a variable
			words[i] = "'" + strings.ReplaceAll(w, "'", "''") + "'"
		}
	}
	return "& " + strings.Join(words, " ")
}

// check returns an error if a value would be changed by the agent's settings or by the shell.
func (h Hook) check(a Agent) error {
	if base := programName(h.Program); base != hookProgram {
		return usagef("the program must be called %s, got %q", hookProgram, h.Program)
	}
	for _, p := range []struct{ what, path string }{{"the program", h.Program}, {"--root", h.Root}} {
		what, path := p.what, p.path
		switch {
		case path == "":
		case !filepath.IsAbs(path):
			return usagef("%s must be an absolute path, got %q", what, path)
		case !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl):
			return usagef("the path of %s has characters that a settings file cannot contain: %q", what, path)
		case a.Setup.Cuts && (strings.Contains(path, "//") || strings.Contains(path, "/*")):
			return usagef("%s: %s removes comments from its settings, which would damage the path %q; use another path", what, a.Title, path)
		case a.Setup.Vars && strings.Contains(path, "$"):
			return usagef("%s: %s replaces $ in its settings, which would damage the path %q; use another path", what, a.Title, path)
		}
	}
	return nil
}

// An Entry is an entry of Grapnel in an agent's settings.
type Entry struct {
	Event   string `json:"event"`
	Command string `json:"command"`
	Program string `json:"program"`
	ID      string `json:"id,omitempty"`   // token of its installation
	Root    string `json:"root,omitempty"` // value of --root
}

// parseEntry reports whether a command is from Grapnel, and parses it. args are the arguments of
// the form without a shell, where command is only the program.
//
// It looks at the command and not at another key of the entry, because agents and other tools
// that rewrite the file drop unknown keys.
func parseEntry(command string, args []string) (Entry, bool) {
	e := Entry{Command: command}
	words := append([]string{command}, args...)
	if len(args) == 0 {
		words = splitWords(command)
	}
	if len(words) > 0 && words[0] == "&" { // the call operator of PowerShell
		words = words[1:]
	}
	if len(words) < 2 || programName(words[0]) != hookProgram {
		return e, false
	}
	e.Program = words[0]
	for i, w := range words[1:] {
		flag, value, ok := strings.Cut(w, "=")
		if !ok && i+2 < len(words) {
			value = words[i+2]
		}
		switch flag {
		case "--id":
			e.ID = value
		case "--root":
			e.Root = value
		}
	}
	return e, e.ID != "" || e.Root != ""
}

// programName returns the last element of a path of any system, without .exe.
func programName(path string) string {
	return strings.TrimSuffix(path[strings.LastIndexAny(path, `/\`)+1:], ".exe")
}

// splitWords splits a simple shell line at white space and removes quotes. It recognizes lines
// that Grapnel has written; expansions and operators stay text.
func splitWords(line string) []string {
	var words []string
	var word strings.Builder
	var quoted byte // the current quote
	inWord := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quoted == '\'' && c != '\'', quoted == '"' && c != '"' && c != '\\':
			word.WriteByte(c)
		case quoted == c && c != 0:
			quoted = 0
		case c == '\\' && i+1 < len(line):
			i++
			if quoted == '"' && !strings.ContainsRune("$`\"\\\n", rune(line[i])) {
				word.WriteByte(c)
			}
			word.WriteByte(line[i])
			inWord = true
		case c == '\'' || c == '"':
			quoted, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}
