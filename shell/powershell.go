package shell

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf16"
)

// Lines of PowerShell and cmd.exe are only split into commands and words. Anything that needs
// more, such as a stored script block or a .NET method that runs something, is reported in
// Script.Unknown.

// Shells that ParseAs reads and Parse does not.
const (
	PowerShell = "powershell"
	Cmd        = "cmd"
)

// ParseAs reads a line of PowerShell or cmd.exe. For any other language it calls [Parse].
func ParseAs(language, line string) *Script {
	if language != PowerShell && language != Cmd {
		return Parse(line)
	}
	return parseForeign(nil, language, line)
}

func parseForeign(past *Past, language, line string) (s *Script) {
	s = &Script{Language: language, line: line}
	w := walker{s: s, line: line, past: past}
	defer func() {
		if r := recover(); r != nil {
			w.unknown("unparsable: the reader failed")
		}
	}()
	w.parser = newParser()
	w.budget = budget(len(line))
	if len(line) > maxLine {
		w.unknown("unparsable: the line has more bytes than are read")
		return s
	}
	at := place{parent: -1, line: 1, col: 1}
	if language == Cmd {
		w.cmdLine(line, at)
	} else {
		w.powerCode(line, at)
	}
	w.outlast()
	return s
}

// foreign applies the limits of nested shell lines to lines of other shells. It reports whether
// the line may be read.
func (w *walker) foreign(text string, at place) bool {
	w.nested += len(text)
	if !w.spend(len(text) * stepsPerByte) {
		return false
	}
	if w.nested > maxNested || at.depth > maxDepth || len(w.s.Commands) >= maxCommands {
		w.unknown("unparsable: nested too deeply")
		return false
	}
	return true
}

// A foreignWord is a word with its context.
type foreignWord struct {
	text     string
	quoted   bool
	computed bool
	flow     flow      // of a command in parentheses
	file     *codePath // a file that a pipe hands on
}

// A foreignLine is the state of splitting a line into words and commands. Methods with a position
// argument return the position at which reading continues.
type foreignLine struct {
	*walker

	at       place
	line     string
	words    []foreignWord // of the current command
	piped    bool          // the current command reads from a pipe
	flow     flow          // what the command before hands on; see powerflow.go
	inner    flow          // what the command in the parentheses of the current word hands on
	called   bool          // the current command is behind the call operator &
	text     []byte        // text of the current word
	inWord   bool
	quoted   bool
	computed bool
	inQuotes bool // for cmd.exe
}

func (l *foreignLine) add(text string) {
	l.text = append(l.text, text...)
	l.inWord = true
}

func (l *foreignLine) endWord() {
	if l.inWord {
		l.words = append(l.words, foreignWord{text: string(l.text), quoted: l.quoted, computed: l.computed, flow: l.inner})
	}
	l.text, l.inner = l.text[:0], flow{}
	l.inWord, l.quoted, l.computed = false, false, false
}

// powerCode records a whole program of PowerShell as code and reads it.
func (w *walker) powerCode(text string, at place) {
	w.s.Code = append(w.s.Code, Code{Language: PowerShell, Text: w.decode(text), Command: at.parent})
	w.powerLine(text, at)
}

// powerLine reads a line of PowerShell. It returns the output of its last pipeline.
func (w *walker) powerLine(line string, at place) flow {
	if !w.foreign(line, at) {
		return flow{}
	}
	at.stdin, at.from = nil, nil
	l := foreignLine{walker: w, at: at, line: line}
	for i := 0; i < len(line); {
		if i = l.power(i); i < 0 {
			return flow{}
		}
	}
	l.endPower(false)
	return l.flow
}

// endPower ends a command. pipe reports that its output is piped into the next one.
func (l *foreignLine) endPower(pipe bool) {
	l.endWord()
	if len(l.words) > 0 {
		l.powerCommand(l.removing(l.words), l.piped, l.called, l.at)
		if cmdletOf(l.words[0]) == "clear-content" { // nothing of the files is left
			l.powerCommand(l.removing(append([]foreignWord{{text: "Remove-Item"}}, l.words[1:]...)), l.piped, false, l.at)
		}
		l.handOn(l.words)
	}
	l.words, l.piped, l.called = nil, pipe, false
}

// power reads the token that begins at i. It returns -1 if the rest of the line cannot be read.
func (l *foreignLine) power(i int) int {
	line, next := l.line, byte(0)
	if i+1 < len(line) {
		next = line[i+1]
	}
	switch c := line[i]; c {
	case '`':
		if i+1 < len(line) && next != '\n' {
			l.add(line[i+1 : i+2])
		}
		return i + 2
	case '\'', '"':
		if i > 0 && line[i-1] == '@' && (next == '\n' || next == '\r') {
			return l.powerDocument(i)
		}
		return l.powerString(i)
	case '$':
		l.computed = true
		l.add("$")
	case '#':
		return l.powerComment(i)
	case ' ', '\t', '\r', ')', '}':
		l.endWord()
	case ';', '\n':
		l.endPower(false)
	case '|':
		l.endPower(next != '|')
	case '&':
		if next == '&' {
			l.endPower(false)
			return i + 2
		}
		if l.endWord(); len(l.words) > 0 { // the call operator
			l.endPower(false)
		}
		l.called = true
	case '(':
		l.computed = true
		return l.powerBlock(i, ')')
	case '{':
		return l.powerBlock(i, '}')
	default:
		l.add(line[i : i+1])
	}
	return i + 1
}

// powerDocument reads a text between lines of @" and "@, from its first quote.
func (l *foreignLine) powerDocument(i int) int {
	stop := strings.Index(l.line[i+1:], "\n"+l.line[i:i+1]+"@")
	if stop < 0 {
		l.unknown("unparsable: a text of PowerShell does not end")
		return -1
	}
	l.text = append(l.text[:0], l.line[i+1:i+1+stop]...)
	l.inWord, l.quoted = true, true
	return i + stop + 4
}

func (l *foreignLine) powerString(i int) int {
	line, q := l.line, l.line[i]
	l.inWord, l.quoted = true, true
	for i++; i < len(line); i++ {
		more := i+1 < len(line)
		switch c := line[i]; {
		case c == '`' && more && q == '"':
			if i++; line[i] == 'n' {
				l.text = append(l.text, '\n')
				continue
			}
		case c == q && more && line[i+1] == q:
			i++
		case c == q:
			return i + 1
		case c == '$' && q == '"':
			l.computed = true
			if more && line[i+1] == '(' {
				n := enclosed(line[i+1:], '(', ')')
				l.powerLine(line[i+2:max(i+2, i+n)], l.at)
				l.add(line[i : i+1+n])
				i += n
				continue
			}
		}
		l.text = append(l.text, line[i])
	}
	l.unknown("unparsable: a quote of PowerShell is not closed")
	return i
}

// powerComment reads a "#" and the text after it: a comment, the rest of <# a comment #>, or text
// of a word.
func (l *foreignLine) powerComment(i int) int {
	switch rest := l.line[i:]; {
	case string(l.text) == "<" && !l.quoted && l.line[i-1] == '<':
		stop := strings.Index(rest, "#>")
		if stop < 0 {
			l.unknown("unparsable: a comment of PowerShell does not end")
			return -1
		}
		l.text, l.inWord = l.text[:0], false
		return i + stop + 2
	case l.inWord:
		l.add("#")
		return i + 1
	default:
		comment, _, _ := strings.Cut(rest, "\n")
		return i + len(comment)
	}
}

// powerBlock reads the text in brackets, both as commands and as a part of a word.
func (l *foreignLine) powerBlock(i int, shut byte) int {
	n := enclosed(l.line[i:], l.line[i], shut)
	if n > 1 {
		text := l.line[i+1 : i+n-1]
		before := l.pipe
		if shut == '}' && l.piped {
			l.pipe = l.flow // $_
		}
		if name, list, ok := strings.Cut(text, " in "); ok && len(l.words) == 1 && strings.EqualFold(l.words[0].text, "foreach") {
			l.setFlow(strings.TrimSpace(name), l.powerLine(list, l.at))
		} else {
			l.inner = l.powerLine(text, l.at)
		}
		l.pipe = before
	}
	l.add(l.line[i : i+n])
	return i + n
}

// enclosed returns the length of the text inside the bracket at the beginning of s.
func enclosed(s string, open, shut byte) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '`':
			i++
		case '\'', '"':
			if end := strings.IndexByte(s[i+1:], s[i]); end >= 0 {
				i += 1 + end
			}
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// powerAliases maps aliases of cmdlets to cmdlets.
const powerAliases = "rm=remove-item ri=remove-item del=remove-item erase=remove-item rd=remove-item rmdir=remove-item " +
	"iex=invoke-expression iwr=invoke-webrequest curl=invoke-webrequest wget=invoke-webrequest irm=invoke-restmethod " +
	"gc=get-content cat=get-content type=get-content sc=set-content ac=add-content cp=copy-item copy=copy-item cpi=copy-item " +
	"mv=move-item move=move-item mi=move-item cd=set-location chdir=set-location sl=set-location icm=invoke-command " +
	"saps=start-process start=start-process sajb=start-job ni=new-item clc=clear-content rni=rename-item ren=rename-item kill=stop-process spps=stop-process sal=set-alias nal=new-alias"

// powerCommand records one command of PowerShell. Without the call operator, called, a line that begins
// with a variable, a text or a bracket is an expression.
func (w *walker) powerCommand(words []foreignWord, piped, called bool, at place) {
	if len(words) > 0 && strings.HasPrefix(words[0].text, "$") {
		w.s.sets = true // $env:PATH = "."
	}
	if len(words) > 2 && strings.HasPrefix(words[0].text, "$") && words[1].text == "=" {
		words = words[2:] // the assignment of a command's output
	} else if len(words) > 0 && strings.HasPrefix(words[0].text, "$") && strings.Contains(words[0].text, "=") {
		return
	}
	if len(words) > 0 && words[0].text == "." && !words[0].quoted {
		words, called = words[1:], true
	}
	if len(words) == 0 {
		return
	}
	if !called && w.powerExpression(words, at) {
		w.s.sets = true // [Environment]::SetEnvironmentVariable(...)
		return
	}
	first := words[0]
	if has("if else elseif foreach for while do switch try catch finally function filter param return throw in", foldCase(first.text)) {
		return // their blocks are already read
	}
	list := make([]Word, 0, len(words))
	for i, a := range words {
		list = append(list, w.powerWord(a))
		if place, ok := temporaryPath(a); ok && i > 0 {
			list[i] = Word{Text: place, Literal: true}
		}
	}
	before := len(w.s.Commands)
	name := foldCase(programName(first.text))
	cmdlet := cmp.Or(get(powerAliases, name), name)
	switch {
	case !strings.Contains(cmdlet, "-"):
		w.command(list, at)
		return
	case foldCase(first.text) != cmdlet:
		canonical := append([]Word{{Text: cmdlet, Literal: true}}, list[1:]...)
		w.command(canonical, at)
		if cmdlet != "remove-item" { // w.command already recorded remove-item as rm
			w.note(list, at)
		}
	default:
		w.command(list, at)
	}
	if len(w.s.Commands) == before {
		return
	}
	in := at.behind(first.text)
	in.parent = before
	switch cmdlet {
	case "invoke-expression":
		w.invokeExpression(first.text, list[1:], piped, in)
	case "set-alias", "new-alias":
		w.unknown("PowerShell gives a program another name")
	case "invoke-command", "start-job": // their blocks are already read
		for _, a := range words[1:] {
			if a.computed && strings.HasPrefix(a.text, "$") {
				w.unknown(first.text + " of a computed block")
			}
		}
	case "start-process":
		w.startProcess(list[1:], in)
	case "set-content":
		w.setContent(list[1:])
	}
}

// setContent records the text that Set-Content writes to a file.
func (w *walker) setContent(args []Word) {
	var operands []Word
	for _, a := range args {
		if !strings.HasPrefix(a.Text, "-") {
			operands = append(operands, a)
		}
	}
	if len(operands) == 2 && operands[1].Literal {
		w.keepFile(operands[0], writtenFile{text: operands[1].Text}, true, false)
	}
}

// powerMethods lists methods that run something, or may do so.
var powerMethods = [...]string{"downloadstring", "::start(", "scriptblock]::create", ".invoke(", "frombase64string", "::delete(", ".delete("}

// powerExpression reports whether words are not a command: a value, a block, a .NET call.
func (w *walker) powerExpression(words []foreignWord, at place) bool {
	text := words[0].text
	lower := foldCase(text)
	if strings.HasPrefix(lower, "@(") || strings.HasPrefix(lower, "@{") { // an array or a table
		lower = lower[1:]
	}
	if lower == "" || strings.IndexByte("({[$", lower[0]) < 0 && !(words[0].quoted && words[0].computed) {
		return false
	}
	if _, arguments, ok := strings.Cut(text, "("); ok && strings.Contains(lower, ".upload") {
		w.upload(arguments, at)
	}
	if slices.ContainsFunc(powerMethods[:], func(method string) bool { return strings.Contains(lower, method) }) {
		w.unknown("PowerShell calls a method that may run something: " + visible(text))
	}
	return true
}

// upload records a call of WebClient.UploadFile, UploadString or UploadData as the same call of curl.
func (w *walker) upload(arguments string, at place) {
	words := []Word{{Text: "curl", Literal: true}, {Text: "-T", Literal: true}}
	var list []Word
	for piece := range strings.SplitSeq(strings.TrimRight(arguments, ") "), ",") {
		text := strings.Trim(piece, " \"'")
		list = append(list, w.powerWord(foreignWord{text: text, quoted: true, computed: strings.Contains(text, "$")}))
	}
	slices.Reverse(list)
	w.command(append(words, list...), at)
}

// powerPath writes the variables for the home directory and the profile as in other shells.
func powerPath(text string) string {
	for _, home := range [...]string{"$env:userprofile", "$env:home", "$home"} {
		if len(text) >= len(home) && strings.EqualFold(text[:len(home)], home) {
			return slashed("$HOME" + text[len(home):])
		}
	}
	if strings.EqualFold(text, "$profile") {
		return "$HOME/.config/powershell/profile.ps1"
	}
	return text
}

// slashed replaces the backslashes of a path.
func slashed(text string) string {
	if strings.Contains(text, `\`) && strings.Trim(text, `abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ~$.:\/_*?-`) == "" {
		return strings.ReplaceAll(text, `\`, "/")
	}
	return text
}

// temporaryPath writes a path in the directory for temporary files as in other shells.
func temporaryPath(a foreignWord) (string, bool) {
	name, rest, _ := strings.Cut(a.text, `\`)
	if !a.computed || !has("$env:temp $env:tmp", foldCase(name)) || strings.ContainsAny(rest, "$(`") {
		return "", false
	}
	return strings.TrimSuffix("/tmp/"+slashed(rest), "/"), true
}

func (w *walker) powerWord(a foreignWord) Word {
	if a.file != nil {
		return a.file.word(w)
	}
	if !a.computed {
		return Word{Text: slashed(a.text), Literal: true}
	}
	if home, ok := homely(powerPath(a.text)); ok {
		return Word{Text: home, Literal: true}
	}
	head := a.text
	if i := strings.IndexAny(head, "$("); i >= 0 {
		head = head[:i]
	}
	return Word{Text: a.text, c: &computed{head: head, code: w.hole(a.text)}}
}

func (w *walker) invokeExpression(name string, args []Word, piped bool, at place) {
	if len(args) > 0 && foldCase(args[0].Text) == "-command" {
		args = args[1:]
	}
	switch {
	case piped || len(args) == 0:
		w.unknown("pipe into " + name)
	case !args[0].Literal:
		w.unknown(name + " of a computed string")
	default:
		w.powerLine(args[0].Text, at)
	}
}

func (w *walker) startProcess(args []Word, at place) {
	var run []Word
	for i := 0; i < len(args); i++ {
		switch option := foldCase(args[i].Text); {
		case option == "-filepath" || option == "-argumentlist" || option == "-args":
		case has("-verb -windowstyle -workingdirectory -credential -redirectstandardoutput -redirectstandarderror -redirectstandardinput", option):
			i++
		case strings.HasPrefix(option, "-") && len(run) == 0:
		default:
			for _, piece := range strings.FieldsFunc(args[i].Text, func(r rune) bool { return r == ',' || len(run) > 0 && r == ' ' }) {
				run = append(run, Word{Text: piece, Literal: args[i].Literal, c: args[i].c})
			}
		}
	}
	if len(run) > 0 {
		w.command(run, at)
	}
}

// note records a command that does not run another one.
func (w *walker) note(words []Word, at place) {
	if len(w.s.Commands) >= maxCommands {
		w.unknown(tooMany)
		return
	}
	name := programName(words[0].Text)
	w.s.Commands = append(w.s.Commands, Command{
		Name: name, Path: words[0].Text, Args: words[1:], Via: at.via, Line: at.line, Col: at.col, Dir: w.dir, Lost: w.lost || w.forked,
		program: words[0], parent: at.parent, key: foldCase(name), before: w.did, env: w.env, feed: &feed{more: true},
	})
	switch key := foldCase(name); {
	case key == "git":
		w.acts()
	case has("cd chdir sl set-location pushd push-location popd pop-location", key):
		w.forked = true
	}
}

// removeItem records Remove-Item as rm, so that rules about rm also apply to it.
func (w *walker) removeItem(_ string, args []Word, at place) {
	options, files := "", []Word(nil)
	at.parent = w.s.Commands[at.parent].parent
	for i := 0; i < len(args); i++ {
		text := foldCase(args[i].Text)
		switch {
		case len(text) > 1 && text[0] == '-' && (args[i].Literal || strings.HasSuffix(text, ":$true")):
			name, _, _ := strings.Cut(text[1:], ":")
			switch {
			case strings.Trim(name, "rf") == "": // the program rm, on systems other than Windows
				options += name
			case strings.HasPrefix("recurse", name):
				options += "r"
			case len(name) > 1 && strings.HasPrefix("force", name):
				options += "f"
			case has("filter include exclude stream credential erroraction ea", name):
				i++
			}
		case text == "/s": // rd /s /q
			options += "r"
		case text == "/q" || text == "/f":
			options += "f"
		default:
			piece, rest, more := "", args[i].Text, true
			for more {
				piece, rest, more = strings.Cut(rest, ",")
				word := args[i]
				if word.Literal {
					word.Text = strings.TrimSpace(piece)
					word.glob = strings.ContainsAny(piece, "*?")
				}
				if word.Literal && word.Text == "" {
					continue
				}
				files = append(files, word)
				if !word.Literal {
					break
				}
			}
		}
	}
	words := []Word{{Text: "rm", Literal: true}}
	if options != "" {
		words = append(words, Word{Text: "-" + options, Literal: true})
	}
	w.note(append(words, files...), at)
}

// powerShell reads a call of PowerShell: -Command, -EncodedCommand, -File, or standard input.
func (w *walker) powerShell(name string, args []Word, at place) {
	for i := 0; i < len(args); i++ {
		text := foldCase(args[i].Text)
		if !args[i].Literal {
			w.unknown("computed words after " + name)
			return
		}
		if text != "" && (text[0] == '-' || text[0] == '/') && len(text) > 1 {
			option := strings.TrimLeft(text, "-/")
			switch {
			case strings.HasPrefix("command", option) || option == "cwa" || option == "commandwithargs":
				w.powerRest(name+" -Command", args[i+1:], at)
				return
			case option == "ec" || option == "e" || len(option) > 1 && strings.HasPrefix("encodedcommand", option):
				w.encoded(name, args[i+1:], at)
				return
			case strings.HasPrefix("file", option):
				w.powerScript(name, args[i+1:], at)
				return
			case has("version v help h ?", option):
				return
			case has("executionpolicy ep ex exec windowstyle w inputformat if outputformat o of configurationname configurationfile workingdirectory wd psconsolefile settingsfile custompipename version", option):
				i++
			}
			continue
		}
		if text == "-" {
			break
		}
		if strings.HasSuffix(text, ".ps1") {
			w.powerScript(name, args[i:], at)
			return
		}
		w.powerRest(name, args[i:], at) // Windows PowerShell treats a word as a command
		return
	}
	if at.from == nil && len(at.stdin) == 0 {
		return
	}
	if text, ok := w.fedText(&at); ok {
		w.powerCode(text, at.behind(name))
		return
	}
	w.unknown("pipe into " + name)
}

// powerScript reads a script that the session wrote.
func (w *walker) powerScript(name string, args []Word, at place) {
	if len(args) > 0 {
		w.wrote(args[0], func(text string, _ bool) { w.powerCode(text, at.behind(name)) })
	}
}

func (w *walker) powerRest(name string, words []Word, at place) {
	if len(words) > 0 && words[0].Literal && words[0].Text == "-" {
		w.unknown("pipe into " + name)
		return
	}
	w.powerCode(w.foreignLine(PowerShell, name, words), at.behind(name))
}

// foreignLine joins the words of a line for another shell.
func (w *walker) foreignLine(language, name string, words []Word) string {
	var b strings.Builder
	literal := true
	for i, a := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.decode(a.code()))
		literal = literal && a.Literal
	}
	if !literal {
		w.unknown(name + " of a computed string")
	}
	if w.s.Language == "" && len(w.s.Commands) == 1 {
		w.s.Language = language
	}
	return b.String()
}

// encoded reads the argument of -EncodedCommand: base64 of UTF-16.
func (w *walker) encoded(name string, words []Word, at place) {
	if len(words) == 0 || !words[0].Literal {
		w.unknown(name + " of a computed string")
		return
	}
	w.unknown(name + " runs what it decodes")
	data, err := base64.StdEncoding.DecodeString(words[0].Text)
	if err != nil || len(data)%2 != 0 {
		return
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(data[2*i:])
	}
	w.powerCode(string(utf16.Decode(units)), at.behind(name+" -EncodedCommand"))
}

// cmd reads a call of cmd.exe.
func (w *walker) cmd(name string, args []Word, at place) {
	for i, a := range args {
		text := foldCase(a.Text)
		if !a.Literal || len(text) < 2 || text[0] != '/' && !strings.HasPrefix(text, "//") {
			break
		}
		if option := strings.TrimLeft(text, "/"); option != "" && strings.IndexByte("ckr", option[0]) >= 0 {
			words := slices.Concat([]Word{{Text: option[1:], Literal: true}}, args[i+1:])
			w.cmdLine(w.foreignLine(Cmd, name+" /c", words), at.behind(name+" /c"))
			return
		}
	}
	if at.from != nil || len(at.stdin) > 0 {
		w.input(name, at)
	}
}

// cmdLine reads a line of cmd.exe.
func (w *walker) cmdLine(line string, at place) {
	if !w.foreign(line, at) {
		return
	}
	at.stdin, at.from = nil, nil
	l := foreignLine{walker: w, at: at, line: line}
	for i := 0; i < len(line); {
		i = l.cmdToken(i)
	}
	if l.inQuotes {
		w.unknown("unparsable: a quote of cmd is not closed")
	}
	l.endCmd()
}

func (l *foreignLine) endCmd() {
	l.endWord()
	l.cmdCommand(l.words, l.at)
	l.words = nil
}

func (l *foreignLine) cmdToken(i int) int {
	line, first := l.line, !l.inWord && len(l.words) == 0
	switch c := line[i]; {
	case c == '"':
		l.inQuotes = !l.inQuotes
		l.inWord, l.quoted = true, true
	case l.inQuotes && c != '\n':
		if c == '%' || c == '!' {
			l.computed = l.computed || strings.IndexByte(line[i+1:], c) > 0
		}
		l.text = append(l.text, c)
	case c == '^':
		if i+1 < len(line) && line[i+1] != '\n' && line[i+1] != '\r' {
			l.add(line[i+1 : i+2])
		}
		return i + 2
	case c == ' ' || c == '\t' || c == '\r' || c == ',' || c == ';' && first:
		l.endWord()
	case c == '(' && !l.inWord && len(l.words) > 0 && foldCase(l.words[len(l.words)-1].text) == "in": // for %f in (*) do
		inside, _, _ := strings.Cut(line[i:], ")")
		end := min(i+len(inside)+1, len(line))
		l.add(line[i:end])
		return end
	case c == '&' || c == '|' || c == '\n' || c == '(' && !l.inWord || c == ')':
		l.endCmd()
	case c == '>' || c == '<':
		l.endWord()
		l.words = append(l.words, foreignWord{text: string(c)})
	case c == '%' || c == '!' && strings.IndexByte(line[i+1:], '!') > 0:
		l.computed = true
		l.add(line[i : i+1])
	case c == '@' && first:
	case c == '/' && l.inWord && len(l.words) == 0: // del/s
		l.endWord()
		l.add("/")
	default:
		l.add(line[i : i+1])
	}
	return i + 1
}

// cmdCommand records one command of cmd.exe.
func (w *walker) cmdCommand(words []foreignWord, at place) {
	if !w.foreign("", at) {
		return
	}
	var list []Word
	var files []File
	for i := 0; i < len(words); i++ {
		a := words[i]
		if a.quoted || a.text != ">" && a.text != "<" {
			list = append(list, w.cmdWord(a))
			continue
		}
		for i+1 < len(words) && words[i+1].text == a.text {
			i++
		}
		if i++; i < len(words) {
			files = w.cmdRedirect(files, a.text, words[i])
		}
	}
	if len(list) == 0 {
		return
	}
	name := foldCase(programName(list[0].Text))
	switch name {
	case "if", "for", "else":
		w.cmdBranches(name, words, at)
		return
	case "call", "start":
		rest := words[1:]
		for len(rest) > 0 && (strings.HasPrefix(rest[0].text, "/") || name == "start" && rest[0].quoted && len(rest) > 1) {
			rest = rest[1:]
		}
		w.command(list, at)
		if len(rest) > 0 {
			w.cmdCommand(rest, at.behind(name))
		}
		return
	}
	before := len(w.s.Commands)
	switch name {
	case "del", "erase", "rd", "rmdir":
		w.note(list, at)
		at.parent = before
		w.removeItem(name, list[1:], at)
	default:
		w.command(list, at)
		if strings.IndexByte(list[0].Text, '/') < 0 {
			w.wrote(list[0], func(text string, _ bool) { w.cmdLine(text, at.behind(name)) }) // clean.bat
		}
	}
	if before < len(w.s.Commands) {
		w.s.Commands[before].files = append(w.s.Commands[before].files, files...)
	}
}

func (w *walker) cmdWord(a foreignWord) Word {
	if !a.computed {
		return Word{Text: slashed(a.text), Literal: true}
	}
	head, _, _ := strings.Cut(a.text, "%")
	code := w.hole(a.text)
	if rest, ok := strings.CutPrefix(strings.ToUpper(a.text), "%USERPROFILE%"); ok && !strings.Contains(rest, "%") {
		return Word{Text: "~" + strings.ReplaceAll(a.text[len("%USERPROFILE%"):], `\`, "/"), Literal: true}
	}
	return Word{Text: a.text, c: &computed{head: head, code: code, many: !a.quoted}}
}

// cmdRedirect appends the file of a redirection to the files of the command.
func (w *walker) cmdRedirect(files []File, sign string, file foreignWord) []File {
	switch {
	case strings.HasPrefix(file.text, "&") || foldCase(file.text) == "nul":
		return files
	case file.computed:
		w.unknown("computed file of a redirection: " + visible(file.text))
		return files
	}
	use, list := UseWrite, &w.s.Writes
	if sign == "<" {
		use, list = UseRead, &w.s.Reads
	}
	name := slashed(file.text)
	*list = append(*list, name)
	return append(files, File{Path: name, Use: use})
}

// cmdBranches reads the commands that if, else and for of cmd.exe run.
func (w *walker) cmdBranches(name string, words []foreignWord, at place) {
	at.depth++
	i := 1
	switch name {
	case "for": // for %f in (*) do COMMAND
		for i < len(words) && foldCase(words[i].text) != "do" {
			i++
		}
		i++
	case "if":
		for i < len(words) && has("not /i", foldCase(words[i].text)) {
			i++
		}
		switch {
		case i >= len(words):
		case has("exist defined errorlevel cmdextversion", foldCase(words[i].text)):
			i += 2
		case strings.HasSuffix(words[i].text, "=="), i+1 < len(words) && words[i+1].text == "==":
			i += 2
		case i+1 < len(words) && has("equ neq lss leq gtr geq", foldCase(words[i+1].text)):
			i += 3
		default:
			i++
		}
	}
	if i >= len(words) {
		return
	}
	w.cmdCommand(words[i:], at)
}
