package shell

import "strings"

// awkString reads a string of awk that is the operand of a pipe or a redirection.
func (c *codeScan) awkString(begin, end int, text string, whole bool) {
	before := strings.TrimRight(c.text[:begin], " \t")
	after := strings.TrimLeft(c.text[end:], " \t")
	switch {
	case strings.HasSuffix(before, "|") && !strings.HasSuffix(before, "||"),
		strings.HasPrefix(after, "|") && !strings.HasPrefix(after, "||") && strings.Contains(after[:min(len(after), 20)], "getline"):
		c.line(text, whole)
	case strings.HasSuffix(before, ">") && whole:
		c.opens(writeFile, []argument{{text: text, literal: true}})
	case strings.HasSuffix(before, "<") && whole:
		c.opens(readFile, []argument{{text: text, literal: true}})
	}
}

// sed finds the commands of a sed script that run a line, e and the e flag of s///e, and the
// files of w and r.
func (c *codeScan) sed() {
	for _, line := range strings.FieldsFunc(c.text, func(r rune) bool { return r == '\n' }) {
		c.sedLine(line)
	}
}

func (c *codeScan) sedLine(line string) {
	for range 64 {
		line = strings.TrimLeft(sedAddress(strings.TrimLeft(line, " \t;{}!")), " \t!")
		if line == "" {
			return
		}
		verb := line[0]
		line = line[1:]
		switch verb {
		case 'e':
			if text := strings.TrimSpace(line); text != "" {
				c.line(text, strings.IndexByte(text, hole) < 0)
			} else {
				c.unknown(c.name + " runs what it reads")
			}
			return
		case 's', 'y':
			line = c.sedReplace(verb, line)
		case 'w', 'W':
			c.sedFile(writeFile, line)
			return
		case 'r', 'R':
			c.sedFile(readFile, line)
			return
		case 'b', 't', 'T':
			_, line, _ = strings.Cut(line, ";")
		case 'a', 'i', 'c', '#', ':':
			return
		}
	}
}

// sedAddress removes the address of a command: 1,$ or /x/I.
func sedAddress(line string) string {
	for line != "" {
		switch {
		case line[0] >= '0' && line[0] <= '9' || strings.IndexByte("$,~+", line[0]) >= 0:
			line = line[1:]
		case line[0] == '/':
			_, line = cutDelimiter(line[1:], '/')
			line = strings.TrimLeft(line, "IM")
		default:
			return line
		}
	}
	return ""
}

func (c *codeScan) sedFile(what deed, name string) {
	if name = strings.TrimSpace(name); name != "" {
		c.opens(what, []argument{{text: name, literal: true}})
	}
}

// sedReplace reads s/x/y/e and y/x/z/ after the verb, and returns the text that follows.
func (c *codeScan) sedReplace(verb byte, line string) string {
	if line == "" {
		return ""
	}
	d := line[0]
	_, line = cutDelimiter(line[1:], d)
	with, line := cutDelimiter(line, d)
	for verb == 's' && line != "" && strings.IndexByte("gpiIemM0123456789w", line[0]) >= 0 {
		flag := line[0]
		line = line[1:]
		switch flag {
		case 'e':
			c.unknown(c.name + " runs what it reads")
			c.line(with, !strings.ContainsAny(with, `\&`))
		case 'w':
			c.sedFile(writeFile, line)
			return ""
		}
	}
	return line
}

// cutDelimiter splits s at the first delimiter d without a backslash.
func cutDelimiter(s string, d byte) (text, rest string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case d:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
