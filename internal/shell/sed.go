package shell

import "strings"

// awkString is a string of awk between pipes and redirections.
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

// sed finds the commands of a sed script that run a line: e, and the e of s///e.
// w and r name files.
func (c *codeScan) sed() {
	for _, line := range strings.FieldsFunc(c.text, func(r rune) bool { return r == '\n' }) {
		c.sedLine(line)
	}
}

func (c *codeScan) sedLine(line string) {
	for range 64 {
		line = strings.TrimLeft(line, " \t;{}!")
		// Its address.
		for line != "" {
			switch {
			case line[0] >= '0' && line[0] <= '9' || strings.IndexByte("$,~+", line[0]) >= 0:
				line = line[1:]
				continue
			case line[0] == '/':
				end := delimiter(line[1:], '/')
				line = line[1+end:]
				line = strings.TrimPrefix(line, "/")
				line = strings.TrimLeft(line, "IM")
				continue
			}
			break
		}
		line = strings.TrimLeft(line, " \t!")
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
			if line == "" {
				return
			}
			d := line[0]
			line = line[1:]
			first := delimiter(line, d)
			line = line[min(first+1, len(line)):]
			second := delimiter(line, d)
			with := line[:min(second, len(line))]
			line = line[min(second+1, len(line)):]
			if verb == 'y' {
				continue
			}
			for line != "" && strings.IndexByte("gpiIemM0123456789w", line[0]) >= 0 {
				flag := line[0]
				line = line[1:]
				if flag == 'e' {
					c.unknown(c.name + " runs what it reads")
					c.line(with, !strings.ContainsAny(with, `\&`))
				}
				if flag == 'w' {
					c.opens(writeFile, []argument{{text: strings.TrimSpace(line), literal: true}})
					return
				}
			}
		case 'w', 'W', 'r', 'R':
			use := readFile
			if verb == 'w' || verb == 'W' {
				use = writeFile
			}
			if text := strings.TrimSpace(line); text != "" {
				c.opens(use, []argument{{text: text, literal: true}})
			}
			return
		case 'a', 'i', 'c', '#', 'b', 't', 'T', ':':
			if i := strings.IndexByte(line, ';'); i >= 0 && strings.IndexByte("btT", verb) >= 0 {
				line = line[i:]
				continue
			}
			return
		}
	}
}

// delimiter is where a text of sed ends.
func delimiter(s string, d byte) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case d:
			return i
		}
	}
	return len(s)
}
