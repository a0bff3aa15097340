package hookfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// geminiCLI returns the dialect, copied once, because reading uses its tables many times.
var geminiCLI = sync.OnceValue(dialect.GeminiCLI)

// Hooks is one source of hooks of Gemini CLI.
type Hooks struct {
	Source    grapnel.Source
	Hooks     json.RawMessage // {event: [definition]}: "hooks" of settings.json, or of an extension's hooks/hooks.json
	Extension bool            // an extension, whose hooks run in every folder
}

// Request describes which hooks of Gemini CLI to load, and how.
type Request struct {
	Files     []Hooks                               // in Gemini CLI's order: settings from system defaults to system, then active extensions
	Disabled  []string                              // hooksConfig.disabled of all files: names of hooks, or commands of hooks without a name
	Untrusted bool                                  // the folder is not trusted: hooks from settings do not run, including the user's
	Command   func(policyfile.Command) grapnel.Hook // builds the hook of a command; nil = return no hooks
}

// Load returns the hooks of Gemini CLI as that agent would run them, and a warning for each
// part that Gemini CLI or Grapnel does not support. The Specs are for the preset "gemini": they
// contain no Timeout or OnError that the configuration does not set, because the preset's Defaults
// set them. The Key is the value by which Gemini CLI identifies equal hooks.
func Load(req Request) ([]grapnel.Spec, []*policyfile.Error) {
	files := make([]hookfiles.File, len(req.Files))
	for i, f := range req.Files {
		files[i] = hookfiles.File{Path: f.Source.File, Source: f.Source}
	}
	r := newReader(files, req.Disabled, false)
	for i, f := range req.Files {
		if len(f.Hooks) == 0 || req.Untrusted && !f.Extension {
			continue
		}
		r.At = i
		hooks, err := tree.ParseJSON(f.Hooks)
		if err != nil {
			r.Fail(nil, "hooks", "", "%s", err.Msg)
			continue
		}
		r.events(hooks)
	}
	found := r.Found
	var specs []grapnel.Spec
	taken := map[string]int{}
	for i := range found.Hooks {
		h := &found.Hooks[i]
		if req.Command == nil {
			break
		}
		spec := grapnel.Spec{
			Name: h.Name, Source: files[h.FileIndex].Source, On: h.On, Match: h.Matcher, Sequential: h.Sequential, Key: h.Key,
			Timeout: time.Duration(h.Timeout),
		}
		name := spec.FullName()
		if taken[name]++; taken[name] > 1 { // one program for several events or tools
			spec.Name = fmt.Sprintf("%s #%d", h.Name, taken[name])
		}
		h.Run.Name, h.Run.Scope = spec.Name, spec.Source.Scope
		spec.Hook = req.Command(*h.Run)
		specs = append(specs, spec)
	}
	warnings := slices.Concat(found.Errors, found.Notes)
	for _, w := range warnings {
		w.Line, w.Col = 0, 0 // positions are relative to a part of the file
	}
	return specs, warnings
}

// reader reads hooks from settings and extensions.
type reader struct {
	*hookfiles.Reader
	disabled  []string
	short     bool   // a hook without a name gets the name of its program instead of its command
	extension string // directory of the extension whose file is being read; empty = settings
}

func newReader(files []hookfiles.File, disabled []string, brief bool) *reader {
	return &reader{Reader: hookfiles.NewReader(files, brief), disabled: disabled}
}

// events parses a file's hooks in the order of the agent's events.
func (r *reader) events(hooks *tree.Node) {
	if hooks.Kind != tree.Object {
		r.Fail(hooks, "hooks", "", "is %s, not an object of events", hooks.Kind)
		return
	}
	var known []string
	for i := range geminiCLI().Events {
		row := &geminiCLI().Events[i]
		known = append(known, row.Native)
		if n := hooks.Get(row.Native); n != nil {
			r.definitions("hooks."+row.Native, row, n)
		}
	}
	for _, name := range hooks.Names {
		if geminiCLI().Row(name) == nil && !slices.Contains(otherKeys, name) {
			r.Fail(hooks.Get(name), "hooks."+name, wording.Nearest(name, known), "is not an event of Gemini CLI")
		}
	}
}

// otherKeys may occur next to the events. They are from older versions.
var otherKeys = []string{"enabled", "disabled", "notifications"}

func (r *reader) definitions(at string, row *dialect.EventRow, list *tree.Node) {
	if list.Kind != tree.List {
		r.Fail(list, at, "", "is %s, not a list of definitions", list.Kind)
		return
	}
	for i, def := range list.Items {
		at := fmt.Sprintf("%s[%d]", at, i)
		hooks := def.Get("hooks")
		if !hooks.Is(tree.List) {
			r.Fail(def, at, `write {"matcher": "...", "hooks": [...]}`, "has no list of hooks")
			continue
		}
		match, err := newMatcher(row, def.Get("matcher"))
		switch {
		case errors.Is(err, grapnel.ErrUndecided):
			r.Note(def.Get("matcher"), at+".matcher", "name the tools one by one instead: a|b", "%v, so its hooks run at each event", err)
		case match.err != nil:
			r.Note(def.Get("matcher"), at+".matcher", "", "%v: its hooks fail at each event", err)
		}
		for j, n := range hooks.Items {
			r.hook(fmt.Sprintf("%s.hooks[%d]", at, j), row, n, *match, def.Get("sequential").IsTrue())
		}
	}
}

func (r *reader) hook(at string, row *dialect.EventRow, n *tree.Node, match matcher, sequential bool) {
	kind, name, line := hookfiles.TextOf(n.Get("type")), hookfiles.TextOf(n.Get("name")), hookfiles.TextOf(n.Get("command"))
	switch {
	case n.Kind != tree.Object:
		r.Fail(n, at, "", "is %s, not an object", n.Kind)
		return
	case kind != "command" && kind != "plugin" && kind != "runtime":
		r.Fail(n, at, "keep it in Gemini CLI if that runs it, or use a command", "the type is %q, but only hooks of the type \"command\" run", kind)
		return
	case kind == "command" && line == "", kind == "runtime" && name == "":
		r.Fail(n, at, "", "has no command")
		return
	case kind == "runtime" || line == "":
		// Gemini CLI schedules such a hook, and fails at each event because there is nothing to
		// run.
		r.Fail(n, at, "", "fails each time: it has no executable command")
		line = ""
	}
	called, key := cmp.Or(name, "unknown-hook"), name+":" // for a type that files cannot contain
	if kind == "command" {
		called, key = cmp.Or(name, line), name+":"+line
	}
	if slices.Contains(r.disabled, called) {
		return
	}
	if r.RunsGrapnel(&policyfile.Command{Line: line}) {
		return
	}
	h := hookfiles.Hook{
		Hook: policyfile.Hook{Name: called, On: []grapnel.Kind{row.Kind}, Timeout: r.milliseconds(n, at)},
		At:   at, Matcher: &match, All: match.source == "" && match.err == nil, Sequential: sequential, Key: key,
		Complete: func(h *hookfiles.Hook) {
			h.Match, h.Tools, h.Unsupported = match.nearest(), match.tools(), match.unsupported()
		},
	}
	if row.Failed != "" {
		h.On = append(h.On, row.Failed)
	}
	if name == "" && r.short {
		h.Name = hookfiles.CalledAfter(line, row.Native)
	}
	h.Run = r.command(n, at, line)
	r.Add(n, h)
}

func (r *reader) milliseconds(n *tree.Node, at string) policyfile.Duration {
	t := n.Get("timeout")
	if t == nil {
		return 0
	}
	ms, ok := t.Number()
	if !ok || ms < 1 || ms >= float64(hookfiles.MaxTimeout.Milliseconds()) {
		r.Note(t, at+".timeout", "", "is %s, not a valid number of milliseconds, so it is ignored", match.Shorten(string(t.Raw)))
		return 0
	}
	return r.Timeout(n, t, at+".timeout", time.Duration(ms*float64(time.Millisecond)))
}

func (r *reader) command(n *tree.Node, at, line string) *policyfile.Command {
	cmd := &policyfile.Command{Speaks: geminiCLI().Name}
	line = quoteVariables(r.hydrated(line), lineVariables)
	switch {
	case line == "":
	case runtime.GOOS == "windows": // Gemini CLI uses PowerShell here, which by itself does not return the exit code
		cmd.Args = []string{"powershell.exe", "-NoProfile", "-Command", line + "; if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }"}
	default:
		cmd.Args = []string{"bash", "-c", line}
	}
	env := n.Get("env")
	if env != nil && (env.Kind != tree.Object || slices.ContainsFunc(env.Names, func(name string) bool { return !env.Get(name).Is(tree.Text) })) {
		r.Note(env, at+".env", "", "is not an object of strings, so it is ignored")
		return cmd
	}
	if env != nil {
		for _, name := range env.Names {
			value := r.hydrated(env.Get(name).Text)
			if strings.Contains(value, "$") {
				r.Note(env.Get(name), at+".env."+name, "set it in the command line", "variables in it are not replaced")
			}
			cmd.Vars = append(cmd.Vars, name+"="+value)
		}
	}
	slices.Sort(cmd.Vars)
	return cmd
}

// hydrated replaces the variables that only files of extensions can use.
func (r *reader) hydrated(text string) string {
	if r.extension == "" {
		return text
	}
	return strings.NewReplacer(
		"${extensionPath}", r.extension, "${/}", string(filepath.Separator), "${pathSeparator}", string(filepath.Separator),
		"${workspacePath}", "${GEMINI_PROJECT_DIR}",
	).Replace(text)
}

// lineVariables are the variables that Gemini CLI itself replaces in a command line. It inserts
// each as one word, for any value.
var lineVariables = []string{"GEMINI_PROJECT_DIR", "GEMINI_CWD", "GEMINI_SESSION_ID", "CLAUDE_PROJECT_DIR"}

// quoteVariables quotes the named variables where they are outside quotes in a shell line, so that
// each is one word.
func quoteVariables(line string, names []string) string {
	if !strings.Contains(line, "$") {
		return line
	}
	var b strings.Builder
	var quote byte
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(line):
			b.WriteByte(c)
			i++
			c = line[i]
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && c == '$':
			if variable := variableAt(line[i:], names); variable != "" {
				b.WriteString(`"` + variable + `"`)
				i += len(variable) - 1
				continue
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// variableAt returns the variable reference at the beginning of a text, or "".
func variableAt(text string, names []string) string {
	for _, name := range names {
		for _, mention := range []string{"$" + name, "${" + name + "}"} {
			if strings.HasPrefix(text, mention) {
				return mention
			}
		}
	}
	return ""
}

// matcher matches like Gemini CLI: tools with an unanchored regular expression or, if it is
// invalid, with the complete name; causes with the complete word. An event without a subject always
// matches.
type matcher struct {
	event  string
	source string           // empty = all
	search hookfiles.Search // nil = compare with the whole name
	err    error            // the matcher cannot decide
}

// newMatcher returns a matcher that is usable even with an error.
func newMatcher(row *dialect.EventRow, n *tree.Node) (*matcher, error) {
	if n != nil && n.Kind != tree.Text && n.Kind != tree.Null {
		err := fmt.Errorf("%s is not text", match.Shorten(string(n.Raw)))
		return &matcher{source: string(n.Raw), err: err}, err
	}
	m := &matcher{event: row.Native, source: strings.TrimSpace(hookfiles.TextOf(n))}
	if m.source == "*" {
		m.source = ""
	}
	if m.source == "" || row.Kind != grapnel.ToolBefore && row.Kind != grapnel.ToolAfter {
		return m, nil
	}
	search, err := hookfiles.SearchJS(m.source)
	if err != nil {
		err = fmt.Errorf("%q %w", m.source, err)
	}
	if m.search = search; errors.Is(err, grapnel.ErrUndecided) {
		m.err = err
	}
	return m, err
}

// Match returns an error if the matcher cannot decide: a blocking hook that never runs must be
// noticed.
func (m *matcher) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	if m.source == "" {
		return true, nil
	}
	subject := dialect.GeminiSubject(ev)
	switch {
	case m.err != nil:
		return false, fmt.Errorf("the matcher %w", m.err)
	case subject == "":
		return true, nil
	case m.search == nil:
		return m.source == subject, nil
	}
	ok, err := m.search(subject)
	if err != nil {
		err = fmt.Errorf("the matcher %q %w", m.source, err)
	}
	return ok, err
}

// nearest returns a policy match that is at least as wide as the matcher and close to it. nil
// matches every event. Policies join the names of an MCP server and its tool with __ and Gemini CLI
// with _, so each _ becomes *.
func (m *matcher) nearest() *policyfile.Match {
	globs, ok := hookfiles.SearchGlobs(m.source)
	if m.search == nil || !ok {
		return nil
	}
	for i, glob := range globs {
		globs[i] = hookfiles.SingleStars(strings.ReplaceAll(glob, "_", "*"))
	}
	return hookfiles.NearestTools(geminiCLI().Tools, hookfiles.MayMatch(m.search), globs)
}

// tools returns the tools of a matcher that is a list of names of Gemini CLI's own tools, otherwise
// nil. Its author means these tools, although the expression also matches longer names.
func (m *matcher) tools() []string {
	names := strings.Split(m.source, "|")
	for _, name := range names {
		if !slices.ContainsFunc(geminiCLI().Tools, func(t dialect.ToolRow) bool { return t.Native == name }) {
			return nil
		}
	}
	if m.nearest() == nil {
		return nil
	}
	return hookfiles.NearestTools(geminiCLI().Tools, hookfiles.MayMatch(m.search), names).Tool
}

// when returns the `when:` of a policy for a matcher of a cause, or "".
func (m *matcher) When() string {
	var exact []string
	switch m.event {
	case "SessionStart":
		exact = []string{"startup", "clear"}
	case "SessionEnd":
		exact = []string{"exit", "clear", "logout", "prompt_input_exit"}
	case "PreCompress":
		exact = []string{"manual", "auto"}
	}
	return hookfiles.WhenCause(m.event, []string{m.source}, exact)
}

// unsupported describes how the policy match differs from the matcher.
func (m *matcher) unsupported() (clauses []string) {
	near, tools := m.nearest(), m.tools()
	switch {
	case m.source == "", m.When() != "":
		return nil
	case near == nil:
		return []string{fmt.Sprintf("the matcher %q", m.source)}
	case tools == nil:
		return []string{fmt.Sprintf("the matcher %q is narrower than tool: %s", m.source, strings.Join(near.Tool, ", "))}
	}
	clauses = append(clauses, fmt.Sprintf("the matcher %q also matches longer names, such as mcp_server_%s", m.source, tools[0]))
	if hookfiles.OtherTools(geminiCLI().Tools, hookfiles.MayMatch(m.search), tools) {
		clauses = append(clauses, fmt.Sprintf("the matcher %q is narrower than tool: %s", m.source, strings.Join(tools, ", ")))
	}
	return clauses
}

// Explain returns the text of the matcher.
func (m *matcher) Explain(*grapnel.Event, *grapnel.Verdict) string {
	if m.source == "" {
		return ""
	}
	return fmt.Sprintf("matcher %q", m.source)
}

// Expression returns the matcher if it is a regular expression, otherwise "".
func (m *matcher) Expression() string {
	if m.search == nil {
		return ""
	}
	return m.source
}
