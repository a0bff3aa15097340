package match

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/prefilter"
	"github.com/grapnel-dev/grapnel/internal/secret"
	"github.com/grapnel-dev/grapnel/internal/shell"
)

// Facts are what matchers ask of one event, worked out once however many ask.
type Facts struct {
	Event      *grapnel.Event
	lines      *parsedLines // nil = none are kept
	programs   []string     // those that the policy's rules are about
	ruleIndex  *ruleIndex   // of these
	candidates lazy[ruleSet]
	keptCalls  lazy[[]*Facts]
	keptGate   lazy[[]bool]
	keptShell  lazy[[]*shell.Script]
	keptTexts  lazy[[]string]
	keptNames  lazy[[]namedPath]
	keptPaths  lazy[[]Path]
	keptRoots  lazy[[]string]
	keptInput  lazy[any]

	lowering   sync.Mutex // of lowered, dirs and packs
	lowered    []*prefilter.Text
	keptJoined lazy[string]
	dirs       []RealDirectory // made real, see RealDirectory
	fewDirs    [6]RealDirectory
	packs      []nearPack
	keptURLs   lazy[[]string]
	keptNear   lazy[bool]

	secretsLock sync.Mutex
	keptSecrets []foundSecrets

	patternsLock sync.Mutex // of keptPatterns and prefiltered
	keptPatterns map[matchOfScript][]*shell.Pattern
	prefiltered  int // patterns that were compared with a whole script
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
func (f *Facts) calls() []*Facts {
	return f.keptCalls.get(f.eachCall)
}

// gate tells for each of the programs whether a shell line may run it: one pass for
// all rules, most of which are about other programs. scripts are one for each line.
func (f *Facts) gate() []bool {
	return f.keptGate.get(func() []bool { return gate(f.Event, f.programs) })
}

// concerns reports whether the event may concern a rule.
func (f *Facts) concerns(rule int) bool {
	if len(f.ruleIndex.rules) < minRules {
		return true
	}
	left := f.candidates.get(func() ruleSet { return f.ruleIndex.pass(f) })
	return left == nil || left.has(rule)
}

// Scripts returns the parsed shell lines of the event.
func (f *Facts) Scripts() []*shell.Script {
	return f.keptShell.get(func() []*shell.Script { return f.lines.parse(f.Event) })
}

func (f *Facts) allTexts() []string {
	return f.keptTexts.get(func() []string { return allTexts(f.Event) })
}

func (f *Facts) pathNames() []namedPath { return f.keptNames.get(f.findPaths) }

// pathSize is how many paths there are, and how long they are together, in bytes.
func (f *Facts) pathSize() (n, size int) {
	names := f.pathNames()
	for i := range names {
		size += len(names[i].name)
	}
	return len(names), size
}

// TooManyPaths reports whether there are more than a match of paths looks at.
func (f *Facts) TooManyPaths() bool {
	n, size := f.pathSize()
	return n > maxPaths || size > maxPathBytes
}

// Paths lists the paths that the event names, with symbolic links followed.
func (f *Facts) Paths() []Path { return f.keptPaths.get(f.realPaths) }

// input is a tool's input, decoded; output is as it came.
func (f *Facts) input() any {
	return f.keptInput.get(func() any {
		if input, ok := f.Event.Value(grapnel.FieldInput); ok {
			return input
		}
		return map[string]any{}
	})
}

func (f *Facts) output() string {
	output, _ := f.Event.Get(grapnel.FieldOutput)
	return string(output)
}

// maxPaths and maxPathBytes bound how many paths of one call are made real, and how
// long they are together: each part of each costs a system call, a deep one a slow one,
// and an agent does not wait for ever.
const (
	maxPaths     = 4096
	maxPathBytes = 256 << 10
)

// MaxShellBytes bounds how much of shell lines of one call is parsed, which takes a
// second for a megabyte. Systems do not start a shell with more than 128 KiB.
const MaxShellBytes = 1 << 20

// ShellBytes is how long the shell lines of a call are together.
func (f *Facts) ShellBytes() int {
	size := 0
	for _, line := range OrZero(f.Event.Tool).Commands {
		size += len(line)
	}
	return size
}

// FactCache keeps the facts of the events that are being judged by rules that were
// loaded together. An engine gives each firing its own *Event, so the pointer tells events
// apart.
type FactCache struct {
	programs  []string // that the rules are about, each once; complete before the first event
	ruleIndex ruleIndex

	Secrets *secret.Rules // of the policy whose rules are being made

	Clock func() time.Time // nil = that of the system

	// Of a rule that is made later than that: what the others have.
	first *FactCache

	lines parsedLines

	// The youngest, and some before it: of events that are judged at once none should
	// push out what another still needs a hundred times.
	last  atomic.Pointer[Facts]
	other [8]atomic.Pointer[Facts]
	next  atomic.Uint32 // in other
}

// LateFacts is the cache for a rule that is made after the others, which share c. The rule
// judges by these secrets. c may be nil: then the rule shares with nobody.
func LateFacts(c *FactCache, secrets *secret.Rules) *FactCache {
	if c != nil && c.first != nil {
		c = c.first
	}
	return &FactCache{first: c, Secrets: secrets}
}

// Now is the clock of what is counted.
func (c *FactCache) Now() func() time.Time {
	switch {
	case c.first != nil:
		return c.first.Now()
	case c.Clock != nil:
		return c.Clock
	}
	return time.Now
}

// Of returns the facts of an event, those of before if they are still kept.
func (c *FactCache) Of(ev *grapnel.Event) *Facts {
	if c.first != nil {
		return c.first.Of(ev)
	}
	if f := c.last.Load(); f != nil && f.Event == ev {
		return f
	}
	return c.older(ev)
}

// Early returns the facts of an event before all hooks are made. They share what was parsed,
// and know nothing of the hooks.
func (c *FactCache) Early(ev *grapnel.Event) *Facts { return &Facts{Event: ev, lines: &c.lines} }

func (c *FactCache) older(ev *grapnel.Event) *Facts {
	for i := range c.other {
		if f := c.other[i].Load(); f != nil && f.Event == ev {
			return f
		}
	}
	f := &Facts{Event: ev, lines: &c.lines, programs: c.programs, ruleIndex: &c.ruleIndex}
	c.other[c.next.Add(1)%uint32(len(c.other))].Store(f)
	c.last.Store(f)
	return f
}

// program returns the index of a program, or a negative one if it is too late for that.
func (c *FactCache) program(name string) int {
	if c.first != nil {
		return -1
	}
	i := slices.Index(c.programs, name)
	if i < 0 {
		i = len(c.programs)
		c.programs = append(c.programs, name)
	}
	return i
}

// eachCall looks at each call of a batch as if it were the event's only one.
func (f *Facts) eachCall() []*Facts {
	var calls []*Facts
	for i := range f.Event.Calls {
		one := *f.Event
		one.Tool, one.Calls = &f.Event.Calls[i], nil
		calls = append(calls, &Facts{Event: &one, lines: f.lines, programs: f.programs, ruleIndex: f.ruleIndex})
	}
	return calls
}

func gate(ev *grapnel.Event, programs []string) []bool {
	may := make([]bool, len(programs))
	if ev.Tool != nil && shellLanguage(ev.Tool) != "" {
		for i := range may {
			may[i] = true // the gate knows shells of another kind only
		}
		return may
	}
	for _, line := range OrZero(ev.Tool).Commands {
		g := shell.NewGate(line)
		for i, program := range programs {
			may[i] = may[i] || g.May(program)
		}
	}
	return may
}

// parsedLines are shell lines that were parsed not long ago: a call has an event before it
// and one after it, and both are about the same line.
type parsedLines [8]atomic.Pointer[parsedLine]

type parsedLine struct {
	language, line string
	script         *shell.Script
}

// maxKeptLine bounds the lines that are kept, in bytes.
const maxKeptLine = 4 << 10

// parse reads the shell lines of a call, each by itself: an open quote in one must not
// swallow the next.
func (p *parsedLines) parse(ev *grapnel.Event) []*shell.Script {
	if ev.Tool == nil {
		return nil
	}
	language := shellLanguage(ev.Tool)
	var scripts []*shell.Script
	for _, line := range ev.Tool.Commands {
		if p == nil || len(line) > maxKeptLine {
			scripts = append(scripts, shell.ParseAs(language, line))
			continue
		}
		kept := &p[len(line)%len(p)]
		l := kept.Load()
		if l == nil || l.line != line || l.language != language {
			l = &parsedLine{language, line, shell.ParseAs(language, line)}
			kept.Store(l)
		}
		scripts = append(scripts, l.script)
	}
	return scripts
}

// unknown is what cannot be told about the shell lines.
func (f *Facts) unknown() []string {
	var unknown []string
	for _, script := range f.Scripts() {
		unknown = append(unknown, script.Unknown...)
	}
	return unknown
}

// hides is what of that hides a command. What takes from an allow asks unknown instead.
func (f *Facts) hides() []string {
	var hidden []string
	for _, script := range f.Scripts() {
		hidden = append(hidden, script.Hidden()...)
	}
	return hidden
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

// find returns the first command of the call that fits a pattern.
func (f *Facts) find(p *command, least shell.Answer) (*shell.Command, bool) {
	if p.program >= 0 && !f.gate()[p.program] {
		return nil, false
	}
	for _, script := range f.Scripts() {
		if !p.may(script) {
			continue
		}
		if answer, cmd := p.get().Match(script); answer >= least {
			return cmd, true
		}
	}
	return nil, false
}

// patched lists the files that the patches in a line name, if one of its commands applies
// patches: Codex takes apply_patch, with a here-document, for a call of its tool. Which
// text is whose input is not asked; in lines of other programs a patch is a mention.
func patched(script *shell.Script, line string) []string {
	applies := false
	for i := range script.Commands {
		switch c := &script.Commands[i]; c.Name {
		case "apply_patch", "applypatch", "patch":
			applies = true
		case "git":
			for j := range c.Args {
				applies = applies || c.Args[j].Text == "apply" || c.Args[j].Text == "am"
			}
		}
	}
	if !applies {
		return nil
	}
	for i := range script.Commands {
		for _, w := range script.Commands[i].Args {
			line += "\n" + w.Text // quotes are folded in it
		}
	}
	text, _ := json.Marshal(line) // a string is always JSON
	patch := grapnel.Tool{Input: text, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, Form: grapnel.FormPatch, Use: grapnel.UseWrite}}}
	patch.Derive()
	var names []string
	for _, p := range patch.Paths {
		names = append(names, p.Path)
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

func (f *Facts) urls() []string {
	return f.keptURLs.get(func() []string {
		if f.Event.Tool == nil {
			return nil
		}
		list := slices.Clip(f.Event.Tool.URLs)
		for _, script := range f.Scripts() {
			list = append(list, script.URLs()...)
		}
		return list
	})
}

func (f *Facts) prompt() []string {
	if f.Event.Prompt == nil {
		return nil
	}
	return []string{f.Event.Prompt.Text}
}

// maxLowered bounds the texts of an event that are kept in one letter case.
const maxLowered = 16

// anyText reports whether one of the patterns is in one of the texts.
func (f *Facts) anyText(patterns []textPattern, texts []string) bool {
	for i := range patterns {
		p := &patterns[i]
		for _, text := range texts {
			switch {
			case p.near != "" && !f.lower(text).Holds(p.near):
			case p.re == nil && p.in(text), p.re != nil && p.re.MayMatch(text) && p.re.MatchLong(f.lower(text), p.near):
				return true
			}
		}
	}
	return false
}

func (f *Facts) lower(text string) *prefilter.Text {
	f.lowering.Lock()
	defer f.lowering.Unlock()
	for _, l := range f.lowered {
		if l.Is(text) {
			return l
		}
	}
	low := prefilter.NewText(text)
	if len(f.lowered) < maxLowered {
		f.lowered = append(f.lowered, low)
	}
	return low
}
