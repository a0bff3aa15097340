package shell

import (
	"maps"
	"slices"
	"strings"
)

// makefile reads the recipes that make runs, from a Makefile that the line or its past wrote.
func (w *walker) makefile(name string, args []Word, at place) {
	s := scanner{rows: []*program{lookup("make")}, args: args, late: true}
	reads, dir := false, ""
	files := []string{"Makefile", "makefile", "GNUmakefile"}
	var m makeRun
	for s.scan() {
		switch {
		case s.kind == operand && s.word.Literal:
			if key, value, ok := strings.Cut(s.word.Text, "="); ok {
				m.set(key, value, true)
			} else {
				m.goals = append(m.goals, s.word.Text)
			}
		case s.kind != option || !s.valued:
		case (s.name == "C" || s.name == "directory") && s.value.Literal:
			dir = join(dir, s.value.Text)
		case s.name == "f" || s.name == "file" || s.name == "makefile":
			reads = reads || s.value.Text == "-" || standardInput(s.value.Text)
			files = []string{s.value.Text}
			if c := s.value.c; c != nil && c.feed != nil {
				w.makeText(*c.feed, name, false, at.behind(name), m)
			}
		case s.name == "eval":
			w.makeText(s.value.code(), name, !s.value.Literal, at.behind(name), m)
		}
	}
	if !reads {
		for _, file := range files {
			w.wrote(Word{Text: join(dir, file), Literal: true}, func(text string, computed bool) {
				before := w.dir
				w.dir = join(w.dir, dir)
				w.makeText(text, name, computed, at.behind(name), m)
				w.dir = before
			})
		}
		return
	}
	text, ok := w.fedText(&at)
	if !ok {
		w.unknown("pipe into " + name)
		return
	}
	in := at.behind(name)
	in.stdin, in.from = nil, nil
	w.makeText(text, name, false, in, m)
}

// makeRun is one call of make.
type makeRun struct {
	goals []string          // empty = the first target
	vars  map[string]string // variables with known values
	fixed []string          // variables of the command line, which a Makefile does not change
	rules []makeRule
	spend func(steps int) bool // false = the line has cost enough
}

// makeRule is one rule of a Makefile.
type makeRule struct {
	targets, needs []string
	recipe         []string
	done           bool
}

// maxMakeRules limits the rules of one Makefile, and separately its variables.
const maxMakeRules = 1024

func (m *makeRun) set(name, value string, fixed bool) {
	name = strings.TrimSpace(name)
	switch {
	case name == "" || len(value) > maxValue || len(m.vars) >= maxMakeRules || slices.Contains(m.fixed, name):
		return
	case fixed:
		m.fixed = append(slices.Clip(m.fixed), name)
	}
	if m.vars == nil {
		m.vars = map[string]string{}
	}
	m.vars[name] = value
}

// makeText reads the commands of a Makefile: the recipes of the goals and of their prerequisites, and
// the commands that make runs while it reads the file.
func (w *walker) makeText(text, name string, computed bool, at place, m makeRun) {
	m.vars, m.spend = maps.Clone(m.vars), w.spend
	run := func(line string) { w.nest(line, computed, name, at) }
	text = strings.ReplaceAll(text, "\\\n", " ")
	var loose []string // recipe lines without a rule, in a part of a file
	for line := range strings.SplitSeq(text, "\n") {
		if recipe, ok := strings.CutPrefix(line, "\t"); ok {
			if n := len(m.rules); n > 0 {
				m.rules[n-1].recipe = append(m.rules[n-1].recipe, recipe)
			} else {
				loose = append(loose, recipe)
			}
			continue
		}
		m.statement(line, run)
	}
	for _, line := range loose {
		run(m.recipe(line, ""))
	}
	if len(m.goals) == 0 {
		first := slices.IndexFunc(m.rules, func(r makeRule) bool { return len(r.targets) > 0 && !strings.HasPrefix(r.targets[0], ".") })
		if first < 0 {
			return
		}
		m.goals = m.rules[first].targets[:1]
	}
	m.build(m.goals, run)
}

// statement reads a line of a Makefile that is not a recipe. Commands that make runs at once go to
// run.
func (m *makeRun) statement(line string, run func(string)) {
	for _, mark := range [...]string{"$(shell ", "${shell "} {
		if _, rest, ok := strings.Cut(line, mark); ok {
			end := strings.LastIndexAny(rest, ")}")
			if end < 0 {
				end = len(rest)
			}
			run(m.expand(rest[:end], ""))
		}
	}
	if i := strings.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	colon, equals := strings.IndexByte(line, ':'), strings.IndexByte(line, '=')
	switch {
	case equals > 0 && line[equals-1] == '!':
		run(m.expand(line[equals+1:], ""))
	case equals > 0 && (colon < 0 || equals < colon || strings.Trim(line[colon:equals], ":") == ""):
		key := strings.TrimSpace(strings.TrimRight(line[:equals], ":?+"))
		key = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(key, "export "), "override "))
		value := m.expand(strings.TrimSpace(line[equals+1:]), "")
		if line[equals-1] == '+' {
			value = strings.TrimSpace(m.vars[key] + " " + value)
		}
		m.set(key, value, false)
	case colon > 0 && len(m.rules) < maxMakeRules:
		rest, recipe, more := strings.Cut(strings.TrimLeft(line[colon:], ":"), ";")
		r := makeRule{targets: strings.Fields(m.expand(line[:colon], "")), needs: strings.Fields(m.expand(rest, ""))}
		if more {
			r.recipe = []string{recipe}
		}
		m.rules = append(m.rules, r)
	}
}

// build runs the recipes of targets, after those that they need.
func (m *makeRun) build(targets []string, run func(string)) {
	for _, target := range targets {
		if !m.spend(stepsPerStmt * (1 + len(m.rules)/8)) {
			return
		}
		for i := range m.rules {
			r := &m.rules[i]
			fits := func(t string) bool {
				before, after, pattern := strings.Cut(t, "%")
				return t == target || pattern && strings.HasPrefix(target, before) && strings.HasSuffix(target, after) || strings.Contains(t, "$")
			}
			if r.done || !slices.ContainsFunc(r.targets, fits) {
				continue
			}
			r.done = true
			m.build(r.needs, run)
			for _, line := range r.recipe {
				run(m.recipe(line, target))
			}
		}
	}
}

// recipe returns a line of a recipe as the shell gets it.
func (m *makeRun) recipe(line, target string) string {
	return m.expand(strings.TrimLeft(line, "@-+ \t"), target)
}

// expand replaces the references of make: known variables by their values, unknown ones by
// variables of the shell. Functions of make become computed text.
func (m *makeRun) expand(text, target string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "$")
		b.WriteString(before)
		if !m.spend(len(before) + stepsPerStmt) {
			return ""
		}
		if !ok || rest == "" || b.Len() > maxCode {
			return b.String()
		}
		text = rest[1:]
		switch rest[0] {
		case '$':
			b.WriteByte('$')
		case '@':
			b.WriteString(target)
		case '(', '{':
			closing := byte(')')
			if rest[0] == '{' {
				closing = '}'
			}
			end := strings.IndexByte(rest, closing)
			if end < 0 {
				b.WriteString("$" + rest)
				return b.String()
			}
			text = rest[end+1:]
			value := m.value(rest[1:end])
			b.WriteString(value)
			m.spend(len(value))
		default:
			b.WriteString(m.value(rest[:1]))
		}
	}
}

// value returns the value of a reference.
func (m *makeRun) value(name string) string {
	if value, ok := m.vars[name]; ok {
		return value
	}
	if line, ok := strings.CutPrefix(name, "shell "); ok {
		return "$(" + line + ")"
	}
	if isAssignment(name + "=") {
		return "${" + name + "}"
	}
	return "$(" + strings.TrimSpace(strings.Map(func(r rune) rune {
		if strings.ContainsRune("$()<>^?*+|;&`", r) {
			return ' '
		}
		return r
	}, "make "+name)) + ")"
}
