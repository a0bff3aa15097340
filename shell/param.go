package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// expandParam returns the words of a parameter in the current reading.
func (w *walker) expandParam(p *syntax.ParamExp, at *place, q quoting) ([]string, bool) {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.NestedParam != nil || p.Names != 0 || !w.spend(1) {
		return nil, false
	}
	name := p.Param.Value
	v, ok := w.currentValue(name)
	if p.Index != nil && !ok {
		return nil, false
	}
	words, known := elements(p, v)
	if !known || w.choosing && ok && cutsUnknown(p, words) {
		return nil, false
	}
	if p.Exp != nil {
		words, ok = w.operated(p, at, words, ok)
	}
	if !ok {
		return nil, false
	}
	if w.foreignList(p, words) {
		return nil, false
	}
	if len(words) == 1 && (p.Slice != nil || p.Repl != nil) {
		text, known := w.cutOut(words[0], p, at)
		if !known {
			return nil, false
		}
		words = []string{text}
	}
	if len(w.args) > 0 || name != "@" && name != "*" && (name[0] < '1' || name[0] > '9') {
		w.used = true
	} else if q != unquoted {
		return nil, false // the arguments of this call are not known
	}
	if q != unquoted && (name == "*" || len(words) == 0) {
		return []string{strings.Join(words, " ")}, true
	}
	return words, true
}

// foreignList reports whether a parameter is a list that the shell joins with another byte than a
// blank, or of which it takes a part.
func (w *walker) foreignList(p *syntax.ParamExp, words []string) bool {
	which := indexText(p)
	if which == "" {
		which = p.Param.Value
	}
	joined := which == "*" && len(words) > 1 && len(w.values("IFS")) > 0
	return joined || (which == "@" || which == "*") && (p.Slice != nil || p.Repl != nil && len(words) > 1)
}

// cutsUnknown reports whether an expansion changes text with a "*" in it, which may be anything, so
// that the result is not known.
func cutsUnknown(p *syntax.ParamExp, words []string) bool {
	if !slices.ContainsFunc(words, func(s string) bool { return strings.Contains(s, "*") }) {
		return false
	}
	if p.Exp == nil {
		return p.Slice != nil || p.Repl != nil
	}
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull, syntax.ErrorUnset, syntax.ErrorUnsetOrNull,
		syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return false
	}
	pattern := ""
	if p.Exp.Word != nil {
		pattern = p.Exp.Word.Lit()
	}
	switch {
	case pattern == "" || len(words) != 1:
		return true
	case p.Exp.Op == syntax.RemSmallPrefix || p.Exp.Op == syntax.RemLargePrefix:
		return pattern != "*/"
	case p.Exp.Op == syntax.RemSmallSuffix || p.Exp.Op == syntax.RemLargeSuffix:
		return pattern != "/*" && (strings.ContainsAny(pattern, "*?[") || !strings.HasSuffix(words[0], pattern))
	}
	return true
}

// indexText returns the index in ${x[index]}, or "".
func indexText(p *syntax.ParamExp) string {
	if wd, ok := p.Index.(*syntax.Word); ok {
		return wd.Lit()
	}
	return ""
}

// elements returns the words that an index selects: ${x[1]}, ${x[@]}, $x.
func elements(p *syntax.ParamExp, v variable) ([]string, bool) {
	if p.Index == nil {
		if v.array && !has("@ *", p.Param.Value) && len(v.words) > 0 {
			return v.words[:1], true
		}
		return v.words, true
	}
	text := indexText(p)
	if text == "@" || text == "*" {
		return v.words, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= len(v.words) {
		return nil, false
	}
	return v.words[n : n+1], true
}

// operated evaluates ${x:-word}, ${x#pattern} and similar expansions. The argument set reports
// that the variable has a value, and so does the result.
func (w *walker) operated(p *syntax.ParamExp, at *place, words []string, set bool) ([]string, bool) {
	operand, known := w.literally(p.Exp.Word, at)
	if !known {
		return nil, false
	}
	empty := !set || len(words) == 0 || len(words) == 1 && words[0] == ""
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
		if empty {
			return []string{operand}, true
		}
		if w.choosing && !positional(p.Param.Value) {
			w.mayBe(p.Param.Value, operand) // perhaps the line sets it only under a condition
		}
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if empty {
			w.set(p.Param.Value, false, operand)
			return []string{operand}, true
		}
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return []string{operand}, set
	default:
		if !set || len(words) != 1 || !w.spend(stepsPerTrim) {
			return nil, false
		}
		text, known := trimmed(words[0], p.Exp.Op, operand)
		return []string{text}, known
	}
	return words, set
}

// trimmed evaluates ${x#pattern}, ${x%pattern}, ${x^^} and similar expansions.
func trimmed(text string, op syntax.ParExpOperator, pattern string) (string, bool) {
	best, found := text, false
	take := func(rest string, largest bool) {
		if !found || largest == (len(rest) < len(best)) {
			best, found = rest, true
		}
	}
	switch op {
	case syntax.UpperAll:
		return strings.ToUpper(text), true
	case syntax.LowerAll:
		return strings.ToLower(text), true
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		for i := 0; i <= len(text) && i <= 256; i++ {
			if glob(pattern, text[:i]) {
				take(text[i:], op == syntax.RemLargePrefix)
			}
		}
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		for i := len(text); i >= 0 && len(text)-i <= 256; i-- {
			if glob(pattern, text[i:]) {
				take(text[:i], op == syntax.RemLargeSuffix)
			}
		}
	default:
		return "", false
	}
	return best, true
}

// cutOut evaluates ${x:1:2} and ${x/a/b}.
func (w *walker) cutOut(text string, p *syntax.ParamExp, at *place) (string, bool) {
	if p.Slice != nil {
		number := func(x syntax.ArithmExpr, none int) (int, bool) {
			if x == nil {
				return none, true
			}
			wd, ok := x.(*syntax.Word)
			if !ok {
				return 0, false
			}
			n, err := strconv.Atoi(wd.Lit())
			return n, err == nil && n >= 0
		}
		from, ok1 := number(p.Slice.Offset, 0)
		n, ok2 := number(p.Slice.Length, len(text))
		if !ok1 || !ok2 {
			return "", false
		}
		text = text[min(from, len(text)):]
		return text[:min(n, len(text))], true
	}
	from, ok1 := w.literally(p.Repl.Orig, at)
	with, ok2 := w.literally(p.Repl.With, at)
	if !ok1 || !ok2 || from == "" || strings.ContainsAny(from, "*?[") || len(with)*len(text) > 1<<20 {
		return "", false
	}
	n := 1
	if p.Repl.All {
		n = -1
	}
	if !w.spend(len(text) * max(1, len(with))) {
		return "", false
	}
	return strings.Replace(text, from, with, n), true
}
