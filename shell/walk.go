package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The walk visits every position of a syntax tree that can hold a command, in source order. It
// does not use syntax.Walk, because the meaning of a command depends on its context: the pipe
// before it, its redirections, the quotes around it.

// enter limits the recursion. If it returns true, the caller must call leave.
func (w *walker) enter() bool {
	if w.tree >= maxTree {
		w.unknown("unparsable: nested too deeply")
		return false
	}
	w.tree++
	return true
}

func (w *walker) leave() { w.tree-- }

func (w *walker) stmts(list []*syntax.Stmt, at *place) {
	sure := w.sure
	for i, st := range list {
		w.sure = sure && i == len(list)-1
		w.stmt(st, at)
	}
	w.sure = sure
}

// loosely walks a part of the line that may fail without the line, or may not run.
func (w *walker) loosely(part func()) {
	sure := w.sure
	w.sure = false
	part()
	w.sure = sure
}

func (w *walker) stmt(st *syntax.Stmt, at *place) {
	if st == nil || !w.must(stepsPerStmt, at) || !w.enter() {
		return
	}
	defer w.leave()
	if st.Background || st.Negated || st.Coprocess {
		defer func(sure bool) { w.sure = sure }(w.sure)
		w.sure = false
	}
	if st.Background {
		defer func(before state) { // the next command does not wait for it
			w.state = oneOf(before, w.state)
			w.where = before.where
		}(w.state)
	}
	if b, ok := st.Cmd.(*syntax.BinaryCmd); ok {
		dir := w.dir
		w.binary(b, at)
		w.redirects(st.Redirs, dir, at)
		return
	}
	if c, ok := st.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 {
		for _, r := range st.Redirs {
			if (r.Op == syntax.RdrAll || r.Op == syntax.AppAll) && c.Args[len(c.Args)-1].Pos().After(r.OpPos) {
				// To a POSIX shell "a &>f b" is "a & >f b".
				w.unknown("words after &>, which shells read differently")
			}
		}
	}
	for _, r := range st.Redirs {
		if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
			w.sets(strings.Trim(r.N.Value, "{}"), nil) // {x}< file
		}
	}
	in := *at
	if slices.ContainsFunc(st.Redirs, feeds) {
		in.stdin = st.Redirs
	}
	if len(in.stdin) > 0 {
		if c, ok := st.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == "exec" {
			w.elsewhere = true
		}
	}
	first, dir := len(w.s.Commands), w.dir
	w.keepDescriptors(st, at)
	w.simple(st.Cmd, &in)
	reads, writes := len(w.s.Reads), len(w.s.Writes)
	w.redirects(st.Redirs, dir, at)
	w.keepText(st, at)
	if first < len(w.s.Commands) && (reads < len(w.s.Reads) || writes < len(w.s.Writes)) && len(st.Redirs) > 0 {
		w.redirected(first, reads, writes)
	}
}

// feeds reports whether a redirection changes standard input.
func feeds(r *syntax.Redirect) bool {
	switch r.Op {
	case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return r.N == nil || r.N.Value == "0"
	}
	return false
}

// binary walks a && b || c and pipelines. They nest to the left and can be very long, so the left
// side is walked in a loop.
func (w *walker) binary(b *syntax.BinaryCmd, at *place) {
	spine := []*syntax.BinaryCmd{b}
	for {
		left, ok := b.X.Cmd.(*syntax.BinaryCmd)
		if !ok {
			break
		}
		spine = append(spine, left)
		b = left
	}
	start, sure := w.state, w.sure
	ands := slices.IndexFunc(spine, func(b *syntax.BinaryCmd) bool { return b.Op != syntax.AndStmt }) // at the end of the line
	if ands < 0 {
		ands = len(spine)
	}
	w.sure = sure && ands == len(spine)
	w.stmt(b.X, at)
	if isPipe(b) {
		w.where = start.where
	}
	var failed []state // after which the rest of the list is skipped
	for i, b := range slices.Backward(spine) {
		w.sure = sure && b.Op != syntax.OrStmt && i <= ands
		if b.X != nil && b != spine[len(spine)-1] {
			w.redirects(b.X.Redirs, w.dir, at)
		}
		right, after := *at, w.state
		switch {
		case isPipe(b):
			right.from, right.stdin = b.X, nil
			w.perhaps(func() { w.stmt(b.Y, &right) })
			w.where = after.where
		case b.Op == syntax.OrStmt:
			w.state = oneOf(append(failed, start, after)...)
			failed = nil
			if w.perhaps(func() { w.stmt(b.Y, &right) }); leaves(b.Y) {
				w.state = after
			} else {
				w.state = oneOf(after, w.state)
			}
		default:
			if mayFail(lastOf(b.X)) {
				failed = append(failed, after)
			}
			w.perhaps(func() { w.stmt(b.Y, &right) })
		}
	}
	w.sure = sure
	if failed != nil {
		w.state = oneOf(append(failed, w.state)...)
	}
}

func isPipe(b *syntax.BinaryCmd) bool { return b.Op == syntax.Pipe || b.Op == syntax.PipeAll }

// lastOf returns the last statement of a list: b of "a && b".
func lastOf(st *syntax.Stmt) *syntax.Stmt {
	if b, ok := st.Cmd.(*syntax.BinaryCmd); ok && !isPipe(b) && b.Y != nil {
		return b.Y
	}
	return st
}

// pipeEnd returns the statement that writes to a pipe: b of "a | b |".
func pipeEnd(st *syntax.Stmt) *syntax.Stmt {
	if b, ok := st.Cmd.(*syntax.BinaryCmd); ok && b.Y != nil {
		return b.Y
	}
	return st
}

func (w *walker) simple(cmd syntax.Command, at *place) {
	switch cmd.(type) {
	case *syntax.CallExpr, *syntax.Subshell, *syntax.Block, *syntax.TimeClause:
	default:
		defer func(sure bool) { w.sure = sure }(w.sure)
		w.sure = false
	}
	switch c := cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		w.call(c, at)
	case *syntax.Subshell:
		before := w.where
		w.perhaps(func() { w.stmts(c.Stmts, at) })
		w.where = before
	case *syntax.Block:
		w.stmts(c.Stmts, at)
	case *syntax.IfClause:
		w.condition(c, at)
	case *syntax.WhileClause:
		w.loop(func() {
			w.stmts(c.Cond, at)
			w.stmts(c.Do, at)
		})
	case *syntax.ForClause:
		switch l := c.Loop.(type) {
		case *syntax.WordIter:
			for _, item := range l.Items {
				w.parts(item.Parts, at, unquoted)
			}
			if l.Name != nil {
				w.sets(l.Name.Value, nil)
			}
			w.looped(l, at)
		case *syntax.CStyleLoop:
			w.arithm(l.Init, at)
			w.arithm(l.Cond, at)
			w.arithm(l.Post, at)
		}
		w.loop(func() {
			if l, ok := c.Loop.(*syntax.WordIter); ok && l.Name != nil && w.lists[l.Name.Value].glob != "" {
				w.keepList(l.Name.Value, w.lists[l.Name.Value].glob) // under the condition of the loop itself
			}
			w.stmts(c.Do, at)
		})
	case *syntax.CaseClause:
		w.inWord(c.Word, at)
		var parts []func()
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				w.inWord(p, at)
			}
			parts = append(parts, func() { w.stmts(item.Stmts, at) })
		}
		w.alternatives(false, parts...)
	case *syntax.FuncDecl:
		// The body is walked at the declaration, and again with the words of each later call.
		w.declare(c, at)
	case *syntax.ArithmCmd:
		w.onlyBash(at) // to a POSIX shell two subshells
		w.arithm(c.X, at)
	case *syntax.LetClause:
		w.keyword("let", nil, c, at)
		if strings.ContainsAny(w.source(at, c), "<>()") {
			// A shell treats these words like any others, the parser treats them as arithmetic.
			w.unknown("unparsable: let with an expression that is not quoted")
		}
		for _, x := range c.Exprs {
			w.arithm(x, at)
		}
	case *syntax.TestClause:
		w.onlyBash(at) // in a POSIX shell [[ is a program, and || runs another one
		w.test(c.X, at)
	case *syntax.DeclClause:
		w.declaration(c, at)
	case *syntax.TimeClause:
		in := w.keyword("time", nil, c, at)
		w.stmt(c.Stmt, &in)
	case *syntax.CoprocClause:
		in := w.keyword("coproc", nil, c, at)
		// The parser misreads the text that follows: it takes the a of "coproc a | b" for a name,
		// and loses comments.
		w.unknown("unparsable: coproc")
		w.inWord(c.Name, at)
		w.stmt(c.Stmt, &in)
	default: // the language variants in use produce no other nodes
		w.unknown("unparsable: unusual syntax")
	}
}

// condition walks an if with its further branches.
func (w *walker) condition(c *syntax.IfClause, at *place) {
	if len(c.Cond) == 0 { // else
		w.stmts(c.Then, at)
		return
	}
	w.stmts(c.Cond, at)
	parts := []func(){func() { w.stmts(c.Then, at) }}
	if c.Else != nil && w.enter() {
		parts = append(parts, func() { w.condition(c.Else, at) })
		defer w.leave()
	}
	w.alternatives(c.Else != nil, parts...)
}

// onlyBash reports syntax inside "sh -c" that a POSIX shell reads as other commands. The
// outermost line comes from an agent, and agents run Bash or Zsh.
func (w *walker) onlyBash(at *place) {
	if at.sh {
		w.unknown("Bash syntax in a line for sh")
	}
}

// declare walks the body of a function, and remembers it for calls.
func (w *walker) declare(c *syntax.FuncDecl, at *place) {
	elsewhere, declares, before := w.elsewhere, w.declares, w.where
	f := function{body: c.Body, at: *at}
	first := len(w.s.Commands)
	w.elsewhere, w.declares = true, &f
	w.alternatives(false, func() {
		w.stmt(c.Body, at)
		f.opens = f.opens || w.dir != before.dir // a call enters a directory
	})
	w.elsewhere, w.declares, w.where = elsewhere, declares, before
	w.bodies = append(w.bodies, body{first, len(w.s.Commands), w.changes})
	switch {
	case c.Name == nil:
	case w.subst == 0:
		w.define(c.Name.Value, f)
	case f.opens && (w.funcs[c.Name.Value] == nil || w.funcs[c.Name.Value].body != c.Body):
		w.unknown("computed file of a redirection in a function: " + visible(c.Name.Value))
	}
}

// keyword records a command that the grammar treats as a keyword, and returns the place of the
// command that it runs.
func (w *walker) keyword(name string, args []Word, n syntax.Node, at *place) place {
	in := *at
	if in.line == 0 {
		in.line, in.col = int(n.Pos().Line()), int(n.Pos().Col())
	}
	words := append(make([]Word, 0, 1+len(args)), Word{Text: name, Literal: true})
	before := len(w.s.Commands)
	w.command(append(words, args...), in)
	in.line, in.col = at.line, at.col
	if len(w.s.Commands) > before {
		in.parent = before
		in.via = append(slices.Clip(in.via), name)
	}
	return in
}

// call walks a simple command: its assignments, the command, then the commands that run while its
// words are expanded.
func (w *walker) call(c *syntax.CallExpr, at *place) {
	for _, a := range c.Assigns {
		w.assign(a, at)
	}
	if len(c.Args) == 0 {
		w.sendsAssigned(c.Assigns, at, steersServer) // which may be exported
		return
	}
	if env := w.env; len(c.Assigns) > 0 {
		defer func() { w.env = env }()
		w.sendsAssigned(c.Assigns, at, steersAny)
	}
	from := start{w.state, len(w.s.Commands)}
	words := make([]Word, 0, len(c.Args))
	first := c.Args[0]
	words = w.words(at, first, words)
	if len(words) > 1 {
		w.unknown("computed command name: " + visible(w.source(at, first)))
	}
	for _, a := range c.Args[1:] {
		words = w.words(at, a, words)
	}
	for i := range words {
		if c := words[i].c; c != nil && i > 0 && spelledOption(c.code, c.many) {
			w.unknown("computed option: " + visible(words[i].Text))
		}
	}
	if len(words) > 0 {
		w.idiom(first, &words[0], at)
		in := *at
		if in.line == 0 {
			in.line, in.col = int(first.Pos().Line()), int(first.Pos().Col())
		}
		w.command(words, in)
	}
	for _, a := range c.Args {
		w.parts(a.Parts, at, unquoted)
	}
	w.loosely(func() { w.readings(c, words, at, from) })
}

// spelledOption reports whether code is an option with a hole between its letters, -r${x}f, or
// --force$x.
func spelledOption(code string, many bool) bool {
	i, j := strings.IndexByte(code, hole), strings.LastIndexByte(code, hole)
	if strings.HasPrefix(code, "--") {
		return i > 3 && j+1 == len(code) && letters(code[2:i]) && code[i-1] != '-'
	}
	return many && i > 1 && i <= 3 && code[0] == '-' && letters(code[1:i]) && j+1 < len(code) && len(code)-j <= 4 && letters(code[j+1:]) && code[j+1] != '-'
}

func (w *walker) declaration(c *syntax.DeclClause, at *place) {
	args := make([]Word, 0, len(c.Args))
	for _, a := range c.Args {
		switch {
		case a.Naked && a.Value != nil:
			args = w.words(at, a.Value, args)
		case a.Name == nil:
		case a.Value != nil:
			v := w.word(at, a.Value)
			v.Text = a.Name.Value + "=" + v.Text
			if v.c != nil {
				v.c.head = a.Name.Value + "=" + v.c.head
				v.c.code = a.Name.Value + "=" + v.c.code
				v.c.many = false // the text after the = of a declaration is not split
			}
			args = append(args, v)
		case a.Naked:
			args = append(args, Word{Text: a.Name.Value, Literal: true})
		default:
			args = append(args, Word{Text: a.Name.Value + "=", Literal: true})
		}
	}
	w.keyword(c.Variant.Value, args, c, at)
	for _, a := range c.Args {
		w.assign(a, at)
	}
	if c.Variant.Value == "export" || slices.ContainsFunc(args, func(a Word) bool { return strings.HasPrefix(a.Text, "-") && strings.Contains(a.Text, "x") }) {
		w.sendsAssigned(c.Args, at, steersAny)
	}
	w.references(c)
}

// references records, for targets, the other variables of a declaration: declare -n makes a
// reference, and declare "$name=value" assigns to a variable with a computed name.
func (w *walker) references(c *syntax.DeclClause) {
	refers := false
	for _, a := range c.Args {
		switch {
		case a.Naked && a.Value != nil:
			option := a.Value.Lit()
			refers = refers || strings.HasPrefix(option, "-") && strings.Contains(option, "n")
			w.indirect = w.indirect || option == ""
		case a.Name != nil && refers:
			w.isUnsure(a.Name.Value, openTarget)
		}
	}
}

func (w *walker) assign(a *syntax.Assign, at *place) {
	if a == nil {
		return
	}
	if a.Name != nil && (a.Value != nil || a.Array != nil) {
		w.sets(a.Name.Value, a.Value)
	}
	w.arithm(a.Index, at)
	w.remember(a, at)
	if a.Value != nil {
		w.value(a.Value, at)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			w.arithm(e.Index, at)
			if e.Value != nil {
				w.value(e.Value, at)
			}
		}
	}
}

// value walks the value of a variable.
func (w *walker) value(wd *syntax.Word, at *place) {
	if _, bare := wd.Parts[0].(*syntax.Lit); !bare || len(wd.Parts) > 1 {
		w.subscript(w.word(at, wd).Text)
	}
	w.inWord(wd, at)
}

// subscript finds text that runs a command when it is evaluated as arithmetic: after x='a[$(rm
// -rf /)]' the harmless $((x)) does.
func (w *walker) subscript(text string) {
	for {
		i := strings.IndexByte(text, '[')
		if i < 0 {
			return
		}
		name := i > 0 && nameByte(text[i-1])
		text = text[i+1:]
		if !name {
			continue
		}
		if strings.Contains(text, "$(") || strings.Contains(text, "`") || strings.Contains(text, "${") {
			w.unknown("substitution inside a quoted array subscript")
		}
		return // later subscripts cannot contain more
	}
}

func nameByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// plainDelimiter reports whether all shells read a here-document delimiter alike.
func plainDelimiter(wd *syntax.Word) bool {
	for _, part := range wd.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "\n"+string(hole)+string(returnByte)) {
				return false
			}
		case *syntax.SglQuoted:
			if strings.ContainsAny(p.Value, "\n"+string(hole)+string(returnByte)) || p.Dollar && strings.Contains(p.Value, `\`) {
				return false
			}
		case *syntax.DblQuoted:
			for _, in := range p.Parts {
				l, ok := in.(*syntax.Lit)
				if !ok || strings.ContainsAny(l.Value, "\\\n"+string(hole)+string(returnByte)) {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

func (w *walker) inWord(wd *syntax.Word, at *place) {
	if wd != nil {
		w.parts(wd.Parts, at, unquoted)
	}
}

// parts finds the commands that run while a word is expanded.
func (w *walker) parts(parts []syntax.WordPart, at *place, q quoting) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\'`) {
				// A POSIX shell ends the string at the first quote and runs the text after it.
				w.unknown(`$'...' with a quote inside, which shells read differently`)
			}
		case *syntax.DblQuoted:
			w.parts(p.Parts, at, doubleQuoted)
		case *syntax.CmdSubst:
			before := w.where
			w.loosely(func() { w.stmts(p.Stmts, at) })
			w.where = before
		case *syntax.ProcSubst:
			before := w.where
			w.loosely(func() { w.stmts(p.Stmts, at) })
			w.where = before
		case *syntax.ParamExp:
			w.param(p, at, q)
		case *syntax.ArithmExp:
			w.arithm(p.X, at)
		case *syntax.ExtGlob:
			// The parser stores the inside as text. Bash expands it; in Zsh it may be qualifiers,
			// one of which runs a command.
			if p.Pattern != nil && (strings.ContainsAny(p.Pattern.Value, "$`<>") || runsQualifier(p.Pattern.Value)) {
				w.unknown("substitution inside an extended glob")
			}
		default:
			w.unknown("unparsable: unusual syntax")
		}
	}
}

// runsQualifier reports whether s is the inside of a Zsh glob that runs a command, such as
// *(e:'rm -rf /':) or *(+function).
func runsQualifier(s string) bool {
	if strings.IndexByte(s, '|') >= 0 {
		return false // alternatives, not qualifiers
	}
	for i := 0; i+2 < len(s); i++ {
		if s[i] != 'e' {
			continue
		}
		closing := s[i+1]
		switch closing {
		case '[', '{', '<':
			closing += 2
		}
		if strings.IndexByte(s[i+2:], closing) >= 0 {
			return true
		}
	}
	return strings.IndexByte(s, '+') >= 0
}

func (w *walker) param(p *syntax.ParamExp, at *place, q quoting) {
	if !w.enter() {
		return
	}
	defer w.leave()
	if p.NestedParam != nil {
		w.parts([]syntax.WordPart{p.NestedParam}, at, q)
	}
	w.arithm(p.Index, at)
	if p.Slice != nil {
		w.arithm(p.Slice.Offset, at)
		w.arithm(p.Slice.Length, at)
	}
	if p.Repl != nil {
		w.operand(p.Repl.Orig, at, q)
		w.operand(p.Repl.With, at, q)
	}
	if p.Exp != nil {
		if p.Exp.Op == syntax.OtherParamOps && p.Exp.Word != nil && p.Exp.Word.Lit() == "P" {
			w.unknown("prompt expansion of a variable") // ${x@P} runs commands in the value of x
		}
		if (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) && p.Param != nil {
			w.sets(p.Param.Value, nil) // ${x:=word}
		}
		w.operand(p.Exp.Word, at, q)
	}
}

// operand walks the word inside ${x:-word}.
func (w *walker) operand(wd *syntax.Word, at *place, q quoting) {
	if wd == nil {
		return
	}
	for _, part := range wd.Parts {
		switch p := part.(type) {
		case *syntax.SglQuoted:
			// In a shell a single quote inside double quotes is an ordinary character, so
			// "${x:-'}; rm -rf / #'}" ends earlier than for the parser, which treats it as a
			// quote.
			if q != unquoted {
				w.unknown("unparsable: single quotes inside double quotes")
			}
		case *syntax.Lit:
			// The parser treats it as text, a shell runs it.
			if q == unquoted && (strings.Contains(p.Value, "<(") || strings.Contains(p.Value, ">(")) {
				w.unknown("process substitution inside ${}")
			}
		}
	}
	w.parts(wd.Parts, at, q)
}

func (w *walker) arithm(x syntax.ArithmExpr, at *place) {
	if x == nil || !w.enter() {
		return
	}
	defer w.leave()
	switch x := x.(type) {
	case *syntax.Word:
		for _, part := range x.Parts {
			if q, ok := part.(*syntax.SglQuoted); ok && strings.ContainsAny(q.Value, "$`") {
				w.unknown("substitution inside a quoted array subscript")
			}
		}
		w.parts(x.Parts, at, doubleQuoted)
	case *syntax.BinaryArithm:
		if x.Op.String() != "==" && strings.HasSuffix(x.Op.String(), "=") {
			w.calculates(x.X)
		}
		w.arithm(x.X, at)
		w.arithm(x.Y, at)
	case *syntax.UnaryArithm:
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			w.calculates(x.X)
		}
		w.arithm(x.X, at)
	case *syntax.ParenArithm:
		w.arithm(x.X, at)
	case *syntax.FlagsArithm:
		w.arithm(x.X, at)
	default:
		w.unknown("unparsable: unusual syntax")
	}
}

// calculates records that arithmetic gives a variable a value.
func (w *walker) calculates(x syntax.ArithmExpr) {
	w.calculated(x)
	if wd, ok := x.(*syntax.Word); ok {
		w.sets(wd.Lit(), nil)
	}
}

func (w *walker) test(x syntax.TestExpr, at *place) {
	if x == nil || !w.enter() {
		return
	}
	defer w.leave()
	switch x := x.(type) {
	case *syntax.Word:
		w.value(x, at)
	case *syntax.BinaryTest:
		w.test(x.X, at)
		w.test(x.Y, at)
	case *syntax.UnaryTest:
		w.test(x.X, at)
	case *syntax.ParenTest:
		w.test(x.X, at)
	default:
		w.unknown("unparsable: unusual syntax")
	}
}
