package shell

import (
	"path"
	"slices"
	"strings"
)

// Code rarely deletes by a literal path. It deletes a variable, or the entries that a loop over a directory gives:
//
//	for p in Path("src").rglob("*"): p.unlink()   # rm -r src
//	d = tempfile.mkdtemp(); shutil.rmtree(d)      # rm -rf $(mktemp)
//
// This file follows such an expression to the paths that it may have. It reads assignments, loops and
// calls of well-known functions as text, and gives up where the text is not plain.

// Limits for one expression.
const (
	maxFollowed = 6  // bindings, one after the other
	maxPlaces   = 16 // values

	maxFollowing = 2 << 20 // bytes of code that are searched for all expressions of a line
)

// A codePath is a value of an expression for a path.
type codePath struct {
	text string // the path, or a pattern; "$(mktemp)..." for a temporary directory
	glob bool
	deep bool     // also what is below it
	only []string // deep: only entries with such names
}

// followed returns the paths that an expression of the call at begin may have; nil = not known.
func (c *codeScan) followed(expr string, begin int) (list []codePath) {
	f := follower{codeScan: c, begin: begin}
	list = f.values(expr, 0)
	if f.chosen || len(list) > maxPlaces {
		return nil
	}
	return list
}

// word returns the path as a word of rm.
func (p *codePath) word(w *walker) Word {
	switch {
	case strings.HasPrefix(p.text, originTemporary):
		return Word{Text: p.text, c: &computed{code: w.hole(p.text), origin: p.text, operand: true}}
	case p.only != nil:
		return Word{Text: p.text, c: &computed{code: w.hole(p.text), glob: p.text + "/*/" + p.only[0], operand: true}}
	}
	return Word{Text: p.text, Literal: true, glob: p.glob}
}

// A follower finds the values of one expression.
type follower struct {
	*codeScan

	begin  int  // of the call that deletes
	chosen bool // a condition that is not understood chooses the files
}

// pay reports whether some more bytes of code may be searched. A line that is built to exhaust the search is
// unknown.
func (f *follower) pay(bytes int) bool {
	if f.following += bytes; f.following <= maxFollowing {
		return true
	}
	f.unknown(f.name + " computes more paths than are looked at")
	return false
}

// values returns the paths that an expression may have, or nil.
func (f *follower) values(expr string, depth int) []codePath {
	expr = strings.TrimSpace(expr)
	if depth > maxFollowed || expr == "" || len(expr) > 1024 || !f.pay(len(expr)) {
		return nil
	}
	if text, ok := f.literalText(expr); ok {
		return []codePath{{text: text}}
	}
	switch f.language {
	case "ruby":
		expr = strings.TrimPrefix(expr, "*") // File.delete(*Dir["a/*"])
	case "perl":
		if before, test, ok := strings.Cut(expr, " if "); ok { // unlink $_ if -f
			f.chosen = f.chosen || !strings.HasPrefix(test, "-")
			expr = before
		}
		if text, ok := strings.CutPrefix(expr, "<"); ok && strings.HasSuffix(text, ">") {
			return under([]codePath{{text: "."}}, strings.TrimSuffix(text, ">"))
		}
		if rest, ok := strings.CutPrefix(expr, "glob "); ok {
			expr = "glob(" + strings.TrimSpace(rest) + ")"
		}
	}
	if homeOf(expr) {
		return []codePath{{text: "~"}}
	}
	if left, right, ok := cutOperator(expr, '/'); ok && f.language == "python" { // Path("a") / "b"
		return joined(f.values(left, depth+1), f.values(right, depth+1))
	}
	if left, right, ok := cutOperator(expr, '+'); ok { // "src/" + file
		return inserted(f.values(left, depth+1), f.values(right, depth+1))
	}
	if inner := insertions(expr); inner != nil { // f"{dir}/{file}"
		var pieces [][]codePath
		for _, piece := range inner {
			pieces = append(pieces, f.values(piece, depth+1))
		}
		return inserted(pieces...)
	}
	if owner, name, args, ok := splitCall(expr); ok {
		return f.callValues(owner, name, args, depth)
	}
	name := strings.TrimLeft(expr, "$@*")
	if name == "_" && f.language == "perl" {
		if list := f.visited(); list != nil {
			return list
		}
	}
	if isName(name) {
		return f.bound(name, depth)
	}
	return nil
}

// visited returns the directories of find(sub {...}, "src") in Perl, whose function gets each file in $_.
func (f *follower) visited() (list []codePath) {
	_, call, _ := strings.Cut(f.text, "find(")
	for _, a := range f.split(call) {
		if text, ok := f.literalText(a); ok {
			list = append(list, codePath{text: text, deep: true})
		}
	}
	return list
}

// literalText returns the value of an expression of string literals.
func (f *follower) literalText(expr string) (string, bool) {
	in := *f.codeScan
	in.text = expr
	list, end := in.arguments(0, ')', 0)
	if len(list) != 1 || !list[0].literal || list[0].key != "" || end < len(expr) {
		return "", false
	}
	return list[0].text, true
}

// callValues returns the values of a call: a path that it joins, or the files that it lists.
func (f *follower) callValues(owner, name, source string, depth int) []codePath {
	args := f.split(source)
	first := func() []codePath {
		if len(args) == 0 {
			return nil
		}
		return f.values(args[0], depth+1)
	}
	switch {
	case has("Path PurePath Pathname str String abspath realpath normpath resolve absolute expanduser expand_path join joinpath new quotemeta sorted list set reversed reverse filter from toArray RecursiveIteratorIterator IteratorIterator getPathname getRealPath", name):
		if len(args) == 0 && has("Path cwd", name) {
			return []codePath{{text: "."}}
		}
		if owner != "" && has("resolve absolute expanduser joinpath sorted reverse filter getPathname getRealPath", name) && !has("path os.path Path", owner) {
			base := f.values(owner, depth+1)
			if name != "joinpath" {
				return base
			}
			return f.joinAll(append([]string{owner}, args...), depth)
		}
		if has("list sorted set reversed from RecursiveIteratorIterator IteratorIterator", name) {
			return first()
		}
		return f.joinAll(args, depth)
	case has("cwd getcwd pwd", name):
		return []codePath{{text: "."}}
	case has("mkdtemp mkdtempSync TemporaryDirectory mktmpdir tempdir tempnam NamedTemporaryFile mkstemp mktemp tmpdir gettempdir", name):
		return []codePath{{text: originTemporary}}
	}
	return f.lists(owner, name, args, depth)
}

// joinAll joins the values of expressions. A piece that is not known makes the result unknown, unless it is
// the last one: a file of the directory before it.
func (f *follower) joinAll(args []string, depth int) []codePath {
	var list []codePath
	for i, a := range args {
		next := f.values(a, depth+1)
		switch {
		case i == 0:
			list = next
		case len(next) > 0 && (next[0].deep || next[0].glob): // os.path.join(root, file) of os.walk
			return next
		default:
			list = joined(list, next)
		}
	}
	return list
}

// joined returns the paths of a directory and names in it.
func joined(dirs, names []codePath) (list []codePath) {
	for _, dir := range dirs {
		if dir.deep || dir.glob {
			return dirs
		}
		for _, name := range names {
			if strings.HasPrefix(name.text, "$(") || strings.HasPrefix(name.text, "/") {
				return names
			}
			name.text = path.Join(dir.text, name.text)
			list = append(list, name)
		}
	}
	return list
}

// lists returns the files that a call lists.
func (f *follower) lists(owner, name string, args []string, depth int) []codePath {
	dir := owner
	if len(args) > 0 && !has("rglob iterdir", name) {
		dir = args[0]
	}
	if name == "glob" && strings.Contains(owner, "(") || name == "glob" && f.language == "python" && owner != "" && owner != "glob" || name == "rglob" {
		pattern := "*"
		if len(args) > 0 {
			pattern, _ = f.literalText(args[0])
		}
		if name == "rglob" {
			pattern = "**/" + pattern
		}
		return under(f.values(owner, depth+1), pattern)
	}
	switch {
	case has("glob iglob globSync sync fg globby", name):
		list := f.values(dir, depth+1)
		if len(list) != 1 {
			return nil
		}
		return under([]codePath{{text: "."}}, list[0].text)
	case has("walk fwalk rglob Walk WalkDir", name), name == "find" && owner == "Find", has("RecursiveDirectoryIterator", name):
		return under(f.values(dir, depth+1), "**/*")
	case has("listdir scandir iterdir readdirSync readdir readDirSync readDir children entries each_child ReadDir DirectoryIterator FilesystemIterator opendir", name):
		if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(strings.ReplaceAll(a, " ", ""), "recursive:true") }) {
			return under(f.values(dir, depth+1), "**/*")
		}
		return under(f.values(dir, depth+1), "*")
	}
	return nil
}

// under returns the files that a pattern matches in directories.
func under(dirs []codePath, pattern string) (list []codePath) {
	for _, dir := range dirs {
		before, name, deep := strings.Cut("/"+pattern, "/**/")
		if !strings.HasPrefix(pattern, "/") {
			before = strings.TrimPrefix(before, "/")
		}
		switch {
		case dir.deep || strings.HasPrefix(dir.text, originTemporary):
			list = append(list, dir)
		case strings.HasSuffix(pattern, "**"):
			list = append(list, codePath{text: path.Join(dir.text, strings.TrimSuffix(pattern, "**")), deep: true})
		case deep:
			p := codePath{text: at(dir.text, before), deep: true}
			if name = path.Base(name); strings.Trim(name, "*?.") != "" {
				p.only = []string{name}
			}
			list = append(list, p)
		default:
			list = append(list, codePath{text: at(dir.text, pattern), glob: strings.ContainsAny(pattern, "*?[")})
		}
	}
	return list
}

// at joins a directory and a path that may be absolute.
func at(dir, name string) string {
	switch {
	case name == "":
		return dir
	case dir == "." || strings.HasPrefix(name, "/"):
		return strings.TrimPrefix(name, "./")
	}
	return path.Join(dir, name)
}

// split splits the arguments of a call.
func (f *follower) split(source string) (args []string) {
	in := *f.codeScan
	in.text = source
	list, _ := in.arguments(0, ')', 0)
	for _, a := range list {
		args = append(args, a.source)
	}
	return args
}

// splitCall splits OWNER.NAME(ARGS) or NAME(ARGS) that is the whole expression. A call without
// parentheses and Dir["x"] of Ruby are calls, too.
func splitCall(expr string) (owner, name, args string, ok bool) {
	expr = strings.TrimPrefix(strings.TrimPrefix(expr, "await "), "new ")
	shut := byte(')')
	open := byte('(')
	if strings.HasSuffix(expr, "]") {
		shut, open = ']', '['
	}
	if expr == "" || expr[len(expr)-1] != shut {
		return "", "", "", false
	}
	depth := 0
	for i := len(expr) - 1; i >= 0; i-- {
		switch expr[i] {
		case ')', ']', '}':
			depth++
		case '(', '[', '{':
			if depth--; depth > 0 {
				continue
			}
			head := strings.TrimSpace(expr[:i])
			begin := len(head)
			for begin > 0 && nameByte(head[begin-1]) {
				begin--
			}
			name, owner = head[begin:], strings.TrimRight(head[:begin], ".:>-?")
			if open == '[' {
				if name != "Dir" {
					return "", "", "", false
				}
				owner, name = "Dir", "glob"
			}
			return owner, name, expr[i+1 : len(expr)-1], name != "" && (owner == "" || !strings.ContainsAny(owner[len(owner)-1:], "+=,"))
		}
	}
	return "", "", "", false
}

// inserted returns the piece of a text that is the listing of a directory, or nil.
func inserted(pieces ...[]codePath) []codePath {
	for _, list := range slices.Backward(pieces) {
		if len(list) > 0 && (list[0].deep || list[0].glob) {
			return list
		}
	}
	return nil
}

// insertions returns the expressions in a string with insertions: f"{a}/{b}", `${a}/${b}`.
func insertions(expr string) (inner []string) {
	for rest := expr; ; {
		open := strings.IndexByte(rest, '{')
		if open < 0 || !strings.ContainsAny(expr, "\"'`") || strings.IndexAny(expr, "\"'`") > 1 {
			return inner
		}
		n := enclosed(rest[open:], '{', '}')
		inner = append(inner, rest[open+1:max(open+1, open+n-1)])
		rest = rest[open+n:]
	}
}

// cutOperator cuts an expression at its last operator that is outside of brackets and quotes.
func cutOperator(expr string, operator byte) (left, right string, ok bool) {
	depth, quote := 0, byte(0)
	for i := len(expr) - 1; i > 0; i-- {
		switch b := expr[i]; {
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '\'' || b == '"' || b == '`':
			quote = b
		case b == ')' || b == ']':
			depth++
		case b == '(' || b == '[':
			depth--
		case b == operator && depth == 0:
			return expr[:i], expr[i+1:], true
		}
	}
	return "", "", false
}

func isName(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r > 'z' || !nameByte(byte(r)) }) < 0 && (text[0] < '0' || text[0] > '9')
}

// bound returns the values of a variable: of its only assignment, or of the loop that gives it values.
func (f *follower) bound(name string, depth int) (list []codePath) {
	for i := f.occurrence(name, 0); i >= 0; i = f.occurrence(name, i+len(name)) {
		expr, loop, ok := f.binding(name, i)
		if !ok {
			list = append(list, f.parameter(i, depth)...)
		}
		if !ok || expr == "" {
			continue
		}
		found := f.elements(expr, loop, depth)
		if found == nil {
			return nil
		}
		if loop {
			found = f.filtered(found, i)
		}
		if list = append(list, found...); len(list) > maxPlaces {
			return nil
		}
	}
	return list
}

// occurrence returns the offset of a name in the code, from an offset; -1 = none.
func (f *follower) occurrence(name string, from int) int {
	for from < len(f.text) {
		i := strings.Index(f.text[from:], name)
		if i < 0 || !f.pay(i+len(name)) {
			return -1
		}
		i += from
		from = i + len(name)
		if (i == 0 || !nameByte(f.text[i-1]) && f.text[i-1] != '.') && (from == len(f.text) || !nameByte(f.text[from])) {
			return i
		}
	}
	return -1
}

// binding returns the expression that gives a value to the variable at i, and whether it is a loop over
// the values of the expression.
func (f *follower) binding(name string, i int) (expr string, loop, ok bool) {
	before, after := f.statement(i, i+len(name))
	head := strings.TrimRight(before, " (,$@*&|")
	rest := strings.TrimLeft(after, " ")
	switch {
	case strings.HasPrefix(rest, "=>") || strings.HasPrefix(strings.TrimLeft(rest, ") "), "=>"): // list.forEach(f =>
		return callee(head), true, true
	case strings.HasPrefix(rest, "|") && strings.HasSuffix(strings.TrimRight(before, " "), "|"): // list.each { |f|
		return callee(strings.TrimRight(strings.TrimSuffix(strings.TrimRight(strings.TrimRight(before, " |"), " {"), " do"), " {")), true, true
	case f.language == "go" && strings.HasPrefix(rest, "string") && strings.HasSuffix(head, ", func"): // filepath.Walk(dir, func(name string
		return callee(strings.TrimSuffix(head, ", func")) + ")", true, true
	case strings.HasPrefix(rest, ":=") && strings.Contains(rest, "range "):
		_, over, _ := strings.Cut(rest, "range ")
		return strings.TrimRight(over, " {"), true, true
	case strings.HasPrefix(rest, ":="), strings.HasPrefix(rest, "=") && !strings.HasPrefix(rest, "==") && !strings.HasPrefix(rest, "=~"):
		return strings.TrimRight(strings.TrimLeft(rest, ":="), " ;"), false, true
	}
	if over, found := strings.CutSuffix(strings.TrimSpace(before), "as $"); found { // foreach (x as $f)
		_, over, _ = strings.Cut(over, "(")
		return over, true, true
	}
	if _, over, found := strings.Cut(after, " for "); found && name == "_" { // unlink $_ for glob("a/*")
		return strings.TrimRight(over, " ;"), true, true
	}
	at := strings.LastIndex(before, "for")
	if at < 0 || strings.ContainsAny(before[at:], ":.=") {
		return "", false, false
	}
	for _, in := range [...]string{" in ", " of "} {
		if _, over, found := strings.Cut(after, in); found {
			return loopHead(over), true, true
		}
	}
	if strings.HasPrefix(rest, "(") && f.language == "perl" { // for my $f (list)
		return rest[1:max(1, enclosed(rest, '(', ')')-1)], true, true
	}
	return "", false, false
}

// parameter returns the values of the first parameter of a function, if the name at i is one: the literal
// arguments of the function's calls. A function that calls itself goes down into directories.
func (f *follower) parameter(i, depth int) (list []codePath) {
	before, _ := f.statement(i, i)
	before, open := strings.CutSuffix(strings.TrimRight(before, " "), "(")
	begin := len(before)
	for begin > 0 && nameByte(before[begin-1]) {
		begin--
	}
	name := before[begin:]
	if declares := strings.TrimSpace(before[:begin]); !open || name == "" || !strings.HasSuffix(declares, "function") && declares != "def" {
		return nil
	}
	deep := false
	for j := f.occurrence(name, 0); j >= 0; j = f.occurrence(name, j+len(name)) {
		rest := f.text[j+len(name):]
		if j+len(name) == i-1 || !strings.HasPrefix(rest, "(") {
			continue
		}
		args := f.split(rest[1:max(1, enclosed(rest, '(', ')')-1)])
		if len(args) == 0 {
			continue
		}
		if text, ok := f.literalText(args[0]); ok {
			list = append(list, codePath{text: text})
		} else {
			deep = true
		}
	}
	for k := range list {
		list[k].deep = deep && depth > 0
	}
	return list
}

// statement returns the text around a variable: up to the line's or statement's beginning and end.
func (f *follower) statement(begin, end int) (before, after string) {
	from := strings.LastIndexAny(f.text[:begin], "\n;") + 1
	to := end
	depth := 0
	for ; to < len(f.text); to++ {
		switch b := f.text[to]; {
		case b == '(' || b == '[':
			depth++
		case b == ')' || b == ']':
			depth--
		case b == ';' || b == '\n' && depth <= 0:
			f.pay(to - from)
			return f.text[from:begin], f.text[end:to]
		}
	}
	f.pay(to - from)
	return f.text[from:begin], f.text[end:to]
}

// callee returns the list before a call such as .forEach or .each.
func callee(head string) string {
	if i := strings.LastIndexByte(head, '.'); i >= 0 && has("forEach map each each_entry some every filter", strings.TrimSpace(strings.Trim(head[i+1:], "( &"))) {
		head = head[:i]
	}
	head = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(head), "return "), "await "))
	if i := strings.LastIndexAny(head, "{=;"); i >= 0 {
		head = head[i+1:]
	}
	return strings.TrimSpace(head)
}

// loopHead returns the list of a loop: up to the colon, the bracket or the condition that ends it.
func loopHead(text string) string {
	depth, quote := 0, byte(0)
	for i := range len(text) {
		switch b := text[i]; {
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '\'' || b == '"':
			quote = b
		case b == '(' || b == '[':
			depth++
		case (b == ')' || b == ']') && depth == 0, b == ':' && depth == 0, b == '{' && depth == 0,
			depth == 0 && (strings.HasPrefix(text[i:], " if ") || strings.HasPrefix(text[i:], " for ")):
			return text[:i]
		case b == ')' || b == ']':
			depth--
		}
	}
	return text
}

// elements returns the values of an expression, or the elements of a list.
func (f *follower) elements(expr string, loop bool, depth int) []codePath {
	expr = strings.TrimSpace(expr)
	in := *f.codeScan
	in.text = expr
	if list, _ := in.arguments(0, ')', 0); loop && len(list) > 0 {
		if len(list) == 1 && list[0].isList {
			list = list[0].list
		}
		var values []codePath
		for _, a := range list {
			if !a.literal {
				return f.values(expr, depth+1)
			}
			values = append(values, codePath{text: a.text})
		}
		return values
	}
	return f.values(expr, depth+1)
}

// filtered restricts a list to the names that the conditions between a loop and the deletion ask for.
func (f *follower) filtered(list []codePath, from int) []codePath {
	to := f.begin
	if from > to { // a comprehension: the loop is behind the call
		_, after := f.statement(from, from)
		from, to = to, from+len(after)
	}
	region := f.text[min(from, to):max(from, to)]
	if !f.pay(len(region)) {
		return nil
	}
	var names []string
	for rest := region; ; {
		i := strings.Index(rest, "if")
		if i < 0 {
			break
		}
		word := (i == 0 || !nameByte(rest[i-1])) && (i+2 >= len(rest) || !nameByte(rest[i+2]))
		rest = rest[i+2:]
		if !word {
			continue
		}
		found, plain := f.condition(rest)
		if !plain {
			f.chosen = true
			return nil
		}
		names = append(names, found...)
	}
	if strings.Contains(region, ".filter(") || strings.Contains(region, " unless ") || strings.Contains(region, "grep") {
		f.chosen = true
		return nil
	}
	return restrict(list, names)
}

// condition reads a condition of files: the names that it asks for, and false if it asks for more.
func (f *follower) condition(text string) (names []string, plain bool) {
	end := strings.IndexAny(text, ":{\n]")
	if end < 0 {
		end = len(text)
	}
	head, body := strings.NewReplacer("->", ".", "=>", "").Replace(text[:end]), strings.TrimLeft(text[end:], ":{ \t\n")
	inverse := strings.HasPrefix(strings.TrimLeft(head, " ("), "not ") || strings.HasPrefix(strings.TrimLeft(head, " ("), "!") ||
		strings.HasPrefix(body, "continue") || strings.HasPrefix(body, "next") || strings.HasPrefix(body, "return")
	for _, test := range [...]string{"endswith(", "endsWith(", "end_with?(", ".suffix ==", ".suffix in", "splitext(", "extname("} {
		i := strings.Index(head, test)
		if i < 0 {
			continue
		}
		if inverse {
			return nil, true // all others
		}
		in := *f.codeScan
		in.text = head[i:]
		for j := 0; j < len(in.text); {
			if in.text[j] == '\'' || in.text[j] == '"' {
				var name string
				name, j, _ = in.quoted(j)
				names = append(names, "*"+name)
				continue
			}
			j++
		}
		return names, names != nil
	}
	for _, test := range [...]string{"is_file", "isfile", "isFile", "is_dir", "isdir", "isDirectory", "exists", "is_symlink", "islink", "File.file?", "-f ", "__name__"} {
		if strings.Contains(head, test) && !strings.ContainsAny(head, "<>") {
			return nil, true
		}
	}
	return nil, inverse && !strings.ContainsAny(head, "<>")
}

// restrict returns the files of a list that have one of the names; no names = all.
func restrict(list []codePath, names []string) []codePath {
	if names == nil {
		return list
	}
	var some []codePath
	for _, p := range list {
		for _, name := range names {
			q := p
			switch {
			case p.deep:
				q.only = []string{name}
			case p.glob:
				q.text = path.Join(path.Dir(p.text), name)
			}
			some = append(some, q)
		}
	}
	return some
}
