package check

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/review"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// An ownHook is a hook of a policy file, with its place in the file.
type ownHook struct {
	*policyfile.Hook
	at *yaml.Node
}

// mistakes collects findings for valid parts of a policy that its author probably does not mean.
type mistakes struct {
	file   string
	user   bool // the file is the user's own policy
	agents []*dialect.Dialect
	found  []Finding
}

// warn adds a finding at the value of a key, or at a hook.
func (m *mistakes) warn(kind Kind, h *ownHook, at *yaml.Node, hint, format string, args ...any) {
	m.found = append(m.found, kind.finding(&policyfile.Error{
		File: m.file, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("hook %q: ", h.Name) + fmt.Sprintf(format, args...), Hint: hint,
	}))
}

// ownHooks returns the hooks of a valid file, without the hooks of its packs.
func ownHooks(root *yaml.Node, hooks []policyfile.Hook) (own []ownHook) {
	list := root.Get("hooks")
	for i := range hooks {
		if list != nil && i < len(list.Items) {
			own = append(own, ownHook{&hooks[i], list.Items[i]})
		}
	}
	return own
}

// server returns the value with the URL of a hook that sends requests.
func (h *ownHook) server() *yaml.Node {
	at := h.at.Get(h.HTTP.Key())
	return cmp.Or(at.Get("url"), at.Get("smtp"), at)
}

// readTree reads a policy file again, for the positions of its values.
func readTree(file string) (root *yaml.Node, lines []string) {
	data, err := files.Read(file, yaml.MaxSize)
	if err != nil {
		return &yaml.Node{}, nil
	}
	if root, err = yaml.Parse(data); err != nil {
		return &yaml.Node{}, nil
	}
	return root, strings.Split(string(data), "\n")
}

// ofHook adds the findings about one hook.
func (m *mistakes) ofHook(h *ownHook) {
	for _, at := range matchesAt(h.at) {
		m.ofMatch(h, at)
	}
	m.ofDecision(h)
	m.ofNotice(h)
	m.ofBody(h)
	m.ofReach(h)
	m.ofAllow(h)
	m.ofUnsure(h)
	m.ofTimeout(h)
	m.ofFiles(h)
}

// ofBody adds a finding if a service for people gets data for a program.
func (m *mistakes) ofBody(h *ownHook) {
	if h.HTTP == nil || !h.HTTP.Notify || h.HTTP.ForPeople() || len(h.HTTP.Members) > 0 {
		return
	}
	if form := webhook.FormOf(h.HTTP.URL); form != "" {
		m.warn(wrongBody, h, h.server(), "write `body: "+form+"`", "this server refuses the body %s", cmp.Or(h.HTTP.Body, webhook.BodyPlain))
	}
}

// matchesAt returns the matches of a hook, including negated ones.
func matchesAt(hook *yaml.Node) (all []*yaml.Node) {
	add := func(n *yaml.Node) {
		for ; n != nil; n = n.Get("not") {
			all = append(all, n)
		}
	}
	addAll := func(n *yaml.Node) {
		for _, item := range itemsOf(n) {
			add(item)
		}
	}
	add(hook.Get("match"))
	addAll(hook.Get("except"))
	for _, step := range itemsOf(hook.Get("after")) {
		for _, n := range []*yaml.Node{step, step.Get("until")} {
			if n != nil {
				add(n.Get("match"))
				addAll(n.Get("except"))
			}
		}
	}
	return all
}

// itemsOf returns the items of a list, the value itself if it is not a list, or nothing.
func itemsOf(n *yaml.Node) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.List:
		return n.Items
	}
	return []*yaml.Node{n}
}

func wordsOf(n *yaml.Node) (words []string) {
	for _, item := range itemsOf(n) {
		words = append(words, item.Text)
	}
	return words
}

// ofMatch adds findings for patterns that probably do not match as intended.
func (m *mistakes) ofMatch(h *ownHook, n *yaml.Node) {
	for i := range match.Keys {
		key := match.Keys[i].Name
		for _, word := range itemsOf(n.Get(key)) {
			if problem, hint := oddPattern(key, word.Text); problem != "" {
				m.warn(oddPatterns, h, word, hint, "%s", problem)
			} else if key == "tool" {
				if near := misspelt(word.Text); near != "" {
					m.warn(misspeltTool, h, word, fmt.Sprintf("did you mean %q?", near), "no agent has a tool %q, so it never matches", word.Text)
				}
			}
		}
	}
	tools := policyfile.Match{Tool: wordsOf(n.Get("tool")), Agent: wordsOf(n.Get("agent"))}
	for _, word := range itemsOf(n.Get("tool")) {
		if class, others := otherNames(word.Text, &tools, m.agents); others != "" {
			m.warn(nativeTool, h, word, fmt.Sprintf("write `tool: %s`, which matches such tools of every agent, or add `agent:`", class), "only some agents call a tool %q, and this misses the others: %s", word.Text, others)
			return
		}
	}
}

// ofNotice warns of a block at an event that agents only report.
func (m *mistakes) ofNotice(h *ownHook) {
	if slices.Contains(h.On, grapnel.MessageReceived) && (h.Decide == "block" || h.Decide == "ask" || h.Limit != nil) && !forOwnAgent(h.Match) {
		m.warn(neverBlocks, h, h.at.Get("on"), "use prompt.before to filter messages, or name your agent (`match: {agent: my-agent}`) if it uses package host",
			"no known agent lets a hook stop a message at %s: OpenClaw only reports it there", grapnel.MessageReceived)
	}
}

// ofDecision warns of a reason that YAML 1.1 reads as true or false.
func (m *mistakes) ofDecision(h *ownHook) {
	if h.Decide == "" {
		return
	}
	switch at := h.at.Get(h.Decide); strings.ToLower(h.Reason) {
	case "no", "off", "n":
		m.warn(oddReason, h, at, fmt.Sprintf("write a sentence as the reason, or remove the hook if it should not %s", h.Decide), "it %ss: %q is text here, not false, and becomes the reason", h.Decide, h.Reason)
	case "yes", "on", "y":
		m.warn(oddReason, h, at, "write a sentence as the reason, or true", "%q is text here, not true, and becomes the reason", h.Reason)
	}
}

// everyTime lists the events at which a block without conditions leaves an agent without use, with what
// it blocks.
var everyTime = map[grapnel.Kind]string{
	grapnel.ToolBefore: "tool call", grapnel.PermissionBefore: "permission prompt", grapnel.PromptBefore: "prompt", grapnel.ModelBefore: "model call",
}

// ofReach warns of a block without conditions, and of an allow that covers everything.
func (m *mistakes) ofReach(h *ownHook) {
	if h.Except != nil || h.When != "" || h.After != nil || h.Mode == "observe" || h.Decide != "block" && h.Decide != "allow" {
		return
	}
	i := slices.IndexFunc(h.On, func(kind grapnel.Kind) bool { return everyTime[kind] != "" })
	if i < 0 {
		return
	}
	what, at := everyTime[h.On[i]], h.at.Get(h.Decide)
	if h.Match != nil && slices.Contains(h.Match.Tool, string(grapnel.ClassShell)) {
		what = "shell command"
	}
	switch {
	case h.Decide == "allow" && coversAll(h.Match):
		m.warn(withoutMatch, h, at, "name what is harmless, for example `match: {command: [git status, npm test]}`", "it allows every %s, and the agent asks no questions", what)
	case h.Decide == "block" && h.Match == nil:
		m.warn(withoutMatch, h, at, "add `match`, for example `match: {command: rm -rf}`; if you mean everything, write `match: {agent: \"*\"}`", "it has no `match`, so it blocks every %s", what)
	}
}

// ofAllow warns of an allow for programs whose options it cannot judge.
func (m *mistakes) ofAllow(h *ownHook) {
	if h.Decide != "allow" || h.at.Get("match") == nil {
		return
	}
	var at *yaml.Node
	var sources []string
	for _, item := range itemsOf(h.at.Get("match").Get("command")) {
		if p, err := shell.Compile(item.Text); err == nil && !p.KnowsOptions() {
			if at == nil {
				at = item
			}
			sources = append(sources, strconv.Quote(item.Text))
		}
	}
	if at != nil {
		m.warn(unknownOptions, h, at, "add a pattern for each option that the agent may use, or silence this warning if it needs none",
			"Grapnel does not know which options are harmless after %s, so it allows only the options in the pattern", strings.Join(sources, ", "))
	}
}

// ofUnsure warns of an allow for tools whose names in an installed agent do not show their server.
// The engine applies it only if it is for each server that the name may mean.
func (m *mistakes) ofUnsure(h *ownHook) {
	if h.Decide != "allow" || h.Match == nil || len(m.agents) == len(dialect.All()) { // without an installed agent, some always have such names
		return
	}
	at := h.at.Get("match")
	for _, word := range itemsOf(at.Get("tool")) {
		if name, mcp := strings.CutPrefix(word.Text, "mcp__"); mcp {
			server, tool, _ := strings.Cut(name, "__")
			m.unsure(h, word, grapnel.MCP{Server: server, Tool: tool})
		}
	}
	for _, word := range itemsOf(at.Get("mcp")) {
		m.unsure(h, word, grapnel.MCP{Server: word.Text, Tool: "*"})
	}
}

// unsure warns of the first installed agent whose name for a tool does not show the server.
func (m *mistakes) unsure(h *ownHook, at *yaml.Node, mcp grapnel.MCP) {
	if strings.ContainsAny(mcp.Server, "*?[/") || mcp.Tool == "" {
		return
	}
	for _, d := range m.agents {
		allows := func(row dialect.EventRow) bool { return slices.Contains(h.On, row.Kind) && row.Permits().Allow }
		if name, shows := dialect.MCPName(d.Name, mcp); !shows && slices.ContainsFunc(d.Events, allows) {
			m.warn(unsureServer, h, at, "name the tool as the agent does: `tool: "+name+"`", "it allows nothing in %s, whose name %s does not show where the name of the server ends", d.Title, name)
			return
		}
	}
}

// coversAll reports whether a match has only words that match everything, or every command line.
func coversAll(m *policyfile.Match) bool {
	if m == nil {
		return true
	}
	if m.Not != nil || m.Failed != nil {
		return false
	}
	for _, key := range match.KeysOf(m) {
		all := []string{"*", "**", "**/*", "/**"}
		if key.Name == "tool" {
			all = append(all, string(grapnel.ClassShell))
		}
		if !slices.ContainsFunc(key.Sources(m), func(word string) bool { return slices.Contains(all, word) }) {
			return false
		}
	}
	return true
}

// ofTimeout warns of a timeout above the time that Grapnel has for an event.
func (m *mistakes) ofTimeout(h *ownHook) {
	at := h.at.Get("timeout")
	if at == nil || h.Run != nil && h.Run.Async || h.HTTP != nil {
		return
	}
	if most := budgetOf(h.On, m.agents); time.Duration(h.Timeout) > most {
		hint := fmt.Sprintf("write at most %s", policyfile.FormatDuration(most))
		if h.Run != nil && h.Builtin == nil {
			hint += ", or `async: true` if its answer is not needed"
		}
		m.warn(longTimeout, h, at, hint, "the timeout is %s, but all hooks of an event together have %s: then Grapnel ends them and answers the agent", policyfile.FormatDuration(time.Duration(h.Timeout)), policyfile.FormatDuration(most))
	}
}

// budgetOf returns the longest time that an agent gives the hooks of one of the events.
func budgetOf(on []grapnel.Kind, agents []*dialect.Dialect) (longest time.Duration) {
	for _, d := range agents {
		for i := range d.Events {
			if row := &d.Events[i]; slices.Contains(on, row.Kind) || slices.Contains(on, row.Failed) {
				longest = max(longest, cmp.Or(row.Budget, dialect.DefaultBudget))
			}
		}
	}
	return cmp.Or(longest, dialect.DefaultBudget)
}

// ofFiles warns of files that a hook runs or reads and that do not exist.
func (m *mistakes) ofFiles(h *ownHook) {
	if h.Context != nil && h.Context.File != "" {
		at := h.at.Get("context").Get("file")
		if name := home.Absolute(home.Expand(h.Context.File), filepath.Dir(m.file)); missing(name) {
			m.warn(missingFile, h, at, "write the file, or its path relative to the policy", "the file %s does not exist, so the hook fails at every event", name)
		}
		return
	}
	cmd := review.Program(&policyfile.Hook{Context: h.Context, Run: h.Run, Builtin: h.Builtin})
	if cmd == nil {
		return
	}
	program, script := filesOf(cmd)
	if name := onPath(cmd); name != "" {
		m.warn(missingFile, h, programAt(h.at), "install it, or write the absolute path", "the program %s is not on PATH, so the hook fails at every event", name)
	}
	for _, name := range []string{program, script} {
		if name == "" {
			continue
		}
		file := m.find(name)
		switch info, err := os.Stat(file); {
		case err != nil:
			hint := "write the file, or correct the path"
			if !filepath.IsAbs(name) && !strings.HasPrefix(name, "/") {
				hint = "write the file, or its absolute path: a relative path starts in the agent's working directory"
			}
			m.warn(missingFile, h, programAt(h.at), hint, "the program %s does not exist, so the hook fails at every event", name)
		case name == program && runtime.GOOS != "windows" && (info.IsDir() || info.Mode()&0o111 == 0):
			m.warn(missingFile, h, programAt(h.at), "run \"chmod +x "+name+"\"", "the program %s is not executable, so the hook fails at every event", name)
		}
	}
}

// interpreters run the file that their first argument names.
var interpreters = []string{"sh", "bash", "zsh", "python", "python3", "node", "ruby", "perl"}

// filesOf returns the program of a command line and the script that it interprets. A name is empty if the
// PATH, the event or the shell decides about the file.
func filesOf(cmd *policyfile.Command) (program, script string) {
	line := shell.Parse(hookfiles.CommandLine(cmd))
	if len(line.Commands) == 0 {
		return "", ""
	}
	first := &line.Commands[0]
	fixed := func(name string) bool { return strings.ContainsAny(name, `/\`) && !strings.ContainsAny(name, "$`*?{%") }
	if fixed(first.Path) {
		program = home.Expand(first.Path)
	}
	if slices.Contains(interpreters, first.Name) && len(first.Args) > 0 && first.Args[0].Literal && fixed(first.Args[0].Text) && !strings.HasPrefix(first.Args[0].Text, "-") {
		script = home.Expand(first.Args[0].Text)
	}
	return program, script
}

// onPath returns the name of the program of a command line if it should be on PATH and is not.
func onPath(cmd *policyfile.Command) string {
	line := shell.Parse(hookfiles.CommandLine(cmd))
	if len(line.Commands) == 0 {
		return ""
	}
	first := &line.Commands[0]
	if first.Name == "" || strings.ContainsAny(first.Path, `/\$`) || slices.Contains(inShell, first.Path) {
		return ""
	}
	if _, err := exec.LookPath(first.Path); errors.Is(err, exec.ErrNotFound) {
		return first.Path
	}
	return ""
}

// inShell lists commands that a shell has itself.
var inShell = strings.Fields(". : [ alias bg break builtin cd command continue declare echo eval exec exit export false fg getopts hash help jobs let local printf pwd read readonly return set shift shopt source test times trap true type typeset ulimit umask unalias unset wait")

// find returns the path of a program in the first directory that has it. The programs of the user's own
// policy start in the agent's working directory, and the programs of a project in the directory of its policy.
func (m *mistakes) find(name string) string {
	var dirs []string
	if dir, err := cli.WorkDir(); err == nil {
		dirs = append(dirs, dir)
	}
	if !m.user {
		dirs = append(dirs, filepath.Dir(m.file))
	}
	path := ""
	for _, dir := range dirs {
		if path = home.Absolute(name, dir); !missing(path) {
			break
		}
	}
	return path
}

// programAt returns the value with the command line of a hook.
func programAt(hook *yaml.Node) *yaml.Node {
	for _, key := range []string{"run", "worker"} {
		if n := hook.Get(key); n != nil {
			return n
		}
	}
	for _, key := range []string{"context", "builtin"} {
		if n := hook.Get(key); n != nil && n.Get("run") != nil {
			return n.Get("run")
		}
	}
	return hook
}

func missing(name string) bool {
	_, err := os.Stat(name)
	return os.IsNotExist(err)
}

// ofServer warns of unencrypted requests if no network is open, because Grapnel sends none of them.
func (m *mistakes) ofServer(h *ownHook, opened bool) {
	if h.HTTP == nil || opened {
		return
	}
	if u, err := url.Parse(h.HTTP.URL); err != nil || !strings.EqualFold(u.Scheme, "http") || !strings.Contains(u.Hostname(), ".") || strings.Trim(u.Hostname(), "0123456789.") == "" {
		return // another check reports addresses and local names
	}
	m.warn(badAddress, h, h.server(), "write https://, or open the network of the server: `networks: [10.1.2.0/24]`", "http:// is sent to open networks only, and no network is open, so every request fails")
}

// ofGuards warns once of guards that hidden commands pass, if the policy is meant to be strict.
func (m *mistakes) ofGuards(p *policyfile.Policy, managed bool) {
	if !p.Strict && !managed {
		return
	}
	var guard *policyfile.Hook
	for i := range p.Hooks {
		h := &p.Hooks[i]
		switch {
		case h.Match == nil:
		case slices.Contains(h.Match.Shell, match.ShellUnknown):
			return
		case guard == nil && len(h.Match.Command)+len(h.Match.Deletes)+len(h.Match.Drops) > 0 && (h.Decide == "block" || h.Decide == "ask"):
			guard = h
		}
	}
	if guard == nil {
		return
	}
	m.found = append(m.found, hiddenCommands.finding(&policyfile.Error{
		File: m.file, Line: guard.Line, Col: 1, Msg: fmt.Sprintf("hook %q: lines that hide their command pass, such as `curl URL | sh`", guard.Name),
		Hint: "add a hook with `match: {shell: unknown}` that asks; if that is intended, write \"# grapnel:ignore hidden-commands\" above this hook",
	}))
}

// ignored reports whether a comment in the file silences a warning: "grapnel:ignore RULE" at the end of
// the line of the warning, or in the comment lines above that line or above its hook.
func ignored(f *Finding, lines []string, own []ownHook) bool {
	if f.Severity != "warning" || f.Line == 0 {
		return false
	}
	hook := f.Line
	for _, h := range own {
		if h.Line <= f.Line {
			hook = h.Line
		}
	}
	return commentNames(lines, f.Line, f.Rule) || commentNames(lines, hook, f.Rule)
}

func commentNames(lines []string, line int, rule string) bool {
	names := func(text string) bool {
		_, list, ok := strings.Cut(text, "grapnel:ignore ")
		return ok && slices.Contains(strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" ,\t\r", r) }), rule)
	}
	if line > len(lines) {
		return false
	}
	if _, comment, ok := strings.Cut(lines[line-1], "#"); ok && names(comment) {
		return true
	}
	for i := line - 2; i >= 0 && strings.HasPrefix(strings.TrimSpace(lines[i]), "#"); i-- {
		if names(lines[i]) {
			return true
		}
	}
	return false
}
