package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The package does not run or interpret programs in other languages. It searches them for calls
// of well-known functions that run a command, delete a file or open one. A literal argument gives
// a known command or file. A computed argument gives an entry in Script.Unknown.

// Limits for one piece of code.
const (
	maxCode  = 256 << 10 // bytes
	maxCalls = 256
	maxNames = 512 // names of functions that may have an alias
)

// interpreter reads a call of an interpreter. The code is in an option, in a script file or on
// standard input.
func (w *walker) interpreter(row *program, name string, args []Word, at place) { //nolint:gocognit // a function that calls itself gets one more
	language, read := get(row.does, "-"), at.behind(name)
	s := scanner{rows: []*program{row}, args: args}
	for s.scan() {
		if s.kind != option {
			if strings.HasPrefix(s.word.Text, "<(") && !s.word.Literal { // python <(echo "import os")
				w.unknown(name + " runs what it reads")
				if feed := s.word.c.feed; feed != nil {
					w.code(language, *feed, false, name, read)
				}
			}
			if s.kind == open || !standardInput(s.word.Text) {
				if language == "ed" {
					continue // the file to edit; the commands come from standard input
				}
				if script := args[s.next-1:]; lookup(path.Base(s.word.Text)) != nil { // python manage.py shell
					w.command(script, at.behind(name))
				}
				w.wrote(s.word, func(text string, computed bool) { w.code(language, text, computed, name, read) })
				return // a script
			}
			break
		}
		o := row.full(s.name, s.short)
		switch kind := get(row.does, o); {
		case has(row.none, o):
			return
		case kind == "module":
			words := args[s.next:]
			if s.valued && len(words) < len(args) {
				w.command(append([]Word{s.value}, words...), at.behind(name+" -m"))
			}
			return
		case kind != "" && s.valued:
			in, value := at.behind(name+" "+dashes(o)), s.value
			if value.Text == "e" && s.next < len(args) {
				value = args[s.next] // node -pe
			}
			w.code(kind, value.code(), !value.Literal, name+" "+dashes(o), in)
			return
		}
	}
	w.interpreterInput(language, name, at)
}

// interpreterInput reads the code that an interpreter gets on standard input.
func (w *walker) interpreterInput(language, name string, at place) {
	if at.from == nil && len(at.stdin) == 0 {
		return
	}
	read := at.behind(name)
	if text, ok := w.fedText(&at); ok {
		w.code(language, text, false, name, read)
		return
	}
	for _, r := range at.stdin {
		wd, q := r.Hdoc, document
		switch {
		case r.Op == syntax.WordHdoc:
			wd, q = r.Word, unquoted
		case r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc:
		case feeds(r):
			w.script(name, r, &at, func(text string, computed bool) { w.code(language, text, computed, name, read) })
			return
		default:
			continue
		}
		if wd != nil {
			text, _ := w.text(&at, wd, q)
			w.code(language, text, true, name, read)
		}
		return
	}
	if at.from == nil {
		return
	}
	w.unknown("pipe into " + name)
	if text, ok := w.output(&at); ok {
		w.code(language, text, true, name, read)
	}
}

// echoed returns the known output of the commands in a subshell or block before a pipe. It skips
// commands whose output is not known.
func (w *walker) echoed(at *place) string {
	var list []*syntax.Stmt
	switch c := pipeEnd(at.from).Cmd.(type) {
	case *syntax.Subshell:
		list = c.Stmts
	case *syntax.Block:
		list = c.Stmts
	}
	var b strings.Builder
	for _, st := range list {
		if text, ok := w.evalStmt(st, at, ""); ok {
			b.WriteString(text)
		}
	}
	return b.String()
}

// A codeScan searches one piece of code.
type codeScan struct {
	*walker
	language string
	text     string
	computed bool // the text holds computed pieces, as holes
	name     string
	at       place
	calls    int
	begin    int               // of the current call
	aliases  map[string]string // what findAlias found; see maxNames
	modules  string            // modules that the code loads by a literal string: import_module("os")
}

// code records a piece of code and finds the commands that it runs.
func (w *walker) code(language, text string, computed bool, name string, at place) {
	if at.parent >= 0 {
		w.s.Code = append(w.s.Code, Code{Language: language, Text: w.decode(text), Command: at.parent})
	}
	if w.nested += len(text); w.nested > maxNested || len(text) > maxCode || at.depth > maxDepth || !w.spend(len(text)*stepsPerByte) {
		w.unknown("unparsable: too much code inside the line")
		return
	}
	at.stdin, at.from = nil, nil
	elsewhere := w.elsewhere
	w.elsewhere = true // code may have connected the shell's standard input to a network connection
	defer func() { w.elsewhere = elsewhere }()
	if computed && language != "awk" && language != "sed" && language != "vim" && language != "elisp" {
		w.unknown(name + " of a computed string")
	}
	c := codeScan{walker: w, language: language, text: text, computed: computed, name: name, at: at}
	if language == "sed" {
		c.sed()
		return
	}
	if language == "ed" {
		w.bang(text, name, at)
		return
	}
	if language == "lisp" {
		c.lisp()
		return
	}
	if language == "tcl" || language == "elisp" {
		c.tcl()
		if language == "tcl" {
			return
		}
	}
	c.scan()
}

// isAny reports whether the code is in one of the languages in list.
func (c *codeScan) isAny(list string) bool { return has(list, c.language) }

func identByte(b byte) bool { return nameByte(b) || b == '$' }

// scan reads all tokens, up to the limits maxCalls and maxNames.
func (c *codeScan) scan() {
	for i := 0; i < len(c.text); {
		if c.calls >= maxCalls || len(c.aliases) >= maxNames {
			c.unknown(c.name + " makes more calls than are looked at")
			return
		}
		i = c.token(i)
	}
}

// token reads the token that begins at i and returns the position at which reading continues.
func (c *codeScan) token(i int) int {
	t := c.text
	switch b := t[i]; {
	case c.comment(i):
		if end := strings.IndexByte(t[i:], '\n'); end >= 0 {
			return i + end
		}
		return len(t)
	case strings.HasPrefix(t[i:], "/*") && c.isAny("node php go"):
		if end := strings.Index(t[i+2:], "*/"); end >= 0 {
			return i + end + 4
		}
		return len(t)
	case b == '\'' || b == '"' || b == '`':
		text, next, whole := c.quoted(i)
		c.literal(text)
		if b == '`' && c.isAny("perl ruby php julia") {
			c.line(text, whole)
		}
		if b == '"' && c.isAny("ruby scala") && runsString(t[next:]) {
			c.line(text, whole)
		}
		if b == '"' && c.language == "awk" {
			c.awkString(i, next, text, whole)
		}
		return max(next, i+1)
	case c.isAny("perl ruby") && (strings.HasPrefix(t[i:], "qx") || strings.HasPrefix(t[i:], "%x")) && (i == 0 || !nameByte(t[i-1])):
		if text, next, ok := c.delimited(i + 2); ok {
			c.line(text, !strings.ContainsAny(text, "$@") && !strings.Contains(text, "#{"))
			return next
		}
		return i + 2
	case nameByte(b) || b == '.' || b == '$' || b == '@' && c.isAny("php perl"):
		end := max(c.pathEnd(i), i+1)
		return c.call(t[i:end], i, end)
	}
	return i + 1
}

// runsString reports whether the text after a string runs it: "ls".! in Scala, "ls".execute() in
// Groovy.
func runsString(after string) bool {
	after = strings.TrimLeft(after, " ")
	return strings.HasPrefix(after, ".!") || strings.HasPrefix(after, "!") && !strings.HasPrefix(after, "!=") ||
		strings.HasPrefix(after, ".execute(") || strings.HasPrefix(after, ".lazyLines")
}

// comment reports whether a comment that ends with the line begins at i.
func (c *codeScan) comment(i int) bool {
	t := c.text
	switch t[i] {
	case '#':
		return c.isAny("python perl ruby php awk r") && (i == 0 || t[i-1] != '$')
	case '/':
		return strings.HasPrefix(t[i:], "//") && c.isAny("node php go")
	case '-':
		return strings.HasPrefix(t[i:], "--") && c.isAny("lua applescript")
	}
	return false
}

// pathEnd returns the end of a name such as os.path, Foo::bar or $x->y.
func (c *codeScan) pathEnd(i int) int {
	t := c.text
	for i < len(t) && (identByte(t[i]) || t[i] == '.' || t[i] == ':' && i+1 < len(t) && t[i+1] == ':' || t[i] == ':' && t[i-1] == ':' ||
		t[i] == '-' && i+1 < len(t) && t[i+1] == '>' || t[i] == '>' && t[i-1] == '-' || t[i] == '!' || t[i] == '?' && i+1 < len(t) && t[i+1] == '.') {
		i++
	}
	return i
}

// literal records a string in code if it is an address.
func (c *codeScan) literal(text string) {
	for _, scheme := range [...]string{"http://", "https://", "ftp://", "ws://", "wss://"} {
		if len(text) > len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) && len(c.s.urls) < maxCommands {
			c.s.urls = append(c.s.urls, text)
		}
	}
}

// call reads a name and, if it is a call of a function in codeTable, its arguments. It returns
// the position at which reading continues.
func (c *codeScan) call(path string, begin, end int) int {
	t := c.text
	owner, last := splitPath(path)
	if c.language == "applescript" && last == "do" && strings.HasPrefix(t[end:], " shell script") {
		args, next := c.arguments(end+len(" shell script"), 0, 0)
		c.do(runLine, path, args)
		return max(next, end)
	}
	if c.language == "php" || c.language == "perl" {
		last = strings.TrimPrefix(last, "@")
	}
	i := end
	for i < len(t) && (t[i] == ' ' || t[i] == '\t') {
		i++
	}
	if c.language == "perl" && i < len(t) && t[i] == '{' && has("eval do", last) {
		return end // a block
	}
	shut := byte(0)
	switch {
	case i < len(t) && t[i] == '(':
		shut, i = ')', i+1
	case i > end && c.isAny("perl ruby php lua applescript") && i < len(t) && t[i] != '=' && t[i] != ')' && t[i] != ',':
	case c.language == "lua" && i < len(t) && (t[i] == '"' || t[i] == '\''):
	case c.language == "node" && i < len(t) && t[i] == '`' && last == "$": // Bun.$`rm`
		text, next, whole := c.quoted(i)
		c.line(text, whole)
		return next
	default:
		return end
	}
	if owner == "" && shut == ')' && c.isAny("python node lua") {
		last = c.alias(last)
	}
	if c.language == "python" || c.language == "node" {
		if !c.methods(last, owner, begin, i) {
			return end
		}
	}
	c.begin = begin
	if row := c.knownCall(last, owner, begin); row != nil {
		args, _ := c.arguments(i, shut, 0)
		c.calls++
		c.do(row.deed, path, args)
	}
	return end
}

// knownCall returns the row of codeTable for a call, or nil.
func (c *codeScan) knownCall(name, owner string, begin int) *known {
	for k := range codeTable {
		row := &codeTable[k]
		switch {
		case !has(row.languages, c.language) || !has(row.names, name) || row.owner != "" && !c.owns(row.owner, owner, name, begin):
		case row.deed == openFile && owner != "" && !has("io os codecs gzip Path File Kernel IO aiofiles", owner):
		case row.deed == runCode && owner != "" && !has("builtins __builtins__ window globalThis global vm Kernel binding", owner):
			// a method of something: df.eval("a+b")
		default:
			return row
		}
	}
	return nil
}

// splitPath returns the last two names of a path: "os" and "path" for "x.os.path".
func splitPath(path string) (owner, last string) {
	i := strings.LastIndexAny(path, ".:>")
	if i >= 0 {
		owner = strings.TrimRight(path[:i], ".:->?")
		owner = owner[strings.LastIndexAny(owner, ".:>")+1:]
	}
	return owner, strings.TrimRight(path[i+1:], "!")
}

// alias returns the function for which name is another name in this code: import system as s, or
// s = os.system. Long code calls the same names many times.
func (c *codeScan) alias(name string) string {
	if name == "" || len(name) > 64 {
		return name
	}
	if _, known := c.aliases[name]; !known {
		if c.aliases == nil {
			c.aliases = map[string]string{}
		}
		c.aliases[name] = c.findAlias(name)
	}
	return c.aliases[name]
}

func (c *codeScan) findAlias(name string) string {
	if i := strings.Index(c.text, " as "+name); i > 0 {
		if end := i + len(" as "+name); end == len(c.text) || !nameByte(c.text[end]) {
			begin := i
			for begin > 0 && nameByte(c.text[begin-1]) {
				begin--
			}
			return c.text[begin:i]
		}
	}
	for from := 0; ; {
		i := strings.Index(c.text[from:], name)
		if i < 0 {
			return name
		}
		i += from
		from = i + len(name)
		rest := strings.TrimLeft(c.text[from:], " ")
		if i > 0 && (nameByte(c.text[i-1]) || c.text[i-1] == '.') || len(rest) < 2 || rest[0] != '=' || rest[1] == '=' {
			continue
		}
		rest = strings.TrimLeft(rest[1:], " ")
		end := 0
		for end < len(rest) && (nameByte(rest[end]) || rest[end] == '.') {
			end++
		}
		if path := rest[:end]; strings.Contains(path, ".") && (end == len(rest) || rest[end] != '(') {
			return path[strings.LastIndexByte(path, '.')+1:]
		}
	}
}

// owns reports whether a function is part of a module. The call uses the module's name or an alias
// from the code, or it uses the bare function name and the code mentions the module.
func (c *codeScan) owns(module, owner, name string, begin int) bool {
	short := module[strings.LastIndexByte(module, '.')+1:]
	switch {
	case owner == module || owner == short || module == "fs" && has("fsp promises fse", owner):
		return true
	case !strings.Contains(c.text, module) && !strings.Contains(c.modules, module):
		return module == "child_process" && owner == "" && strings.Contains(c.text, "execSync")
	case owner == "" && begin > 0 && c.text[begin] == '.': // require("fs").rm, __import__('os').system
		return true
	case owner == "":
		return strings.Contains(c.text, "import") || strings.Contains(c.text, "require") || module == "FileUtils" || c.language == "ruby" && name != "open"
	}
	for _, made := range [...]string{module + " as " + owner, owner + " = require", owner + "=require", "* as " + owner, owner + " = __import__", owner + "=__import__", "import " + owner + " ", owner + " = await import", owner + "=await import"} {
		if strings.Contains(c.text, made) {
			return true
		}
	}
	return strings.Contains(c.text, owner+"="+module) || strings.Contains(c.text, owner+" = "+module)
}

// pathMethod handles Path("x").unlink() and similar calls, and reports whether the call is one of these.
func (c *codeScan) pathMethod(last string, begin, end int) bool {
	t := c.text
	if !has("unlink rmdir write_text write_bytes read_text read_bytes open touch rename", last) {
		return false
	}
	open := strings.LastIndex(t[:begin], "Path(")
	if open < 0 || strings.ContainsAny(t[open:begin], "\n;") {
		return false
	}
	args, _ := c.arguments(open+len("Path("), ')', 0)
	do := readFile
	switch last {
	case "unlink", "rmdir":
		do = deleteFile
	case "write_text", "write_bytes", "touch":
		do = writeFile
	case "open":
		do = openFile
		mode, _ := c.arguments(end, ')', 0)
		args = append(args[:min(1, len(args))], mode...)
	}
	c.calls++
	c.do(do, last, args)
	return true
}

// deletesPath handles p.unlink(), p.rmdir() and p.write_text("") of a variable, and reports whether the call
// is one of these.
func (c *codeScan) deletesPath(method string, begin, end int) bool {
	empties := method == "write_text" && (strings.HasPrefix(c.text[end:], "''") || strings.HasPrefix(c.text[end:], `""`))
	name := c.text[begin : strings.LastIndexByte(c.text[begin:end], '.')+begin]
	if !empties && !has("unlink rmdir", method) || !isName(name) {
		return false
	}
	c.calls++
	c.begin = begin
	c.deletes("", name)
	return true
}

// methods handles functions that load a module by name, methods of a value such as
// Path("x").unlink(), and decoders that run code. It reports whether the call may also be in
// codeTable.
func (c *codeScan) methods(last, owner string, begin, end int) bool {
	t := c.text
	switch last {
	case "getattr", "__import__", "import_module", "require", "import":
		args, _ := c.arguments(end, ')', 0)
		if len(args) == 0 {
			return false
		}
		if args[0].literal {
			c.modules += " " + args[0].text
		}
		switch {
		case last == "getattr":
			if len(args) > 1 && has("os subprocess shutil builtins __builtins__ pty", args[0].source) || len(args) > 1 && strings.Contains(args[0].source, "__import__") {
				c.unknown(c.name + " runs a computed function")
			}
		case !args[0].literal && len(args[0].source) > 0 && last != "require" || last == "require" && !args[0].literal && !strings.HasPrefix(args[0].source, "path."):
			if c.at.parent >= 0 {
				c.unknown(c.name + " loads a computed module")
			}
		}
		return false
	}
	if c.language == "python" && owner != "" && owner != "os" && t[begin] != '.' && c.deletesPath(last, begin, end) {
		return false
	}
	if c.language == "python" && owner == "" && t[begin] == '.' && c.pathMethod(last, begin, end) {
		return false
	}
	if c.language == "python" && has("loads load", last) && has("pickle marshal dill cPickle", owner) {
		c.unknown(c.name + " runs what it decodes")
	}
	return true
}
