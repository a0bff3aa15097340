package shell

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// PowerShell and cmd.exe are read as far as splitting into commands and words
// goes. What depends on more than that, a script block that is kept, a method of
// .NET that runs something, is unknown.

// Shells other than those that Parse reads.
const (
	PowerShell = "powershell"
	Cmd        = "cmd"
)

// ParseAs is Parse for a line of PowerShell or of cmd.exe; any other language is
// that of Parse.
func ParseAs(language, line string) (s *Script) {
	if language != PowerShell && language != Cmd {
		return Parse(line)
	}
	s = &Script{Language: language}
	w := walker{s: s, line: line}
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
		w.powerLine(line, at)
	}
	return s
}

// foreign bounds lines of other shells like those of our own.
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

// A foreignWord is a word with what is around it.
type foreignWord struct {
	text     string
	quoted   bool
	computed bool
}

// powerLine reads a line of PowerShell.
func (w *walker) powerLine(line string, at place) {
	if !w.foreign(line, at) {
		return
	}
	at.stdin, at.from = nil, nil
	var words []foreignWord
	var b strings.Builder
	inWord, quoted, computed := false, false, false
	piped := false
	flush := func() {
		if inWord {
			words = append(words, foreignWord{b.String(), quoted, computed})
		}
		b.Reset()
		inWord, quoted, computed = false, false, false
	}
	end := func(pipe bool) {
		flush()
		w.powerCommand(words, piped, at)
		words, piped = nil, pipe
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case '`':
			if i+1 < len(line) {
				i++
				if line[i] != '\n' {
					b.WriteByte(line[i])
					inWord = true
				}
			}
		case '\'', '"':
			if i > 0 && line[i-1] == '@' && i+1 < len(line) && (line[i+1] == '\n' || line[i+1] == '\r') { // @" ... "@
				stop := strings.Index(line[i+1:], "\n"+string(c)+"@")
				if stop < 0 {
					w.unknown("unparsable: a text of PowerShell does not end")
					return
				}
				b.Reset()
				b.WriteString(line[i+1 : i+1+stop])
				inWord, quoted = true, true
				i += stop + 3
				continue
			}
			inWord, quoted = true, true
			closed := false
			for i++; i < len(line); i++ {
				if line[i] == c {
					if i+1 < len(line) && line[i+1] == c {
						i++
						b.WriteByte(c)
						continue
					}
					closed = true
					break
				}
				if c == '"' && line[i] == '`' && i+1 < len(line) {
					i++
				} else if c == '"' && line[i] == '$' {
					computed = true
					if i+1 < len(line) && line[i+1] == '(' {
						n := enclosed(line[i+1:], '(', ')')
						w.powerLine(line[i+2:max(i+2, i+n)], at)
						b.WriteString(line[i : i+1+n])
						i += n
						continue
					}
				}
				b.WriteByte(line[i])
			}
			if !closed {
				w.unknown("unparsable: a quote of PowerShell is not closed")
			}
		case '$':
			computed, inWord = true, true
			b.WriteByte(c)
		case '#':
			if b.String() == "<" && !quoted && line[i-1] == '<' { // <# a comment #>
				stop := strings.Index(line[i:], "#>")
				if stop < 0 {
					w.unknown("unparsable: a comment of PowerShell does not end")
					return
				}
				b.Reset()
				inWord = false
				i += stop + 1
				continue
			}
			if !inWord {
				stop := strings.IndexByte(line[i:], '\n')
				if stop < 0 {
					i = len(line)
				} else {
					i += stop - 1
				}
				continue
			}
			b.WriteByte(c)
		case ' ', '\t', '\r':
			flush()
		case ';', '\n':
			end(false)
		case '|':
			end(i+1 >= len(line) || line[i+1] != '|')
		case '&':
			if i+1 < len(line) && line[i+1] == '&' {
				i++
				end(false)
			} else {
				flush() // the call operator
				if len(words) > 0 {
					end(false)
				}
			}
		case '(', '{':
			shut := byte(')')
			if c == '{' {
				shut = '}'
			}
			n := enclosed(line[i:], c, shut)
			if n > 1 {
				w.powerLine(line[i+1:i+n-1], at)
			}
			computed = computed || c == '('
			inWord = true
			b.WriteString(line[i : i+n])
			i += n - 1
		case ')', '}':
			flush()
		default:
			inWord = true
			b.WriteByte(c)
		}
	}
	end(false)
}

// enclosed is the length of what the bracket at the beginning of s encloses.
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

// powerAliases are names of cmdlets, and the cmdlets.
const powerAliases = "rm=remove-item ri=remove-item del=remove-item erase=remove-item rd=remove-item rmdir=remove-item " +
	"iex=invoke-expression iwr=invoke-webrequest curl=invoke-webrequest wget=invoke-webrequest irm=invoke-restmethod " +
	"gc=get-content cat=get-content type=get-content sc=set-content ac=add-content cp=copy-item copy=copy-item cpi=copy-item " +
	"mv=move-item move=move-item mi=move-item cd=set-location chdir=set-location sl=set-location icm=invoke-command " +
	"saps=start-process start=start-process sajb=start-job ni=new-item clc=clear-content rni=rename-item ren=rename-item kill=stop-process spps=stop-process sal=set-alias nal=new-alias"

// powerCommand notes one command of PowerShell.
func (w *walker) powerCommand(words []foreignWord, piped bool, at place) {
	if len(words) > 2 && strings.HasPrefix(words[0].text, "$") && words[1].text == "=" {
		words = words[2:] // an assignment of what a command gives
	} else if len(words) > 0 && strings.HasPrefix(words[0].text, "$") && strings.Contains(words[0].text, "=") {
		return
	}
	if len(words) > 0 && words[0].text == "." && !words[0].quoted {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	first := words[0]
	lower := foldCase(first.text)
	if strings.HasPrefix(lower, "(") || strings.HasPrefix(lower, "{") || strings.HasPrefix(lower, "[") || strings.HasPrefix(lower, "$") && strings.ContainsAny(lower, ".+-*") {
		for rest, method := "downloadstring ::start( scriptblock]::create .invoke( frombase64string ::delete( .delete(", ""; rest != ""; {
			if method, rest, _ = strings.Cut(rest, " "); strings.Contains(lower, method) {
				w.unknown("PowerShell calls a method that may run something: " + visible(first.text))
				break
			}
		}
		if len(words) == 1 || lower[0] == '[' || lower[0] == '$' {
			return
		}
		if lower[0] == '(' {
			w.unknown("computed command name: " + visible(first.text))
		}
		return
	}
	if has("if else elseif foreach for while do switch try catch finally function filter param return throw in", lower) {
		return // their blocks were read already
	}
	list := make([]Word, 0, len(words))
	for _, a := range words {
		word := Word{Text: a.text, Literal: !a.computed}
		if a.computed {
			if home, ok := homely(a.text); ok {
				word.Literal, word.Text = true, home
			} else {
				head := a.text
				if i := strings.IndexAny(head, "$("); i >= 0 {
					head = head[:i]
				}
				word.c = &computed{head: head, code: w.hole(a.text)}
			}
		}
		list = append(list, word)
	}
	before := len(w.s.Commands)
	cmdlet := get(powerAliases, foldCase(programName(first.text)))
	if cmdlet == "" {
		cmdlet = foldCase(programName(first.text))
	}
	inline := !strings.Contains(cmdlet, "-")
	switch {
	case inline:
		w.command(list, at)
		return
	case foldCase(first.text) != cmdlet:
		canonical := append([]Word{{Text: cmdlet, Literal: true}}, list[1:]...)
		w.command(canonical, at)
		if cmdlet != "remove-item" { // that is rm of a pattern, too
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
		rest := list[1:]
		if len(rest) > 0 && foldCase(rest[0].Text) == "-command" {
			rest = rest[1:]
		}
		switch {
		case piped || len(rest) == 0:
			w.unknown("pipe into " + first.text)
		case !rest[0].Literal:
			w.unknown(first.text + " of a computed string")
		default:
			w.powerLine(rest[0].Text, in)
		}
	case "set-alias", "new-alias":
		w.unknown("PowerShell gives a program another name")
	case "invoke-command", "start-job", "foreach-object", "where-object":
		// Their blocks were read already.
		for _, a := range words[1:] {
			if a.computed && strings.HasPrefix(a.text, "$") && cmdlet != "where-object" && cmdlet != "foreach-object" {
				w.unknown(first.text + " of a computed block")
			}
		}
	case "start-process":
		var run []Word
		for i := 1; i < len(list); i++ {
			switch option := foldCase(list[i].Text); {
			case option == "-filepath" || option == "-argumentlist" || option == "-args":
			case has("-verb -windowstyle -workingdirectory -credential -redirectstandardoutput -redirectstandarderror -redirectstandardinput", option):
				i++
			case strings.HasPrefix(option, "-") && len(run) == 0:
			default:
				for _, piece := range strings.FieldsFunc(list[i].Text, func(r rune) bool { return r == ',' || len(run) > 0 && r == ' ' }) {
					run = append(run, Word{Text: piece, Literal: list[i].Literal, c: list[i].c})
				}
			}
		}
		if len(run) > 0 {
			w.command(run, in)
		}
	}
}

// note records a command that runs nothing by itself.
func (w *walker) note(words []Word, at place) {
	if len(w.s.Commands) >= maxCommands {
		w.unknown(tooMany)
		return
	}
	name := programName(words[0].Text)
	w.s.Commands = append(w.s.Commands, Command{
		Name: name, Path: words[0].Text, Args: words[1:], Via: at.via, Line: at.line, Col: at.col, Dir: w.dir,
		program: words[0], parent: at.parent, key: foldCase(name),
	})
}

// removeItem notes Remove-Item as the rm that it is, so that rules about one hold
// for the other.
func (w *walker) removeItem(_ string, args []Word, at place) {
	options, files := "", []Word(nil)
	at.parent = w.s.Commands[at.parent].parent
	for i := 0; i < len(args); i++ {
		text := foldCase(args[i].Text)
		switch {
		case len(text) > 1 && text[0] == '-' && (args[i].Literal || strings.HasSuffix(text, ":$true")):
			name, _, _ := strings.Cut(text[1:], ":")
			switch {
			case strings.Trim(name, "rf") == "": // the program, off Windows
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

// powerShell reads a call of PowerShell: -Command, -EncodedCommand, -File, or what
// it reads.
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
				return // a script
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
			return
		}
		w.powerRest(name, args[i:], at) // to Windows PowerShell a word is a command
		return
	}
	if at.from == nil && len(at.stdin) == 0 {
		return
	}
	if text, ok := w.fedText(&at); ok {
		w.powerLine(text, at.behind(name))
		return
	}
	w.unknown("pipe into " + name)
}

func (w *walker) powerRest(name string, words []Word, at place) {
	if len(words) > 0 && words[0].Literal && words[0].Text == "-" {
		w.unknown("pipe into " + name)
		return
	}
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
		w.s.Language = PowerShell
	}
	w.powerLine(b.String(), at.behind(name))
}

// encoded reads -EncodedCommand: base64 of UTF-16.
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
	w.powerLine(string(utf16.Decode(units)), at.behind(name+" -EncodedCommand"))
}

// cmd reads a call of cmd.exe.
func (w *walker) cmd(name string, args []Word, at place) {
	for i, a := range args {
		text := foldCase(a.Text)
		if !a.Literal || len(text) < 2 || text[0] != '/' && !strings.HasPrefix(text, "//") {
			break
		}
		switch option := strings.TrimLeft(text, "/"); {
		case strings.HasPrefix(option, "c") || strings.HasPrefix(option, "k") || strings.HasPrefix(option, "r"):
			var b strings.Builder
			literal := true
			b.WriteString(option[1:])
			for _, a := range args[i+1:] {
				b.WriteByte(' ')
				b.WriteString(w.decode(a.code()))
				literal = literal && a.Literal
			}
			if !literal {
				w.unknown(name + " /c of a computed string")
			}
			if w.s.Language == "" && len(w.s.Commands) == 1 {
				w.s.Language = Cmd
			}
			w.cmdLine(b.String(), at.behind(name+" /c"))
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
	var words []foreignWord
	var b strings.Builder
	inWord, quoted, computed := false, false, false
	flush := func() {
		if inWord {
			words = append(words, foreignWord{b.String(), quoted, computed})
		}
		b.Reset()
		inWord, quoted, computed = false, false, false
	}
	end := func() {
		flush()
		w.cmdCommand(words, at)
		words = nil
	}
	inQuotes := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			inQuotes = !inQuotes
			inWord, quoted = true, true
		case inQuotes && c != '\n':
			if c == '%' || c == '!' {
				computed = computed || strings.IndexByte(line[i+1:], c) > 0
			}
			b.WriteByte(c)
		case c == '^':
			if i+1 < len(line) {
				i++
				if line[i] != '\n' && line[i] != '\r' {
					b.WriteByte(line[i])
					inWord = true
				}
			}
		case c == ' ' || c == '\t' || c == '\r' || c == ',' || c == ';' && len(words) == 0 && !inWord:
			flush()
		case c == '(' && !inWord && len(words) > 0 && foldCase(words[len(words)-1].text) == "in": // for %f in (*) do
			stop := strings.IndexByte(line[i:], ')')
			if stop < 0 {
				stop = len(line) - i - 1
			}
			b.WriteString(line[i : i+stop+1])
			inWord = true
			i += stop
		case c == '&' || c == '|' || c == '\n' || c == '(' && !inWord || c == ')':
			end()
		case c == '>' || c == '<':
			flush()
			words = append(words, foreignWord{text: string(c)})
		case c == '%' || c == '!' && strings.IndexByte(line[i+1:], '!') > 0:
			computed, inWord = true, true
			b.WriteByte(c)
		case c == '@' && !inWord && len(words) == 0:
		case c == '/' && inWord && len(words) == 0: // del/s
			flush()
			inWord = true
			b.WriteByte(c)
		default:
			inWord = true
			b.WriteByte(c)
		}
	}
	if inQuotes {
		w.unknown("unparsable: a quote of cmd is not closed")
	}
	end()
}

// cmdCommand notes one command of cmd.exe.
func (w *walker) cmdCommand(words []foreignWord, at place) {
	if !w.foreign("", at) {
		return
	}
	var list []Word
	var files []File
	for i := 0; i < len(words); i++ {
		a := words[i]
		if !a.quoted && (a.text == ">" || a.text == "<") {
			for i+1 < len(words) && words[i+1].text == a.text {
				i++
			}
			if i+1 < len(words) {
				i++
				if use := UseWrite; !words[i].computed && !strings.HasPrefix(words[i].text, "&") && foldCase(words[i].text) != "nul" {
					if a.text == "<" {
						use = UseRead
						w.s.Reads = append(w.s.Reads, words[i].text)
					} else {
						w.s.Writes = append(w.s.Writes, words[i].text)
					}
					files = append(files, File{Path: words[i].text, Use: use})
				}
			}
			continue
		}
		word := Word{Text: a.text, Literal: !a.computed}
		if a.computed {
			head, _, _ := strings.Cut(a.text, "%")
			word.c = &computed{head: head, code: w.hole(a.text), many: !a.quoted}
			if rest, ok := strings.CutPrefix(strings.ToUpper(a.text), "%USERPROFILE%"); ok && !strings.Contains(rest, "%") {
				word = Word{Text: "~" + strings.ReplaceAll(a.text[len("%USERPROFILE%"):], `\`, "/"), Literal: true}
			}
		}
		list = append(list, word)
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
	}
	if before < len(w.s.Commands) {
		w.s.Commands[before].files = append(w.s.Commands[before].files, files...)
	}
}

// cmdBranches reads what if, else and for of cmd.exe run.
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
