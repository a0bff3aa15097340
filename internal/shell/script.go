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

// What one call of Parse may cost. Whatever lies beyond a limit is reported in
// Script.Unknown, so a line that is built to exhaust the reader is never "safe".
const (
	maxLine     = 256 << 10 // bytes of the line itself
	maxNested   = 1 << 20   // bytes of all lines inside the line (sh -c, eval, ...)
	maxDepth    = 24        // wrappers and lines inside each other
	maxTree     = 1000      // nesting of parentheses, loops, quotes in one line
	maxFrames   = 3000      // stack frames of the parser, see boundedReader
	maxCommands = 4096      // commands in one Script
	maxReasons  = 16        // entries of Script.Unknown
	maxReason   = 200       // bytes of a piece of the line in a reason or a message
	maxComments = 16        // comments that end in a backslash
)

// A Script is what one shell line does, as far as can be told without running it.
type Script struct {
	// Commands holds every simple command of the line in source order. A
	// wrapper such as sudo comes before the command it runs.
	Commands []Command

	// Reads and Writes are the files named by redirections, folded, for those
	// whose name is literal, or begins with the home directory. Here-documents and
	// descriptors are not files.
	Reads, Writes []string

	// Language is that of the line: empty for a shell, "powershell" or "cmd".
	Language string

	// Code holds the programs in other languages that stand in the line, as with
	// python -c. What they run by a literal call is in Commands.
	Code []Code

	// Unknown says why parts of the line are not known: a computed command name,
	// a pipe into a shell, text that does not parse. Empty means that all of the
	// commands the line names are in Commands. What those programs go on to do
	// (a script file, a Makefile) is never part of it.
	Unknown []string

	urls   []string // that stand in code
	hidden []string

	filesLock sync.Mutex
	files     []foundFiles // of the Commands
}

// Hidden says what of Unknown hides a command. It leaves out what everyday lines are
// full of: a variable of the environment among the operands of a line (ssh host
// "cd $DIR"), a script that is read from a file, a shell with nothing to read.
// Who lets a line through asks Unknown; who asks a person about lines asks Hidden.
func (s *Script) Hidden() []string { return s.hidden }

// Code is a program in another language.
type Code struct {
	Language string // "python", "node", "perl", "ruby", "php", "lua", "awk", "sed", "applescript", "tcl", "r"
	Text     string // as far as it is known
	Command  int    // index in Script.Commands of the interpreter
}

// A Command is one simple command: a program and its words.
type Command struct {
	// Name is the last element of the program's path, without ".exe" and without a
	// version: \rm, 'r'm, /bin/rm and rm@5 are all rm. It is empty if the name is computed.
	Name string
	// Path is the program as written, quotes folded.
	Path string
	// Args are the words after the program.
	Args []Word
	// Via names the wrappers the command was found behind, outermost first:
	// "sudo", "sh -c", "xargs", "find -exec".
	Via []string
	// Line and Col say where the command begins in the line given to Parse, from
	// 1, columns in bytes. A command inside a quoted line (sh -c '...') has the
	// place of the command that runs it.
	Line, Col int
	// Dir is the directory that a literal cd of the same line went to before, as
	// it is written, relative ones joined. It is empty where the line began, and
	// where it cannot be told.
	Dir string
	// Input is the literal text that a here-document or a here-string gives it.
	Input string

	files    []File // of redirections and of code
	key      string // Name in one letter case, what patterns compare
	program  Word   // the word in the program's place
	computed bool   // the program is not certain
	help     bool   // it only says how it is used
	parent   int    // index of the wrapper in Script.Commands, or -1
}

// String renders the command on one line, for messages.
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

// visible keeps a word on one line, without control characters and of bounded
// length: messages go to terminals.
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

// Parse reads a line as a POSIX shell, Bash or Zsh would. It never fails: what
// cannot be read is in the result's Unknown. The line is not run and nothing
// outside it is looked at, so variables, aliases and files stay unknown.
func Parse(line string) *Script {
	w := walker{s: &Script{}}
	w.outermost(line)
	return w.s
}

func (w *walker) outermost(line string) {
	defer func() {
		// A panic here would be a bug of ours or of the parser. An unknown line
		// is the safe reading of it; a crash would take the whole answer along.
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
	w.line = line
	w.read(line, place{parent: -1})
}

func newParser() *syntax.Parser {
	if p, _ := parsers.Get().(*syntax.Parser); p != nil {
		return p
	}
	return syntax.NewParser()
}

// parsers keeps the parser's buffers between calls.
var parsers sync.Pool

// A walker collects what one line does.
type walker struct {
	s      *Script
	parser *syntax.Parser
	reader boundedReader
	holes  []string // what stood where a nested line has a computed piece
	nested int      // bytes of nested lines read so far
	tree   int      // current nesting in syntax trees
	buf    []byte   // scratch of fold
	mask   []byte

	line      string               // the outermost
	dir       string               // Command.Dir of the next command
	vars      []variable           // that were given literal values so far
	funcs     map[string]*function // by name, the last definition of each
	args      []string             // positional parameters, as far as they are known
	taint     []string             // variables whose values the line takes from somewhere
	mild      bool                 // what is not known now is usual
	elsewhere bool                 // what is read may come from elsewhere: a function's caller, exec
	subst     int                  // 0, or which values variables have in the current reading
	used      bool                 // a value was put in the place of something computed
	older     bool                 // there are further values, for another reading
	expanding int                  // functions and aliases that are read inside each other
	work      int                  // steps so far, see work.go
	budget    int                  // steps that this line may cost
}

// A place is where a command stands.
type place struct {
	src    string   // the text that positions in the tree refer to
	via    []string // wrappers, outermost first
	parent int      // index of the nearest wrapper, or -1
	depth  int      // wrappers and lines above

	line, col int // of the command that brought this line; 0 in the outermost

	stdin []*syntax.Redirect // redirections of the statement
	from  *syntax.Stmt       // what is piped into it, if anything
	sh    bool               // read by sh, which may be Bash or not
	posix string             // why Bash's grammar failed, if POSIX's is used
}

// unknown adds a reason why it is not known what the script does.
func (w *walker) unknown(reason string) {
	w.usual(reason)
	if !w.mild && len(w.s.hidden) < maxReasons && !slices.Contains(w.s.hidden, reason) {
		w.s.hidden = append(w.s.hidden, reason)
	}
}

// usual is unknown for what everyday lines are full of, see Script.Hidden.
func (w *walker) usual(reason string) {
	if len(w.s.Unknown) < maxReasons && !slices.Contains(w.s.Unknown, reason) {
		w.s.Unknown = append(w.s.Unknown, reason)
	}
}

// A nested line is text that was folded once already and is now read again. Its
// computed pieces stand in it as holes: a number between two hole bytes. A hole
// is an ordinary character to the parser, so it neither ends a word nor starts
// anything, and fold knows it again wherever it ends up, quoted or not.
const hole = '\x1a'

// A carriage return is an ordinary character to a shell, but a blank to the
// parser, which would let "x<CR># ; rm -rf /" pass as a comment. It travels as
// this byte instead.
const returnByte = '\x1c'

func (w *walker) hole(show string) string {
	w.holes = append(w.holes, show)
	return string(hole) + strconv.Itoa(len(w.holes)-1) + string(hole)
}

// legible replaces what the parser would misread or refuse.
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
			// The parser drops it, as Bash does. No program can be given a NUL
			// in an argument, so what arrives may be another line altogether.
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

// read parses a line and walks what it holds.
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
	// What Bash's grammar refuses may still be a good line: "((a); b)" is one.
	// $'...' has another extent in POSIX and could hide a command there, hence
	// the exception.
	if !strings.Contains(at.src, "$'") && !strings.ContainsRune(at.src, returnByte) {
		if list, err2 := w.parse(at.src, syntax.LangPOSIX); err2 == nil {
			at.posix = w.refused(err)
			w.stmts(list, &at)
			return
		}
	}
	// From here on it stays unknown, but whatever another reading finds is worth
	// having: a rule that blocks is better than one that asks.
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
	// A shell runs a line statement by statement, so those before the error run.
	w.stmts(first, &at)
}

func (w *walker) refused(err error) string {
	return "unparsable: " + visible(w.decode(err.Error()))
}

// comments undoes an error of the parser, which joins a comment that ends in a
// backslash with the next line. A shell does not, so in
//
//	echo hi # there \
//	rm -rf /
//
// the second line is a command of its own.
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
	// It does not parse, perhaps for that reason.
	w.unknown("unparsable: a comment may end in a backslash")
	b := []byte(src)
	for end := joinedComment(src, 0); end >= 0; end = joinedComment(src, end+2) {
		b[end] = ' '
	}
	return string(b)
}

// joinedComment finds a backslash, at or after from, that ends a line with a #.
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

// A boundedReader hands text to the parser and stops it when it has recursed too
// far. The parser has no limit of its own, a stack overflow cannot be recovered,
// and "((((..." is easily written. The parser reads in small chunks from inside
// its recursion, so this is the one place that sees its true depth.
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

// nest reads a line that a command runs. computed says that parts of it are not
// known; they are holes in text.
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
	dir := w.dir
	w.read(text, at)
	if what != "eval" {
		w.dir = dir
	}
}

// command records a simple command and, if it is a wrapper, what it runs. words
// begins with the program.
func (w *walker) command(words []Word, at place) {
	if len(w.s.Commands) >= maxCommands {
		w.unknown(tooMany)
		return
	}
	if !w.must(len(words)*stepsPerWord, &at) && len(words) > fewWords {
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
	}
	for _, r := range at.stdin {
		if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc {
			c.Input, _ = w.given(&at, r)
		}
	}
	switch p := words[0]; {
	case !p.Literal:
		// The last element of "$VENV/bin/python" is known whatever the variable
		// holds; without the quotes the variable may hold more than one word.
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
			// Quoted it is a program's name; coproc a=b rm runs rm.
			w.unknown("assignment in the place of a command: " + visible(p.Text))
		}
	}
	c.key = foldCase(c.Name)
	row := rowOf(c.key)
	c.help = !c.computed && strings.IndexByte(c.Path, '/') < 0 && helps(row, c.Args)
	w.s.Commands = append(w.s.Commands, c)
	switch c.key {
	case "cd", "chdir", "pushd", "popd":
		w.enterDir(words[1:])
	case "set":
		w.setArgs(words[1:])
	case "alias":
		w.aliases(words[1:], at)
	case "read", "printf":
		w.readVars(c.key, words[1:], &at)
	}
	if row != nil {
		at.parent = len(w.s.Commands) - 1
		w.run(row, c.Name, words[1:], at)
	}
}

// bashWord reports what POSIX takes for a command's name and Bash for something
// else: "a+=b rm" and "time ! rm" run rm.
func bashWord(name string) bool {
	switch name {
	case "[[", "!", "coproc", "function", "let", "select", "time":
		return true
	}
	return strings.Contains(name, "=")
}

// unseen reports characters that make two command names look the same.
func unseen(r rune) bool {
	return r >= utf8.RuneSelf && (unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// programName is the last element of a program's path, without Windows' ".exe", and
// without the version behind what npx and its kin fetch and run: rimraf@5, ruff==0.4.
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

// foldCase maps names that a file system without letter case takes for the same
// program to one spelling. RM is rm on macOS and Windows.
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
