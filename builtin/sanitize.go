package builtin

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// MaxSummary is the maximum length of an answer in [Sanitize], in bytes. It is several times the
// length of a normal summary.
const MaxSummary = 4 << 10

const (
	// Removed replaces lines that contain instructions to a model.
	Removed = "[left out: it spoke to a model]"

	cutMark = "[cut: the answer was longer]"
)

// Sanitize makes a model's answer safe for a section of a Markdown file that users and models
// read later:
//
//   - it removes invisible characters: control characters, and characters that hide text or change
//     its order;
//   - it replaces lines with instructions to a model ("ignore all previous instructions", "you are
//     now", "system:", the marks of chat templates) by [Removed], including all lines of an
//     instruction that spans several lines;
//   - it removes the marks of headings, rules and fences, escapes the first character of tags and
//     comments, and turns images into links, so that the answer cannot end the section, hide the
//     following text or load a file;
//   - it cuts text after [MaxSummary] bytes and adds a notice.
//
// All other text stays unchanged, except for surrounding white space. No list covers all attacks,
// so sanitized text is still untrusted data.
func Sanitize(text string) string {
	text = visible(text)
	if len(text) > MaxSummary {
		text = rawjson.Cut(text, MaxSummary) + "\n" + cutMark
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

// visible removes invisible characters and converts line ends to \n.
func visible(text string) string {
	text = newlines.Replace(strings.ToValidUTF8(text, "\ufffd"))
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co), unicode.Is(unicode.Variation_Selector, r): // variation selectors can encode hidden text
			return -1
		default:
			return r
		}
	}, text))
}

// commands matches instructions to a model, also when a prefix joins their first word to another
// word. A match begins in the line of its first word. It is compiled for the first summary, not
// at startup.
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

// unstructured removes the parts of a line that would change the structure of the file.
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
