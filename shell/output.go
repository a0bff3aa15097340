package shell

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The output of a command is known if literal text passes through the few programs that are used
// to hide a command: echo cm0gLXJmIC8= | base64 -d | sh.

// fedText returns the standard input of a command, if the line contains it.
func (w *walker) fedText(at *place) (string, bool) {
	for _, r := range slices.Backward(at.stdin) {
		if feeds(r) {
			return w.given(at, r)
		}
	}
	if at.from == nil {
		return "", false
	}
	return w.evalStmt(at.from, at, "")
}

// given returns the text of a here-document or a here-string.
func (w *walker) given(at *place, r *syntax.Redirect) (string, bool) {
	// Each command of a block gets the document again: { a; b; c; } <<EOF.
	if n := r.Hdoc; n != nil && !w.spend(int(n.End().Offset()-n.Pos().Offset())*stepsPerFold) {
		return "", false
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc == nil {
			return "", true
		}
		q := document
		if quotedDelimiter(r.Word) {
			q = verbatim
			if len(r.Hdoc.Parts) == 1 {
				if l, ok := r.Hdoc.Parts[0].(*syntax.Lit); ok && !marked(l.Value) {
					return l.Value, true
				}
			}
		}
		f := folded{}
		w.foldParts(&f, at, r.Hdoc.Parts, q)
		return string(f.text), !f.computed
	case syntax.WordHdoc:
		f := folded{}
		w.foldParts(&f, at, r.Word.Parts, unquoted)
		return string(f.text) + "\n", !f.computed
	}
	return "", false
}

// eval returns the output of statements with the standard input in.
func (w *walker) eval(list []*syntax.Stmt, at *place, in string) (string, bool) {
	var b strings.Builder
	for _, st := range list {
		text, ok := w.evalStmt(st, at, in)
		if !ok || b.Len()+len(text) > maxLine {
			return "", false
		}
		b.WriteString(text)
	}
	return b.String(), len(list) > 0
}

func (w *walker) evalStmt(st *syntax.Stmt, at *place, in string) (string, bool) {
	if st == nil || w.tree >= maxTree/2 || !w.spend(stepsPerStmt) {
		return "", false
	}
	w.tree++
	defer w.leave()
	for _, r := range st.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			text, ok := w.given(at, r)
			if !ok {
				return "", false
			}
			in = text
		case syntax.RdrIn, syntax.RdrInOut:
			return "", false
		default:
			if r.N == nil || r.N.Value == "1" {
				return "", false
			}
		}
	}
	switch c := st.Cmd.(type) {
	case *syntax.BinaryCmd:
		left, ok := w.evalStmt(c.X, at, in)
		if !ok {
			return "", false
		}
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			return w.evalStmt(c.Y, at, left)
		}
		right, ok := w.evalStmt(c.Y, at, in)
		return left + right, ok
	case *syntax.Block:
		return w.eval(c.Stmts, at, in)
	case *syntax.Subshell:
		return w.eval(c.Stmts, at, in)
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			return "", false
		}
		// Most programs are not in the list of prints; skip resolving their words.
		if first, ok := plain(c.Args[0]); ok && !prints(programName(first.Text)) {
			return "", false
		}
		subst, used := w.subst, w.used
		w.subst = max(1, subst)
		var words []Word
		for _, a := range c.Args {
			words = w.words(at, a, words)
		}
		w.subst, w.used = subst, used
		texts, ok := literals(words)
		if !ok || len(texts) == 0 {
			return "", false
		}
		return w.prints(texts, in)
	}
	return "", false
}

// prints reports whether the output of a program can be computed.
func prints(name string) bool {
	return has("echo printf cat base64 gbase64 xxd openssl rev tr command builtin exec which type pwd basename true : tee hex sudo", name)
}

// prints returns the output of a program with the standard input in.
func (w *walker) prints(words []string, in string) (string, bool) {
	name, args := programName(words[0]), words[1:]
	if len(in) > maxLine || !prints(name) || w.defined(name) || !w.spend(len(in)) {
		return "", false
	}
	options, operands := "", []string(nil)
	for _, a := range args {
		if len(a) > 1 && a[0] == '-' {
			options += " " + strings.TrimLeft(a, "-")
		} else {
			operands = append(operands, a)
		}
	}
	switch name {
	case "echo":
		return echo(args), true
	case "printf":
		return printf(args)
	case "cat":
		return in, len(operands) == 0 || operands[0] == "-"
	case "tee":
		return in, true
	case "base64", "gbase64":
		if decodes(options) && len(operands) == 0 {
			return decoded(in)
		}
	case "openssl":
		if len(operands) > 0 && has("base64 enc", operands[0]) && has(options, "d") {
			return decoded(in)
		}
	case "xxd":
		if strings.Contains(options, "r") && strings.Contains(options, "p") && len(operands) == 0 {
			text, err := hex.DecodeString(strings.Join(strings.Fields(in), ""))
			return string(text), err == nil
		}
	case "rev":
		return reversed(in), len(operands) == 0
	case "tr":
		return translated(in, args)
	case "which", "type", "basename":
		return operandText(operands)
	case "pwd":
		return w.here() + "\n", true
	case "true", ":":
		return "", true
	case "command", "builtin", "exec", "sudo":
		if has(options, "v") && len(operands) == 1 {
			return operands[0] + "\n", true
		}
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			return w.prints(args, in)
		}
	}
	return "", false
}

func echo(args []string) string {
	escapes := false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neE") == "" {
		escapes = escapes || strings.Contains(args[0], "e")
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		text = decodeANSI(strings.ReplaceAll(text, `\0`, `\`))
	}
	return text + "\n"
}

func printf(args []string) (string, bool) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == "-v" {
		return "", false
	}
	return printed(args[0], args[1:])
}

// decodes reports whether options have the option of base64 that decodes.
func decodes(options string) bool {
	for option := range strings.SplitSeq(options, " ") {
		if has("d D decode di id", option) {
			return true
		}
	}
	return false
}

// reversed returns the output of rev.
func reversed(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		body, end := strings.CutSuffix(line, "\n")
		r := []rune(body)
		slices.Reverse(r)
		if lines[i] = string(r); end {
			lines[i] += "\n"
		}
	}
	return strings.Join(lines, "")
}

func operandText(operands []string) (string, bool) {
	if len(operands) != 1 {
		return "", false
	}
	return programName(operands[0]) + "\n", true
}

func decoded(text string) (string, bool) {
	text = strings.TrimRight(strings.Join(strings.Fields(text), ""), "=")
	data, err := base64.RawStdEncoding.DecodeString(text)
	return string(data), err == nil || len(data) > 0
}

// printed returns the output of printf.
func printed(format string, args []string) (string, bool) {
	var b strings.Builder
	format = decodeANSI(format)
	for {
		took := false
		for i := 0; i < len(format); i++ {
			if format[i] != '%' || i+1 == len(format) {
				b.WriteByte(format[i])
				continue
			}
			i++
			flags := i
			for i < len(format)-1 && strings.IndexByte("-+ #0123456789.", format[i]) >= 0 {
				i++
			}
			if format[i] == '%' {
				b.WriteByte('%')
				continue
			}
			arg := ""
			if len(args) > 0 {
				arg, args, took = args[0], args[1:], true
			}
			switch format[i] {
			case 'b':
				arg = decodeANSI(arg)
			case 'c':
				arg = arg[:min(1, len(arg))]
			case 's', 'd', 'i', 'q', 'u':
				arg = padded(arg, format[flags:i], format[i])
			default:
				return "", false
			}
			b.WriteString(arg)
		}
		if !took || len(args) == 0 || b.Len() > maxLine {
			return b.String(), b.Len() <= maxLine
		}
	}
}

// padded formats an argument with flags, a width and a precision, as in %05d and %.2s.
func padded(arg, flags string, verb byte) string {
	if flags == "" || len(flags) > 4 {
		return arg
	}
	if n, err := strconv.Atoi(arg); err == nil && verb != 's' && verb != 'q' {
		return fmt.Sprintf("%"+flags+"d", n)
	}
	return fmt.Sprintf("%"+flags+"s", arg)
}

// translated returns the output of tr.
func translated(in string, args []string) (string, bool) {
	switch {
	case len(args) == 2 && args[0] == "-d":
		from, ok := charSet(args[1])
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(from, r) {
				return -1
			}
			return r
		}, in), ok
	case len(args) == 2 && !strings.HasPrefix(args[0], "-"):
		from, ok1 := charSet(args[0])
		to, ok2 := charSet(args[1])
		if !ok1 || !ok2 || to == "" {
			return "", false
		}
		return strings.Map(func(r rune) rune {
			if i := strings.IndexRune(from, r); i >= 0 {
				return rune(to[min(i, len(to)-1)])
			}
			return r
		}, in), true
	}
	return "", false
}

// charSet expands the ranges in a set of tr, such as a-z.
func charSet(s string) (string, bool) {
	if strings.HasPrefix(s, "[:") {
		switch s {
		case "[:upper:]":
			s = "A-Z"
		case "[:lower:]":
			s = "a-z"
		default:
			return "", false
		}
	}
	s = decodeANSI(s)
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return "", false
		}
		if i+2 < len(s) && s[i+1] == '-' && s[i] <= s[i+2] {
			for c := int(s[i]); c <= int(s[i+2]); c++ {
				b.WriteByte(byte(c)) // the value is between two bytes
			}
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}
