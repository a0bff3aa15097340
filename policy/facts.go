package policy

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/shell"
)

// facts are what matchers ask of one event, worked out once however many ask.
type facts struct {
	ev        *grapnel.Event
	keptCalls lazy[[]*facts]
	keptGates lazy[[]shell.Gate]
	keptShell lazy[[]*shell.Script]
	keptTexts lazy[[]string]
	keptNames lazy[[]string]
	keptPaths lazy[[]realName]
	keptEnv   lazy[map[string]any]
}

// lazy is a value that is worked out when it is first asked for.
type lazy[T any] struct {
	once  sync.Once
	value T
}

func (l *lazy[T]) get(work func() T) T {
	l.once.Do(func() { l.value = work() })
	return l.value
}

// calls are those of a batch.
func (f *facts) calls() []*facts {
	return f.keptCalls.get(func() []*facts { return newCalls(f.ev) })
}

// gates are one for each shell line, and scripts likewise.
func (f *facts) gates() []shell.Gate {
	return f.keptGates.get(func() []shell.Gate { return gates(f.ev) })
}

func (f *facts) scripts() []*shell.Script {
	return f.keptShell.get(func() []*shell.Script { return parseShell(f.ev) })
}

func (f *facts) allTexts() []string {
	return f.keptTexts.get(func() []string { return allTexts(f.ev) })
}

func (f *facts) pathNames() []string { return f.keptNames.get(f.findPaths) }

func (f *facts) paths() []realName { return f.keptPaths.get(f.realPaths) }

// env is that of `when:`, without a Verdict.
func (f *facts) env() map[string]any {
	return f.keptEnv.get(func() map[string]any { return whenEnv(f.ev, nil) })
}

// maxPaths bounds how many paths of one call are made real: each costs a system call
// for each of its parts, and an agent does not wait for ever.
const maxPaths = 4096

// factCache keeps the facts of the event that is being judged. An engine gives each
// firing its own *Event, so the pointer tells events apart.
type factCache struct{ last atomic.Pointer[facts] }

func (c *factCache) of(ev *grapnel.Event) *facts {
	if f := c.last.Load(); f != nil && f.ev == ev {
		return f
	}
	f := newFacts(ev)
	c.last.Store(f)
	return f
}

func newFacts(ev *grapnel.Event) *facts { return &facts{ev: ev} }

// newCalls looks at each call of a batch as if it were the event's only one.
func newCalls(ev *grapnel.Event) []*facts {
	var calls []*facts
	for i := range ev.Calls {
		one := *ev
		one.Tool, one.Calls = &ev.Calls[i], nil
		calls = append(calls, newFacts(&one))
	}
	return calls
}

func gates(ev *grapnel.Event) []shell.Gate {
	if ev.Tool == nil {
		return nil
	}
	var list []shell.Gate
	for _, line := range ev.Tool.Commands {
		list = append(list, shell.NewGate(line))
	}
	return list
}

// parseShell reads the shell lines of a call, each by itself: an open quote in one
// must not swallow the next.
func parseShell(ev *grapnel.Event) []*shell.Script {
	if ev.Tool == nil {
		return nil
	}
	var scripts []*shell.Script
	for _, line := range ev.Tool.Commands {
		scripts = append(scripts, shell.Parse(line))
	}
	return scripts
}

// unknown is what cannot be told about the shell lines.
func (f *facts) unknown() []string {
	var unknown []string
	for _, script := range f.scripts() {
		unknown = append(unknown, script.Unknown...)
	}
	return unknown
}

// allTexts is every piece of text in the event.
func allTexts(ev *grapnel.Event) []string {
	var texts []string
	for _, field := range ev.TextFields() {
		ev.Texts(field, func(text string) bool {
			texts = append(texts, text)
			return true
		})
	}
	return texts
}

// mayFit reports whether a command of the call could fit a pattern.
func (f *facts) mayFit(p *shell.Pattern, least shell.Answer) bool {
	_, found := f.find(p, least)
	return found
}

// find returns the first command that fits a pattern.
func (f *facts) find(p *shell.Pattern, least shell.Answer) (*shell.Command, bool) {
	if !slices.ContainsFunc(f.gates(), func(g shell.Gate) bool { return g.May(p.Program()) }) {
		return nil, false
	}
	for _, script := range f.scripts() {
		if answer, cmd := p.Match(script); answer >= least {
			return cmd, true
		}
	}
	return nil, false
}

// findPaths are the paths that a call names, and those that its shell lines
// redirect from and to.
func (f *facts) findPaths() []string {
	if f.ev.Tool == nil {
		return nil
	}
	var names []string
	for _, p := range f.ev.Tool.Paths {
		names = append(names, p.Path)
	}
	for _, address := range f.ev.Tool.URLs {
		if len(address) > len("file:") && strings.EqualFold(address[:len("file:")], "file:") {
			names = append(names, address)
		}
	}
	for i, line := range f.ev.Tool.Commands {
		if strings.ContainsAny(line, "<>") {
			names = append(names, redirected(f.scripts()[i])...)
		}
	}
	return names
}

// redirected lists the files that a script redirects from and to, also as seen from
// the directories that it changes into.
func redirected(script *shell.Script) []string {
	files := slices.Concat(script.Reads, script.Writes)
	names := slices.Clone(files)
	for _, dir := range entered(script) {
		for _, name := range files {
			if !filepath.IsAbs(name) && !strings.HasPrefix(name, "~") {
				names = append(names, dir+string(filepath.Separator)+name)
			}
		}
	}
	return names
}

// entered lists the directories that a script may be in after a cd. Whether one cd
// counts from another is not known, since it may stand in a subshell.
func entered(script *shell.Script) []string {
	const enough = 32
	var dirs []string
	for i := range script.Commands {
		cmd := &script.Commands[i]
		if cmd.Name != "cd" && cmd.Name != "pushd" || len(cmd.Args) == 0 {
			continue
		}
		to := cmd.Args[len(cmd.Args)-1]
		if !to.Literal || strings.HasPrefix(to.Text, "-") {
			continue
		}
		further := []string{to.Text}
		if !filepath.IsAbs(to.Text) && !strings.HasPrefix(to.Text, "~") {
			for _, dir := range dirs {
				further = append(further, dir+string(filepath.Separator)+to.Text)
			}
		}
		if dirs = append(dirs, further...); len(dirs) >= enough {
			return dirs[:enough]
		}
	}
	return dirs
}

// realPaths are the readings of all paths.
func (f *facts) realPaths() []realName {
	names := f.pathNames()
	if len(names) == 0 {
		return nil
	}
	root := projectRoot(f.ev)
	roots := distinct(root, realPath(root))
	var real []realName
	for _, name := range names {
		for _, path := range resolve(name, f.ev) {
			real = append(real, realName{name: name, roots: roots, path: path})
		}
	}
	return real
}

func (f *facts) urls() []string {
	if f.ev.Tool == nil {
		return nil
	}
	return f.ev.Tool.URLs
}

func (f *facts) content() []string {
	if f.ev.Tool == nil || f.ev.Tool.Content == "" {
		return nil
	}
	return []string{f.ev.Tool.Content}
}

func (f *facts) prompt() []string {
	if f.ev.Prompt == nil {
		return nil
	}
	return []string{f.ev.Prompt.Text}
}
