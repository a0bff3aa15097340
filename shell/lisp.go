package shell

import "strings"

// lispCalls lists the functions of Lisp and Scheme that run a program: a shell line, or a program
// and a list of words.
const lispCalls = "system system* uiop:run-program run-program sb-ext:run-program uiop:launch-program asdf:run-shell-command " +
	"open-pipe open-input-pipe run-shell-command ext:shell shell process"

// lisp finds calls of functions that run a program in Lisp and Scheme. Their strings are the line,
// or the words of the command.
func (c *codeScan) lisp() {
	for text := c.text; ; {
		_, rest, ok := strings.Cut(text, "(")
		if !ok {
			return
		}
		text = rest
		name, _, _ := strings.Cut(strings.TrimLeft(rest, " \t\n"), " ")
		if !has(lispCalls, strings.ToLower(name)) {
			continue
		}
		args, whole := lispArgs(rest)
		switch words := quotedTexts(args); {
		case len(words) == 0:
			c.unknown(c.name + " runs a computed command")
		case len(words) == 1:
			c.line(words[0], whole)
		default:
			for i, word := range words {
				words[i] = Quote(word)
			}
			c.line(strings.Join(words, " "), whole)
		}
	}
}

// lispArgs returns the text up to the closing parenthesis of a call, and whether there is one.
func lispArgs(text string) (args string, whole bool) {
	depth, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '\\' && quoted:
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '(':
			depth++
		case b == ')':
			if depth--; depth == 0 {
				return text[:i], true
			}
		}
	}
	return text, false
}
