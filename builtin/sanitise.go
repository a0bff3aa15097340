package builtin

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// MaxSummary is how much of an answer [Sanitise] looks at, in bytes: some times more
// than a model needs for what it is asked.
const MaxSummary = 4 << 10

const (
	// Removed stands where lines were that spoke to a model.
	Removed = "[left out: it spoke to a model]"

	cutMark = "[cut: the answer was longer]"
)

// Sanitise makes a model's answer fit to stand below a heading of a Markdown file that
// people and models read later:
//
//   - what cannot be seen is dropped: control characters, and those that hide text or
//     change its order;
//   - a line with words of somebody who talks to a model ("ignore all previous
//     instructions", "you are now", "system:", the marks of chat templates) becomes
//     [Removed], and so do all lines over which the words go on;
//   - headings, rules and fences lose their marks, tags and comments their first
//     character, and images become links, so that nothing ends the section, hides what
//     follows, or is fetched;
//   - what is longer than [MaxSummary] is cut, and says so.
//
// All else stays as it is, without the space around it. Somebody who tries will find
// words that no list has: what was sanitised is still data, and proves nothing.
func Sanitise(text string) string {
	text = visible(text)
	if len(text) > MaxSummary {
		text = cut(text, MaxSummary) + "\n" + cutMark
	}
	lines := strings.Split(text, "\n")
	last, at := 0, 0
	for _, found := range commands().FindAllStringIndex(text, -1) {
		first := last + strings.Count(text[at:found[0]], "\n")
		last, at = first+strings.Count(text[found[0]:found[1]], "\n"), found[1]
		for i := first; i <= last; i++ {
			lines[i] = Removed
		}
	}
	kept := lines[:0]
	for _, line := range lines {
		if line == Removed && len(kept) > 0 && kept[len(kept)-1] == Removed {
			continue
		}
		kept = append(kept, unstructured(line))
	}
	return strings.TrimSpace(strings.Join(kept, "\n"))
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// visible drops what cannot be seen, and ends lines as Unix does.
func visible(text string) string {
	text = newlines.Replace(strings.ToValidUTF8(text, "\ufffd"))
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co), unicode.Is(unicode.Variation_Selector, r): // whole texts were hidden in the latter
			return -1
		default:
			return r
		}
	}, text))
}

// commands finds words of somebody who talks to a model, also with something in front
// of them that makes another word. A match begins in the line where its first word
// stands. It is compiled for the first summary and not at each start.
var commands = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?im)` + strings.Join([]string{
		`(?:ignore|disregard|forget|override|bypass|do not follow|don't follow|stop following)\W+(?:\w+\W+){0,5}?(?:instructions?|prompts?|rules?|guidelines?|directives?|safeguards?)\b`,
		`(?:ignore|disregard|forget)\W+(?:(?:all|any|everything|the|what)\W+){0,3}(?:previous|prior|preceding|above|earlier|before)\b`,
		`forget\W+everything\b`,
		`(?:new|updated|revised)\W+(?:system\W+)?instructions?\W*:`,
		`(?:reveal|print|show|repeat|output|leak)\W+(?:\w+\W+){0,3}?(?:system|your)\W+(?:prompt|instructions)\b`,
		`you\W+are\W+now\b`,
		`from\W+now\W+on\W+(?:you|your|act|always|never)\b`,
		`pretend\W+(?:to\W+be|that\W+you|you)\b`,
		`^[^\w\n]*act\W+as\b`,
		`^[^\w\n]*(?:system|developer|assistant|user|human|tool)[^\w\n]*:`,
		`<[|｜][^\n>]{0,60}[|｜]>`, `\[/?INST\]`, `<</?SYS>>`,
		`</?(?:system|assistant|user|human|instructions?|function_calls?|invoke|tool_use|tool_result)\b[^>\n]*>`,
	}, "|"))
})

// unstructured takes out of a line what would be structure of the file it goes to.
func unstructured(line string) string {
	text := strings.TrimLeft(line, " \t>")
	marks := len(text) - len(strings.TrimLeft(text, "#"))
	switch {
	case strings.Trim(text, "=-_* \t") == "", strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
		return ""
	case marks > 0 && strings.TrimLeft(text[marks:], " \t") != text[marks:]:
		return unstructured(strings.TrimLeft(text[marks:], " \t"))
	}
	return tag().ReplaceAllString(image().ReplaceAllString(line, "["), "&lt;$1")
}

var (
	tag   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<([A-Za-z/!?])`) })
	image = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`!+\[`) })
)
