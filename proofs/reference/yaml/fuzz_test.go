package yaml_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// blind reports whether the library is known to read a document wrongly, so that a comparison is
// useless. Each line has a reason.
func blind(in string) bool {
	return strings.Contains(in, "\t") || // it drops tabs inside text and counts their columns differently
		strings.Contains(in, " \n") || strings.Contains(in, " \r") || strings.HasSuffix(in, " ") || // it counts blanks at the end as if they were before the text
		lineWithDash.MatchString(in) || // it places text after a line of it that begins with a dash
		strings.Contains(in, "...") || // it also ends a document at ...x, and ignores the x
		strings.Contains(in, ">") && !strings.HasSuffix(in, "\n") || // it does not fold text at the very end
		emptyItem.MatchString(in) || // it makes the key below a list with an empty last item a part of that item
		strings.Contains(in, "&") || // it lets an empty anchor swallow the next key, and makes text of numbers that are keys
		strings.Contains(in, "\\\n") || strings.Contains(in, "+-") || // it loses empty lines after an escaped line end; +-1 is not a number
		hashInBlock.MatchString(in) || // it loses a text after | that begins with #
		colonInWord.MatchString(in) || // it reads [a:b] as text, but as a pair when the list is in a mapping in brackets
		emptyKept.MatchString(in) || // it makes a line of text after |+ that has none
		blockEnded.MatchString(in) || // it reads --- as a line of text after |, if it is the document
		quotedReturn.MatchString(in) // it keeps the end of a line between quotes where \r\n ends it
}

var (
	lineWithDash = regexp.MustCompile(`[\n\r] *-[^ \n]`)
	emptyItem    = regexp.MustCompile(`-( *| +#.*)[\n\r]`)
	hashInBlock  = regexp.MustCompile(`[|>][-+\d]*( .*)?[\n\r]\s*#`)
	colonInWord  = regexp.MustCompile(`(?s)\{.*[^ ]:[^ \n]`)
	emptyKept    = regexp.MustCompile(`[|>]\d?\+`)
	quotedReturn = regexp.MustCompile(`(?s)["'].*\r\n`)
	blockEnded   = regexp.MustCompile(`[|>][-+\d]*( .*)?[\n\r](.*[\n\r])*---`)
)

// FuzzLibrary compares with the library: both must read a document in the same way if both accept
// it.
func FuzzLibrary(f *testing.F) {
	for _, in := range tricky {
		f.Add(in + "\n")
	}
	f.Fuzz(func(t *testing.T, in string) {
		if _, err := yaml.Parse([]byte(in)); err != nil && strings.HasPrefix(err.Error(), "cannot be read as YAML") {
			t.Fatalf("Parse(%q): %v: the reader itself failed", in, err)
		}
		if blind(in) || otherwise[strings.TrimSuffix(in, "\n")] != "" {
			t.Skip("the library is known to differ")
		}
		own, err := yaml.Parse([]byte(in))
		if err != nil {
			return
		}
		library, err := libraryParse([]byte(in))
		if err != nil {
			return
		}
		if got, want := dump(own), dump(library); got != want {
			t.Errorf("Parse(%q) =\n%s, the library:\n%s", in, got, want)
		}
	})
}
