package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// GeminiHooks is one place where hooks of Gemini CLI are configured.
type GeminiHooks struct {
	Source    grapnel.Source
	Hooks     json.RawMessage // {event: [definition]}: "hooks" of settings.json, or of an extension's hooks/hooks.json
	Extension bool            // its hooks run in every folder
}

// GeminiRequest says what to load of Gemini CLI's configuration, and how.
type GeminiRequest struct {
	Files     []GeminiHooks              // in the agent's order: settings from system defaults to system, then active extensions
	Disabled  []string                   // hooksConfig.disabled of all files: names of hooks, or commands of those without one
	Untrusted bool                       // the folder is not trusted: hooks of settings do not run, those of the user neither
	Command   func(Command) grapnel.Hook // makes the hook behind a command; nil = there are no hooks
}

// LoadGemini returns the hooks of Gemini CLI as that agent would run them, and a
// warning about each part that it, or Grapnel, cannot follow. They are made for the
// preset "gemini": a Timeout or OnError that the configuration does not give is left
// to its Defaults, and the Key is what the agent tells equal hooks by.
func LoadGemini(req GeminiRequest) ([]grapnel.Spec, []*Error) {
	l := geminiLoader{req: req, names: map[string]int{}}
	for i := range req.Files {
		l.file = &req.Files[i]
		if !req.Untrusted || l.file.Extension {
			l.events()
		}
	}
	return l.specs, l.warnings
}

type geminiLoader struct {
	req      GeminiRequest
	file     *GeminiHooks
	specs    []grapnel.Spec
	warnings []*Error
	names    map[string]int // how often a name is taken, by source
}

// geminiDefinition is what one definition says; its hooks share a matcher.
type geminiDefinition struct {
	Matcher    json.RawMessage   `json:"matcher"`
	Sequential json.RawMessage   `json:"sequential"` // anything but true is false
	Hooks      []json.RawMessage `json:"hooks"`
}

type geminiHook struct {
	Type    string          `json:"type"`
	Name    string          `json:"name"`
	Command string          `json:"command"`
	Timeout json.RawMessage `json:"timeout"` // in milliseconds
	Env     json.RawMessage `json:"env"`
}

func (l *geminiLoader) warn(at, format string, args ...any) {
	l.warnings = append(l.warnings, &Error{File: l.file.Source.File, Msg: at + " " + fmt.Sprintf(format, args...)})
}

// events reads the file's hooks in the order of the agent's events.
func (l *geminiLoader) events() {
	if len(l.file.Hooks) == 0 {
		return
	}
	var byEvent map[string]json.RawMessage
	if json.Unmarshal(l.file.Hooks, &byEvent) != nil {
		l.warn("hooks", "is not an object of events and is left out")
		return
	}
	for i := range dialect.GeminiCLI.Events {
		row := &dialect.GeminiCLI.Events[i]
		if raw, ok := byEvent[row.Native]; ok {
			l.definitions("hooks."+row.Native, row, raw)
		}
	}
	var unknown []string
	for name := range byEvent {
		if dialect.GeminiCLI.Row(name) == nil && !slices.Contains(geminiOtherKeys, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		l.warn("hooks."+name, "is no event of Gemini CLI and is left out")
	}
}

// geminiOtherKeys may stand among the events. They are from older versions.
var geminiOtherKeys = []string{"enabled", "disabled", "notifications"}

func (l *geminiLoader) definitions(at string, row *dialect.EventRow, raw json.RawMessage) {
	var definitions []json.RawMessage
	if json.Unmarshal(raw, &definitions) != nil || definitions == nil {
		l.warn(at, "is not a list of definitions and is left out")
		return
	}
	for i, raw := range definitions {
		at := fmt.Sprintf("%s[%d]", at, i)
		var def geminiDefinition
		if json.Unmarshal(raw, &def) != nil || def.Hooks == nil {
			l.warn(at, "has no list of hooks and is left out")
			continue
		}
		match, err := newGeminiMatcher(row, def.Matcher)
		if err != nil {
			l.warn(at+".matcher", "%v", err)
		}
		for j, raw := range def.Hooks {
			l.hook(fmt.Sprintf("%s.hooks[%d]", at, j), row, raw, match, string(def.Sequential) == "true")
		}
	}
}

func (l *geminiLoader) hook(at string, row *dialect.EventRow, raw json.RawMessage, match *geminiMatcher, sequential bool) {
	var h geminiHook
	switch err := json.Unmarshal(raw, &h); {
	case err != nil:
		l.warn(at, "is left out: %v", err)
		return
	case h.Type != "command" && h.Type != "plugin" && h.Type != "runtime":
		l.warn(at, "is left out: its type is %q, and only hooks of the type \"command\" run", h.Type)
		return
	case h.Type == "command" && h.Command == "", h.Type == "runtime" && h.Name == "":
		l.warn(at, "is left out: it has no command")
		return
	case h.Type == "runtime" || h.Command == "":
		// The agent plans it, and finds out at each event that there is nothing to run.
		l.warn(at, "fails each time: it has no command that can run")
		h.Command = ""
	}
	called, key := cmp.Or(h.Name, "unknown-hook"), h.Name+":" // of a type that is none of a file's
	if h.Type == "command" {
		called, key = cmp.Or(h.Name, h.Command), h.Name+":"+h.Command
	}
	if slices.Contains(l.req.Disabled, called) || l.req.Command == nil {
		return
	}
	source := l.file.Source
	spec := grapnel.Spec{
		Name: called, Source: source, On: []grapnel.Kind{row.Kind}, Match: match, Sequential: sequential, Key: key,
	}
	if row.Failed != "" {
		spec.On = append(spec.On, row.Failed)
	}
	if n := l.names[spec.FullName()]; n > 0 { // one program at several events, or on several tools
		l.names[spec.FullName()]++
		spec.Name = fmt.Sprintf("%s #%d", called, n+1)
	} else {
		l.names[spec.FullName()] = 1
	}
	var ms float64
	switch err := json.Unmarshal(h.Timeout, &ms); {
	case h.Timeout == nil:
	case err == nil && ms >= 1 && ms < maxGeminiTimeout:
		spec.Timeout = time.Duration(ms * float64(time.Millisecond))
	default:
		l.warn(at+".timeout", "is %s, no sensible number of milliseconds, and does not count", h.Timeout)
	}
	cmd := Command{Name: spec.Name, Speaks: dialect.GeminiCLI.Name, Scope: source.Scope}
	switch {
	case h.Command == "":
	case runtime.GOOS == "windows": // where the agent uses PowerShell, which sees to the exit code by itself
		cmd.Args = []string{"powershell.exe", "-NoProfile", "-Command", h.Command + "; if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }"}
	default:
		cmd.Args = []string{"bash", "-c", h.Command}
	}
	var env map[string]string
	if h.Env != nil && json.Unmarshal(h.Env, &env) != nil {
		l.warn(at+".env", "is no object of texts and does not count")
	}
	for name, value := range env {
		cmd.Vars = append(cmd.Vars, name+"="+value)
	}
	slices.Sort(cmd.Vars)
	spec.Hook = l.req.Command(cmd)
	l.specs = append(l.specs, spec)
}

// maxGeminiTimeout is a day in milliseconds: a longer one is a slip.
const maxGeminiTimeout = 24 * 60 * 60 * 1000

// geminiMatcher compares as Gemini CLI does: tools by a regular expression that is
// searched for or, if it is none, by their whole name; causes by the whole word. A
// subject that is not there matches anything.
type geminiMatcher struct {
	source string // empty = all
	re     *regexp.Regexp
	err    error // Grapnel cannot follow the expression
}

// newGeminiMatcher returns a matcher that can be used whatever the error, which says
// what it cannot do.
func newGeminiMatcher(row *dialect.EventRow, raw json.RawMessage) (*geminiMatcher, error) {
	var source string
	if raw != nil && json.Unmarshal(raw, &source) != nil {
		err := fmt.Errorf("%s is no text: its hooks fail at each event", raw)
		return &geminiMatcher{source: string(raw), err: err}, err
	}
	m := &geminiMatcher{source: strings.TrimSpace(source)}
	if m.source == "*" {
		m.source = ""
	}
	if m.source == "" || row.Kind != grapnel.ToolBefore && row.Kind != grapnel.ToolAfter {
		return m, nil
	}
	re, err := compileJS(m.source)
	switch {
	case err == nil:
		m.re = re
	case errors.Is(err, errNoRE2):
		m.err = fmt.Errorf("%q %w: its hooks fail at each event (name the tools one by one instead: a|b)", m.source, err)
	}
	return m, m.err
}

// Match fails where the matcher cannot be followed: a guard that never runs must be
// seen to.
func (m *geminiMatcher) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	if m.source == "" {
		return true, nil
	}
	subject := dialect.GeminiSubject(ev)
	switch {
	case m.err != nil:
		return false, fmt.Errorf("the matcher %w", m.err)
	case subject == "":
		return true, nil
	case m.re != nil:
		return m.re.MatchString(subject), nil
	default:
		return m.source == subject, nil
	}
}

// Explain names the matcher.
func (m *geminiMatcher) Explain(*grapnel.Event, *grapnel.Verdict) string {
	if m.source == "" {
		return ""
	}
	return fmt.Sprintf("matcher %q", m.source)
}
