// Package hookfile reads the settings files of Claude Code and the hook files of its plugins.
//
// It is exported because package policy needs it, and is not an API.
package hookfile

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// claudeCode returns the dialect, copied once, because reading uses its tables many times.
var claudeCode = sync.OnceValue(dialect.ClaudeCode)

// Format is the format of Claude Code: the member `hooks` of its settings, and the
// hooks/hooks.json of its plugins.
//
//	{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]}}
//
// The lists of all files are combined. An invalid entry is skipped, not the whole file: Claude Code
// ignores a whole file for one invalid timeout, and so loses its blocking hooks.
var Format = &hookfiles.Format{
	Name:    "claude-code",
	Agent:   "claude-code",
	User:    []string{".claude/settings.json", ".claude/plugins/" + installedPlugins, pluginCache + "*/*/*/hooks/hooks.json"},
	Project: []string{".claude/settings.json", ".claude/settings.local.json"},
	Managed: []string{
		"/etc/claude-code/managed-settings.json", "/etc/claude-code/managed-settings.d/*.json",
		"/Library/Application Support/ClaudeCode/managed-settings.json", "C:/Program Files/ClaudeCode/managed-settings.json",
	},
	Preset: "claude",
	Parse:  parse,
}

// installedPlugins is the file with Claude Code's list of installed plugins.
const installedPlugins = "installed_plugins.json"

// pluginCache is the directory with the plugins.
const pluginCache = ".claude/plugins/cache/"

type reader struct {
	*hookfiles.Reader
	plugin  string               // directory of the plugin whose file is being read; empty = settings
	handles map[string][]*handle // by the key of the handler
}

// A handle is a handler with its index in Hooks and its matcher.
type handle struct {
	index   int
	matcher *matcher
}

func parse(files []hookfiles.File, brief bool) hookfiles.Found {
	r := &reader{Reader: hookfiles.NewReader(files, brief), handles: map[string][]*handle{}}
	roots := make([]*tree.Node, len(files))
	for i := range files {
		roots[i] = r.Open(i, files[i].Data, tree.Object)
	}
	active := activePlugins(files, roots)
	var off *tree.Node
	for i := range files {
		if v := roots[i].Get("disableAllHooks"); v != nil && files[i].Source.Scope != grapnel.ScopeManaged {
			if off = nil; v.IsTrue() { // the later file takes precedence
				off, r.At = v, i
			}
		}
	}
	if off != nil {
		r.Note(off, "disableAllHooks", "", "is true: none of these hooks runs")
		return r.Found
	}
	for i := range files {
		r.At, r.plugin = i, ""
		if dir, base := path.Split(filepath.ToSlash(files[i].Path)); base == "hooks.json" {
			r.plugin = filepath.FromSlash(path.Dir(path.Clean(dir)))
			if active != nil && !active[r.plugin] && !active[path.Dir(path.Dir(files[i].Name))] {
				continue
			}
		}
		if path.Base(filepath.ToSlash(files[i].Path)) != installedPlugins {
			if env := roots[i].Get("env"); env != nil && roots[i].Get("hooks") != nil {
				r.Note(env, "env", "set them in the command if its hooks need them", "contains variables that only Claude Code passes to its hooks")
			}
			r.events(roots[i].Get("hooks"))
		}
	}
	r.once()
	return r.Found
}

// activePlugins returns the directories of the plugins that are installed for the user and enabled.
// It returns nil if no file lists plugins; then the user named a plugin's file explicitly.
func activePlugins(files []hookfiles.File, roots []*tree.Node) map[string]bool {
	var active map[string]bool
	for i := range files {
		if path.Base(filepath.ToSlash(files[i].Path)) != installedPlugins {
			continue
		}
		active = map[string]bool{}
		installed := roots[i].Get("plugins")
		if installed == nil {
			continue
		}
		for _, name := range installed.Names {
			on := false
			for _, root := range roots {
				if v := root.Get("enabledPlugins").Get(name); v != nil {
					on = v.IsTrue()
				}
			}
			entries := installed.Get(name)
			for _, entry := range append(entries.Items, entries) { // older files contain a single entry instead of a list
				scope, dir := entry.Get("scope"), entry.Get("installPath")
				if on && dir.Is(tree.Text) && (scope == nil || scope.Text == "user" || scope.Text == "managed") {
					active[filepath.Clean(dir.Text)] = true
					if at := strings.LastIndex(filepath.ToSlash(dir.Text), "/"+pluginCache); at >= 0 { // the home directory may have several names
						active[path.Clean(filepath.ToSlash(dir.Text)[at+1:])] = true
					}
				}
			}
		}
	}
	return active
}

func (r *reader) events(hooks *tree.Node) {
	switch {
	case hooks == nil:
		return
	case hooks.Kind != tree.Object:
		r.Fail(hooks, "hooks", "", "is %s, not an object of events", hooks.Kind)
		return
	}
	for _, name := range hooks.Names {
		at, groups := "hooks."+name, hooks.Get(name)
		row := claudeCode().Row(name)
		switch {
		case row == nil:
			var known []string
			for _, row := range claudeCode().Events {
				known = append(known, row.Native)
			}
			r.Fail(groups, at, wording.Nearest(name, known), "is not an event of Claude Code")
			continue
		case groups.Kind != tree.List:
			r.Fail(groups, at, "", "is %s, not a list of groups", groups.Kind)
			continue
		}
		before := len(r.Hooks)
		for i, group := range groups.Items {
			r.group(row, fmt.Sprintf("%s[%d]", at, i), group)
		}
		if len(r.Hooks) > before && (row.Kind.Native() || name == "UserPromptExpansion") {
			r.Note(groups, at, "", "only Claude Code has this event, and it runs these hooks itself")
		}
	}
}

func (r *reader) group(row *dialect.EventRow, at string, group *tree.Node) {
	handlers := group.Get("hooks")
	if !handlers.Is(tree.List) {
		hint := `write {"matcher": "...", "hooks": [...]}`
		if group.Get("command") != nil {
			hint += ", or load the file with the format miniclaw"
		}
		r.Fail(group, at, hint, "has no list of hooks")
		return
	}
	m, err := newMatcher(row.Native, group.Get("matcher"))
	switch {
	case errors.Is(err, grapnel.ErrUndecided):
		r.Note(group.Get("matcher"), at+".matcher", "name the tools one by one instead: a|b", "%v, so its hooks run at each event", err)
	case err != nil:
		r.Fail(group.Get("matcher"), at+".matcher", "", "%v", err)
		return
	case !r.Brief:
		if hint := m.dead(); hint != "" {
			r.Note(group.Get("matcher"), at+".matcher", hint, "%q matches no known tool of Claude Code", m.source)
		}
	}
	for i, handler := range handlers.Items {
		r.handler(row, fmt.Sprintf("%s.hooks[%d]", at, i), handler, m)
	}
}

// handlerTypes lists the types of handlers.
var handlerTypes = []string{"agent", "http", "mcp_tool", "prompt", "command"}

// elsewhere describes the effect of a handler that is not a command; empty = unknown type.
func elsewhere(kind string) string {
	switch kind {
	case "http":
		return "calls a server"
	case "mcp_tool":
		return "calls a tool of an MCP server that Claude Code is connected to"
	case "prompt":
		return "asks a model"
	case "agent":
		return "asks an agent"
	}
	return ""
}

func (r *reader) handler(row *dialect.EventRow, at string, n *tree.Node, group *matcher) {
	kind, line := n.Get("type"), n.Get("command")
	switch {
	case !n.Is(tree.Object):
		r.Fail(n, at, "", "is %s, not an object", n.Kind)
		return
	case !kind.Is(tree.Text):
		r.Fail(n, at, `write "type": "command"`, "has no type")
		return
	case elsewhere(kind.Text) != "":
		r.Fail(n, at, "keep it in Claude Code, which runs it itself, or use a command", "a hook of the type %q %s, but Grapnel only runs commands", kind.Text, elsewhere(kind.Text))
		return
	case kind.Text != "command":
		r.Fail(kind, at+".type", wording.Nearest(kind.Text, handlerTypes), "%q is not a type of hook", kind.Text)
		return
	case !line.Is(tree.Text) || strings.TrimSpace(line.Text) == "":
		r.Fail(n, at, "", "has no command")
		return
	}
	m := *group
	if rule := n.Get("if"); rule != nil {
		var err error
		if m.rule, err = newRule(rule); err == nil && toolless(row.Native) {
			err = errors.New("works only with tools: Claude Code never runs this hook")
		}
		if err != nil {
			r.Fail(rule, at+".if", "write the hook in the policy, with match: and speaks: claude", "%v", err)
			return
		}
	}
	texts, ok := r.texts(n, at, line.Text)
	if !ok {
		return
	}
	cmd, key := r.command(n, at, texts)
	if cmd == nil || r.RunsGrapnel(cmd) {
		return
	}
	if rule := m.rule; rule != nil {
		key += "\x00if " + rule.source
	}
	h := hookfiles.Hook{
		Hook: policyfile.Hook{
			Name: hookfiles.CalledAfter(strings.Join(texts, " "), row.Native), On: []grapnel.Kind{row.Kind},
			Timeout: r.seconds(row, n, at), Run: cmd,
		},
		At: at, Matcher: &m, All: m.source == "" && m.rule == nil, Reads: m.rule != nil, Key: row.Native + " " + key,
		Complete: func(h *hookfiles.Hook) { h.Match, h.Unsupported = m.match(), append(m.unsupported(), h.Unsupported...) },
	}
	switch row.Native { // the two events that are the same kind
	case "UserPromptSubmit":
		h.Unsupported = append(h.Unsupported, "it also runs when a slash command becomes a prompt (UserPromptExpansion)")
	case "UserPromptExpansion":
		h.All = false
	}
	switch fails := n.Get("onFailure"); {
	case fails == nil:
	case fails.Is(tree.Text) && fails.Text == "block":
		h.OnError = "closed"
	case !fails.Is(tree.Text) || fails.Text != "continue":
		r.Note(fails, at+".onFailure", "", "is %s, neither \"block\" nor \"continue\", so it is ignored", fails.Raw)
	}
	cmd.Async = n.Get("async").IsTrue()
	if rewake := n.Get("asyncRewake"); rewake.IsTrue() {
		cmd.Async = true
		r.Note(rewake, at+".asyncRewake", "", "the hook runs in the background and cannot wake the agent")
		h.Unsupported = append(h.Unsupported, "asyncRewake: its background output is discarded")
	}
	if cmd.Async && h.OnError == "closed" {
		h.OnError = "" // no event waits for an asynchronous command
	}
	if r.plugin != "" {
		cmd.Scope = grapnel.ScopePlugin
	}
	if r.Add(n, h) {
		r.handles[h.Key] = append(r.handles[h.Key], &handle{len(r.Hooks) - 1, &m})
	}
}

// texts returns the command line of a handler, or the program and its arguments.
func (r *reader) texts(n *tree.Node, at, line string) (texts []string, ok bool) {
	texts = []string{line}
	if args := n.Get("args"); args != nil {
		if !args.Is(tree.List) || slices.ContainsFunc(args.Items, func(a *tree.Node) bool { return a.Kind != tree.Text }) {
			r.Fail(args, at+".args", "", "is not a list of strings")
			return nil, false
		}
		for _, a := range args.Items {
			texts = append(texts, a.Text)
		}
	}
	all := strings.Join(texts, "\n")
	switch {
	case strings.Contains(all, "CLAUDE_PLUGIN_DATA"):
		r.Fail(n, at, "use a fixed directory for its files", "needs CLAUDE_PLUGIN_DATA, which only Claude Code has")
		return nil, false
	case r.plugin == "" && strings.Contains(all, "CLAUDE_PLUGIN_ROOT"):
		r.Fail(n, at, "write the path", "needs CLAUDE_PLUGIN_ROOT, which only the hooks of plugins have")
		return nil, false
	}
	return texts, true
}

// command returns the command of a handler, and a key that is equal for equal handlers.
func (r *reader) command(n *tree.Node, at string, texts []string) (cmd *policyfile.Command, key string) {
	cmd = &policyfile.Command{Speaks: claudeCode().Name}
	key = strings.Join(texts, "\x00")
	if r.plugin != "" {
		cmd.Vars = []string{"CLAUDE_PLUGIN_ROOT=" + r.plugin}
		key += "\x00" + r.plugin // each plugin runs its own copy
	}
	windows := runtime.GOOS == "windows"
	if n.Get("args") != nil {
		perEvent := false
		for i := range texts {
			texts[i] = strings.ReplaceAll(texts[i], "${CLAUDE_PLUGIN_ROOT}", r.plugin)
			perEvent = perEvent || strings.Contains(texts[i], projectDir)
		}
		switch {
		case !perEvent:
			cmd.Args = texts
		case windows:
			cmd.Args = []string{"bash", "-c", quoteArgs(texts, projectDir)}
		default:
			cmd.Line = quoteArgs(texts, projectDir)
		}
		return cmd, key
	}
	line, which := texts[0], "bash"
	if r.plugin != "" && strings.Trim(r.plugin, plainPath) == "" {
		line = strings.ReplaceAll(line, "${CLAUDE_PLUGIN_ROOT}", r.plugin) // also inside single quotes
	}
	if sh := n.Get("shell"); sh != nil {
		if which = sh.Text; which != "bash" && which != "powershell" {
			r.Fail(sh, at+".shell", wording.Nearest(which, []string{"bash", "powershell"}), "is neither bash nor powershell")
			return nil, ""
		}
	}
	switch {
	case which == "powershell" && windows:
		cmd.Args = []string{"powershell.exe", "-NoProfile", "-Command", line}
	case which == "powershell":
		cmd.Args = []string{"pwsh", "-NoProfile", "-Command", line}
	case windows: // Claude Code provides a bash on Windows
		cmd.Args = []string{"bash", "-c", line}
	default:
		cmd.Line = line
	}
	return cmd, key + "\x00" + which
}

const (
	projectDir = "${CLAUDE_PROJECT_DIR}"

	// plainPath lists the characters without special meaning in any shell, quoted or not.
	plainPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,"
)

// quoteArgs quotes words for a shell. Only the variable is expanded.
func quoteArgs(words []string, variable string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		parts := strings.Split(word, variable)
		for j, part := range parts {
			parts[j] = "'" + strings.ReplaceAll(part, "'", `'\''`) + "'"
		}
		quoted[i] = strings.Join(parts, `"`+variable+`"`)
	}
	return "exec " + strings.Join(quoted, " ")
}

// defaultTimeout returns the default timeout for hooks of an event.
func defaultTimeout(event string) time.Duration {
	switch event {
	case "UserPromptSubmit":
		return 30 * time.Second
	case "MessageDisplay":
		return 10 * time.Second
	case "SessionEnd":
		return 1500 * time.Millisecond
	}
	return 600 * time.Second
}

func (r *reader) seconds(row *dialect.EventRow, n *tree.Node, at string) policyfile.Duration {
	usual := defaultTimeout(row.Native)
	t := n.Get("timeout")
	if t == nil {
		return policyfile.Duration(usual)
	}
	seconds, ok := t.Number()
	if !ok || seconds <= 0 || seconds > hookfiles.MaxTimeout.Seconds() {
		r.Note(t, at+".timeout", "", "is %s, not a valid number of seconds, so it is ignored", match.Shorten(string(t.Raw)))
		return policyfile.Duration(usual)
	}
	return r.Timeout(n, t, at+".timeout", time.Duration(max(1, math.Round(seconds*1e3)))*time.Millisecond)
}

// once removes duplicates as Claude Code does: of equal handlers that match an event, only the last
// runs, with its own options.
func (r *reader) once() {
	var drop []int
	for _, same := range r.handles {
		for i, earlier := range same {
			h := &r.Hooks[earlier.index]
			for _, later := range same[i+1:] {
				if earlier.matcher.source == later.matcher.source {
					if r.Hooks[later.index].FileIndex == h.FileIndex {
						drop = append(drop, earlier.index)
					}
					h.Off = true
					continue
				}
				earlier.matcher.later = append(earlier.matcher.later, later.matcher)
			}
		}
	}
	kept := r.Hooks[:0]
	for i := range r.Hooks {
		if !slices.Contains(drop, i) {
			kept = append(kept, r.Hooks[i])
		}
	}
	r.Hooks = kept
}

// matcher matches like Claude Code, and uses the subject that Claude Code would use for the
// event, whichever agent sent it. The matcher is a list of complete names or, if it contains other
// characters, an unanchored regular expression. An event without a subject always matches.
type matcher struct {
	event  string
	source string // empty = all
	names  []string
	search hookfiles.Search
	err    error           // the matcher cannot decide
	rule   *permissionRule // an additional permission rule; nil = none
	later  []*matcher
}

// newMatcher returns a matcher. If the error wraps ErrUndecided, the matcher is usable.
func newMatcher(event string, n *tree.Node) (*matcher, error) {
	m := &matcher{event: event}
	if n == nil {
		return m, nil
	}
	if n.Kind != tree.Text {
		return nil, fmt.Errorf("is %s, not text, so its hooks are skipped", n.Kind)
	}
	m.source = n.Text
	if m.source == "*" {
		m.source = ""
	}
	if strings.Trim(m.source, listChars) == "" {
		for name := range strings.FieldsFuncSeq(m.source, func(c rune) bool { return c == '|' || c == ',' }) {
			m.names = append(m.names, strings.TrimSpace(name))
		}
		return m, nil
	}
	search, err := hookfiles.SearchJS(m.source)
	switch {
	case errors.Is(err, grapnel.ErrUndecided):
		m.err = fmt.Errorf("%q %w", m.source, err)
		return m, m.err
	case err != nil:
		return nil, fmt.Errorf("%q %w, so Claude Code never runs its hooks", m.source, err)
	}
	m.search = search
	return m, nil
}

// listChars are the characters of a list of names.
const listChars = hookfiles.NameChars + " ,|"

// Match returns an error if the matcher cannot decide: a blocking hook that never runs must be
// noticed.
func (m *matcher) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	event, subject := dialect.ClaudeSubject(ev)
	ok, err := m.fits(ev, event, subject)
	if !ok || err != nil {
		return false, err
	}
	for _, later := range m.later {
		if ok, err := later.fits(ev, event, subject); ok && err == nil {
			return false, nil
		}
	}
	return true, nil
}

func (m *matcher) fits(ev *grapnel.Event, event, subject string) (bool, error) {
	if event != m.event || m.rule != nil && !m.rule.fits(ev, subject) {
		return false, nil
	}
	ok, err := m.matches(subject)
	if err != nil {
		err = fmt.Errorf("the matcher %w", err)
	}
	return ok, err
}

func (m *matcher) matches(subject string) (bool, error) {
	switch {
	case m.source == "" || subject == "":
		return true, nil
	case m.err != nil:
		return false, m.err
	case m.search == nil:
		return slices.Contains(m.names, subject) || subject == "Agent" && slices.Contains(m.names, "Task"), nil
	}
	ok, err := m.search(subject)
	if !ok && err == nil && subject == "Agent" {
		ok, err = m.search("Task") // the former name of the tool
	}
	if err != nil {
		err = fmt.Errorf("%q %w", m.source, err)
	}
	return ok, err
}

// Explain returns the text of the matcher and of its rule.
func (m *matcher) Explain(*grapnel.Event, *grapnel.Verdict) string {
	var parts []string
	if m.source != "" {
		parts = append(parts, fmt.Sprintf("matcher %q", m.source))
	}
	if m.rule != nil {
		parts = append(parts, fmt.Sprintf("if %q", m.rule.source))
	}
	return strings.Join(parts, ", ")
}

// Expression returns the matcher if it is a regular expression, otherwise "".
func (m *matcher) Expression() string {
	if m.search == nil {
		return ""
	}
	return m.source
}

// toolless reports whether events of this type are not about a tool.
func toolless(event string) bool {
	switch event {
	case "PreToolUse", "PermissionRequest", "PermissionDenied", "PostToolUse", "PostToolUseFailure":
		return false
	}
	return true
}

// dead returns a hint if the matcher of a tool event matches no known tool. Claude Code reports
// nothing for such a mistake.
func (m *matcher) dead() (hint string) {
	if m.source == "" || m.err != nil || toolless(m.event) {
		return ""
	}
	tools := claudeCode().Tools
	matches := hookfiles.MayMatch(m.matches)
	if slices.ContainsFunc(tools, func(t dialect.ToolRow) bool { return matches(t.Native) }) {
		return ""
	}
	switch name := strings.Trim(m.source, `^$/i`); {
	case strings.Count(name, "__") >= 2, strings.Contains(name, "mcp") && m.search != nil:
		return ""
	case strings.HasPrefix(name, "mcp__"):
		return fmt.Sprintf("for all tools of the server write %q", name+"__.*")
	default:
		var known []string
		for i := range tools {
			known = append(known, tools[i].Native)
		}
		if hint := wording.Nearest(name, known); hint != "" {
			return hint
		}
	}
	return "names must match exactly, including case; any other character than letters, digits, _ - | makes it a regular expression"
}

// nearest returns a policy match that is at least as wide as the matcher and close to it. nil
// matches every event.
func (m *matcher) nearest() *policyfile.Match {
	globs := m.names
	switch {
	case m.source == "" || m.err != nil || toolless(m.event):
		return nil
	case m.search != nil:
		var ok bool
		if globs, ok = hookfiles.SearchGlobs(m.source); !ok {
			return nil
		}
	}
	return hookfiles.NearestTools(claudeCode().Tools, hookfiles.MayMatch(m.matches), globs)
}

// match returns the policy match for the matcher, including the paths of its `if`.
func (m *matcher) match() *policyfile.Match {
	match := m.nearest()
	if m.rule != nil && m.rule.paths != nil {
		match = cmp.Or(match, &policyfile.Match{})
		match.Path = m.rule.paths
	}
	return match
}

// when returns the `when:` of a policy for a matcher of causes, or "".
func (m *matcher) When() string {
	var exact []string
	switch m.event {
	case "SessionStart":
		exact = []string{"startup", "resume", "clear", "compact"}
	case "SessionEnd":
		exact = []string{"clear", "resume", "logout", "prompt_input_exit"}
	case "PreCompact", "PostCompact":
		exact = []string{"manual", "auto"}
	}
	if m.names == nil || m.rule != nil {
		return ""
	}
	return hookfiles.WhenCause(m.event, m.names, exact)
}

// unsupported describes how the policy match is wider than the matcher.
func (m *matcher) unsupported() []string {
	var unsupported []string
	switch near := m.nearest(); {
	case m.source == "", m.When() != "":
	case near == nil:
		unsupported = append(unsupported, fmt.Sprintf("the matcher %q", m.source))
	case m.search != nil || len(near.Tool) > len(m.names):
		unsupported = append(unsupported, fmt.Sprintf("the matcher %q is narrower than tool: %s", m.source, strings.Join(near.Tool, ", ")))
	}
	if m.rule != nil {
		unsupported = append(unsupported, fmt.Sprintf("if: %q", m.rule.source))
	}
	return unsupported
}

// A permissionRule is the permission rule of an `if`.
type permissionRule struct {
	source string
	tool   string         // glob for the tool name
	family []string       // used instead of tool: all tools with the same kind of access to paths
	paths  []string       // path patterns of a policy, which are part of Match; nil = any
	domain string         // domain of a WebFetch; empty = any
	line   *regexp.Regexp // expression for shell commands; nil = any
}

// familyOf returns the tools that a path rule applies to; nil = not a path rule.
func familyOf(name string) []string {
	switch name {
	case "Edit", "Write":
		return []string{"Edit", "MultiEdit", "NotebookEdit", "Write"}
	case "Read":
		return []string{"Read", "NotebookRead", "Glob", "Grep", "LS"}
	}
	return nil
}

// newRule parses Bash, Bash(git push *), Bash(git:*), Edit(*.ts), WebFetch(domain:x).
func newRule(n *tree.Node) (*permissionRule, error) {
	if n.Kind != tree.Text {
		return nil, fmt.Errorf("is %s, not text", n.Kind)
	}
	rule := &permissionRule{source: n.Text}
	name, about, more := strings.Cut(strings.TrimSpace(n.Text), "(")
	rule.tool = name
	if strings.Trim(name, hookfiles.NameChars+"*") != "" || name == "" || more && !strings.HasSuffix(about, ")") {
		return nil, fmt.Errorf("%q is not a permission rule", n.Text)
	}
	about = strings.TrimSuffix(about, ")")
	row := claudeCode().Tools[max(0, slices.IndexFunc(claudeCode().Tools, func(t dialect.ToolRow) bool { return t.Native == name }))]
	switch domain, isDomain := strings.CutPrefix(about, "domain:"); {
	case about == "" || about == "*":
	case row.Native == name && row.Class == grapnel.ClassShell:
		rule.line = ruleLine(about)
	case name == "WebFetch" && isDomain && domain != "":
		rule.domain = strings.ToLower(domain)
	case familyOf(name) != nil && rulePaths(about) != nil:
		rule.family, rule.paths = familyOf(name), rulePaths(about)
	default:
		return nil, fmt.Errorf("the rule %q is not supported; there are rules for tools, shell commands, paths and domains", n.Text)
	}
	return rule, nil
}

// rulePaths converts a path pattern to policy patterns. //x is absolute, ~/x is relative to the
// home directory, and a pattern without a slash matches at any depth. A directory matches
// everything in it. rulePaths returns nil for patterns that it cannot convert: /x is relative to
// a directory that depends on the file, and ! negates.
func rulePaths(pattern string) []string {
	switch rest, absolute := strings.CutPrefix(pattern, "//"); {
	case absolute:
		pattern = "/" + rest
	case strings.HasPrefix(pattern, "/"), strings.HasPrefix(pattern, "!"):
		return nil
	case !strings.Contains(strings.TrimSuffix(pattern, "/"), "/"):
		pattern = "**/" + pattern
	}
	pattern = strings.TrimSuffix(pattern, "/")
	if !glob.Valid(pattern) {
		return nil
	}
	return []string{pattern, pattern + "/**"}
}

// ruleLine compiles the pattern of a command. * matches any text, and " *" at the end also
// matches nothing.
func ruleLine(pattern string) *regexp.Regexp {
	pattern, prefix := strings.CutSuffix(pattern, ":*")
	if !prefix {
		pattern, prefix = strings.CutSuffix(pattern, " *")
	}
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	end := ""
	if prefix {
		end = `(\s.*)?`
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + end + `$`)
}

// fits reports whether the rule matches a call. It tests each command of a shell line. A shell line
// that cannot be parsed matches.
func (rule *permissionRule) fits(ev *grapnel.Event, subject string) bool {
	if rule.family != nil {
		return slices.Contains(rule.family, subject)
	}
	if ev.Tool == nil || !globMatches(rule.tool, subject) && !strings.HasPrefix(subject, rule.tool+"__") { // all tools of an MCP server
		return false
	}
	if rule.domain != "" {
		return slices.ContainsFunc(ev.Tool.URLs, func(u string) bool {
			host := match.HostOf(u)
			return host == "" || globMatches(rule.domain, host)
		})
	}
	if rule.line == nil {
		return true
	}
	for _, line := range ev.Tool.Commands {
		script := shell.Parse(line)
		if len(script.Unknown) > 0 {
			return true
		}
		for i := range script.Commands {
			c := &script.Commands[i]
			words := []string{c.Path}
			for _, arg := range c.Args {
				words = append(words, arg.Text)
			}
			if rule.line.MatchString(c.String()) || rule.line.MatchString(strings.Join(words, " ")) {
				return true
			}
		}
	}
	return false
}

func globMatches(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return ok && err == nil
}
