package replay

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/policy"
)

// An edit changes the lines of a hook in a policy file.
type edit struct {
	hook  *Hook
	lines []string // the lines of the whole file
	from  int      // range of the hook's lines
	to    int
}

// newEdit returns an edit of a hook, whose line is one of lines.
func newEdit(h *Hook, lines []string) *edit {
	e := &edit{hook: h, lines: lines, from: h.Line - 1}
	e.to = e.end()
	return e
}

// hunk returns a change of a hook as a diff of its file. It returns "" if the file cannot be
// changed that way, or if the result would not be a valid policy.
func (a *adviser) hunk(h *Hook, way func(*edit) bool) string {
	content, ok := a.opts.Files[h.Source.File]
	if !ok || h.Line < 1 || h.Policy == nil {
		return ""
	}
	before := strings.Split(string(content), "\n")
	if h.Line > len(before) {
		return ""
	}
	e := newEdit(h, slices.Clone(before))
	if !way(e) {
		return ""
	}
	if _, errs := policy.Parse(h.Source.File, []byte(strings.Join(e.lines, "\n"))); len(errs) > 0 {
		return ""
	}
	return unified(h.Source.File, before, e.lines)
}

// appended returns a diff that adds a hook to the end of a file. It returns "" if the file does
// not end with its hooks.
func (a *adviser) appended(file, hook string) string {
	content, ok := a.opts.Files[file]
	text := strings.TrimRight(string(content), "\n") + "\n"
	if p, errs := policy.Parse(file, []byte(text+hook)); !ok || len(errs) > 0 || len(p.Hooks) == 0 {
		return ""
	}
	return unified(file, strings.Split(text, "\n"), strings.Split(text+hook, "\n"))
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// end returns the index after the last line of the hook.
func (e *edit) end() int {
	indent := indentOf(e.lines[e.from])
	at := e.from + 1
	for i := at; i < len(e.lines); i++ {
		switch line := e.lines[i]; {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") && indentOf(line) <= indent:
			continue
		case indentOf(line) <= indent:
			return at
		}
		at = i + 1
	}
	return at
}

// flow reports whether the hook is written in braces on one line.
func (e *edit) flow() bool {
	return strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(e.lines[e.from]), "-")), "{")
}

// keys returns the indentation of the hook's keys.
func (e *edit) keys() int {
	line := e.lines[e.from]
	rest := strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(line, " "), "-"), " ")
	return len(line) - len(rest)
}

// line returns the index of the line with a key of the hook, or -1.
func (e *edit) line(key string) int {
	for i := e.from; i < e.to; i++ {
		line := e.lines[i]
		if i == e.from {
			line = strings.Repeat(" ", e.keys()) + line[e.keys():]
		}
		if indentOf(line) == e.keys() && strings.HasPrefix(line[e.keys():], key+":") {
			return i
		}
	}
	return -1
}

// inFlow returns the range of a key of a hook in braces, or nil.
func (e *edit) inFlow(key string) []int {
	return regexp.MustCompile(`[{,]\s*(` + key + `):`).FindStringSubmatchIndex(e.lines[e.from])
}

// set adds a key with a value, or replaces its value.
func (e *edit) set(key, value string) bool {
	if e.flow() {
		line := e.lines[e.from]
		end := strings.LastIndex(line, "}")
		if e.inFlow(key) != nil || end < 0 || e.to != e.from+1 {
			return false
		}
		e.lines[e.from] = strings.TrimRight(line[:end], " ") + ", " + key + ": " + value + line[end:]
		return true
	}
	text := key + ": " + value
	if at := e.line(key); at >= 0 {
		e.lines[at] = e.lines[at][:e.keys()] + text
		return true
	}
	at := e.from + 1
	for _, before := range []string{"on", "match", "when"} {
		if i := e.line(before); i >= 0 {
			for at = i + 1; at < e.to && indentOf(e.lines[at]) > e.keys(); {
				at++
			}
		}
	}
	e.lines = slices.Insert(e.lines, at, strings.Repeat(" ", e.keys())+text)
	return true
}

// rename renames a key and keeps its value.
func (e *edit) rename(key, to string) bool {
	if e.flow() {
		at := e.inFlow(key)
		if at == nil {
			return false
		}
		line := e.lines[e.from]
		e.lines[e.from] = line[:at[2]] + to + line[at[3]:]
		return true
	}
	at := e.line(key)
	if at < 0 {
		return false
	}
	e.lines[at] = e.lines[at][:e.keys()] + to + e.lines[at][e.keys()+len(key):]
	return true
}

// match adds a key to the hook's match.
func (e *edit) match(key, value string) bool {
	if e.hook.Policy.Match == nil {
		return e.set("match", "{"+key+": "+value+"}")
	}
	for i := e.from; i < e.to; i++ {
		if at := strings.Index(e.lines[i], "match: {"); at >= 0 {
			at += len("match: {")
			e.lines[i] = e.lines[i][:at] + key + ": " + value + ", " + e.lines[i][at:]
			return true
		}
	}
	at := e.line("match")
	if at < 0 || at+1 >= e.to {
		return false
	}
	e.lines = slices.Insert(e.lines, at+1, strings.Repeat(" ", indentOf(e.lines[at+1]))+key+": "+value)
	return true
}

// unless excludes from an ask rule the command lines that were approved at least often times, if
// there are only a few.
func (e *edit) unless(counts map[string]int, often int) bool {
	var lines []string
	for line, n := range counts {
		if n >= often && simple.MatchString(line) {
			lines = append(lines, line)
		}
	}
	if h := e.hook.Policy; len(lines) == 0 || len(lines) > 4 || h.Decide != "ask" || h.When != "" {
		return false
	}
	slices.Sort(lines)
	return e.set("when", scalar(except(lines), e.flow()))
}

// number replaces the number of a key.
func (e *edit) number(key string, n int) bool {
	re := regexp.MustCompile(`\b` + key + `:\s*\d+`)
	for i := e.from; i < e.to; i++ {
		if re.MatchString(e.lines[i]) {
			e.lines[i] = re.ReplaceAllString(e.lines[i], fmt.Sprintf("%s: %d", key, n))
			return true
		}
	}
	return false
}

// without removes the hook from its file.
func (e *edit) without() bool {
	e.lines = slices.Delete(e.lines, e.from, e.to)
	return true
}

// unified returns a change as a unified diff, with one line of context.
func unified(file string, before, after []string) string {
	const around = 1
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	first := max(0, head-around)
	more := min(tail, around)
	if len(before) == len(before)-tail+more && before[len(before)-1] == "" {
		more-- // the text after the last newline is not a line
	}
	name := filepath.ToSlash(file)
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", name, name, first+1, len(before)-tail+more-first, first+1, len(after)-tail+more-first)
	write := func(mark string, lines []string) {
		for _, line := range lines {
			b.WriteString(mark + line + "\n")
		}
	}
	write(" ", before[first:head])
	write("-", before[head:len(before)-tail])
	write("+", after[head:len(after)-tail])
	write(" ", before[len(before)-tail:len(before)-tail+more])
	return b.String()
}
