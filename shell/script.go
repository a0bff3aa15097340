package shell

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of one call of Parse. Text beyond a limit is reported in Script.Unknown, so a line that
// is built to exhaust the reader is never treated as safe.
const (
	maxLine     = 256 << 10 // bytes of the line itself
	maxNested   = 1 << 20   // bytes of all lines inside the line (sh -c, eval, ...)
	maxDepth    = 24        // nested wrappers and lines
	maxTree     = 1000      // nesting of parentheses, loops, quotes in one line
	maxFrames   = 3000      // stack frames of the parser, see boundedReader
	maxCommands = 4096      // commands in one Script
	maxReasons  = 16        // entries of Script.Unknown
	maxReason   = 200       // bytes of a quoted piece of the line in a reason or a message
	maxComments = 16        // comments that end in a backslash
)

// A Script describes one shell line, as far as it can be read without running it.
type Script struct {
	// Commands holds every simple command of the line in source order. A wrapper such as sudo
	// comes before the command it runs.
	Commands []Command

	// Reads and Writes are the files in redirections, with quotes and known values resolved: as
	// written, and joined to the directory that the line entered before. A "*" in a name may be a
	// piece without a slash that is not known. If a name is not known, Unknown has an entry.
	// Here-documents and descriptors are not files.
	Reads, Writes []string

	// Language is the language of the line: empty for a shell, "powershell" or "cmd".
	Language string

	// Code holds the programs in other languages that the line contains, as with python -c. A line of
	// PowerShell is one, too.
	// Commands also holds the commands that they run by a literal call.
	Code []Code

	// Unknown lists the reasons why parts of the line are not known: a computed command name, a
	// pipe into a shell, text that does not parse. If it is empty, Commands holds all commands
	// that the line names. Unknown never covers the content of programs and files (a script file,
	// a Makefile) that these commands run.
	Unknown []string

	urls   []string // addresses in code
	sets   bool     // see SetsVariables
	hidden []string
	wrote  []Wrote
	moved  []Move
	ran    []string
	runs   []string
	end    *Step
	line   string
	steers bool // see Steers

	filesLock sync.Mutex
	files     []foundFiles // the files of the commands, computed on first use

	databasesOnce sync.Once
	databases     [][]Database // by command
	stated        bool         // statements is complete
	statements    []Database   // see anyStatements
}

// Hidden returns the entries of Unknown that may hide a command. It omits entries that are common
// in ordinary lines: an environment variable among the operands (ssh host "cd $DIR"), a script
// that is read from a file, a shell without input. A caller that allows lines automatically must
// check Unknown; a caller that asks a person about lines checks Hidden.
func (s *Script) Hidden() []string { return s.hidden }

// Code is a program in another language.
type Code struct {
	Language string // "python", "node", "perl", "ruby", "php", "lua", "awk", "sed", "applescript", "tcl", "r", "powershell"
	Text     string // the text, with placeholders for computed pieces
	Command  int    // index in Script.Commands of the interpreter; -1: it is the whole line
}

// A Command is one simple command: a program and its words.
type Command struct {
	// Name is the last element of the program's path, without ".exe" and without a version: \rm,
	// 'r'm, /bin/rm and rm@5 are all rm. It is empty if the name is computed.
	Name string
	// Path is the program as written, with quotes resolved.
	Path string
	// Args are the words after the program.
	Args []Word
	// Via names the wrappers of the command, outermost first: "sudo", "sh -c", "xargs", "find
	// -exec".
	Via []string
	// Line and Col are the position of the command in the line that was given to Parse. Both
	// start at 1; columns count bytes. A command inside a quoted line (sh -c '...') has the
	// position of the command that runs it.
	Line, Col int
	// Dir is the target of an earlier literal cd in the same line, as written, with relative
	// targets joined. It is empty for the initial directory and for an unknown one.
	Dir string
	// Input is the literal text of a here-document or here-string for the command.
	Input string
	// Lost means that the command may run in another directory than Dir: after a cd to a computed
	// directory or under a condition, or on another machine.
	Lost bool

	computed bool    // the program is not known for certain
	help     bool    // the command only prints its help
	wraps    bool    // it is a wrapper of another command
	again    bool    // see Again
	files    []File  // from redirections and code
	key      string  // Name in lower case; patterns compare it
	program  Word    // the word at the position of the program
	parent   int     // index of the wrapper in Script.Commands, or -1
	before   *Step   // see Before
	env      *setVar // see Env
	sure     bool    // the line fails if the command does
	feed     *feed   // what a client of databases reads; nil = nothing
}

// String formats the command on one line, for messages.
func (c *Command) String() string {
	var b strings.Builder
	b.WriteString(visible(c.Path))
	for _, a := range c.Args {
		if b.Len() > maxReason {
			b.WriteString(" ...")
			break
		}
		text := visible(a.Text)
		if text == "" || strings.ContainsAny(text, " '\"") {
			text = Quote(text)
		}
		b.WriteByte(' ')
		b.WriteString(text)
	}
	if len(c.Via) > 0 {
		b.WriteString(" (behind ")
		b.WriteString(strings.Join(c.Via, ", "))
		b.WriteByte(')')
	}
	return b.String()
}

// visible formats a word on one line, without control characters and with limited length, because
// messages go to terminals.
func visible(s string) string {
	plain := len(s) <= maxReason
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] != 0x7f
	}
	if plain {
		return s
	}
	if len(s) > maxReason {
		s = s[:maxReason] + "..."
	}
	s = strconv.Quote(s)
	return s[1 : len(s)-1]
}

// Parse reads a line as a POSIX shell, Bash or Zsh would. It never fails: the result's Unknown
// lists the parts that it cannot read. Parse does not run the line and looks at nothing outside
// it, so variables, aliases and files are unknown.
func Parse(line string) *Script {
	w := walker{s: &Script{}, sure: true}
	w.outermost(line)
	return w.s
}

func (w *walker) outermost(line string) {
	defer func() {
		// A panic here is a bug of this package or of the parser. Treating the line as unknown is
		// safe; a crash would lose the whole answer.
		if r := recover(); r != nil {
			w.unknown(fmt.Sprintf("unparsable: the reader failed: %v", r))
			return
		}
		parsers.Put(w.parser)
	}()
	w.parser = newParser()
	w.budget = budget(len(line))
	if len(line) > maxLine {
		w.unknown("unparsable: the line has " + strconv.Itoa(len(line)) + " bytes, more than are read")
		return
	}
	w.line, w.s.line = line, line
	w.read(line, place{parent: -1})
	w.outlast()
}

func newParser() *syntax.Parser {
	if p, _ := parsers.Get().(*syntax.Parser); p != nil {
		return p
	}
	return syntax.NewParser()
}

// parsers holds parsers for reuse, with their buffers.
var parsers sync.Pool

// A walker collects the contents of one line.
type walker struct {
	state

	s      *Script
	parser *syntax.Parser
	reader boundedReader
	holes  []string // sources of the computed pieces, by the number in a hole
	nested int      // bytes of nested lines that were read so far
	tree   int      // current nesting in syntax trees
	buf    []byte   // buffer of fold
	mask   []byte

	line      string                    // the outermost line
	origins   map[string]string         // where the values of variables come from, see origin.go
	moved     []moved                   // directories that the line moved or linked
	inPast    bool                      // a file of the past is being read
	running   []string                  // scripts of package.json that are being read
	before    int                       // number of these that earlier calls moved
	past      *Past                     // nil = no past
	earlier   map[string][]*writtenFile // files of the past that were looked up
	vars      []variable                // variables with literal values so far
	funcs     map[string]*function      // functions by name, the last definition of each
	written   map[string]*writtenFile   // files that the line writes with known text, by path
	args      []string                  // known positional parameters
	taint     []string                  // variables to which the line gives an unknown value
	unsure    map[string]string         // variables with a value that is not known, and why that matters to targets
	maybe     []variable                // further values of variables, for targets
	choices   []choice                  // the values of the current reading of a target
	choosing  bool                      // a target is being read
	assigned  int                       // number of assignments
	changes   int                       // number of steps and of directories that the line enters
	bodies    []body                    // of functions
	declares  *function                 // the function whose declaration is being read
	sure      bool                      // the line fails if the current statement does
	later     []laterTarget             // computed targets that are read again
	loops     int                       // loops around the current statement
	shifted   bool                      // the positional parameters move
	argsOpen  bool                      // args are not known
	readsArgs bool                      // a positional parameter was looked up
	certain   []string                  // variables that have a value in each case
	branches  int                       // conditions around the current statement
	lists     map[string]listed         // variables of loops over files
	child     bool                      // a child process of the shell runs the statement
	indirect  bool                      // the line gives a value to a variable with a computed name
	zero      *Word                     // $0, if a line names it
	mild      bool                      // unknown pieces are usual here, see Script.Hidden
	elsewhere bool                      // standard input may be redirected elsewhere: by a function's caller, by exec
	subst     int                       // 0, or the index of the variable values that the current reading inserts, from 1
	used      bool                      // a value was inserted for a computed piece
	older     bool                      // there are further values for another reading
	expanding int                       // nested functions and aliases in the current reading
	pipe      flow                      // $_ of PowerShell
	flows     map[string]flow           // variables of PowerShell with files
	following int                       // bytes of code searched for paths, see follower.pay
	work      int                       // steps so far, see work.go
	budget    int                       // maximum number of steps for this line
}

// A place is the context of a command.
type place struct {
	src    string   // the text that positions in the tree refer to
	via    []string // wrappers, outermost first
	parent int      // index of the nearest wrapper, or -1
	depth  int      // number of wrappers and lines around the command

	line, col int // position of the command that contains this line; 0 in the outermost line

	stdin []*syntax.Redirect // redirections of the statement
	from  *syntax.Stmt       // the statement that is piped into it, or nil
	away  bool               // it runs on another machine
	sh    bool               // read by sh, which may or may not be Bash
	posix string             // why Bash's grammar failed, if the POSIX grammar is used
}

// unknown adds a reason why a part of the line is not known.
func (w *walker) unknown(reason string) {
	w.usual(reason)
	if !w.mild && len(w.s.hidden) < maxReasons && !slices.Contains(w.s.hidden, reason) {
		w.s.hidden = append(w.s.hidden, reason)
	}
}

// usual adds a reason why a part of the line is not known, if the reason is common in ordinary
// lines; see Script.Hidden.
func (w *walker) usual(reason string) {
	if len(w.s.Unknown) < maxReasons && !slices.Contains(w.s.Unknown, reason) {
		w.s.Unknown = append(w.s.Unknown, reason)
	}
}

// A nested line is text that was already resolved once and is now parsed again. Its computed
// pieces are in the text as holes: a number between two hole bytes. A hole is an ordinary
// character to the parser, so it neither ends a word nor starts a token, and fold recognizes it
// in any position, quoted or not.
const hole = '\x1a'

// A carriage return is an ordinary character to a shell, but a blank to the parser, which would
// let "x<CR># ; rm -rf /" pass as a comment. The parser therefore gets this byte instead.
const returnByte = '\x1c'

func (w *walker) hole(show string) string {
	w.holes = append(w.holes, show)
	return string(hole) + strconv.Itoa(len(w.holes)-1) + string(hole)
}

// legible replaces the bytes that the parser would misread or refuse.
func (w *walker) legible(line string, outermost bool) string {
	i := 0
	for i < len(line) && (line[i] >= ' ' && line[i] < utf8.RuneSelf || line[i] == '\n' || line[i] == '\t') {
		i++
	}
	if i == len(line) {
		return line
	}
	var b strings.Builder
	b.WriteString(line[:i])
	for i < len(line) {
		r, n := utf8.DecodeRuneInString(line[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			w.unknown("unparsable: invalid UTF-8")
			b.WriteString(w.hole("\uFFFD"))
		case r == 0:
			// The parser drops NUL bytes, as Bash does. An argument of a program cannot contain a
			// NUL, so the program may get a different line.
			w.unknown("unparsable: NUL byte")
			b.WriteByte(0)
		case r == '\r':
			b.WriteByte(returnByte)
		case r == hole && !outermost:
			b.WriteByte(hole)
		case r < ' ' && r != '\n' && r != '\t':
			w.unknown("unparsable: control character")
			b.WriteString(w.hole(line[i : i+n]))
		default:
			b.WriteString(line[i : i+n])
		}
		i += n
	}
	return b.String()
}

// read parses a line and walks its statements.
func (w *walker) read(line string, at place) {
	at.src = w.comments(w.legible(line, at.depth == 0))
	first, err := w.parse(at.src, syntax.LangBash)
	if err == nil {
		w.stmts(first, &at)
		return
	}
	if errors.Is(err, errDeep) {
		w.unknown("unparsable: nested too deeply")
		w.stmts(first, &at)
		return
	}
	// A line that Bash's grammar refuses may be valid in the POSIX grammar: "((a); b)" is. $'...'
	// ends at another position in POSIX and could hide a command, so such lines are not parsed
	// again.
	if !strings.Contains(at.src, "$'") && !strings.ContainsRune(at.src, returnByte) {
		if list, err2 := w.parse(at.src, syntax.LangPOSIX); err2 == nil {
			at.posix = w.refused(err)
			w.stmts(list, &at)
			return
		}
	}
	// The line remains unknown, but commands from another reading are still useful: a rule that
	// blocks is better than one that asks.
	w.unknown(w.refused(err))
	if crlf := strings.ReplaceAll(at.src, string(returnByte)+"\n", "\n"); crlf != at.src {
		if list, err := w.parse(crlf, syntax.LangBash); err == nil {
			at.src = crlf
			w.stmts(list, &at)
			return
		}
	}
	if list, err := w.parse(at.src, syntax.LangZsh); err == nil {
		w.stmts(list, &at)
		return
	}
	// A shell runs a line statement by statement, so the statements before the error run.
	w.stmts(first, &at)
}

func (w *walker) refused(err error) string {
	return "unparsable: " + visible(w.decode(err.Error()))
}

// comments works around a bug of the parser, which joins a comment that ends in a backslash with
// the next line. A shell does not, so in
//
//	echo hi # there \
//	rm -rf /
//
// the second line is a separate command.
func (w *walker) comments(src string) string {
	for range maxComments {
		if joinedComment(src, 0) < 0 {
			return src
		}
		if !w.spend(len(src) * stepsPerByte) {
			break
		}
		syntax.KeepComments(true)(w.parser)
		w.reader = boundedReader{text: src}
		syntax.Variant(syntax.LangBash)(w.parser)
		file, err := w.parser.Parse(&w.reader, "")
		syntax.KeepComments(false)(w.parser)
		if err != nil || file == nil {
			break
		}
		from := -1
		syntax.Walk(file, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.Comment); ok && strings.HasSuffix(c.Text, "\\\n") {
				from = int(c.Hash.Offset())
			}
			return true
		})
		if from < 0 {
			return src
		}
		end := strings.Index(src[from:], "\\\n")
		if end < 0 {
			break
		}
		src = src[:from+end] + " " + src[from+end+1:]
	}
	// The line does not parse, perhaps because of this bug.
	w.unknown("unparsable: a comment may end in a backslash")
	b := []byte(src)
	for end := joinedComment(src, 0); end >= 0; end = joinedComment(src, end+2) {
		b[end] = ' '
	}
	return string(b)
}

// joinedComment returns the offset of a backslash at the end of a line with a "#", searching from
// offset from.
func joinedComment(src string, from int) int {
	for {
		end := strings.Index(src[from:], "\\\n")
		if end < 0 {
			return -1
		}
		end += from
		if begin := strings.LastIndexByte(src[:end], '\n') + 1; strings.IndexByte(src[begin:end], '#') >= 0 {
			return end
		}
		from = end + 2
	}
}

func (w *walker) parse(src string, lang syntax.LangVariant) ([]*syntax.Stmt, error) {
	w.reader = boundedReader{text: src}
	syntax.Variant(lang)(w.parser)
	file, err := w.parser.Parse(&w.reader, "")
	if w.reader.deep {
		err = errDeep
	}
	if file == nil {
		return nil, err
	}
	return file.Stmts, err
}

const tooMany = "unparsable: too many commands"

var errDeep = errors.New("nested too deeply")

// A boundedReader passes text to the parser and stops the parser when its recursion is too deep.
// The parser has no limit, a stack overflow cannot be recovered, and "((((..." is easy to write.
// The parser reads small chunks inside its recursion, so only the reader can measure the true
// depth.
type boundedReader struct {
	text string
	off  int
	deep bool
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.off >= len(r.text) {
		return 0, io.EOF
	}
	if r.off > 0 {
		var pc [1]uintptr
		if runtime.Callers(maxFrames, pc[:]) > 0 {
			r.deep = true
			return 0, errDeep
		}
	}
	n := copy(p, r.text[r.off:])
	r.off += n
	return n, nil
}

// nest reads a line that a command runs. computed reports that parts of the line are not known;
// these are holes in text.
func (w *walker) nest(text string, computed bool, what string, at place) {
	switch {
	case computed && w.givenHoles(text):
		w.usual(what + " of a computed string")
	case computed:
		w.unknown(what + " of a computed string")
	}
	if len(w.s.Commands) >= maxInside {
		w.limited(tooMany)
		return
	}
	if at.depth > maxDepth {
		w.unknown("unparsable: nested too deeply")
		return
	}
	if w.nested += len(text); w.nested > maxNested {
		w.unknown("unparsable: too many lines inside the line")
		return
	}
	if !w.spend(len(text) * stepsPerByte) {
		return
	}
	at.posix = ""
	before := w.where
	w.read(text, at)
	if what != "eval" {
		w.where = before
	}
}

// command records a simple command and, if it is a wrapper, the command that it runs. words
// begins with the program.
func (w *walker) command(words []Word, at place) {
	if len(w.s.Commands) >= maxCommands {
		w.unknown(tooMany)
		return
	}
	if !w.must(len(words)*stepsPerWord, &at) && len(words) > fewWords || w.vague(words) {
		return
	}
	c := Command{
		Path:    words[0].Text,
		Args:    words[1:],
		Via:     at.via,
		Line:    at.line,
		Col:     at.col,
		program: words[0],
		parent:  at.parent,
		Dir:     w.dir,
		Lost:    w.lost && !w.same || w.forked || at.away,
		before:  w.did,
		env:     w.env,
		sure:    w.sure && (len(w.funcs) == 0 || !w.defined(programName(words[0].Text))),
	}
	for _, r := range at.stdin {
		if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc {
			c.Input, _ = w.given(&at, r)
		}
	}
	switch p := words[0]; {
	case !p.Literal:
		// The last element of "$VENV/bin/python" is known for any value of the variable. Without
		// quotes the variable may expand to more than one word.
		c.Name = programName(p.c.tail)
		if c.computed = c.Name == "" || p.c.many; c.computed {
			w.unknown("computed command name: " + visible(c.Path))
		}
	case p.glob:
		c.computed = true
		w.unknown("computed command name: " + visible(c.Path))
	default:
		c.Name = programName(p.Text)
		if strings.ContainsFunc(c.Name, unseen) {
			w.unknown("invisible character in a command name")
		}
		switch {
		case at.posix != "" && bashWord(p.Text):
			w.unknown(at.posix)
		case isAssignment(p.Text) && !strings.Contains(p.Text, "=="):
			// A quoted a=b is the name of a program; "coproc a=b rm" runs rm.
			w.unknown("assignment in the place of a command: " + visible(p.Text))
		}
	}
	c.key = foldCase(c.Name)
	row := rowOf(c.key)
	c.help = !c.computed && strings.IndexByte(c.Path, '/') < 0 && helps(row, c.Args)
	if isClient(c.key) {
		w.feedsClient(&c, &at)
	}
	w.s.Commands = append(w.s.Commands, c)
	if at.parent >= 0 {
		w.s.Commands[at.parent].wraps = true
	}
	sure := w.sure
	w.sure = false // for what the command reads from files
	w.effects(c.key, c.Name, words, at)
	if (strings.IndexByte(c.Path, '/') >= 0 || pythonFile(c.Path, at)) && !c.computed {
		in := at
		in.parent = len(w.s.Commands) - 1
		w.runsWritten(words[0], words[1:], in)
	}
	w.sure = c.sure
	if row != nil {
		at.parent = len(w.s.Commands) - 1
		w.run(row, c.Name, words[1:], at)
	}
	w.sure = sure
}

// effects records the effects of a command on the rest of the line.
func (w *walker) effects(key, name string, words []Word, at place) {
	switch args := words[1:]; key {
	case "source", ".", "eval":
		if len(args) != 1 || !strings.HasSuffix(args[0].Text, "/activate") { // of Python, which only changes PATH
			w.env = &setVar{anyServer, w.env}
		}
	case "cd", "chdir", "pushd", "popd":
		w.enterDir(key, args)
	case "gh", "glab", "hub":
		w.acts()
	case "unset":
		for _, a := range args {
			w.sends(a.Text, "", true)
		}
	case "set":
		w.setArgs(args)
	case "shift":
		w.shifted = true
	case "alias":
		w.aliases(args, at)
	case "read", "printf", "mapfile", "readarray", "getopts":
		w.readVars(key, args, &at)
	case "mv", "cp", "install":
		w.transfers(key, args)
		if key == "mv" {
			w.moves(args)
		}
	case "git":
		w.acts()
		if len(args) > 1 && args[0].Literal && args[0].Text == "mv" {
			w.transfers("mv", args[1:])
			w.moves(args[1:])
		}
	case "ln", "mount":
		w.moves(args)
	case "rm", "shred", "rimraf", "srm", "trash", "unlink", "rmdir", "find":
		w.deletesMoved(words, at)
	case "npm", "pnpm", "yarn", "bun":
		w.packageScripts("package.json", name, args, at)
		if strings.EqualFold(programName(words[0].Text), "bun") { // bun a.ts, bun run a.ts
			in := at.behind(name)
			in.parent = len(w.s.Commands) - 1
			for _, script := range wordsEnding(args, ".ts", ".js", ".mjs", ".tsx") {
				w.wrote(script, func(text string, computed bool) { w.code("node", text, computed, name, in) })
			}
		}
	case "composer":
		w.packageScripts("composer.json", name, args, at)
	default:
		w.runsFiles(key, args, at)
	}
}

// bashWord reports whether name is a command name in POSIX and something else in Bash: "a+=b rm"
// and "time ! rm" run rm.
func bashWord(name string) bool {
	switch name {
	case "[[", "!", "coproc", "function", "let", "select", "time":
		return true
	}
	return strings.Contains(name, "=")
}

// unseen reports whether r is invisible, so that two different command names look the same.
func unseen(r rune) bool {
	return r >= utf8.RuneSelf && (unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// programName returns the last element of a program's path, without ".exe" of Windows and without
// the version that npx and similar tools accept: rimraf@5, ruff==0.4.
func programName(path string) string {
	if strings.IndexByte(path, '\\') >= 0 { // C:\Windows\cmd.exe
		path = path[strings.LastIndexByte(path, '\\')+1:]
	}
	if len(path) > 1 && path[0] == '=' { // Zsh: =rm is the rm in PATH
		path = path[1:]
	}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		path = path[i+1:]
	}
	if i := strings.IndexAny(path, "@=["); i > 0 {
		path = path[:i]
	}
	if n := len(path) - len(".exe"); n > 0 && strings.EqualFold(path[n:], ".exe") {
		path = path[:n]
	}
	return path
}

// foldCase maps all spellings of a name that differ only in letter case to one spelling. File
// systems that ignore letter case find the same program for all of them: RM is rm on macOS and
// Windows.
func foldCase(name string) string {
	i := 0
	for i < len(name) && name[i] < utf8.RuneSelf && (name[i] < 'A' || name[i] > 'Z') {
		i++
	}
	if i == len(name) {
		return name
	}
	return strings.Map(func(r rune) rune {
		least := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			least = min(least, o)
		}
		return unicode.ToLower(least)
	}, name)
}
