package telemetry

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// other is the label for everything without a label.
const other = "other"

// maxLabel is the maximum number of bytes of a name in a label.
const maxLabel = 128

// agents maps names to dialects. It is built once, because it is used for every Record.
var agents = sync.OnceValue(func() map[string]*dialect.Dialect {
	all := map[string]*dialect.Dialect{}
	for _, d := range dialect.All() {
		all[d.Name] = d
	}
	return all
})

// agentLabel returns the name of an agent that has a dialect, or other. Agents choose the name that
// they send, so unlimited invented names could fill the memory.
func agentLabel(name string) string {
	if agents()[name] != nil {
		return name
	}
	return other
}

// eventLabel returns the name of an event that is in a table, the Contracts or a dialect's events,
// or other.
func eventLabel(kind grapnel.Kind) string {
	if !kind.Native() {
		if kind.Known() {
			return string(kind)
		}
		return other
	}
	agent, name, _ := strings.Cut(strings.TrimPrefix(string(kind), grapnel.NativePrefix), ".")
	if d := agents()[agent]; d != nil {
		if row := d.Row(name); row != nil && row.Native == name {
			return string(kind)
		}
	}
	return other
}

// decisions are the labels of Decisions, indexed by their number.
var decisions = [...]string{
	grapnel.None: grapnel.None.String(), grapnel.Allow: grapnel.Allow.String(), grapnel.Ask: grapnel.Ask.String(), grapnel.Block: grapnel.Block.String(),
}

// decision limits a Decision to the values in the table. Another value comes from a Record that
// another program wrote.
func decision(d grapnel.Decision) grapnel.Decision { return min(d, grapnel.Block) }

// causeLabel returns the label for the cause of a hook failure.
func causeLabel(c grapnel.Cause) string {
	if c == grapnel.CauseTimeout {
		return string(c)
	}
	return string(grapnel.CauseError)
}

// sourceLabel describes the source of a hook by its scope and its pack or format. It omits the
// path, which may name a customer or a user and differs in each project. known returns the scope of
// a file; nil = no scope is known.
func sourceLabel(name string, known func(file string) (grapnel.Scope, bool)) string {
	file, pack, packed := cutLast(name, '#')
	format, rest, formatted := strings.Cut(file, ":")
	if formatted = formatted && len(format) > 1 && isPath(rest) && !isPath(format); formatted {
		file = rest
	}
	label := clean(file, maxLabel)
	if known != nil {
		if scope, ok := known(file); ok {
			label = scope.String()
		} else if isPath(file) {
			label = "file"
		}
	} else if isPath(file) {
		label = "file"
	}
	if formatted {
		label += ":" + clean(format, 32)
	}
	if packed {
		if isPath(pack) {
			pack = other
		}
		label += "#" + clean(pack, 64)
	}
	return label
}

func isPath(s string) bool { return strings.ContainsAny(s, `/\`) }

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// clean makes a text safe for one line: valid UTF-8, without characters that move a terminal's
// cursor or change the text direction, truncated to a number of bytes.
func clean(s string, limit int) string { return tidy(s, limit, false) }

// tidy is like clean, for a text that may have several lines if lines is set.
func tidy(s string, limit int, lines bool) string {
	cut := len(s) > limit
	if cut {
		s = s[:limit]
		for range utf8.UTFMax { // do not cut a character in half
			if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	s = strings.Map(func(r rune) rune {
		if lines && (r == '\n' || r == '\t') {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if cut {
		s += "…"
	}
	return s
}

// isWord reports whether a text is a valid label: a short name of lower-case letters,
// digits and underscores.
func isWord(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && c != '_' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// targetLabel returns the full name of a hook, source::name, without the path of its source.
func targetLabel(target string, known func(file string) (grapnel.Scope, bool)) string {
	i := strings.LastIndex(target, "::")
	if i < 0 {
		return clean(target, maxLabel)
	}
	return sourceLabel(target[:i], known) + "::" + clean(target[i+2:], maxLabel)
}
