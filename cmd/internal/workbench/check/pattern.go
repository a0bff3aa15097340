package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/shell"
)

// The characters that text programs and chats put in place of the ones on the keyboard.
const (
	typographicQuotes = "“”„‟«»‘’‚"
	typographicDashes = "–—−‐‑"
)

// oddPattern returns why a pattern of a match key probably does not match as its author means it, and
// the way out. It returns "" for all other patterns.
func oddPattern(key, text string) (problem, hint string) {
	free := key == "text" || key == "content" || key == "prompt" // the pattern is literal text
	if problem, hint = oddCharacters(key, text, free); problem != "" {
		return problem, hint
	}
	if _, ok := match.RegexpOf(text); ok && key != "command" && !isPathKey(key) {
		return "", "" // the key supports regular expressions
	}
	if flagged := regexpFlags().FindStringSubmatch(text); flagged != nil && !isPathKey(key) && key != "command" {
		return fmt.Sprintf("the pattern %q is plain text: a regular expression ends with a slash", text), fmt.Sprintf("write /(?%s)%s/", strings.Trim(flagged[2], "gu"), flagged[1])
	}
	switch {
	case key == "command":
		return oddCommand(text)
	case isPathKey(key):
		return oddPath(key, text)
	case key == "host":
		if _, rest, ok := strings.Cut(text, "://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			return fmt.Sprintf("a host has no scheme and no path, so %q never matches", text), fmt.Sprintf("write `host: %s`, or `url: %s`", host, text)
		}
	case key == "branch" || key == "pushes":
		return oddBranch(key, text)
	case key == "mcp" && strings.HasPrefix(text, "mcp__"):
		server, _, _ := strings.Cut(strings.TrimPrefix(text, "mcp__"), "__")
		return fmt.Sprintf("`mcp` is the name of a server, so %q never matches", text), fmt.Sprintf("write `mcp: %s`, or `tool: %s`", server, text)
	case key == "tool":
		if problem, hint = oddTool(text); problem != "" {
			return problem, hint
		}
	}
	if free {
		if strings.HasPrefix(text, "*") && strings.HasSuffix(text, "*") && len(text) > 2 && !strings.HasPrefix(text, "**") {
			return fmt.Sprintf("`%s` looks for plain text, also for the stars in %q", key, text), fmt.Sprintf("write `%s: %s`: it matches anywhere in the text", key, strings.Trim(text, "*"))
		}
		return looksLike(textRegexp(), text, fmt.Sprintf("`%s` looks for plain text", key), fmt.Sprintf("write the regular expression between slashes: `%s: /%s/`", key, text))
	}
	hint = fmt.Sprintf("write a list, or the regular expression between slashes: `%s: /%s/`", key, text)
	if plain := globOf(text); !nameRegexp(key).MatchString(plain) {
		hint = fmt.Sprintf("write `%s: \"%s\"`, or the regular expression between slashes", key, plain)
	}
	return looksLike(nameRegexp(key), text, fmt.Sprintf("the pattern of `%s` is a glob", key), hint)
}

// oddBranch returns the problem of a word that is never the name of a branch or a reference.
func oddBranch(key, text string) (problem, hint string) {
	name := strings.TrimPrefix(text, "refs/heads/")
	for _, remote := range []string{"origin/", "upstream/", "refs/remotes/origin/"} {
		if rest, ok := strings.CutPrefix(name, remote); ok && rest != "" {
			return fmt.Sprintf("%q is the name of a branch in the copy of a remote repository, so it rarely matches", text), fmt.Sprintf("write `%s: %s`", key, rest)
		}
	}
	if at := strings.LastIndexAny(name, ": "); at >= 0 && at < len(name)-1 {
		return fmt.Sprintf("the name of a branch has no blank and no colon, so %q never matches", text), fmt.Sprintf("write only the branch: `%s: %s`", key, name[at+1:])
	}
	wrong := strings.ContainsAny(name, " ~^:") || strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//") ||
		strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".") || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/")
	switch {
	case name == "HEAD" || name == "@":
		return fmt.Sprintf("%s is not the name of a branch, so it never matches", name), fmt.Sprintf("write the name of a branch, for example `%s: main`", key)
	case wrong:
		return fmt.Sprintf("git accepts no branch with the name %q, so it never matches", text), fmt.Sprintf("write the name of a branch, for example `%s: main`", key)
	}
	return "", ""
}

// globOf returns the glob for a regular expression that has only anchors, dots and any text.
func globOf(text string) string {
	if !strings.HasPrefix(text, "^") {
		text = ".*" + text
	}
	if !strings.HasSuffix(text, "$") {
		text += ".*"
	}
	text = strings.NewReplacer(".*", "*", `\.`, ".", `\/`, "/").Replace(strings.TrimSuffix(strings.TrimPrefix(text, "^"), "$"))
	return strings.ReplaceAll(text, "**", "*")
}

func isPathKey(key string) bool { return key == "path" || key == "reads" || key == "writes" }

// looksLike returns the problem and the hint if a pattern looks like a regular expression.
func looksLike(re *regexp.Regexp, text, is, hint string) (string, string) {
	found := re.FindString(text)
	if found == "" {
		return "", ""
	}
	return fmt.Sprintf("%q looks like a regular expression (because of %s), but %s", text, strings.TrimSpace(found), is), hint
}

// Marks of regular expressions. They are rare in the patterns of the keys.
var (
	regexpFlags = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/(.+)/(i|g|m|s|u|gi|ig|gm|im|is)$`) })
	textRegexp  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.[*+]|\\[dwsbDWSB.]|\(\?[a-z:]|\[(a-z|A-Z|0-9)`) })
	pathRegexp  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\^|\$$|\\[dwsbDWSB./]|\.\+|\|`) })
	// a command with .* as a whole word, at its beginning or before options; .env.* is a usual glob
	commandRegexp = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\^|\$$|^/.*/$|\\[dwsbDWSB]|(^|\s)\.\*|\.\+|^[^\s.*?]*[^\s.*?\d]\.\*|\.\*--?`)
	})
	toolRegexp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[|^$+\\]|^\.\*|_\.\*|[()]|^/|/$`) })
	urlRegexp  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\^|\$$|^\.\*|\\[./dwsb]|\||\.\+`) })
)

func nameRegexp(key string) *regexp.Regexp {
	if key == "url" || key == "host" {
		return urlRegexp()
	}
	return toolRegexp()
}

// oddCharacters finds quotes, dashes and spaces that look like the ones of a keyboard.
func oddCharacters(key, text string, free bool) (problem, hint string) {
	words := strings.Fields(text)
	if free {
		words = []string{text}
	}
	for _, word := range words {
		begins, ends := strings.IndexAny(word, typographicQuotes) == 0, strings.TrimRight(word, typographicQuotes) != word
		if begins && ends || !free && (begins || ends) {
			return fmt.Sprintf("the typographic quotes are part of the pattern %q", text),
				fmt.Sprintf("write %s: '%s'", key, strings.Map(without(typographicQuotes), text))
		}
		if dash := strings.IndexAny(word, typographicDashes); dash == 0 && key == "command" {
			return fmt.Sprintf("the dash in %q is not the one that begins an option", word), "write the option with - from the keyboard"
		}
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)) }); i >= 0 && !free {
		return fmt.Sprintf("the pattern has the invisible character %U", []rune(text[i:])[0]), "write the pattern again, with plain spaces"
	}
	return "", ""
}

func without(set string) func(rune) rune {
	return func(r rune) rune {
		if strings.ContainsRune(set, r) {
			return -1
		}
		return r
	}
}

// oddTool finds a list that is written as a glob, and rules in the syntax of Claude Code.
func oddTool(text string) (problem, hint string) {
	inner, begins := strings.CutPrefix(text, "[")
	if inner, ends := strings.CutSuffix(inner, "]"); begins && ends && !strings.ContainsAny(inner, "[]") {
		return fmt.Sprintf("in a glob, %s is one letter of a set, which is the name of no tool", text), fmt.Sprintf("write a list, without quotes: `tool: [%s]`", inner)
	}
	if name, args, ok := strings.Cut(text, "("); ok && strings.HasSuffix(args, ")") && name != "" && !strings.ContainsAny(name, "^|.*") {
		args = strings.TrimSuffix(strings.Replace(args, ":*", "", 1), ")")
		return fmt.Sprintf("%q is a permission rule of Claude Code, and no tool has this name", text), fmt.Sprintf("write `tool: %s` and a key for what is in the parentheses, such as `command: %s` or `path: %[2]s`", name, args)
	}
	return "", ""
}

// regexpPrograms take regular expressions as arguments, so a pattern for their commands may contain one.
var regexpPrograms = []string{"killall", "pkill", "pgrep", "grep", "egrep", "rg", "ag", "sed", "awk", "find", "fd", "perl", "expr"}

// oddCommand finds a command pattern that looks like a regular expression.
func oddCommand(text string) (problem, hint string) {
	if program, _, _ := strings.Cut(text, " "); slices.Contains(regexpPrograms, program) {
		return "", ""
	}
	hint = "write words and globs, such as `command: git push --force`: further words may follow"
	plain := regexp.MustCompile(`\\s[+*]?|\.[*+]`).ReplaceAllString(text, " ")
	plain = strings.Trim(regexp.MustCompile(`\\b|^\^|^/|/$|\$$`).ReplaceAllString(plain, ""), " ")
	plain = strings.Join(strings.Fields(plain), " ")
	if _, err := shell.Compile(plain); err == nil && !commandRegexp().MatchString(plain) && !strings.ContainsRune(plain, '\\') {
		hint = fmt.Sprintf("write `command: %s`: further words may follow", plain)
	}
	if slices.Contains(strings.Fields(text), ".*") {
		hint += "; for names that begin with a dot, write [.]*"
	}
	return looksLike(commandRegexp(), text, "a command pattern has words and globs", hint)
}

// oddPath finds a path pattern that looks like a regular expression, or that names a variable.
func oddPath(key, text string) (problem, hint string) {
	if strings.HasPrefix(text, "$") || strings.HasPrefix(text, "%") {
		return fmt.Sprintf("a path pattern has no variables, so %q never matches", text), "write ~/ for the home directory, or the path itself"
	}
	if strings.HasPrefix(text, ".") && !strings.Contains(text, "/") && !strings.ContainsAny(text, "*?[{") && strings.Trim(text, ".") != "" {
		return fmt.Sprintf("%q is only the file in the root of the project", text), fmt.Sprintf("write `%s: \"**/%s\"` for every directory, or \"./%[2]s\"", key, text)
	}
	return looksLike(pathRegexp(), text, "a path pattern is a glob", fmt.Sprintf("write a glob, such as `%s: \"**/.env\"` or `%[1]s: \"**/*.pem\"`", key))
}
