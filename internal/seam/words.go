package seam

import (
	"strings"
	"unicode"
)

// Words splits the name of a tool or of an argument, such as run_command, executeCode or
// DeleteDBInstance, into lower-case words. A word ends at a character that is not a letter, and
// where the case shows that another word begins.
func Words(name string) []string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) &&
			(unicode.IsLower(runes[i-1]) || unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) })
}
