package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Programs in other languages are not run and not understood. They are searched
// for calls by well-known names: what runs a command, deletes, opens a file. A
// literal argument says what is done, a computed one that it is not known.

// What one piece of code may cost.
const (
	maxCode  = 256 << 10 // bytes
	maxCalls = 256
	maxNames = 512 // calls that may be by another name
)

// interpreter reads a call of an interpreter: code in an option, a script, or
// what it is given to read.
func (w *walker) interpreter(row *program, name string, args []Word, at place) {
	s := scanner{rows: []*program{row}, args: args}
	for s.scan() {
		if s.kind != option {
			if s.kind == operand && !standardInput(s.word.Text) {
				return // a script
			}
			if s.kind == open {
				return
			}
			break
		}
		o := row.full(s.name, s.short)
		switch kind := get(row.list(listDoes), o); {
		case has(row.list(listNone), o):
			return
		case kind == "module":
			words := args[s.next:]
			if s.valued && len(words) < len(args) {
				w.command(append([]Word{s.value}, words...), at.behind(name+" -m"))
			}
			return
		case kind != "" && s.valued:
			in := at.behind(name + " " + dashes(o))
			w.code(kind, s.value.code(), !s.value.Literal, name+" "+dashes(o), in)
			return
		}
	}
	if at.from == nil && len(at.stdin) == 0 {
		return
	}
	language := get(row.list(listDoes), "-")
	if text, ok := w.fedText(&at); ok {
		w.code(language, text, false, name, at.behind(name))
		return
	}
	for _, r := range at.stdin {
		if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc {
			wd, q := r.Hdoc, document
			if r.Op == syntax.WordHdoc {
				wd, q = r.Word, unquoted
			}
			if wd != nil {
				text, _ := w.text(&at, wd, q)
				w.code(language, text, true, name, at.behind(name))
			}
			return
		}
		if feeds(r) {
			w.script(name, r, &at)
			return
		}
	}
	if at.from == nil {
		return
	}
	w.unknown("pipe into " + name)
	if text, ok := w.output(&at); ok {
		w.code(language, text, true, name, at.behind(name))
	}
}

// echoed is what is known of the output of several commands.
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

// A scan looks through one piece of code.
type codeScan struct {
	*walker
	language string
	text     string
	computed bool // there are holes in it
	name     string
	at       place
	calls    int
	names    int    // that were looked for
	modules  string // that it loads by a name put together
}

// code notes a piece of code and finds what it runs.
func (w *walker) code(language, text string, computed bool, name string, at place) {
	if at.parent >= 0 {
		w.s.Code = append(w.s.Code, Code{Language: language, Text: w.decode(text), Command: at.parent})
	}
	if w.nested += len(text); w.nested > maxNested || len(text) > maxCode || at.depth > maxDepth {
		w.unknown("unparsable: too much code inside the line")
		return
	}
	at.stdin, at.from = nil, nil
	elsewhere := w.elsewhere
	w.elsewhere = true // code may have put a connection in the place of what a shell reads
	defer func() { w.elsewhere = elsewhere }()
	if computed && language != "awk" && language != "sed" && language != "vim" && language != "elisp" {
		w.unknown(name + " of a computed string")
	}
	c := codeScan{walker: w, language: language, text: text, computed: computed, name: name, at: at}
	if language == "sed" {
		c.sed()
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

// isAny reports a language of a list.
func (c *codeScan) isAny(list string) bool { return has(list, c.language) }

func identByte(b byte) bool { return nameByte(b) || b == '$' }

// scan goes through the tokens.
func (c *codeScan) scan() {
	t := c.text
	for i := 0; i < len(t); {
		if c.calls >= maxCalls || c.names >= maxNames {
			c.unknown(c.name + " makes more calls than are looked at")
			return
		}
		switch b := t[i]; {
		case b == '#' && c.isAny("python perl ruby php awk r") && (i == 0 || t[i-1] != '$') || strings.HasPrefix(t[i:], "//") && c.isAny("node php") ||
			strings.HasPrefix(t[i:], "--") && c.isAny("lua applescript"):
			if end := strings.IndexByte(t[i:], '\n'); end >= 0 {
				i += end
				continue
			}
			return
		case strings.HasPrefix(t[i:], "/*") && c.isAny("node php"):
			end := strings.Index(t[i+2:], "*/")
			if end < 0 {
				return
			}
			i += end + 4
		case b == '\'' || b == '"' || b == '`':
			text, next, whole := c.quoted(i)
			c.literal(text)
			if b == '`' && c.isAny("perl ruby php") {
				c.line(text, whole)
			}
			if b == '"' && c.language == "awk" {
				c.awkString(i, next, text, whole)
			}
			i = max(next, i+1)
		case c.isAny("perl ruby") && (strings.HasPrefix(t[i:], "qx") || strings.HasPrefix(t[i:], "%x")) && (i == 0 || !nameByte(t[i-1])):
			if text, next, ok := c.delimited(i + 2); ok {
				c.line(text, !strings.ContainsAny(text, "$@") && !strings.Contains(text, "#{"))
				i = next
				continue
			}
			i += 2
		case nameByte(b) || b == '.' || b == '$' || b == '@' && c.isAny("php perl"):
			begin := i
			for i < len(t) && (identByte(t[i]) || t[i] == '.' || t[i] == ':' && i+1 < len(t) && t[i+1] == ':' || t[i] == ':' && t[i-1] == ':' ||
				t[i] == '-' && i+1 < len(t) && t[i+1] == '>' || t[i] == '>' && t[i-1] == '-' || t[i] == '!' || t[i] == '?' && i+1 < len(t) && t[i+1] == '.') {
				i++
			}
			if i == begin {
				i++
			}
			i = c.call(t[begin:i], begin, i)
		default:
			i++
		}
	}
}

// literal notes what a text that stands in code tells.
func (c *codeScan) literal(text string) {
	for _, scheme := range [...]string{"http://", "https://", "ftp://", "ws://", "wss://"} {
		if len(text) > len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) && len(c.s.urls) < maxCommands {
			c.s.urls = append(c.s.urls, text)
		}
	}
}

// quoted reads the string that begins at i: its value, where it ends, and whether
// it is all literal.
func (c *codeScan) quoted(i int) (string, int, bool) {
	t, q := c.text, c.text[i]
	if strings.HasPrefix(t[i:], strings.Repeat(string(q), 3)) && c.language == "python" {
		end := strings.Index(t[i+3:], strings.Repeat(string(q), 3))
		if end < 0 {
			return t[i+3:], len(t), false
		}
		text := t[i+3 : i+3+end]
		return text, i + 6 + end, strings.IndexByte(text, hole) < 0 && !c.formatted(i)
	}
	whole := !c.formatted(i)
	var b strings.Builder
	raw := i > 0 && (t[i-1] == 'r' || t[i-1] == 'R') && c.language == "python" || q == '\'' && c.isAny("perl ruby php")
	for j := i + 1; j < len(t); j++ {
		switch {
		case t[j] == q:
			text := b.String()
			if strings.IndexByte(text, '\\') >= 0 && !raw {
				text = decodeANSI(text)
			}
			if q != '\'' && c.isAny("perl php") && strings.ContainsAny(text, "$") || q != '\'' && c.language == "perl" && strings.Contains(text, "@{") ||
				q != '\'' && c.language == "ruby" && strings.Contains(text, "#{") || q == '`' && c.language == "node" && strings.Contains(text, "${") {
				whole = false
			}
			return text, j + 1, whole && strings.IndexByte(text, hole) < 0
		case t[j] == '\\' && j+1 < len(t):
			if t[j+1] == '\n' {
				j++
				continue
			}
			if q != '\'' || !c.isAny("perl ruby php") || t[j+1] != '\'' && t[j+1] != '\\' {
				b.WriteByte(t[j])
			}
			j++
			b.WriteByte(t[j])
		default:
			b.WriteByte(t[j])
		}
	}
	return b.String(), i + 1, false // not closed: an apostrophe in a comment
}

// formatted reports an f-string of Python with something in it.
func (c *codeScan) formatted(i int) bool {
	if c.language != "python" {
		return false
	}
	for j := i - 1; j >= 0 && j >= i-2; j-- {
		switch c.text[j] {
		case 'f', 'F':
			end := strings.IndexByte(c.text[i+1:], c.text[i])
			return end < 0 || strings.IndexByte(c.text[i+1:i+1+end], '{') >= 0
		case 'r', 'R', 'b', 'B', 'u':
		default:
			return false
		}
	}
	return false
}

// delimited reads q{...}, q(...) and their kin.
func (c *codeScan) delimited(i int) (string, int, bool) {
	t := c.text
	if i >= len(t) || nameByte(t[i]) || t[i] <= ' ' || t[i] == ',' || t[i] == ';' || t[i] == '=' || t[i] == ')' {
		return "", i, false
	}
	open, shut := t[i], t[i]
	switch open {
	case '(':
		shut = ')'
	case '[', '{', '<':
		shut = open + 2
	}
	depth := 0
	for j := i + 1; j < len(t); j++ {
		switch {
		case t[j] == '\\':
			j++
		case t[j] == shut && depth == 0:
			return t[i+1 : j], j + 1, true
		case t[j] == shut:
			depth--
		case t[j] == open:
			depth++
		}
	}
	return "", i, false
}

// An argument of a call.
type argument struct {
	text    string
	literal bool
	list    []argument // of a list
	isList  bool
	key     string // NAME=value, name: value
	source  string
}

// arguments reads what a call is given, from behind its parenthesis, or from behind
// its name where a language needs none.
func (c *codeScan) arguments(i int, shut byte, depth int) ([]argument, int) {
	var list []argument
	for i < len(c.text) && len(list) < 64 {
		var a argument
		a, i = c.argument(i, shut, depth)
		if a.source != "" || a.isList {
			list = append(list, a)
		}
		if i >= len(c.text) || c.text[i] != ',' {
			break
		}
		i++
	}
	return list, i
}

// argument reads up to a comma or what closes the call.
func (c *codeScan) argument(i int, shut byte, depth int) (argument, int) {
	t := c.text
	var a argument
	begin, pieces, other := i, 0, false
	for i < len(t) {
		switch b := t[i]; {
		case b == ' ' || b == '\t' || b == '\r' || b == '\n' && shut != 0:
			i++
		case b == ',' || b == shut || shut == 0 && (b == '\n' || b == ';' || b == '}' || b == ')' || b == '|' || b == '&'):
			a.source = strings.TrimSpace(t[begin:i])
			a.literal = pieces > 0 && !other
			return a, i
		case b == '\'' || b == '"' || b == '`' && c.language == "node":
			text, next, whole := c.quoted(i)
			c.literal(text)
			if !whole {
				other = true
			}
			a.text += text
			pieces++
			i = max(next, i+1)
		case (b == '[' || b == '(' || b == '{') && depth < 8:
			closing := byte(')')
			if b != '(' {
				closing = b + 2
			}
			inner, next := c.arguments(i+1, closing, depth+1)
			if pieces == 0 && !other && b != '{' {
				a.isList, a.list = true, inner
			} else {
				other = true
			}
			if next <= i {
				next = i + 1
			}
			i = min(next+1, len(t))
		case b == '+' || b == '.' && pieces > 0 && c.isAny("perl php") || b == '&' && c.language == "applescript":
			i++
		case (b == '=' || b == ':') && pieces == 0 && a.key == "" && i+1 < len(t) && t[i+1] != '=':
			a.key = strings.Trim(strings.TrimSpace(t[begin:i]), ":=> ")
			other = false
			i++
			if i < len(t) && t[i] == '>' {
				i++
			}
		case nameByte(b):
			from := i
			for i < len(t) && nameByte(t[i]) {
				i++
			}
			word := t[from:i]
			switch {
			case i < len(t) && (t[i] == '\'' || t[i] == '"') && strings.Trim(word, "rbfuRBFU") == "": // a prefix
			case i < len(t) && (t[i] == '=' || t[i] == ':') && a.key == "" && pieces == 0:
			case word == "qw" && c.language == "perl" && pieces == 0:
				if text, next, ok := c.delimited(i); ok {
					a.isList = true
					for field := range strings.FieldsSeq(text) {
						a.list = append(a.list, argument{text: field, literal: true, source: field})
					}
					i = next
					continue
				}
				other = true
			case has("q qq", word) && c.isAny("perl ruby"):
				if text, next, ok := c.delimited(i); ok {
					a.text += text
					pieces++
					i = next
					continue
				}
				other = true
			case word == "quoted" || word == "form" || word == "of":
				other = true
			default:
				other = true
			}
		default:
			other = true
			i++
		}
	}
	a.source = strings.TrimSpace(t[begin:i])
	a.literal = pieces > 0 && !other
	return a, i
}

// deed is what a call does.
type deed byte

const (
	nothing    deed = iota
	runLine         // the first argument is a shell line
	runWords        // the arguments are a command, or a list is, or one is a line
	runCode         // the first argument is code in the same language
	deleteTree      // rm -rf
	deleteFile      // rm
	deleteOpts      // rm, with -r if its options say so
	moveFile
	readFile
	writeFile
	openFile // by its mode
	runFile
)

// A known is one name that does something.
type known struct {
	languages string
	names     string // functions
	owner     string // the module they belong to, if the name alone says too little; ! = as a method of anything
	deed      deed
}

// codeTable lists the functions that matter.
var codeTable = []known{
	{"python", "system popen", "os", runLine},
	{"python", "getoutput getstatusoutput", "", runLine},
	{"python", "run call check_call check_output Popen", "subprocess", runWords},
	{"python", "spawnl spawnlp spawnv spawnvp spawnle spawnve execl execlp execv execvp execve execle execlpe execvpe posix_spawn posix_spawnp", "os", runWords},
	{"python", "create_subprocess_shell", "", runLine},
	{"python", "create_subprocess_exec", "", runWords},
	{"python", "spawn", "pty", runWords},
	{"python", "spawn run", "pexpect", runLine},
	{"python", "exec eval", "", runCode},
	{"python", "rmtree", "", deleteTree},
	{"python", "remove unlink rmdir removedirs", "os", deleteFile},
	{"python", "rename replace renames", "os", moveFile},
	{"python", "move", "shutil", moveFile},
	{"python", "open", "", openFile},
	{"python", "run_path execfile", "", runFile},
	{"node", "exec execSync", "child_process", runLine},
	{"node", "execSync", "", runLine},
	{"node", "spawn spawnSync execFile execFileSync fork", "child_process", runWords},
	{"node", "spawnSync execFileSync", "", runWords},
	{"node", "spawn spawnSync", "Bun", runWords},
	{"node", "Command", "Deno", runWords},
	{"node", "run", "Deno", runWords},
	{"node", "eval Function runInThisContext runInNewContext runInContext", "", runCode},
	{"node", "rmSync rm rmdir rmdirSync rimraf rimrafSync", "fs", deleteOpts},
	{"node", "rmSync rmdirSync", "", deleteOpts},
	{"node", "unlink", "fs", deleteFile},
	{"node", "unlinkSync", "", deleteFile},
	{"node", "remove removeSync emptyDir emptyDirSync", "fs", deleteTree},
	{"node", "remove removeSync", "Deno", deleteOpts},
	{"node", "rename renameSync", "fs", moveFile},
	{"node", "readFileSync readFile createReadStream readTextFile readTextFileSync", "", readFile},
	{"node", "writeFileSync writeFile appendFile appendFileSync createWriteStream writeTextFile writeTextFileSync", "", writeFile},
	{"perl ruby", "system exec", "", runWords},
	{"perl", "eval", "", runCode},
	{"perl", "unlink rmdir", "", deleteFile},
	{"perl", "rmtree remove_tree", "", deleteTree},
	{"perl", "rename", "", moveFile},
	{"perl", "open", "", openFile},
	{"perl", "do require", "", runFile},
	{"ruby", "spawn", "", runWords},
	{"ruby", "popen popen2 popen2e popen3 capture2 capture2e capture3 pipeline", "", runWords},
	{"ruby", "eval instance_eval class_eval", "", runCode},
	{"ruby", "rm_rf rm_r remove_dir remove_entry remove_entry_secure rmtree", "", deleteTree},
	{"ruby", "rm rm_f", "FileUtils", deleteFile},
	{"ruby", "delete unlink", "File", deleteFile},
	{"ruby", "rmdir delete unlink", "Dir", deleteFile},
	{"ruby", "mv rename", "FileUtils", moveFile},
	{"ruby", "rename", "File", moveFile},
	{"ruby", "read readlines foreach binread", "File", readFile},
	{"ruby", "read readlines foreach binread", "IO", readFile},
	{"ruby", "write binwrite", "File", writeFile},
	{"ruby", "write binwrite", "IO", writeFile},
	{"ruby", "open new", "File", openFile},
	{"ruby", "open", "", openFile},
	{"ruby", "load require_relative", "", runFile},
	{"php", "system exec shell_exec passthru popen proc_open pcntl_exec", "", runLine},
	{"php", "eval assert create_function", "", runCode},
	{"php", "unlink rmdir", "", deleteFile},
	{"php", "rename", "", moveFile},
	{"php", "file_get_contents readfile file", "", readFile},
	{"php", "file_put_contents", "", writeFile},
	{"php", "fopen", "", openFile},
	{"php", "include require include_once require_once", "", runFile},
	{"lua", "execute", "os", runLine},
	{"lua", "popen", "io", runLine},
	{"lua", "load loadstring", "", runCode},
	{"lua", "remove", "os", deleteFile},
	{"lua", "rename", "os", moveFile},
	{"lua", "open", "io", openFile},
	{"lua", "lines", "io", readFile},
	{"lua", "dofile loadfile", "", runFile},
	{"awk", "system", "", runLine},
	{"r", "system shell", "", runLine},
	{"r", "system2", "", runWords},
	{"r", "unlink", "", deleteTree},
	{"r", "eval", "", nothing},
	{"applescript", "doShellScript", "", runLine},
	{"vim", "system systemlist job_start termopen", "", runWords},
	{"vim", "rmtree", "", deleteTree},
	{"elisp", "shell-command", "", runLine},
}

// call looks at a name and, if it is a call that matters, what it is given. It
// returns where to go on.
func (c *codeScan) call(path string, begin, end int) int {
	t := c.text
	last, owner := path, ""
	if i := strings.LastIndexAny(path, ".:>"); i >= 0 {
		last, owner = path[i+1:], strings.TrimRight(path[:i], ".:->?")
		if i := strings.LastIndexAny(owner, ".:>"); i >= 0 {
			owner = owner[i+1:]
		}
	}
	last = strings.TrimRight(last, "!")
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
		c.names++
		last = c.alias(last)
	}
	if c.language == "python" || c.language == "node" {
		if !c.methods(last, owner, begin, i) {
			return end
		}
	}
	for k := range codeTable {
		row := &codeTable[k]
		if !has(row.languages, c.language) || !has(row.names, last) || row.owner != "" && !c.owns(row.owner, owner, last, begin) {
			continue
		}
		if row.deed == openFile && owner != "" && !has("io os codecs gzip Path File Kernel IO aiofiles", owner) {
			continue
		}
		if row.deed == runCode && owner != "" && !has("builtins __builtins__ window globalThis global vm Kernel binding", owner) {
			continue // a method of something: df.eval("a+b")
		}
		args, _ := c.arguments(i, shut, 0)
		c.calls++
		c.do(row.deed, path, args)
		break
	}
	return end
}

// alias is the function that the code gives another name: import system as s, or
// s = os.system.
func (c *codeScan) alias(name string) string {
	if name == "" || len(name) > 64 {
		return name
	}
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

// owns reports whether a function is that of a module: it is called by the
// module's name or by one that the code gives it, or by its bare name where the
// code speaks of the module.
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

// methods looks at what is called on a value: Path("x").unlink(). It reports
// whether the call may be one of the table, too.
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
	if c.language == "python" && owner == "" && t[begin] == '.' && has("unlink rmdir write_text write_bytes read_text read_bytes open touch rename", last) {
		open := strings.LastIndex(t[:begin], "Path(")
		if open < 0 || strings.ContainsAny(t[open:begin], "\n;") {
			return true
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
		return false
	}
	if c.language == "python" && has("loads load", last) && has("pickle marshal dill cPickle", owner) {
		c.unknown(c.name + " runs what it decodes")
	}
	return true
}

// line reads a shell line that code runs.
func (c *codeScan) line(text string, literal bool) {
	c.calls++
	if literal {
		c.nest(text, false, c.name, c.at)
		return
	}
	if strings.IndexByte(text, hole) < 0 {
		text += " " + c.hole("...")
	}
	c.nest(text, true, c.name, c.at)
}

// do notes what a call does.
func (c *codeScan) do(what deed, name string, args []argument) {
	if len(args) == 0 {
		return
	}
	first := args[0]
	switch what {
	case nothing:
	case runLine:
		if first.literal {
			c.line(first.text, true)
			return
		}
		if first.isList {
			c.words(first.list)
			return
		}
		c.unknown(c.name + " runs a computed command")
		if first.text != "" {
			c.line(first.text, false)
		}
	case runWords:
		c.run(args)
	case runCode:
		if first.literal && first.text != "" {
			w := c.walker
			w.code(c.language, first.text, false, c.name, c.at)
		} else if !first.isList || first.source != "" {
			c.unknown(c.name + " runs computed code")
		}
	case deleteTree:
		c.files("rm", "-rf", args)
	case deleteFile:
		c.files("rm", "", args)
	case deleteOpts:
		options, all := "", ""
		for _, a := range args[1:] {
			all += a.source
		}
		flat := strings.Join(strings.Fields(all), "")
		if strings.Contains(flat, "recursive:true") || strings.Contains(flat, "recursive:!0") || strings.Contains(name, "rimraf") || all != "" && !strings.Contains(flat, "recursive") && !strings.Contains(flat, "{") {
			options = "-r"
		}
		if strings.Contains(flat, "force:true") || strings.Contains(flat, "force:!0") {
			options = "-" + strings.TrimPrefix(options, "-") + "f"
		}
		c.files("rm", options, args[:1])
	case moveFile:
		c.files("mv", "", args[:min(2, len(args))])
	case readFile, writeFile, openFile, runFile:
		c.opens(what, args)
	}
}

// run reads a command that is not a shell line, or may be one.
func (c *codeScan) run(args []argument) {
	first, shell := args[0], false
	for _, a := range args[1:] {
		shell = shell || a.key == "shell" && strings.TrimSpace(a.source[strings.IndexAny(a.source, "=:")+1:]) != "False" ||
			strings.Contains(strings.Join(strings.Fields(a.source), ""), "shell:true")
	}
	switch {
	case first.key == "cmd" || first.key == "args" && first.isList:
		c.words(first.list)
	case first.isList && shell && len(first.list) > 0 && first.list[0].literal:
		c.line(first.list[0].text, true)
	case first.isList:
		c.words(first.list)
	case first.literal && len(args) > 1 && args[1].isList && args[1].key == "":
		list := args[1].list
		if c.language == "python" && len(list) > 0 {
			list = list[1:] // os.execvp("rm", ["rm", ...])
		}
		c.words(append([]argument{first}, list...))
	case first.literal && c.language == "node" && len(args) > 1 && strings.Contains(args[1].source, "args"): // Deno.Command("rm", {args: [...]})
		if i := strings.IndexByte(args[1].source, '['); i >= 0 {
			in := *c
			in.text = args[1].source
			list, _ := in.arguments(i+1, ']', 1)
			c.words(append([]argument{first}, list...))
			return
		}
		c.words(args[:1])
	case first.literal && (shell || len(args) == 1 || args[1].key != "" || strings.HasPrefix(args[1].source, "{")):
		c.line(first.text, true)
	case first.literal && c.language == "python": // os.execlp("rm", "rm", "-rf", "/")
		rest := args[1:]
		if len(rest) > 0 && rest[0].literal && programName(rest[0].text) == programName(first.text) {
			rest = rest[1:]
		}
		c.words(append([]argument{first}, rest...))
	case first.literal:
		c.words(args)
	case first.key != "" && !first.isList && !first.literal && first.text == "":
	default:
		c.unknown(c.name + " runs a computed command")
		if first.text != "" {
			c.line(first.text, false)
		}
	}
}

// words is a command whose words are arguments.
func (c *codeScan) words(list []argument) {
	var words []Word
	for _, a := range list {
		if a.key != "" && len(words) > 0 || a.isList {
			continue
		}
		words = append(words, c.word1(a))
	}
	if len(words) > 0 {
		c.command(words, c.at)
	}
}

func (c *codeScan) word1(a argument) Word {
	if a.literal {
		return Word{Text: a.text, Literal: true}
	}
	show := a.source
	if len(show) > maxReason {
		show = show[:maxReason]
	}
	return Word{Text: show, c: &computed{code: c.hole(show), operand: false}}
}

// files is a command on files, in the place of a function that does the same.
func (c *codeScan) files(program, options string, args []argument) {
	words := []Word{{Text: program, Literal: true}}
	if options != "" && options != "-" {
		words = append(words, Word{Text: options, Literal: true})
	}
	for _, a := range args {
		switch {
		case a.isList:
			for _, b := range a.list {
				words = append(words, c.word1(b))
			}
		case a.key == "" || a.literal:
			word := c.word1(a)
			if word.c != nil {
				word.c.operand = true
			}
			words = append(words, word)
		}
	}
	c.command(words, c.at)
}

// opens notes a file that code reads or writes, with the interpreter.
func (c *codeScan) opens(what deed, args []argument) {
	if c.at.parent < 0 {
		return
	}
	path, mode := args[0], ""
	use := UseRead
	switch what {
	case writeFile:
		use = UseWrite
	case runFile:
		use = UseExecute
	case openFile:
		rest := args[1:]
		if c.language == "perl" {
			if len(rest) == 0 {
				return
			}
			if path = rest[0]; len(rest) > 1 {
				mode, path = rest[0].text, rest[1]
			} else if path.literal {
				path.text = strings.TrimSpace(path.text)
				if line, ok := strings.CutPrefix(path.text, "|"); ok {
					c.line(line, true)
					return
				}
				if line, ok := strings.CutSuffix(path.text, "|"); ok {
					c.line(line, true)
					return
				}
				trimmed := strings.TrimLeft(path.text, "<>+ ")
				mode, path.text = path.text[:len(path.text)-len(trimmed)], trimmed
			}
			if strings.Contains(mode, "|") {
				if path.literal {
					c.line(path.text, true)
				} else {
					c.unknown(c.name + " runs a computed command")
				}
				return
			}
		} else {
			for _, a := range rest {
				if a.literal && (a.key == "" || a.key == "mode") {
					mode = a.text
					break
				}
			}
			if line, ok := strings.CutPrefix(path.text, "|"); ok && c.language == "ruby" {
				c.line(line, path.literal)
				return
			}
		}
		switch {
		case strings.ContainsAny(mode, "+"):
			use = UseAny
		case strings.ContainsAny(mode, "wax>"):
			use = UseWrite
		}
	default:
	}
	if path.literal && path.text != "" && !strings.Contains(path.text, "://") {
		cmd := &c.s.Commands[c.at.parent]
		cmd.files = append(cmd.files, File{Path: join(c.dir, path.text), Use: use})
	}
}

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

// tcl finds exec, spawn and system of Tcl and Expect, each with words like a
// shell's.
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
