// Package hookfile reads the settings files of mini-claw-code.
//
// It is exported because package policy needs it, and is not an API.
package hookfile

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/internal/tree/toml"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// The dialects, copied once: reading files uses their tables many times and does not change them.
var (
	miniclaw   = sync.OnceValue(dialect.Miniclaw)
	claudeCode = sync.OnceValue(dialect.ClaudeCode)
)

// Format is the format of mini-claw: the section `hooks` of its settings, in TOML or JSON:
//
//	[[hooks.pre_tool]]
//	tool_pattern = "bash"
//	command = "./check.sh"
//	timeout_ms = 3000
//
// The book about mini-claw-code also has the form of Claude Code, but without inner lists:
//
//	{"hooks": {"PreToolUse": [{"matcher": "Bash", "command": "./check.sh"}]}}
//
// A file with hooks replaces the hooks of earlier files. Hooks run one after the other, and the
// first with a non-zero exit code blocks.
var Format = &hookfiles.Format{
	Name:    "miniclaw",
	User:    []string{".config/mini-claw/config.toml", ".config/mini-claw/settings.json"},
	Project: []string{".mini-claw/config.toml", ".mini-claw/settings.json"},
	Managed: []string{"/etc/mini-claw/config.toml", "/etc/mini-claw/settings.json"},
	Parse:   parse,
}

func parse(files []hookfiles.File, brief bool) hookfiles.Found {
	r := &reader{hookfiles.NewReader(files, brief)}
	for i := range files {
		read := tree.ParseJSON
		if path.Ext(filepath.ToSlash(files[i].Path)) == ".toml" {
			read = toml.Parse
		}
		root := r.OpenWith(i, files[i].Data, read, tree.Object)
		hooks := root.Get("hooks")
		if hooks == nil {
			continue
		}
		if hooks.Kind != tree.Object {
			r.Fail(hooks, "hooks", "", "is %s, not a section", hooks.Kind)
			continue
		}
		if len(r.Hooks) > 0 && holdsItems(hooks) {
			r.Note(hooks, "hooks", "", "replaces the section of %s", files[r.Hooks[0].FileIndex].Path)
			r.Drop()
		}
		r.section(hooks)
	}
	return r.Found
}

// holdsItems reports whether any member of an object is a non-empty list.
func holdsItems(n *tree.Node) bool {
	return slices.ContainsFunc(n.Names, func(name string) bool { return len(n.Members[name].Items) > 0 })
}

type reader struct{ *hookfiles.Reader }

// A hookList is the name of a hook list, with its events and its key for the glob.
type hookList struct {
	name, pattern string
	on            []grapnel.Kind
}

var hookLists = []hookList{
	{"pre_tool", "tool_pattern", []grapnel.Kind{grapnel.ToolBefore}},
	{"post_tool", "tool_pattern", []grapnel.Kind{grapnel.ToolAfter, grapnel.ToolFailed}},
	{"PreToolUse", "matcher", []grapnel.Kind{grapnel.ToolBefore}},
	{"PostToolUse", "matcher", []grapnel.Kind{grapnel.ToolAfter, grapnel.ToolFailed}},
}

func (r *reader) section(hooks *tree.Node) {
	var known []string
	for _, l := range hookLists {
		known = append(known, l.name)
	}
	for _, name := range hooks.Names {
		at, list := "hooks."+name, hooks.Get(name)
		i := slices.Index(known, name)
		switch {
		case i < 0:
			r.Fail(list, at, wording.Nearest(name, known), "is not a list of hooks: use %s", strings.Join(known[:2], " and "))
			continue
		case list.Kind != tree.List:
			r.Fail(list, at, "", "is %s, not a list of hooks", list.Kind)
			continue
		}
		for j, n := range list.Items {
			r.hook(fmt.Sprintf("%s[%d]", at, j), &hookLists[i], n)
		}
	}
}

// defaultTimeout is the default timeout.
const defaultTimeout = 5 * time.Second

func (r *reader) hook(at string, list *hookList, n *tree.Node) {
	line, pattern, timeout := n.Get("command"), n.Get(list.pattern), n.Get("timeout_ms")
	switch {
	case n.Kind != tree.Object:
		r.Fail(n, at, "", "is %s, not an object", n.Kind)
		return
	case n.Get("hooks") != nil:
		r.Fail(n, at, "load the file with the format claude-code", "has an inner list of hooks, as in Claude Code")
		return
	case !line.Is(tree.Text) || strings.TrimSpace(line.Text) == "":
		r.Fail(n, at, "", "has no command")
		return
	}
	if list.pattern == "matcher" && pattern.Is(tree.Text) && pattern.Text == "" {
		pattern = nil // as in Claude Code
	}
	m, err := newMatcher(pattern)
	if err != nil {
		// In mini-claw, such a hook would run for all tools.
		r.Fail(pattern, at+"."+list.pattern, "omit it to match all tools", "%v", err)
		return
	}
	h := hookfiles.Hook{
		Hook: policyfile.Hook{
			Name: hookfiles.CalledAfter(line.Text, at), On: slices.Clone(list.on), Timeout: policyfile.Duration(defaultTimeout),
			Run: &policyfile.Command{Line: line.Text, Speaks: miniclaw().Name},
		},
		At: at, Sequential: true,
	}
	if m != nil {
		h.Matcher, m.key = m, list.pattern
		if !r.Brief {
			if hint := m.dead(); hint != "" {
				r.Note(pattern, at+"."+list.pattern, hint, "%q matches no known tool of mini-claw", m.source)
			}
		}
		h.Complete = m.complete
	}
	if timeout != nil {
		ms, ok := timeout.Number()
		if !ok || ms < 1 || ms != float64(int64(ms)) || ms > float64(hookfiles.MaxTimeout.Milliseconds()) {
			r.Note(timeout, at+".timeout_ms", "", "is %s, not a valid number of milliseconds, so it is ignored", match.Shorten(string(timeout.Raw)))
		} else {
			h.Timeout = policyfile.Duration(time.Duration(ms) * time.Millisecond)
		}
	}
	r.Add(n, h)
}

// matcher matches the complete name of a tool, as mini-claw calls it, with a glob. The key
// "matcher" comes from Claude Code, so its glob may also match the name that Claude Code uses.
type matcher struct {
	source string
	re     *regexp.Regexp // nil = the pattern is a name
	key    string         // tool_pattern or matcher
}

// newMatcher returns nil for a missing pattern, which matches all tools.
func newMatcher(n *tree.Node) (*matcher, error) {
	switch {
	case n == nil || n.Is(tree.Null):
		return nil, nil
	case n.Kind != tree.Text:
		return nil, fmt.Errorf("is %s, not text", n.Kind)
	}
	return compileMatcher(n.Text)
}

// Glob returns the Matcher of a mini-claw hook with this tool_pattern. It returns an error
// if the pattern is not a valid glob.
func Glob(pattern string) (grapnel.Matcher, error) { return compileMatcher(pattern) }

func compileMatcher(pattern string) (*matcher, error) {
	if strings.Trim(pattern, hookfiles.NameChars) == "" {
		return &matcher{source: pattern, key: "tool_pattern"}, nil
	}
	re, err := compileGlob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%q is not a glob: %w", pattern, err)
	}
	return &matcher{source: pattern, re: re, key: "tool_pattern"}, nil
}

// Match reports whether the tool's name matches the glob.
func (m *matcher) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	if m.matches(dialect.MiniclawSubject(ev)) {
		return true, nil
	}
	_, name := dialect.ClaudeSubject(ev)
	return m.key == "matcher" && m.matches(name), nil
}

func (m *matcher) matches(name string) bool {
	if m.re == nil {
		return name == m.source
	}
	return m.re.MatchString(name)
}

// Explain returns the text of the pattern.
func (m *matcher) Explain(*grapnel.Event, *grapnel.Verdict) string {
	return fmt.Sprintf("%s %q", m.key, m.source)
}

// tools lists the tools whose names the pattern may match.
func (m *matcher) tools() []dialect.ToolRow {
	if m.key == "matcher" {
		return slices.Concat(miniclaw().Tools, claudeCode().Tools)
	}
	return miniclaw().Tools
}

// dead returns a hint if the pattern matches no known tool.
func (m *matcher) dead() (hint string) {
	var known []string
	for _, tool := range m.tools() {
		if m.matches(tool.Native) {
			return ""
		}
		known = append(known, tool.Native)
	}
	if strings.HasPrefix(m.source, "mcp") {
		return ""
	}
	return cmp.Or(wording.Nearest(m.source, known), "valid values: "+strings.Join(known, ", "))
}

// nearest returns a policy match that is at least as wide as the pattern and close to it. nil
// matches every event.
func (m *matcher) nearest() *policyfile.Match {
	if strings.Trim(m.source, hookfiles.NameChars+"*?") != "" {
		return nil
	}
	return hookfiles.NearestTools(m.tools(), m.matches, []string{m.source})
}

// complete sets the match of a policy that is nearest to the pattern, and the loss.
func (m *matcher) complete(h *hookfiles.Hook) {
	if h.Match = m.nearest(); h.Match == nil {
		h.Unsupported = []string{fmt.Sprintf("%s %q", m.key, m.source)}
	} else if len(h.Match.Tool) > 1 {
		h.Unsupported = []string{fmt.Sprintf("%s %q is narrower than tool: %s", m.key, m.source, strings.Join(h.Match.Tool, ", "))}
	}
}

// compileGlob compiles a glob with the syntax of the Rust crate glob: * and ** match any text, ?
// matches one character, [a-z] and [!a-z] match one of a set. The syntax has no escape character.
func compileGlob(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(glob); {
		switch c := glob[i]; c {
		case '*':
			stars := len(glob[i:]) - len(strings.TrimLeft(glob[i:], "*"))
			if stars > 2 {
				return nil, errors.New("three or more * in a row")
			}
			next := i + stars
			if stars == 2 && (i > 0 && glob[i-1] != '/' || next < len(glob) && glob[next] != '/') {
				return nil, errors.New("** next to a character other than /")
			}
			if stars == 2 && next < len(glob) {
				b.WriteString(`(?:.*/)?`)
				next++
			} else {
				b.WriteString(`.*`)
			}
			i = next
		case '?':
			b.WriteByte('.')
			i++
		case '[':
			end, class, err := globClass(glob[i:])
			if err != nil {
				return nil, err
			}
			b.WriteString(class)
			i += end
		default:
			from := i
			for i < len(glob) && strings.IndexByte("*?[", glob[i]) < 0 {
				i++
			}
			b.WriteString(regexp.QuoteMeta(strings.ToValidUTF8(glob[from:i], "\ufffd")))
		}
	}
	b.WriteString(`\z`)
	return regexp.Compile(b.String())
}

// globClass converts the character set at the beginning of a text, and returns where it ends.
func globClass(text string) (end int, class string, err error) {
	body := text[1:]
	not := strings.HasPrefix(body, "!")
	if not {
		body = body[1:]
	}
	closing := -1
	if len(body) > 0 {
		closing = strings.IndexByte(body[1:], ']') // the first character is always part of the set
	}
	if closing < 0 {
		return 0, "", errors.New("a [ without its ]")
	}
	end = len(text) - len(body) + closing + 2
	chars := []rune(body[:closing+1])
	var b strings.Builder
	b.WriteByte('[')
	if not {
		b.WriteByte('^')
	}
	for i := 0; i < len(chars); i++ {
		if i+2 < len(chars) && chars[i+1] == '-' {
			if chars[i] <= chars[i+2] { // otherwise the range is empty
				fmt.Fprintf(&b, `\x{%x}-\x{%x}`, chars[i], chars[i+2])
			}
			i += 2
			continue
		}
		fmt.Fprintf(&b, `\x{%x}`, chars[i])
	}
	b.WriteByte(']')
	switch b.String() {
	case "[]":
		return end, `[^\x00-\x{10FFFF}]`, nil
	case "[^]":
		return end, ".", nil
	}
	return end, b.String(), nil
}
