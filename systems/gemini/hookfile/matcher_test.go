package hookfile

import (
	"testing"
)

// The value of $GEMINI_CWD and similar variables is always one word in a command line.
func TestQuoteVariables(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`$GEMINI_CWD/x`:                `"$GEMINI_CWD"/x`,
		`${GEMINI_CWD}x "$GEMINI_CWD"`: `"${GEMINI_CWD}"x "$GEMINI_CWD"`,
		`'$GEMINI_CWD' \$GEMINI_CWD`:   `'$GEMINI_CWD' \$GEMINI_CWD`,
		`"it's $GEMINI_CWD" $HOME`:     `"it's $GEMINI_CWD" $HOME`,
		`"\"$GEMINI_CWD" $GEMINI_CWD`:  `"\"$GEMINI_CWD" "$GEMINI_CWD"`,
		`echo \`:                       `echo \`,
	} {
		if got := quoteVariables(line, lineVariables); got != want {
			t.Errorf("%s becomes %s, want %s", line, got, want)
		}
	}
}
