package shell

import "strings"

// tcl finds calls of exec, spawn and system in Tcl and Expect. Their words are like words of a
// shell.
func (c *codeScan) tcl() {
	for _, part := range strings.FieldsFunc(c.text, func(r rune) bool { return r == '\n' || r == ';' || r == '[' || r == ']' }) {
		part = strings.TrimLeft(part, " \t({\"")
		for _, verb := range [...]string{"spawn ", "exec ", "system ", "shell-command ", "call-process-shell-command "} {
			if rest, ok := strings.CutPrefix(part, verb); ok {
				rest = strings.TrimSpace(rest)
				for strings.HasPrefix(rest, "-noecho ") || strings.HasPrefix(rest, "-- ") || strings.HasPrefix(rest, "-ignore ") {
					_, rest, _ = strings.Cut(rest, " ")
				}
				rest = strings.TrimRight(rest, ")} \t")
				if c.language == "elisp" || strings.HasPrefix(rest, "{") {
					rest = strings.Trim(rest, `"{}`)
				}
				c.line(rest, strings.IndexByte(rest, hole) < 0)
			}
		}
	}
}
